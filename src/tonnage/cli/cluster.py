"""What a command asks about: a live cluster, or a captured one out of a file."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tonnage.cli.library import read_bytes
from tonnage.cli.options import Common
from tonnage.cli.places import state_folder
from tonnage.cli.state import StateFolder
from tonnage.model.errors import ApiError, ConfigError, Problem
from tonnage.model.json import JsonValue

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.adapters.kubernetes.request_info import OnAnswer
    from tonnage.model.cluster import Snapshot
    from tonnage.wire.kinds import Kind
    from tonnage.wire.objects import Object

_LARGEST_JSON: Final = 512 << 20
_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"
_NOT_SERVED: Final = (403, 404)


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


async def server_version(api: HttpKubernetes) -> str:
    """`v1.35.0`, as the server says."""
    answer = await api.get_raw("/version")
    return str(answer.get("gitVersion", "")) if isinstance(answer, dict) else ""


async def snapshot_of(common: Common) -> Snapshot:
    """The cluster as it is, or as `--snapshot` says it was."""
    if common.snapshot is not None:
        return read_snapshot(common.snapshot)
    async with connected(common) as api:
        return await capture(api)


async def capture(api: HttpKubernetes) -> Snapshot:
    """Everything that bears on placement, read at once; kinds not served or not allowed are missing."""
    from tonnage.adapters.reading import snapshot_from
    from tonnage.wire import kinds

    wanted: tuple[Kind[Any], ...] = (
        kinds.POD,
        kinds.NODE,
        kinds.NAMESPACE,
        kinds.PRIORITY_CLASS,
        kinds.DISRUPTION_BUDGET,
        kinds.REPLICA_SET,
        kinds.SERVICE,
        kinds.RESOURCE_QUOTA,
        kinds.NODE_GPU_STATUS,
    )
    version = await server_version(api)
    answers = await asyncio.gather(*(_items(api, kind) for kind in wanted))
    objects = [obj for answer in answers for obj in answer or ()]
    missing = frozenset(kind.kind for kind, answer in zip(wanted, answers, strict=True) if answer is None)
    snapshot = snapshot_from(objects, server_version=version, now=datetime.now(UTC))
    return replace(snapshot, missing=missing)


async def _items(api: HttpKubernetes, kind: Kind[Any]) -> list[Object] | None:
    try:
        return list((await api.list(kind)).items)
    except ApiError as error:
        needed = kind.kind in ("Pod", "Node")
        if error.code not in _NOT_SERVED or needed:
            raise
        return None


def read_snapshot(path: Path) -> Snapshot:
    """A cluster out of a file: Kubernetes objects or Lists of them, in JSON or YAML.

    Raises:
        ConfigError: unreadable, or no Kubernetes objects.
    """
    from tonnage.adapters.reading_documents import snapshot_from_documents

    try:
        return snapshot_from_documents(read_documents(path))
    except ConfigError as error:
        raise in_file(error, path) from None


def read_documents(path: Path) -> list[JsonValue]:
    """Every document of a captured cluster, in JSON or YAML; `-` is stdin.

    Raises:
        ConfigError: unreadable, or too large.
    """
    content = read_bytes(path, _LARGEST_JSON)
    if content.lstrip(_BLANKS)[:1] in (b"{", b"["):
        return [_parsed_json(content, str(path))]
    from tonnage.documents.source import MAX_BYTES, parse_yaml_all

    if len(content) > MAX_BYTES:
        why = f"YAML of more than {MAX_BYTES >> 20} MiB takes minutes to read"
        remedy = "save it as JSON: kubectl get nodes,pods,namespaces,priorityclasses -A -o json"
        raise ConfigError(Problem("file too large", str(path), why, remedy))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(Problem("no UTF-8 text", str(path), str(error))) from None
    return [document.value for document in parse_yaml_all(text, source=str(path))]


def _parsed_json(content: bytes, source: str) -> JsonValue:
    try:
        value: JsonValue = json.loads(content, object_pairs_hook=_unrepeated)
    except json.JSONDecodeError as error:
        where = f"{source}:{error.lineno}:{error.colno}"
        raise ConfigError(Problem("no valid JSON", where, error.msg)) from None
    except RecursionError:
        raise ConfigError(Problem("no valid JSON", source, "nested too deeply")) from None
    except ValueError as error:
        raise ConfigError(Problem("no valid JSON", source, str(error)[:200])) from None
    return value


def _unrepeated(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        again = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"duplicate key {again[:100]}")
    return result


def in_file(error: ConfigError, path: Path) -> ConfigError:
    """The same problems, placed in the file that they were found in."""
    named = str(path)
    return ConfigError(
        *(
            problem
            if problem.where.startswith(named)
            else replace(problem, where=f"{named} {problem.where}".rstrip())
            for problem in error.problems
        )
    )
