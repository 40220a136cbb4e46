"""What lint holds manifests against: the fields of built-in kinds and, where it is asked for, a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from tonnage.cli.options import Common
from tonnage.diagnose.lint.items import Item, at_path, items_of, mapping, pods_of
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

    from tonnage.adapters.kubernetes.http import HttpKubernetes

Name = tuple[str, str, str]
"""(kind, namespace or empty, name)."""

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


async def given_for(common: Common, texts: Sequence[tuple[str, str]]) -> Given:
    """What a person asked to lint with. Of a live cluster only what is named is asked, one by one.

    Raises:
        ConfigError: an unreadable snapshot.
        ClusterError: the cluster cannot be reached.
    """
    if common.snapshot is not None:
        from tonnage.cli.cluster import read_snapshot

        snapshot = read_snapshot(common.snapshot)
        objects = [] if str(common.snapshot) == "-" else [*_objects_in(common.snapshot)]
        kinds = _kinds(objects, snapshot)
        known = dict.fromkeys(_wanted(texts, common.namespace or "default"), False)
        there = {one for item in objects for one in _names(item)}
        known = {one: one in there for one in {*known, *there} if one[0] in kinds}
        snapshot = _with_claims(snapshot, texts, common.namespace or "default")
        return _given(common, snapshot, known, kinds, common.namespace or "default")
    if common.kubeconfig is None and common.context is None:
        minor = _MINOR
        if common.server_version is not None:
            from tonnage.decide.cluster.versions import profile_for

            minor = profile_for(common.server_version).minor
        return Given(shapes(), read_pod, None, minor, common.namespace or "default")
    from tonnage.cli.cluster import capture, connected

    async with connected(common) as api:
        namespace = common.namespace or api.namespace or "default"
        wanted = sorted(set(_wanted(texts, namespace)))[:_MOST_ASKED]
        limit = asyncio.Semaphore(_AT_ONCE)
        answers = await asyncio.gather(*(_is_there(api, one, limit) for one in wanted))
        known = {one: there for one, there in zip(wanted, answers, strict=True) if there is not None}
        snapshot = _with_claims(await capture(api), texts, namespace)
        return _given(common, snapshot, known, None, namespace)


def _given(
    common: Common, snapshot: Snapshot, known: dict[Name, bool], kinds: frozenset[str] | None, namespace: str
) -> Given:
    from tonnage.diagnose.ground import ground_of

    ground = ground_of(snapshot, version=common.server_version or "")
    cluster = Cluster(ground, known, kinds)
    return Given(shapes(), read_pod, cluster, ground.view.profile.minor, namespace)


def _with_claims(snapshot: Snapshot, texts: Sequence[tuple[str, str]], namespace: str) -> Snapshot:
    """The cluster as if the claims, templates and classes of the texts were there, as far as they are any."""
    from tonnage.adapters.reading_documents import with_claims_in

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
    )


def read_pod(pod: JsonObject) -> Manifest | None:
    """The pod as the engine sees it; None for one that cannot be decoded."""
    from tonnage.adapters.reading_documents import manifests_from_documents

    try:
        return manifests_from_documents([pod])[0]
    except ConfigError:
        return None


def _objects_in(path: Path) -> Iterator[JsonObject]:
    """Names of the objects of a captured cluster; the rest of them is let go."""
    from tonnage.cli.cluster import read_objects

    for value in read_objects(path):
        yield from _opened(value, 0)


def _opened(value: JsonValue, depth: int) -> Iterator[JsonObject]:
    if not isinstance(value, dict):
        return
    items = value.get("items")
    if isinstance(items, list) and depth < 4:
        for item in items:
            yield from _opened(item, depth + 1)
    elif value.get("kind") == "Snapshot":
        yield value
    else:
        metadata = mapping(value.get("metadata"))
        named: JsonObject = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
        yield {"kind": value.get("kind"), "metadata": named}


def _kinds(objects: Iterable[JsonObject], snapshot: Snapshot) -> frozenset[str]:
    """Kinds that were looked at: those that a snapshot names, else those of which there are objects."""
    found: set[str] = set()
    for one in objects:
        if one.get("kind") == "Snapshot":
            named = one.get("kinds")
            found.update(str(kind).rpartition("/")[2] for kind in (named if isinstance(named, list) else []))
        else:
            found.add(str(one.get("kind")))
    return frozenset(found) - snapshot.missing


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


async def _is_there(api: HttpKubernetes, one: Name, limit: asyncio.Semaphore) -> bool | None:
    """Whether the cluster has an object; None when one may not ask."""
    kind, space, name = one
    async with limit:
        with suppress(ApiError):
            if kind == "ConfigMap" and not space:
                selector = quote(f"metadata.name={name}", safe="")
                found = await api.get_raw(f"/api/v1/configmaps?fieldSelector={selector}&limit=1")
                return bool(mapping(found).get("items"))
            try:
                await api.get_raw(_PATHS[kind].format(space=quote(space, safe=""), name=quote(name, safe="")))
            except ApiError as error:
                return False if error.code == _NOT_FOUND else None
            return True
    return None
