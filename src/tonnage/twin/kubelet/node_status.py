"""tryUpdateNodeStatus: registration, heartbeats, Capacity and Allocatable of the Node as they change.

Source: Kubernetes 1.36, pkg/kubelet/kubelet_node_status.go; intervals are its defaults.
"""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.quantity import canonical_quantity, parse_quantity
from tonnage.model.kubernetes.timestamps import micro_timestamp, timestamp
from tonnage.model.kubernetes.well_known import LEASE_NAMESPACE
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.twin.kubelet.admission import amounts_of
from tonnage.twin.kubelet.containers.runtime_port import ContainerRuntime
from tonnage.twin.kubelet.devices.manager import DeviceManager
from tonnage.twin.kubelet.node_spec import KubeletNode
from tonnage.twin.kubelet.status_writers import Outbox
from tonnage.wire import kinds
from tonnage.wire.objects import Node, ObjectReference

_LOG: Final = logging.getLogger(__name__)
LEASE_S: Final = 40
_RENEW_S: Final = 10.0
_LOOK_S: Final = 10.0
_REPORT_S: Final = 300.0
_RETRY_S: Final = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
_IMAGES_SHOWN: Final = 50
_CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


_READY: Final = "Ready"
_WELL: Final = {
    "MemoryPressure": "NodeHasSufficientMemory",
    "DiskPressure": "NodeHasNoDiskPressure",
    "PIDPressure": "NodeHasSufficientPID",
}
"""What Events say of a node that is well, by condition."""


@dataclass(frozen=True, slots=True)
class ReportedMachine:
    """What a node reports of. `port` tells where the kubelet's server listens."""

    devices: DeviceManager
    runtime: ContainerRuntime
    port: Callable[[], int]


class NodeReporter:
    """Keeps one Node and its Lease."""

    def __init__(
        self, spec: KubeletNode, api: KubernetesApi, clock: Clock, machine: ReportedMachine, events: Outbox
    ) -> None:
        self._spec = spec
        self._api = api
        self._clock = clock
        self._devices = machine.devices
        self._runtime = machine.runtime
        self._port = machine.port
        self._events = events
        self._changed = asyncio.Event()
        self._extended: set[str] = set()
        self._offered: dict[str, int] = {}
        """Extended resources that somebody else has given the node."""
        self._since: dict[str, str] = {}
        self._stood: dict[str, str] = {}
        """By type: the conditions that the node had when the kubelet began."""
        self._reported: dict[str, Any] = {}
        self._reported_at_s = 0.0

    def changed(self) -> None:
        """Capacity or Allocatable may have changed: tell the API server now."""
        self._changed.set()

    def allocatable(self) -> dict[str, int]:
        """What pods may use, in counted units; devices that are held count even if they are unhealthy."""
        amounts = amounts_of(without_reserved(self._spec)) | self._offered
        for name, (_, healthy) in self._devices.resources.capacity_and_allocatable().items():
            amounts[name] = max(healthy, len(self._devices.allocated(name)))
        return amounts

    async def run(self) -> None:
        """Register, then report and renew until cancelled. An unreachable server is tried again."""
        self._tell("Starting", "Starting kubelet.")
        node = await self._persist(self._register)
        self._tell_of_changes()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._report())
            group.create_task(self._renew(node))

    async def _persist(self, step: Callable[[], Any]) -> Any:
        failures = 0
        while True:
            try:
                return await step()
            except ClusterError as error:
                _LOG.info("node not reported, will retry: node=%s error=%s", self._spec.name, error)
                await self._clock.sleep(_RETRY_S[min(failures, len(_RETRY_S) - 1)])
                failures += 1

    async def _register(self) -> Node:
        spec, labels = self._spec, _own_labels(self._spec)
        try:
            return await self._api.create(kinds.NODE, node_body(spec))
        except ApiError as error:
            if error.code != 409:
                raise
        node = await self._api.get(kinds.NODE, spec.name)
        self._extended = {name for name in node.status.capacity if "/" in name}
        self._since = {c.type: c.last_transition_time or "" for c in node.status.conditions if c.status}
        self._stood = {c.type: c.status for c in node.status.conditions}
        if any(node.metadata.labels.get(key) != value for key, value in labels.items()):
            # A person may have changed labels since: only the kubelet's own ones are put right.
            node = await self._api.patch(kinds.NODE, spec.name, {"metadata": {"labels": dict(labels)}})
        return node

    def _tell_of_changes(self) -> None:
        """Say what of the node's conditions is not as it was, as a kubelet does when it begins."""
        changed = {kind for kind, status, _, _ in _CONDITIONS if self._stood.get(kind) != status}
        for kind, reason in _WELL.items():
            if kind in changed:
                self._tell(reason, f"Node {self._spec.name} status is now: {reason}")
        self._tell("NodeAllocatableEnforced", "Updated Node Allocatable limit across pods")
        if _READY in changed:
            self._tell("NodeReady", f"Node {self._spec.name} status is now: NodeReady")

    def _tell(self, reason: str, message: str) -> None:
        subject = ObjectReference(api_version="v1", kind=kinds.NODE.kind, name=self._spec.name)
        self._events.tell(subject, "Normal", reason, message)

    async def _report(self) -> None:
        """Patch the status at once when a device changes, else within ten seconds, and every five minutes."""
        while True:
            self._changed.clear()
            if self._reported != self._facts() or self._clock.monotonic() - self._reported_at_s >= _REPORT_S:
                await self._persist(self._patch)
            await self._take_over()
            alarm = asyncio.ensure_future(self._clock.sleep(_LOOK_S))
            change = asyncio.ensure_future(self._changed.wait())
            try:
                await asyncio.wait({alarm, change}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                alarm.cancel()
                change.cancel()

    async def _patch(self) -> None:
        facts = self._facts()
        await self._api.patch(
            kinds.NODE,
            self._spec.name,
            {"status": facts | {"conditions": self._conditions()}},
            patch_type=PatchType.STRATEGIC,
            subresource="status",
        )
        self._reported, self._reported_at_s = facts, self._clock.monotonic()

    async def _take_over(self) -> None:
        """Let pods use the extended resources that others write into Capacity, and these alone."""
        try:
            node = await self._api.get(kinds.NODE, self._spec.name)
            capacity, allocatable = (
                self._foreign(node.status.capacity),
                self._foreign(node.status.allocatable),
            )
            if capacity != allocatable:
                change: JsonObject = {**dict.fromkeys(allocatable), **capacity}
                patch: JsonObject = {"status": {"allocatable": change}}
                await self._api.patch(kinds.NODE, self._spec.name, patch, subresource="status")
        except ClusterError as error:
            _LOG.info("node not checked: node=%s error=%s", self._spec.name, error)
        else:
            self._offered = amounts_of(capacity)

    def _foreign(self, amounts: Mapping[str, Any]) -> dict[str, str]:
        """What no plugin of this node offers."""
        return {
            name: str(amount)
            for name, amount in amounts.items()
            if is_extended(name) and name not in self._extended
        }

    def _conditions(self) -> list[dict[str, Any]]:
        return node_conditions(timestamp(self._clock.now()), self._since)

    def _facts(self) -> dict[str, Any]:
        """The status without the conditions, whose times always change."""
        spec = self._spec
        devices = self._devices.resources.capacity_and_allocatable()
        self._extended |= devices.keys()
        extended = {name: devices.get(name, (0, 0)) for name in sorted(self._extended)}
        return {
            "capacity": dict(spec.capacity) | {name: str(total) for name, (total, _) in extended.items()},
            "allocatable": without_reserved(spec)
            | {name: str(healthy) for name, (_, healthy) in extended.items()},
            "addresses": [
                {"type": "InternalIP", "address": spec.address},
                {"type": "Hostname", "address": spec.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self._port()}},
            "nodeInfo": node_info(spec),
            "images": [
                {"names": [name], "sizeBytes": size}
                for name, size in sorted(self._runtime.images().items())[:_IMAGES_SHOWN]
            ],
        }

    async def _renew(self, node: Node) -> None:
        while True:
            try:
                await self._renew_once(node)
            except ClusterError as error:
                _LOG.info("lease not renewed: node=%s error=%s", self._spec.name, error)
            await self._clock.sleep(_RENEW_S)

    async def _renew_once(self, node: Node) -> None:
        now = micro_timestamp(self._clock.now())
        name = self._spec.name
        try:
            await self._api.patch(kinds.LEASE, name, {"spec": {"renewTime": now}}, namespace=LEASE_NAMESPACE)
        except ApiError as error:
            if error.code != 404:
                raise
            await self._api.create(kinds.LEASE, _lease(name, node, now), namespace=LEASE_NAMESPACE)


def _lease(name: str, node: Node, now: str) -> dict[str, Any]:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]},
        "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_S, "renewTime": now},
    }


