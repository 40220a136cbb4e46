"""What a command asks about: a live cluster, or a captured one out of a file."""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tonnage.adapters.snapshots.limit import Limit, Meter
from tonnage.cli.options import Common
from tonnage.cli.output import say
from tonnage.cli.places import state_folder
from tonnage.cli.state import StateFolder
from tonnage.model.errors import ApiError, ConfigError, Problem
from tonnage.model.json import JsonValue, parsed_json

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.adapters.kubernetes.request_info import OnAnswer
    from tonnage.adapters.snapshots.objects import ObjectReader
    from tonnage.model.cluster import Snapshot
    from tonnage.reading.cluster import Readable
    from tonnage.wire.kinds import Kind

_LARGE: Final = 4 << 20
"""A file that no person wrote by hand."""
_USUAL: Final = Limit()
_HEAD: Final = 4096
_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"
_NO_SUCH_KIND: Final = 404
_MOST_EVENTS: Final = 1000
_NOT_SERVED: Final = (403, _NO_SUCH_KIND)
_AT_ONCE: Final = 4
"""Each reading beside others is a TLS handshake, which costs both sides more than a short list does."""


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
        return read_snapshot(common.snapshot, common.limit)
    async with connected(common) as api:
        return await capture(api)


async def capture(api: HttpKubernetes) -> Snapshot:
    """Everything that bears on placement, a few kinds at once; those that may not be listed are missing."""
    import asyncio

    from tonnage.adapters.snapshots.objects import ObjectReader, collector_paused
    from tonnage.reading.cluster import snapshot_from
    from tonnage.reading.documents import READ_KINDS

    version, reader = await server_version(api), ObjectReader()
    room = asyncio.Semaphore(_AT_ONCE)

    async def items(kind: Kind[Any]) -> Sequence[Readable] | None:
        async with room:
            return await _items(api, kind, reader)

    with collector_paused():
        answers = await asyncio.gather(*map(items, READ_KINDS))
    objects = [obj for answer in answers for obj in answer or ()]
    missing = frozenset(kind.kind for kind, answer in zip(READ_KINDS, answers, strict=True) if answer is None)
    snapshot = snapshot_from(objects, server_version=version, now=datetime.now(UTC))
    complete = frozenset(kind.kind for kind in READ_KINDS) - missing
    return replace(snapshot, missing=missing, complete=complete)


async def with_events(api: HttpKubernetes, snapshot: Snapshot, namespace: str, selector: str) -> Snapshot:
    """The cluster with the Events of a namespace that a field selector names, if they may be read."""
    from tonnage.reading.workloads import happening_from
    from tonnage.wire.kinds import EVENT

    try:
        found = await api.list(EVENT, namespace=namespace, field_selector=selector)
    except ApiError:
        return snapshot
    happenings = tuple(happening_from(event) for event in found.items[:_MOST_EVENTS])
    return replace(snapshot, happenings=happenings)


async def _items(api: HttpKubernetes, kind: Kind[Any], reader: ObjectReader) -> Sequence[Readable] | None:
    try:
        return await api.read_all(kind, lambda text: reader.read_known(text, kind))
    except ApiError as error:
        needed = kind.kind in ("Pod", "Node")
        if error.code not in _NOT_SERVED or needed:
            raise
        return [] if error.code == _NO_SUCH_KIND else None


def read_snapshot(path: Path, limit: Limit = _USUAL) -> Snapshot:
    """A cluster out of a file: what `tonnage snapshot` wrote, or Kubernetes objects or Lists of them.

    JSON or YAML, packed with gzip or not; `-` is stdin. Raises:
        ConfigError: unreadable, cut, more than the limit, or no Kubernetes objects.
    """
    from tonnage.adapters.snapshots.load import decompressed, is_snapshot, load_snapshot
    from tonnage.adapters.snapshots.objects import load_list
    from tonnage.reading.documents import snapshot_from_documents

    try:
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
            stream = decompressed(file)
            if is_snapshot(stream, str(path)):
                return _of_known_version(load_snapshot(stream, str(path), limit), str(path))
            content = limit.whole(stream, str(path))
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(Problem("cannot read the file", str(path), str(error) or "it is cut")) from None
    if len(content) > _LARGE:
        snapshot = load_list(content, Meter(limit, str(path)))
        if snapshot is not None:
            return snapshot
    try:
        return snapshot_from_documents(_documents(content, str(path), limit))
    except ConfigError as error:
        raise in_file(error, path) from None


