"""Pods, nodes and agents' reports out of their lines, of which there are a hundred thousand.

Only what the answers need is decoded, and what many objects have in common (the spec of a workload's pods,
images' names) is read and held once. A line that is not as usual is
read as any other object is; the result is the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec

from tonnage.adapters.snapshots.bulk_reports import MOST_SHARED, Reports
from tonnage.adapters.snapshots.fast_dataclasses import quickly
from tonnage.model.kubernetes.cluster import HeldAmounts, Node, Pod, PodStatus
from tonnage.reading.cluster import BarePod, node_from, pod_from, read_pod
from tonnage.reading.nodes import with_manager
from tonnage.reading.object_parts import Quantities, ReadingProblems, amounts, moment
from tonnage.reading.resizes import held_by
from tonnage.reading.status import pod_status_from
from tonnage.wire import objects as w

_NODE_NAME: Final = re.compile(rb'\{"nodeName":"([a-z0-9.-]*)"(?:,|(?=\}))')
_BETWEEN: Final = b"\0"
"""Of texts that are joined: it stands in no JSON."""
_NOTHING: Final = msgspec.Raw(b"{}")
_NONE: Final = msgspec.Raw(b"[]")
_NULL: Final = msgspec.Raw(b"null")
_MANAGED: Final = b'"managedFields"'
_CLAIMS: Final = b"esourceClaim"
"""In a field of this name two pods of one spec may differ in more than what is read here."""
_NOTED: Final = re.compile(rb"hami\.io|use-gpu")
"""In annotations of these names HAMi's pods differ."""
_Moment = Annotated[datetime, msgspec.Meta(tz=True)]


class _Meta(w.Wire):
    name: str
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: _Moment | None = None
    deletion_timestamp: str | None = None
    labels: msgspec.Raw = _NOTHING
    annotations: msgspec.Raw = _NOTHING
    owner_references: msgspec.Raw = _NONE


class _Held(w.Wire):
    name: str = ""
    allocated_resources: msgspec.Raw = _NULL
    resources: msgspec.Raw = _NULL


class _Resizes(w.Wire):
    """Of a pod's status what is said of the amounts that containers have."""

    container_statuses: list[_Held] = msgspec.field(default_factory=list)
    init_container_statuses: list[_Held] = msgspec.field(default_factory=list)