def _own_labels(spec: KubeletNode) -> dict[str, str]:
    return {
        "kubernetes.io/hostname": spec.name,
        "kubernetes.io/arch": spec.architecture,
        "kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": spec.architecture,
        "beta.kubernetes.io/os": "linux",
    }


def node_body(spec: KubeletNode) -> dict[str, Any]:
    """The Node as its kubelet makes it, without a status."""
    annotations = {"volumes.kubernetes.io/controller-managed-attach-detach": "true", **spec.annotations}
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": spec.name,
            "labels": {**_own_labels(spec), **spec.labels},
            "annotations": annotations,
        },
        "spec": {"podCIDR": spec.pod_cidr, "podCIDRs": [spec.pod_cidr]},
    }
    if spec.taints:
        body["spec"]["taints"] = [
            {"key": t.key, "effect": t.effect, **({"value": t.value} if t.value else {})} for t in spec.taints
        ]
    return body


def node_conditions(now: str, since: dict[str, str]) -> list[dict[str, Any]]:
    """The conditions of a node that is well. `since` remembers by type from when."""
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": now,
            "lastTransitionTime": since.setdefault(kind, now),
        }
        for kind, status, reason, message in _CONDITIONS
    ]


def without_reserved(spec: KubeletNode) -> dict[str, str]:
    """Allocatable without extended resources."""
    amounts = dict(spec.capacity)
    for name, reserved in spec.reserved.items():
        left = max(parse_quantity(amounts.get(name, "0")) - parse_quantity(reserved), parse_quantity("0"))
        amounts[name] = canonical_quantity(f"{-(-left * 1000 // 1)}m") if name == "cpu" else str(int(left))
    return amounts


def node_info(spec: KubeletNode) -> dict[str, Any]:
    """What the node says of its machine; identities follow from its name."""

    def identity(subject: str) -> str:
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{subject}.{spec.name}.tonnage.dev"))

    return {
        "architecture": spec.architecture,
        "bootID": identity("boot"),
        "containerRuntimeVersion": spec.container_runtime,
        "kernelVersion": spec.kernel_version,
        "kubeProxyVersion": "",
        "kubeletVersion": spec.kubelet_version,
        "machineID": identity("machine").replace("-", ""),
        "operatingSystem": "linux",
        "osImage": spec.os_image,
        "systemUUID": identity("system"),
    }