def read_objects(path: Path, limit: Limit = _USUAL) -> Iterator[JsonValue]:
    """The objects of such a file as they stand there, among them Lists. Raises ConfigError."""
    from tonnage.adapters.snapshots.load import LONGEST_LINE, decompressed, is_snapshot

    try:
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
            stream = decompressed(file)
            if not is_snapshot(stream, str(path)):
                yield from _large_list(limit.whole(stream, str(path)), str(path), limit)
                return
            meter = Meter(limit, str(path))
            number = 0
            while line := stream.readline(LONGEST_LINE):
                number += 1
                meter.read(line, number)
                yield _parsed_json(line, str(path))
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(Problem("cannot read the file", str(path), str(error) or "it is cut")) from None


def _large_list(content: bytes, source: str, limit: Limit) -> Iterator[JsonValue]:
    """The documents of a file; of a large List one item at a time."""
    from tonnage.adapters.snapshots.objects import lists_in

    found = lists_in(content, Meter(limit, source)) if len(content) > _LARGE else None
    if found is None:
        yield from _documents(content, source, limit)
        return
    try:
        yield from found
    except ValueError as error:
        raise ConfigError(Problem("no valid JSON", source, str(error)[:200])) from None


def unread_of(snapshot: Snapshot, *kinds: str) -> tuple[str, ...]:
    """Those of `kinds` that could not be read; said on stderr, as what follows lacks them."""
    unread = tuple(kind for kind in kinds if kind in snapshot.missing)
    if unread:
        told = f"not read: {', '.join(unread)}. What follows is told without them."
        say(told, err=True)
    return unread


def _of_known_version(snapshot: Snapshot, source: str) -> Snapshot:
    from tonnage.decide.kubernetes.versions import profile_for

    try:
        profile_for(snapshot.server_version)
    except ValueError as error:
        raise ConfigError(Problem(str(error), f"{source}:1", remedy="correct serverVersion")) from None
    return snapshot


def _documents(content: bytes, source: str, limit: Limit) -> list[JsonValue]:
    """Every document of a captured cluster, in JSON or YAML.

    Raises:
        ConfigError: unreadable, or too large.
    """
    if content[:_HEAD].lstrip(_BLANKS)[:1] in (b"{", b"["):
        limit.check_values(content, source, "it is no List, or has a fault, and so is read as a whole")
        return [_parsed_json(content, source)]
    from tonnage.documents.yaml_reader import MAX_BYTES, parse_yaml_all

    if len(content) > MAX_BYTES:
        why = f"YAML of more than {MAX_BYTES >> 20} MiB takes minutes to read"
        remedy = "save it as JSON: kubectl get nodes,pods,namespaces,priorityclasses -A -o json"
        raise ConfigError(Problem("file too large", source, why, remedy))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(Problem("no UTF-8 text", source, str(error))) from None
    return [document.value for document in parse_yaml_all(text, source=source)]


def _parsed_json(content: bytes, source: str) -> JsonValue:
    try:
        value = parsed_json(content.decode("utf-8-sig"), unique=True)
        if b"\\ud" in content or b"\\uD" in content:  # perhaps half of a pair, which no text can hold
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except json.JSONDecodeError as error:
        where = f"{source}:{error.lineno}:{error.colno}"
        raise ConfigError(Problem("no valid JSON", where, error.msg)) from None
    except ValueError as error:
        raise ConfigError(Problem("no valid JSON", source, str(error)[:200])) from None


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
