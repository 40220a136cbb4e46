"""What a command asks about: a live cluster, or a captured one out of a file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tonnage.adapters.snapshots.limit import SizeLimit
from tonnage.cli.locations.folders import state_folder
from tonnage.cli.locations.state import StateFolder
from tonnage.cli.options import Common
from tonnage.cli.terminal.output import say
from tonnage.model.errors import ApiError, ClusterError, ConfigError, Problem

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.adapters.kubernetes.request_info import OnAnswer
    from tonnage.adapters.snapshots.cluster_file import ClusterFile
    from tonnage.model.kubernetes.cluster import Snapshot

_USUAL: Final = SizeLimit()


@asynccontextmanager
async def connected(
    common: Common, *, program: str = "tonnage", on_answer: OnAnswer | None = None
) -> AsyncIterator[HttpKubernetes]:
    """A client of the cluster that kubectl would choose; without a kubeconfig, of the embedded one."""
    from tonnage.adapters.kubernetes.client import connect

    kubeconfig = common.kubeconfig or _embedded_kubeconfig(os.environ)
    client = connect(
        kubeconfig,
        common.context,
        program=program,
        on_answer=on_answer,
        impersonation=_impersonation(common),
    )
    async with client as api:
        try:
            yield api
        except ApiError as error:
            raise _with_remedy(error, api.server) from None


def _impersonation(common: Common) -> tuple[tuple[str, str], ...]:
    """The headers that `--as` and `--as-group` mean. Raises UsageError for a group without a user."""
    if common.as_user is None and common.as_groups:
        raise click.UsageError("--as-group needs --as USER: the API server takes no group without a user")
    names = (common.as_user or "", *common.as_groups)
    if common.as_user is not None and not all(name and name.isprintable() for name in names):
        raise click.UsageError("--as and --as-group: names must not contain control characters")
    groups = tuple(("Impersonate-Group", group) for group in common.as_groups)
    return () if common.as_user is None else (("Impersonate-User", common.as_user), *groups)


def _with_remedy(error: ApiError, server: str) -> ClusterError:
    """The server's refusal with what to do about it, where that does not hang on the command."""
    match error.code:
        case HTTPStatus.UNAUTHORIZED:
            refusal = (
                "the API server does not accept your credentials",
                f"the API server answered 401: {error.message}",
            )
            remedy = "log in again, or renew the token or certificate of this context: kubectl auth whoami"
        case HTTPStatus.FORBIDDEN:
            refusal = "the API server forbids it", error.message
            remedy = (
                "run tonnage access --check to see your rights, and tonnage access for those that are needed"
            )
        case HTTPStatus.TOO_MANY_REQUESTS:
            refusal, remedy = ("the API server is overloaded", error.message), "try again in a minute"
        case code if code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            refusal = f"the API server failed ({code} {error.reason})", error.message
            remedy = "try again; if it fails again, check the API server: kubectl get --raw '/readyz?verbose'"
        case _:
            return error
    return ClusterError(Problem(refusal[0], server, refusal[1], remedy))


def _embedded_kubeconfig(environment: Mapping[str, str]) -> Path | None:
    """Only when nothing else says where to go: a person's own cluster always comes first."""
    if environment.get("KUBECONFIG") or "KUBERNETES_SERVICE_HOST" in environment:
        return None
    try:
        home = Path(environment.get("HOME", "~")).expanduser()
        state = state_folder(environment)
    except RuntimeError:  # the user of a container may have no home
        return None
    if (home / ".kube" / "config").is_file():
        return None
    running = StateFolder(state).running()
    return Path(running.kubeconfig) if running else None


async def snapshot_of(common: Common, command: str) -> Snapshot:
    """What `command` needs of the cluster as it is, or as `--snapshot` says it was."""
    if common.snapshot is not None:
        return read_snapshot(common.snapshot, common.limit)
    async with connected(common) as api:
        return await seen_of(api, command, (common.namespace or api.namespace or "default",))


async def seen_of(
    api: HttpKubernetes, command: str, namespaces: Sequence[str], events: tuple[str, str] | None = None
) -> Snapshot:
    """What `command` may see of a live cluster; where lists of all namespaces are refused, of one of these.

    `events`: a namespace and a field selector, for the Events that are read too.

    Raises ClusterError: nothing may be seen, or the cluster cannot be reached.
    """
    from tonnage.adapters.snapshots.live import read_live
    from tonnage.cli.access.unseen import nothing_seen
    from tonnage.reading.command_kinds import kinds_of
    from tonnage.wire.kinds import EVENT

    kinds = [kind for kind in kinds_of(command) if kind is not EVENT]
    try:
        return await read_live(api, events, kinds=kinds, namespaces=namespaces)
    except ApiError as error:
        if error.code == HTTPStatus.FORBIDDEN:
            raise nothing_seen(error, command, next(iter(namespaces), "")) from None
        raise


def read_snapshot(path: Path, limit: SizeLimit = _USUAL) -> Snapshot:
    """A cluster out of a file. Raises ConfigError as `read_file`."""
    return read_file(path, limit).snapshot


def read_file(path: Path, limit: SizeLimit) -> ClusterFile:
    """A cluster out of a file, and what else the file says of it.

    Raises:
        ConfigError: it cannot be read, or is of a version that Tonnage does not know.
    """
    from tonnage.adapters.snapshots.cluster_file import read_cluster
    from tonnage.decide.kubernetes.versions import profile_for

    file = read_cluster(path, limit)
    try:
        profile_for(file.snapshot.server_version)
    except ValueError as error:
        raise ConfigError(Problem(str(error), f"{path}:1", remedy="correct serverVersion")) from None
    return file


def with_profiles(snapshot: Snapshot, path: Path | None) -> Snapshot:
    """The cluster with the scheduler's profiles out of a file, if one is given. Raises ConfigError."""
    if path is None:
        return snapshot
    from tonnage.cli.locations.labs_and_scenarios import read_text
    from tonnage.documents.scheduler.config import scheduler_profiles
    from tonnage.reading.documents import with_schedulers

    return with_schedulers(snapshot, scheduler_profiles(read_text(path), str(path)))


def unread_of(snapshot: Snapshot, command: str, *kinds: str) -> tuple[str, ...]:
    """Those of `kinds` that could not be read; said on stderr, as what follows lacks them."""
    from tonnage.cli.access.unseen import say_unseen

    unread = tuple(kind for kind in kinds if kind in snapshot.missing)
    others = [kind for kind in unread if kind not in snapshot.forbidden]
    if others:
        say(f"not read: {', '.join(others)}. The answer below leaves them out.", err=True)
    say_unseen(snapshot, command)
    return unread
