"""Pods, nodes and agents' reports out of their lines, of which there are a hundred thousand.

Only what the answers need is decoded, and what many objects have in common (the spec of a workload's pods,
how GPUs of a kind of node are joined, images' names) is read and held once. A line that is not as usual is
read as any other object is; the result is the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any, Final

import msgspec

from tonnage.adapters.reading import ReadPod, node_from, pod_from
from tonnage.adapters.reading_gpu import gpu_status_from, links_from, parts_from
from tonnage.adapters.reading_nodes import with_manager
from tonnage.adapters.reading_parts import moment
from tonnage.adapters.reading_resizes import held_by
from tonnage.adapters.reading_status import pod_status_from
from tonnage.model.cluster import HeldAmounts, Node, Pod, PodStatus
from tonnage.model.gpu_status import DeviceHolder, DeviceLinks, DevicePart, GpuDevice, GpuStatus
from tonnage.wire import objects as w

_NODE_NAME: Final = re.compile(rb'\{"nodeName":"([a-z0-9.-]*)"(?:,|(?=\}))')
_NOTHING: Final = msgspec.Raw(b"{}")
_NONE: Final = msgspec.Raw(b"[]")
_NULL: Final = msgspec.Raw(b"null")
_MOST_SHARED: Final = 50_000
_LINES_A_TRIM: Final = 1024
_MANAGED: Final = b'"managedFields"'
_TOLD: Final = (b'"waiting"', b'"terminated"', b'"False"', b'"DisruptionTarget"', b'"PodResizePending"')
"""What a status holds of which conditions or containers are read."""
_HAMI: Final = b'"hami.io/'
_CHOOSING: Final = b"use-gpu"
"""In annotations of these names HAMi's pods differ."""
_RESIZES: Final = (b'"allocatedResources"', b'"resources"')
_CLAIMS: Final = b"esourceClaim"
"""In a field of this name two pods of one spec may differ in more than what is read here."""


class _Meta(w.Wire):
    name: str
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: msgspec.Raw = _NOTHING
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


