"""What a command asks about: a live cluster, or a captured one out of a file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tonnage.adapters.snapshots.limit import SizeLimit
from tonnage.cli.locations.folders import state_folder
from tonnage.cli.locations.state import StateFolder
from tonnage.cli.options import Common
from tonnage.cli.terminal.output import say
from tonnage.model.errors import ConfigError, Problem

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
    async with connect(kubeconfig, common.context, program=program, on_answer=on_answer) as api:
        yield api


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


async def snapshot_of(common: Common) -> Snapshot:
    """The cluster as it is, or as `--snapshot` says it was."""
    if common.snapshot is not None:
        return read_snapshot(common.snapshot, common.limit)
    from tonnage.adapters.snapshots.live import read_live

    async with connected(common) as api:
        return await read_live(api)


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
    from tonnage.cli.locations.library import read_text
    from tonnage.documents.scheduler.config import scheduler_profiles
    from tonnage.reading.documents import with_schedulers

    return with_schedulers(snapshot, scheduler_profiles(read_text(path), str(path)))


def unread_of(snapshot: Snapshot, *kinds: str) -> tuple[str, ...]:
    """Those of `kinds` that could not be read; said on stderr, as what follows lacks them."""
    unread = tuple(kind for kind in kinds if kind in snapshot.missing)
    if unread:
        warning = f"not read: {', '.join(unread)}. What follows is told without them."
        say(warning, err=True)
    return unread
