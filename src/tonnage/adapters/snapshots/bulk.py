"""Pods, nodes and agents' reports out of their lines, of which there are a hundred thousand.

Only what the answers need is decoded, and what many objects have in common (the spec of a workload's pods,
images' names) is read and held once. A line that is not as usual is
read as any other object is; the result is the same.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, fields
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from tonnage.adapters.reading import BarePod, node_from, pod_from, read_pod
from tonnage.adapters.reading_nodes import with_manager
from tonnage.adapters.reading_parts import Notes, Quantities, amounts, moment
from tonnage.adapters.reading_resizes import held_by
from tonnage.adapters.reading_status import pod_status_from
from tonnage.adapters.snapshots.bulk_reports import Reports
from tonnage.adapters.snapshots.quickly import quickly
from tonnage.model.cluster import HeldAmounts, Node, Pod, PodStatus
from tonnage.model.gpu_status import GpuStatus
from tonnage.wire import objects as w

_NODE_NAME: Final = re.compile(rb'\{"nodeName":"([a-z0-9.-]*)"(?:,|(?=\}))')
_NOTHING: Final = msgspec.Raw(b"{}")
_NONE: Final = msgspec.Raw(b"[]")
_NULL: Final = msgspec.Raw(b"null")
_MOST_SHARED: Final = 50_000
_LINES_A_TRIM: Final = 1024
_MANAGED: Final = b'"managedFields"'
_MADE_CLAIMS: Final = b'"resourceClaimStatuses"'
_CLAIMS: Final = b"esourceClaim"
"""In a field of this name two pods of one spec may differ in more than what is read here."""
_NOTED: Final = re.compile(rb"hami\.io|use-gpu")
"""In annotations of these names HAMi's pods differ."""


class _Meta(w.Wire):
    name: str
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: msgspec.Raw = _NOTHING
    annotations: msgspec.Raw = _NOTHING
    owner_references: msgspec.Raw = _NONE


class _Line(w.Wire):
    metadata: _Meta
    spec: msgspec.Raw = _NOTHING
    status: msgspec.Raw = _NOTHING


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