class _Status(w.Wire):
    """Of a pod of which neither a condition nor a container says anything that is read."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""


class _Holder(w.Wire):
    namespace: str = ""
    pod: str = ""
    container: str = ""
    resource: str = ""
    ids: list[str] = msgspec.field(default_factory=list)


class _Device(w.Wire):
    uuid: str = ""
    product: str = ""
    index: int | None = None
    resource: str = ""
    replicas: int = 1
    memory_mib: int = msgspec.field(name="memoryMiB", default=0)
    memory_used_mib: int | None = msgspec.field(name="memoryUsedMiB", default=None)
    health: str = ""
    reason: str = ""
    holders: list[_Holder] = msgspec.field(default_factory=list)
    compute_capability: str = ""
    pci_bus_id: str = msgspec.field(name="pciBusID", default="")
    numa_node: int | None = None
    links: msgspec.Raw = _NONE
    mig_devices: msgspec.Raw = _NONE


class _Body(w.Wire):
    devices: list[_Device] = msgspec.field(default_factory=list)
    config: msgspec.Raw = _NULL
    resources: msgspec.Raw = _NULL
    problems: msgspec.Raw = _NULL
    runtime: msgspec.Raw = _NULL
    kubelet: msgspec.Raw = _NULL
    driver_version: msgspec.Raw = _NULL
    cuda_version: msgspec.Raw = _NULL


class _Report(w.Wire):
    metadata: w.ObjectMeta
    status: _Body = msgspec.field(default_factory=_Body)


_OWN: Final = frozenset(("name", "namespace", "uid", "created", "node_name", "status"))
_SHARED: Final = tuple(part.name for part in fields(Pod) if part.name not in _OWN)


_REST: Final = tuple(
    (name, key)
    for name, key in zip(_Body.__struct_fields__, _Body.__struct_encode_fields__, strict=True)
    if name != "devices"
)
"""Fields and their keys."""


@dataclass(frozen=True, slots=True)
class _Shared:
    """Fields that pods have in common; `node` where their spec names one; `bare`: no priority is set."""

    fields: dict[str, Any]
    node: str
    bare: bool


@dataclass(slots=True)
class Bulk:
    """Reads lines of one snapshot, and remembers what they have in common."""

    _specs: dict[tuple[bytes, bytes, bytes], _Shared | None] = field(default_factory=dict)
    _links: dict[bytes, tuple[DeviceLinks, ...]] = field(default_factory=dict)
    _reports: dict[tuple[bytes, ...], GpuStatus] = field(default_factory=dict)
    _texts: dict[str, str] = field(default_factory=dict)
    _moments: dict[str | None, datetime | None] = field(default_factory=dict)
    _held: dict[tuple[bytes, ...], tuple[HeldAmounts, ...]] = field(default_factory=dict)
    _lines: int = 0
    _line: msgspec.json.Decoder[_Line] = field(default_factory=lambda: msgspec.json.Decoder(_Line))
    _status: msgspec.json.Decoder[_Status] = field(default_factory=lambda: msgspec.json.Decoder(_Status))
    _resizes: msgspec.json.Decoder[_Resizes] = field(default_factory=lambda: msgspec.json.Decoder(_Resizes))
    _report: msgspec.json.Decoder[_Report] = field(default_factory=lambda: msgspec.json.Decoder(_Report))

    def pod(self, line: bytes) -> ReadPod:
        """A pod. Raises msgspec.DecodeError."""
        self._trim()
        raw = self._line.decode(line)
        meta, spec, status = raw.metadata, bytes(raw.spec), bytes(raw.status)
        named = _NODE_NAME.match(spec)
        rest = b"{" + spec[named.end() :] if named else spec
        shared = self._shared(rest, bytes(meta.labels), bytes(meta.owner_references))
        if shared is None or _CLAIMS in status or _HAMI in line or _CHOOSING in line:
            usual = msgspec.json.decode(line, type=w.Pod)
            return ReadPod(pod_from(usual), usual.spec.priority is None)
        once = self._texts.setdefault
        space, node = meta.namespace or "default", named[1].decode() if named else shared.node
        pod = Pod(
            name=meta.name or meta.generate_name,
            namespace=once(space, space),
            uid=meta.uid,
            created=self._moment(meta.creation_timestamp),
            node_name=once(node, node),
            status=self._status_of(status, meta.deletion_timestamp, rest),
            **shared.fields,
        )
        return ReadPod(pod, shared.bare)

    def node(self, line: bytes) -> Node:
        """A node. Raises msgspec.DecodeError."""
        self._trim()
        once = self._texts.setdefault
        node = msgspec.json.decode(line, type=w.Node)
        node.metadata.labels = {key: once(value, value) for key, value in node.metadata.labels.items()}
        for image in node.status.images:
            image.names = [once(name, name) for name in image.names]
        read = node_from(node)
        if node.spec.unschedulable and _MANAGED in line:
            return with_manager(read, msgspec.json.decode(line))
        return read

    def report(self, line: bytes) -> GpuStatus:
        """What a node's agent publishes. Raises msgspec.DecodeError."""
        self._trim()
        report = self._report.decode(line)
        body = report.status
        rest = tuple(bytes(getattr(body, name)) for name, _ in _REST)
        common = self._reports.get(rest)
        if common is None:
            told = {key: msgspec.json.decode(text) for (_, key), text in zip(_REST, rest, strict=True)}
            common = gpu_status_from(w.NodeGPUStatus(metadata=w.ObjectMeta(), status=told))
            self._reports[rest] = common
        devices = tuple(self._device(device) for device in body.devices)
        return replace(common, node=report.metadata.name, devices=devices)

    def _shared(self, spec: bytes, labels: bytes, owners: bytes) -> _Shared | None:
        """What pods of one spec, labels and owners share; None where a pod has claims of its own."""
        key = spec, labels, owners
        if key not in self._specs:
            self._specs[key] = None if _CLAIMS in spec else _shared_by(*key)
        return self._specs[key]

    def _status_of(self, text: bytes, deleted: str | None, spec: bytes) -> PodStatus:
        held = self._held_by(spec, text) if _has(text, _RESIZES) else ()
        if _has(text, _TOLD):
            return pod_status_from(msgspec.json.decode(text, type=w.PodStatus), deleted, held)
        read, once = self._status.decode(text), self._texts.setdefault
        phase = read.phase or "Pending"
        return PodStatus(
            phase=once(phase, phase),
            reason=read.reason,
            message=read.message,
            start=self._moment(read.start_time),
            nominated_node=read.nominated_node_name,
            terminating=deleted is not None,
            gone_by=self._moment(deleted),
            resized=held,
        )

    def _held_by(self, spec: bytes, status: bytes) -> tuple[HeldAmounts, ...]:
        """As `held_by`, once for all pods of which spec and status say the same."""
        read = self._resizes.decode(status)
        said = [
            (one.name, bytes(one.allocated_resources), bytes(one.resources))
            for one in (*read.container_statuses, *read.init_container_statuses)
        ]
        key = (spec, *(part for name, *texts in said for part in (name.encode(), *texts)))
        found = self._held.get(key)
        if found is None:
            whole = msgspec.json.decode(status, type=w.PodStatus)
            found = self._held[key] = held_by(msgspec.json.decode(spec, type=w.PodSpec), whole)
        return found

    def _moment(self, text: str | None) -> datetime | None:
        if text not in self._moments:
            self._moments[text] = moment(text)
        return self._moments[text]

    def _device(self, device: _Device) -> GpuDevice:
        once, links = self._texts.setdefault, bytes(device.links)
        joined = self._links.get(links)
        if joined is None:
            joined = self._links[links] = links_from(msgspec.json.decode(links))
        return GpuDevice(
            device.uuid,
            once(device.product, device.product),
            device.index,
            once(device.resource, device.resource),
            device.replicas or 1,
            device.memory_mib,
            device.memory_used_mib,
            device.health != "Unhealthy",
            device.reason,
            tuple(self._holder(holder) for holder in device.holders),
            once(device.compute_capability, device.compute_capability),
            once(device.pci_bus_id, device.pci_bus_id),
            device.numa_node,
            joined,
            self._parts(bytes(device.mig_devices)),
        )

    def _parts(self, text: bytes) -> tuple[DevicePart, ...]:
        return parts_from(msgspec.json.decode(text)) if text != b"[]" else ()

    def _holder(self, holder: _Holder) -> DeviceHolder:
        namespace, resource = self._once(holder.namespace), self._once(holder.resource)
        return DeviceHolder(namespace, holder.pod, self._once(holder.container), resource, tuple(holder.ids))

    def _once(self, text: str) -> str:
        """The same text, of equal ones always the first."""
        return self._texts.setdefault(text, text)

    def _trim(self) -> None:
        """Forget what is common when that is not much; asked once a line."""
        self._lines += 1
        if self._lines % _LINES_A_TRIM == 0:
            for known in (self._texts, self._specs, self._links, self._reports, self._moments, self._held):
                if len(known) >= _MOST_SHARED:
                    known.clear()


def _has(text: bytes, words: tuple[bytes, ...]) -> bool:
    """Whether any of the words is in the text; a loop, as `any` would take as long as all else of a pod."""
    for word in words:  # noqa: SIM110
        if word in text:
            return True
    return False


def _shared_by(spec: bytes, labels: bytes, owners: bytes) -> _Shared:
    meta = w.ObjectMeta(
        labels=msgspec.json.decode(labels, type=dict[str, str]),
        owner_references=msgspec.json.decode(owners, type=list[w.OwnerReference]),
    )
    whole = w.Pod(metadata=meta, spec=msgspec.json.decode(spec, type=w.PodSpec))
    pod = pod_from(whole)
    return _Shared({name: getattr(pod, name) for name in _SHARED}, pod.node_name, whole.spec.priority is None)