class _Condition(w.Wire):
    type: Literal["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
    status: Literal["True"]


class _State(w.Wire):
    waiting: None = None
    terminated: None = None


class _Runs(_Held):
    state: _State | None = None


class _UsualStatus(w.Wire):
    """A status of which neither a condition nor a container's state is read; no other can be decoded so."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: _Moment | None = None
    nominated_node_name: str = ""
    conditions: list[_Condition] = msgspec.field(default_factory=list)
    container_statuses: list[_Runs] = msgspec.field(default_factory=list)
    init_container_statuses: list[_Runs] = msgspec.field(default_factory=list)


class _Usual(w.Wire):
    metadata: _Meta
    spec: msgspec.Raw = _NOTHING
    status: _UsualStatus = msgspec.field(default_factory=_UsualStatus)


class _Other(w.Wire):
    metadata: _Meta
    spec: msgspec.Raw = _NOTHING
    status: msgspec.Raw = _NOTHING


class _NodeStatus(w.NodeStatus):
    images: list[msgspec.Raw] = msgspec.field(default_factory=list)  # type: ignore[assignment]


class _Node(w.Node):
    """A node whose images are not read yet."""

    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


_FIELDS: Final = tuple(part.name for part in fields(Pod))
_OWN: Final = ("name", "namespace", "uid", "created", "node_name", "status")
_NAME, _NAMESPACE, _UID, _CREATED, _NODE, _STATUS = (_FIELDS.index(name) for name in _OWN)
_pod: Final = quickly(Pod)
_status: Final = quickly(PodStatus)


@dataclass(frozen=True, slots=True)
class _Shared:
    """Fields that pods have in common; `node` where their spec names one; `bare`: no priority is set.

    `fields` are those of a pod in their order; in the place of what is its own stands anything.
    """

    fields: tuple[Any, ...]
    node: str
    bare: bool


class Bulk:
    """Reads lines of one snapshot, and remembers what they have in common."""

    def __init__(self) -> None:
        remembered = lru_cache(MOST_SHARED)
        self._once = remembered(str)  # of equal texts always the first
        self._shared = remembered(_shared_by)
        self._image = remembered(msgspec.json.Decoder(w.ContainerImage).decode)
        self._held = remembered(_held)
        self._amounts = remembered(_amounts)
        self._usual = msgspec.json.Decoder(_Usual)
        self._other = msgspec.json.Decoder(_Other)
        self._resizes = msgspec.json.Decoder(_Resizes)
        self._node = msgspec.json.Decoder(_Node)
        self.report = Reports(self._once).read

    def pod(self, line: bytes) -> Pod | BarePod:
        """A pod. Raises msgspec.DecodeError."""
        try:
            read: _Usual | _Other = self._usual.decode(line)
        except msgspec.ValidationError:
            read = self._other.decode(line)
        meta = read.metadata
        texts = _BETWEEN.join((read.spec, meta.labels, meta.owner_references))
        named = _NODE_NAME.match(texts)
        if named:
            texts = b"{" + texts[named.end() :]
        shared = self._shared(texts)
        if shared is None or (meta.annotations is not _NOTHING and _NOTED.search(meta.annotations)):
            return read_pod(msgspec.json.decode(line, type=w.Pod))
        values = [*shared.fields]
        values[_NAME] = meta.name or meta.generate_name
        values[_NAMESPACE] = self._once(meta.namespace or "default")
        values[_UID] = meta.uid
        values[_CREATED] = meta.creation_timestamp
        values[_NODE] = self._once(named[1].decode()) if named else shared.node
        values[_STATUS] = self._status(read, texts)
        pod = _pod(*values)
        return BarePod(pod) if shared.bare else pod

    def _status(self, read: _Usual | _Other, texts: bytes) -> PodStatus:
        status, deleted = read.status, read.metadata.deletion_timestamp
        if not isinstance(status, _UsualStatus):
            text = bytes(status)
            held = self._held_by(texts, self._resizes.decode(text))
            return pod_status_from(msgspec.json.decode(text, type=w.PodStatus), deleted, held)
        phase, held = self._once(status.phase or "Pending"), self._held_by(texts, status)
        pod_status = _status(
            phase, status.reason, status.message, status.start_time, status.nominated_node_name
        )
        if deleted is None and not held:
            return pod_status
        return replace(pod_status, terminating=deleted is not None, gone_by=moment(deleted), resized=held)

    def _held_by(self, texts: bytes, status: _Resizes | _UsualStatus) -> tuple[HeldAmounts, ...]:
        containers: Sequence[_Held] = (*status.container_statuses, *status.init_container_statuses)
        for container in containers:
            if container.resources is not _NULL or container.allocated_resources is not _NULL:
                return self._held(texts, msgspec.json.encode(containers))
        return ()

    def node(self, line: bytes) -> Node:
        """A node. Raises msgspec.DecodeError."""
        once = self._once
        node: w.Node = self._node.decode(line)
        node.metadata.labels = {key: once(value) for key, value in node.metadata.labels.items()}
        node.status.images = [self._image(bytes(image)) for image in node.status.images]  # type: ignore[call-overload]
        read = node_from(node, self._amounts_of)
        if node.spec.unschedulable and _MANAGED in line:
            return with_manager(read, msgspec.json.decode(line))
        return read

    def _amounts_of(self, quantities: Quantities, where: str, notes: ReadingProblems) -> dict[str, int]:
        cached = self._amounts(tuple(quantities.items()))
        return amounts(quantities, where, notes) if cached is None else cached


def _amounts(quantities: tuple[tuple[str, str | int | float], ...]) -> dict[str, int] | None:
    """As `amounts`; None where one cannot be read."""
    notes = ReadingProblems()
    read = amounts(dict(quantities), "", notes)
    return None if notes.problems else read


def _held(texts: bytes, containers: bytes) -> tuple[HeldAmounts, ...]:
    """As `held_by`; `containers` are those of the status."""
    status = w.PodStatus(container_statuses=msgspec.json.decode(containers))
    return held_by(msgspec.json.decode(texts.split(_BETWEEN)[0], type=w.PodSpec), status)


def _shared_by(texts: bytes) -> _Shared | None:
    """What pods of one spec, labels and owners share; None where a pod has claims of its own."""
    spec, labels, owners = texts.split(_BETWEEN)
    if _CLAIMS in spec:
        return None
    meta = w.ObjectMeta(
        labels=msgspec.json.decode(labels, type=dict[str, str]),
        owner_references=msgspec.json.decode(owners, type=list[w.OwnerReference]),
    )
    whole = w.Pod(metadata=meta, spec=msgspec.json.decode(spec, type=w.PodSpec))
    pod = pod_from(whole)
    return _Shared(
        tuple(getattr(pod, name) for name in _FIELDS),
        pod.node_name,
        whole.spec.priority is None,
    )