class _Usual(w.Wire):
    """A status of which neither a condition nor a container's state is read; no other can be decoded so."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: list[_Condition] = msgspec.field(default_factory=list)
    container_statuses: list[_Runs] = msgspec.field(default_factory=list)
    init_container_statuses: list[_Runs] = msgspec.field(default_factory=list)
    resource_claim_statuses: None = None


class _NodeStatus(w.NodeStatus):
    images: list[msgspec.Raw] = msgspec.field(default_factory=list)  # type: ignore[assignment]


class _Node(w.Node):
    """A node whose images are not read yet."""

    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


_FIELDS: Final = tuple(part.name for part in fields(Pod))
_OWN: Final = ("name", "namespace", "uid", "created", "node_name", "status")
_NAME, _NAMESPACE, _UID, _CREATED, _NODE, _STATUS = (_FIELDS.index(name) for name in _OWN)
_pod: Final = quickly(Pod)
_STATUS_FIELDS: Final = tuple(part.name for part in fields(PodStatus))
_SAID: Final = ("phase", "reason", "message", "start", "nominated_node", "terminating", "gone_by", "resized")
_PHASE, _REASON, _MESSAGE, _START, _NOMINATED, _TERMINATING, _GONE_BY, _RESIZED = map(
    _STATUS_FIELDS.index, _SAID
)
_STATUS_VALUES: Final = tuple(getattr(PodStatus(), name) for name in _STATUS_FIELDS)
_pod_status: Final = quickly(PodStatus)


@dataclass(frozen=True, slots=True)
class _Shared:
    """Fields that pods have in common; `node` where their spec names one; `bare`: no priority is set.

    `fields` are those of a pod in their order; in the place of what is its own stands anything.
    """

    fields: tuple[Any, ...]
    node: str
    bare: bool


@dataclass(slots=True)
class Bulk:
    """Reads lines of one snapshot, and remembers what they have in common."""

    _specs: dict[tuple[bytes, bytes, bytes], _Shared | None] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)
    _moments: dict[str | None, datetime | None] = field(default_factory=dict)
    _held: dict[tuple[bytes, ...], tuple[HeldAmounts, ...]] = field(default_factory=dict)
    _statuses: dict[tuple[Hashable, ...], PodStatus] = field(default_factory=dict)
    _images: dict[bytes, w.ContainerImage] = field(default_factory=dict)
    _read: dict[tuple[tuple[str, str | int | float], ...], dict[str, int]] = field(default_factory=dict)
    """By quantities as they are written."""
    _lines: int = 0
    _line: msgspec.json.Decoder[_Line] = field(default_factory=lambda: msgspec.json.Decoder(_Line))
    _node: msgspec.json.Decoder[_Node] = field(default_factory=lambda: msgspec.json.Decoder(_Node))
    _usual: msgspec.json.Decoder[_Usual] = field(default_factory=lambda: msgspec.json.Decoder(_Usual))
    _resizes: msgspec.json.Decoder[_Resizes] = field(default_factory=lambda: msgspec.json.Decoder(_Resizes))
    _reports: Reports = field(init=False)

    def __post_init__(self) -> None:
        self._reports = Reports(self._once)

    def pod(self, line: bytes) -> Pod | BarePod:
        """A pod. Raises msgspec.DecodeError."""
        self._trim()
        raw = self._line.decode(line)
        meta, spec, status = raw.metadata, bytes(raw.spec), bytes(raw.status)
        named = _NODE_NAME.match(spec)
        rest = b"{" + spec[named.end() :] if named else spec
        shared = self._shared(rest, bytes(meta.labels), bytes(meta.owner_references))
        noted = meta.annotations is not _NOTHING and _NOTED.search(meta.annotations)
        told = None if noted or shared is None else self._status_of(status, meta.deletion_timestamp, rest)
        if shared is None or told is None:
            return read_pod(msgspec.json.decode(line, type=w.Pod))
        values = [*shared.fields]
        values[_NAME] = meta.name or meta.generate_name
        values[_NAMESPACE] = self._once(meta.namespace or "default")
        values[_UID] = meta.uid
        values[_CREATED] = self._moment(meta.creation_timestamp)
        values[_NODE] = self._once(named[1].decode() if named else shared.node)
        values[_STATUS] = told
        pod = _pod(*values)
        return BarePod(pod) if shared.bare else pod

    def node(self, line: bytes) -> Node:
        """A node. Raises msgspec.DecodeError."""
        self._trim()
        once = self._texts.setdefault
        node: w.Node = self._node.decode(line)
        node.metadata.labels = {key: once(value, value) for key, value in node.metadata.labels.items()}
        node.status.images = [self._image(bytes(image)) for image in node.status.images]  # type: ignore[call-overload]
        read = node_from(node, self._amounts)
        if node.spec.unschedulable and _MANAGED in line:
            return with_manager(read, msgspec.json.decode(line))
        return read

    def report(self, line: bytes) -> GpuStatus:
        """What a node's agent publishes. Raises msgspec.DecodeError."""
        self._trim()
        return self._reports.read(line)

    def _shared(self, spec: bytes, labels: bytes, owners: bytes) -> _Shared | None:
        """What pods of one spec, labels and owners share; None where a pod has claims of its own."""
        key = spec, labels, owners
        if key not in self._specs:
            self._specs[key] = None if _CLAIMS in spec else _shared_by(*key)
        return self._specs[key]

    def _status_of(self, text: bytes, deleted: str | None, spec: bytes) -> PodStatus | None:
        """A pod's status, of equal ones the first; None where it names claims that were made for the pod."""
        try:
            read = self._usual.decode(text)
        except msgspec.ValidationError:
            if _MADE_CLAIMS in text:
                return None
            held = self._held_by(spec, text, self._resizes.decode(text))
            return pod_status_from(msgspec.json.decode(text, type=w.PodStatus), deleted, held)
        held = self._held_by(spec, text, read)
        said = read.phase, read.reason, read.message, read.start_time, read.nominated_node_name
        key = *said, deleted, id(held)  # what was found keeps `held` alive
        found = self._statuses.get(key)
        if found is None:
            values = [*_STATUS_VALUES]
            values[_PHASE] = self._once(read.phase or "Pending")
            values[_REASON], values[_MESSAGE] = read.reason, read.message
            values[_START], values[_GONE_BY] = self._moment(read.start_time), self._moment(deleted)
            values[_NOMINATED] = read.nominated_node_name
            values[_TERMINATING], values[_RESIZED] = deleted is not None, held
            found = self._statuses[key] = _pod_status(*values)
        return found

    def _held_by(self, spec: bytes, status: bytes, read: _Resizes | _Usual) -> tuple[HeldAmounts, ...]:
        """As `held_by`, once for all pods of which spec and status say the same."""
        containers: Sequence[_Held] = (*read.container_statuses, *read.init_container_statuses)
        for one in containers:
            if one.resources is not _NULL or one.allocated_resources is not _NULL:
                break
        else:
            return ()
        said = [(one.name, bytes(one.allocated_resources), bytes(one.resources)) for one in containers]
        key = (spec, *(part for name, *texts in said for part in (name.encode(), *texts)))
        found = self._held.get(key)
        if found is None:
            whole = msgspec.json.decode(status, type=w.PodStatus)
            found = self._held[key] = held_by(msgspec.json.decode(spec, type=w.PodSpec), whole)
        return found

    def _image(self, text: bytes) -> w.ContainerImage:
        found = self._images.get(text)
        if found is None:
            found = self._images[text] = msgspec.json.decode(text, type=w.ContainerImage)
        return found

    def _amounts(self, quantities: Quantities, where: str, notes: Notes) -> dict[str, int]:
        """As `amounts`, of equal ones the first; those with a problem are read each time."""
        key = tuple(quantities.items())
        found = self._read.get(key)
        if found is None:
            before = len(notes.problems)
            found = amounts(quantities, where, notes)
            if len(notes.problems) == before:
                self._read[key] = found
        return found

    def _moment(self, text: str | None) -> datetime | None:
        if text not in self._moments:
            self._moments[text] = moment(text)
        return self._moments[text]

    def _once(self, text: str) -> str:
        """The same text, of equal ones always the first."""
        return self._texts.setdefault(text, text)

    def _trim(self) -> None:
        """Forget what is common when that is not much; asked once a line."""
        self._lines += 1
        if self._lines % _LINES_A_TRIM == 0:
            own: tuple[dict[Any, Any], ...] = (
                self._texts,
                self._specs,
                self._moments,
                self._held,
                self._statuses,
                self._images,
                self._read,
            )
            for known in (*own, *self._reports.remembered()):
                if len(known) >= _MOST_SHARED:
                    known.clear()


def _shared_by(spec: bytes, labels: bytes, owners: bytes) -> _Shared:
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
