"""What lint holds manifests against: the fields of built-in kinds and, where it is asked for, a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import quote

from tonnage.cli.api_rules import api_server
from tonnage.cli.options import Common
from tonnage.diagnose.lint.items import Item, at_path, items_of, mapping, pods_of, sequence
from tonnage.diagnose.lint.lint import Given
from tonnage.diagnose.lint.rules.names import references
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.diagnose.lint.world import Cluster, Shapes
from tonnage.model.catalog.cluster_policy import policy_fields
from tonnage.model.cluster import Manifest, Snapshot
from tonnage.model.errors import ApiError, ConfigError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.wire.schema import load_schema

if TYPE_CHECKING:
    from pathlib import Path

    from tonnage.adapters.snapshots.limit import Limit

Name = tuple[str, str, str]
"""(kind, namespace or empty, name)."""


class Asked(Protocol):
    """Of a client: the answer at a path. Raises ApiError."""

    async def get_raw(self, path: str, /) -> JsonValue: ...


_MINOR: Final = 35
_MOST_ASKED: Final = 500
_AT_ONCE: Final = 16
_PATHS: Final = {
    "ConfigMap": "/api/v1/namespaces/{space}/configmaps/{name}",
    "ServiceAccount": "/api/v1/namespaces/{space}/serviceaccounts/{name}",
    "PersistentVolumeClaim": "/api/v1/namespaces/{space}/persistentvolumeclaims/{name}",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses/{name}",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses/{name}",
}
_NOT_FOUND: Final = 404
_DEEPEST_LIST: Final = 4


async def given_for(common: Common, texts: Sequence[tuple[str, str]]) -> Given:
    """What a person asked to lint with. Of a live cluster only what is named is asked, one by one.

    Raises:
        ConfigError: an unreadable snapshot.
        ClusterError: the cluster cannot be reached.
    """
    if common.snapshot is not None:
        return _with_snapshot(common, common.snapshot, texts)
    if common.kubeconfig is None and common.context is None:
        minor = _MINOR
        if common.server_version is not None:
            from tonnage.decide.kubernetes.versions import profile_for

            minor = profile_for(common.server_version).minor
        namespace = common.namespace or "default"
        return Given(shapes(), read_pod, None, minor, namespace, server=api_server())
    from tonnage.adapters.snapshots.live import read_live
    from tonnage.cli.cluster import connected

    async with connected(common) as api:
        namespace = common.namespace or api.namespace or "default"
        wanted = sorted(set(_wanted(texts, namespace)))[:_MOST_ASKED]
        limit = asyncio.Semaphore(_AT_ONCE)
        answers = await asyncio.gather(*(is_there(api, one, limit) for one in wanted))
        known = {one: there for one, there in zip(wanted, answers, strict=True) if there is not None}
        snapshot = _with_claims(await read_live(api), texts, namespace)
        return _given(common, snapshot, known, None, namespace)


def _with_snapshot(common: Common, path: Path, texts: Sequence[tuple[str, str]]) -> Given:
    from tonnage.cli.cluster import read_snapshot

    namespace = common.namespace or "default"
    snapshot = read_snapshot(path, common.limit)
    captured = _Captured() if str(path) == "-" else _captured(path, snapshot, common.limit)
    known = {
        one: one in captured.names
        for one in {*_wanted(texts, namespace), *captured.names}
        if one[0] in captured.kinds and (not one[1] or captured.namespace in ("", one[1]))
    }
    return _given(common, _with_claims(snapshot, texts, namespace), known, captured, namespace)


def _given(
    common: Common, snapshot: Snapshot, known: dict[Name, bool], captured: _Captured | None, namespace: str
) -> Given:
    from tonnage.diagnose.cluster_view import ground_of

    ground = ground_of(snapshot, version=common.server_version or "")
    kinds, only = (captured.kinds, captured.namespace) if captured is not None else (None, "")
    cluster = Cluster(ground, known, kinds, only)
    minor = ground.view.profile.minor
    return Given(shapes(), read_pod, cluster, minor, namespace, server=api_server())


def _with_claims(snapshot: Snapshot, texts: Sequence[tuple[str, str]], namespace: str) -> Snapshot:
    """The cluster as if the claims, templates and classes of the texts were there, as far as they are any."""
    from tonnage.reading.documents import with_claims_in

    for file, text in texts:
        sheet = Sheet(file, text)
        if not sheet.problems():
            for item in items_of(sheet, namespace):
                with suppress(ConfigError):
                    snapshot = with_claims_in([item.value], snapshot, namespace=item.namespace)
    return snapshot


def shapes() -> Shapes:
    """The tables of built-in kinds."""
    schema = load_schema()
    return Shapes(
        {key: row.type for key, row in schema.index.items()},
        {name: row.fields for name, row in schema.types.items()},
        int(schema.source["k8s.io/kubernetes"].split(".")[1]),
    )


def read_pod(pod: JsonObject) -> Manifest | None:
    """The pod as the engine sees it; None for one that cannot be decoded."""
    from tonnage.reading.documents import manifests_from_documents

    try:
        return manifests_from_documents([pod])[0]
    except ConfigError:
        return None


@dataclass(frozen=True, slots=True)
class _Captured:
    """What a file knows: kinds that were looked at, in all namespaces or in one, and names of objects."""

    kinds: frozenset[str] = frozenset()
    namespace: str = ""
    names: frozenset[Name] = frozenset()


def _captured(path: Path, snapshot: Snapshot, limit: Limit) -> _Captured:
    """A snapshot says what it looked at; of a bare List it is the kinds of which there are objects."""
    from tonnage.adapters.snapshots.cluster_file import read_objects

    objects = read_objects(path, limit)
    first = next(objects, None)
    if isinstance(first, dict) and first.get("kind") == "Snapshot":
        if first.get("redact") == "names":  # they are pseudonyms: nothing can be said of any
            return _Captured()
        kinds = frozenset(str(kind).rpartition("/")[2] for kind in sequence(first.get("kinds")))
        return _Captured(kinds - snapshot.missing, str(first.get("namespace") or ""), _of_model(snapshot))
    seen: set[str] = set()
    names: set[Name] = set()
    for value in chain((first,), objects):
        for one in _opened(value, 0):
            seen.add(str(one.get("kind")))
            names.update(_names(one))
    return _Captured(frozenset(seen) - snapshot.missing, names=frozenset(names))


def _of_model(snapshot: Snapshot) -> frozenset[Name]:
    classes: list[Name] = [("PriorityClass", "", one.name) for one in snapshot.priority_classes]
    return frozenset(
        [*classes, *(("PersistentVolumeClaim", one.namespace, one.name) for one in snapshot.volume_claims)]
    )


def _opened(value: JsonValue, depth: int) -> Iterator[JsonObject]:
    """The objects of a List."""
    if not isinstance(value, dict):
        return
    items = value.get("items")
    if isinstance(items, list) and depth < _DEEPEST_LIST:
        for item in items:
            yield from _opened(item, depth + 1)
    else:
        yield value


def _names(value: JsonObject) -> Iterator[Name]:
    metadata, kind = mapping(value.get("metadata")), str(value.get("kind"))
    name, space = metadata.get("name"), metadata.get("namespace")
    if isinstance(name, str):
        yield kind, space if isinstance(space, str) else "", name
        if kind == "ConfigMap":
            yield kind, "", name


def _wanted(texts: Sequence[tuple[str, str]], namespace: str) -> Iterator[Name]:
    """Objects that the texts name."""
    for file, text in texts:
        sheet = Sheet(file, text)
        if sheet.problems():
            continue
        for item in items_of(sheet, namespace):
            for site in pods_of(item):
                yield from ((one.kind, one.namespace, one.name) for one in references(site))
            yield from _of_policy(item)


def _of_policy(item: Item) -> Iterator[Name]:
    if item.kind != "ClusterPolicy":
        return
    for dotted in policy_fields().config_maps:
        name = at_path(mapping(item.value.get("spec")), tuple(dotted.split(".")))
        if isinstance(name, str) and name:
            yield "ConfigMap", "", name


async def is_there(api: Asked, one: Name, limit: asyncio.Semaphore) -> bool | None:
    """Whether the cluster has an object; None when one may not ask."""
    kind, space, name = one
    async with limit:
        with suppress(ApiError):
            if kind == "ConfigMap" and not space:
                selector = quote(f"metadata.name={name}", safe="")
                found = await api.get_raw(f"/api/v1/configmaps?limit=1&fieldSelector={selector}")
                return bool(mapping(found).get("items"))
            try:
                await api.get_raw(_PATHS[kind].format(space=quote(space, safe=""), name=quote(name, safe="")))
            except ApiError as error:
                return False if error.code == _NOT_FOUND else None
            return True
    return None
