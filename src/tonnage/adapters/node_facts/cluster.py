"""The node's own objects, as the API server has them or a captured cluster had."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import quote

from tonnage.adapters.kubernetes.client import TimedApi
from tonnage.adapters.snapshots.format import FOOTER, HEADER
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.node.facts import ClusterFacts, PodFacts
from tonnage.model.whole_numbers import whole_number
from tonnage.reading.gpu_status import claims_from
from tonnage.reading.object_parts import moment
from tonnage.wire.kinds import NODE_GPU_STATUS

_REPORT: Final = NODE_GPU_STATUS.kind
_KINDS: Final = frozenset({"Node", "Pod", "RuntimeClass", _REPORT})
_FORBIDDEN: Final = "Forbidden"
_MOST_PODS: Final = 2000
_LONGEST: Final = 1000


async def asked_cluster(api: TimedApi, node: str) -> tuple[ClusterFacts | None, frozenset[str]]:
    """The node with its pods, its agent's report and the runtime classes, and the kinds that are forbidden.

    None: the node does not exist, or may not be read. Raises ClusterError.

    The node is listed, not got: that much the agent's own role allows.
    """
    documents, forbidden = [], set()
    paths = {
        "Node": f"/api/v1/nodes?fieldSelector={quote(f'metadata.name={node}')}",
        "Pod": f"/api/v1/pods?fieldSelector={quote(f'spec.nodeName={node}')}&limit={_MOST_PODS}",
        "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
        NODE_GPU_STATUS.kind: f"{NODE_GPU_STATUS.path()}?fieldSelector={quote(f'metadata.name={node}')}",
    }
    for kind, path in paths.items():
        try:
            documents.append(await api.get_raw(path))
        except ApiError as error:
            if error.code != 403 and (error.code != 404 or kind == "Node"):
                raise
            if error.code == 403:
                forbidden.add(kind)
    now = datetime.now(UTC) + timedelta(seconds=api.server_ahead_s)
    facts = cluster_facts(documents, node, now)
    unseen = frozenset(forbidden)
    return (None if facts is None else replace(facts, forbidden=unseen)), unseen


def captured_cluster(documents: Iterable[JsonValue], node: str) -> tuple[ClusterFacts | None, frozenset[str]]:
    """The same out of a captured cluster, whose first and last line say what its server refused."""
    kinds: set[str] = set()
    objects = []
    for obj in _objects(documents):
        kinds.add(_text(obj.get("kind")))
        if _bears_on(obj, node):
            objects.append(obj)
    absences = [
        absence
        for line, key in ((HEADER, "missing"), (FOOTER, "incomplete"))
        for obj in objects
        if obj.get("kind") == line and isinstance(entries := obj.get(key), list)
        for absence in entries
        if isinstance(absence, dict) and absence.get("reason") == _FORBIDDEN
    ]
    unseen = frozenset(_text(absence.get("kind")) for absence in absences) & _KINDS
    facts = cluster_facts(objects, node)
    if facts is None:
        return None, unseen
    unlisted = frozenset({"Pod"}) - kinds if HEADER not in kinds else frozenset[str]()
    return replace(facts, forbidden=unseen, unlisted=unlisted), unseen


def cluster_facts(
    documents: Iterable[JsonValue], node: str, now: datetime | None = None
) -> ClusterFacts | None:
    """Out of objects and Lists of them, as of `now` or the snapshot's first line; None if the node is not
    among them.
    """
    objects = [obj for obj in _objects(documents) if _bears_on(obj, node)]
    times = (moment(_text(obj.get("takenAt"))) for obj in objects if obj.get("kind") == HEADER)
    report = next((obj for obj in objects if obj.get("kind") == _REPORT), {})
    own = next((obj for obj in objects if obj.get("kind") == "Node"), None)
    if own is None:
        return None
    status = _object(own, "status")
    classes = [obj for obj in objects if obj.get("kind") == "RuntimeClass"]
    pods = (_pod(obj) for obj in objects if _is_pod_of(obj, node))
    return ClusterFacts(
        labels=_texts(_object(own, "metadata").get("labels")),
        capacity=_counts(status.get("capacity")),
        allocatable=_counts(status.get("allocatable")),
        conditions=dict(_conditions(status)),
        runtime=_text(_object(status, "nodeInfo").get("containerRuntimeVersion")),
        pods=tuple(pods)[:_MOST_PODS],
        runtime_classes={_name(obj): _text(obj.get("handler")) for obj in classes},
        heartbeat=moment(_text(_object(report, "status").get("heartbeatAt"))),
        read_at=now or next(times, None),
        claims=claims_from(_object(report, "status").get("claims")),
    )


def _objects(documents: Iterable[JsonValue]) -> Iterator[JsonObject]:
    """Items of a list of one kind do not name it."""
    for document in documents:
        if not isinstance(document, dict):
            continue
        items = document.get("items")
        if isinstance(items, list):
            kind = _text(document.get("kind")).removesuffix("List")
            yield from ({"kind": kind, **obj} for obj in items if isinstance(obj, dict))
        else:
            yield document


def _bears_on(document: JsonObject, node: str) -> bool:
    """Whether it is the node, a pod of it, or of another kind that is read: a file may have many more."""
    kind = _text(document.get("kind"))
    if kind in ("Node", _REPORT):
        return _name(document) == node
    return _is_pod_of(document, node) if kind == "Pod" else kind in (*_KINDS, HEADER, FOOTER)


def _is_pod_of(document: JsonObject, node: str) -> bool:
    return document.get("kind") == "Pod" and _object(document, "spec").get("nodeName") == node


def _pod(document: JsonObject) -> PodFacts:
    meta, spec, status = (_object(document, key) for key in ("metadata", "spec", "status"))
    lists = [spec.get(key) for key in ("containers", "initContainers")]
    containers = [container for entries in lists if isinstance(entries, list) for container in entries]
    images = (_text(container.get("image")) for container in containers if isinstance(container, dict))
    return PodFacts(
        _text(meta.get("namespace")) or "default",
        _text(meta.get("name")),
        _text(meta.get("uid")),
        _text(status.get("phase")),
        _text(status.get("reason")),
        _text(status.get("message")),
        tuple(image for image in images if image),
        _text(spec.get("runtimeClassName")),
    )


def _conditions(status: JsonObject) -> Iterator[tuple[str, tuple[str, str]]]:
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict):
            yield (
                _text(condition.get("type")),
                (_text(condition.get("status")), _text(condition.get("message"))),
            )


def _counts(value: JsonValue) -> Mapping[str, int]:
    """Of extended resources, which are whole numbers."""
    amounts = {key: _text(amount) for key, amount in value.items()} if isinstance(value, dict) else {}
    counts = {key: whole_number(amount) for key, amount in amounts.items() if "/" in key}
    return {key: count for key, count in counts.items() if count is not None}


def _texts(value: JsonValue) -> Mapping[str, str]:
    return {key: _text(text) for key, text in value.items()} if isinstance(value, dict) else {}


def _name(document: JsonObject) -> str:
    return _text(_object(document, "metadata").get("name"))


def _object(owner: JsonObject, key: str) -> JsonObject:
    value = owner.get(key)
    return value if isinstance(value, dict) else {}


def _text(value: JsonValue) -> str:
    return "" if value is None or isinstance(value, dict | list) else str(value)[:_LONGEST]
