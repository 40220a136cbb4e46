"""devicemanager.ManagerImpl: who holds which device, and the checkpoint of it.

Source: Kubernetes 1.36, pkg/kubelet/cm/devicemanager/manager.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tonnage.decide.kubernetes.kubelet.device_admission import (
    UNEXPECTED,
    ContainerNeed,
    affinity,
    pod_request,
)
from tonnage.decide.kubernetes.kubelet.devices import (
    NO_IDS,
    AskPlugin,
    ContainerDeviceRequest,
    Devices,
    DeviceSelection,
    Ids,
    Unavailable,
    choose,
    prefer,
)
from tonnage.decide.kubernetes.kubelet.topology_manager import (
    ANY,
    REASON,
    REFUSAL,
    Hint,
    NumaTopology,
    TopologyPolicy,
    TopologyScope,
)
from tonnage.ports.clock import Clock
from tonnage.twin.kubelet.admission import AdmissionFailure
from tonnage.twin.kubelet.devices.checkpoint import (
    NO_NUMA,
    Checkpoint,
    CheckpointEntry,
    decode_checkpoint,
    encode_checkpoint,
)
from tonnage.twin.kubelet.devices.cpu_manager import CpuManager
from tonnage.twin.kubelet.devices.plugin_resources import PluginResource, PluginResources
from tonnage.twin.kubelet.devices.plugins import PluginEndpoint, PluginError
from tonnage.twin.kubelet.node_disk import NodeDisk
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire

_LOG: Final = logging.getLogger(__name__)
_CHECKPOINT_NAME: Final = "kubelet_internal_checkpoint"


class DeviceManager:
    """Who holds which device of a node. `on_change` tells that Capacity or Allocatable may have changed."""

    def __init__(
        self,
        paths: NodePaths,
        disk: NodeDisk,
        clock: Clock,
        topology: NumaTopology,
        on_change: Callable[[], None],
        cpus: CpuManager | None = None,
    ) -> None:
        self._paths = paths
        self._disk = disk
        self._topology = topology
        self._cpus = cpus
        self.resources = PluginResources(clock, on_change, self._save_list)
        self._entries: dict[tuple[str, str, str], CheckpointEntry] = {}
        self._admission = asyncio.Lock()
        self._writing = asyncio.Lock()

    async def start(self) -> None:
        """Remember what the checkpoint says. A corrupt one is logged and left out, as the kubelet does."""
        if self._cpus is not None:
            await self._cpus.start()
        content = await self._disk.read(self._paths.checkpoint)
        if content is None:
            return
        try:
            checkpoint = decode_checkpoint(content)
        except ValueError as error:
            _LOG.error("device checkpoint not used: file=%s error=%s", self._paths.checkpoint, error)
            return
        self._entries = {(e.pod_uid, e.container, e.resource): e for e in checkpoint.entries}
        self.resources.restore(checkpoint.registered)

    def held(self, pod_uid: str) -> dict[str, list[CheckpointEntry]]:
        """What the pod's containers hold, by container."""
        by_container: dict[str, list[CheckpointEntry]] = {}
        for entry in self._entries.values():
            if entry.pod_uid == pod_uid:
                by_container.setdefault(entry.container, []).append(entry)
        return by_container

    def holders(self) -> frozenset[str]:
        """Uids of pods that hold devices."""
        return frozenset(entry.pod_uid for entry in self._entries.values())

    def is_device_resource(self, name: str) -> bool:
        """Whether a plugin offers the resource, or a container still holds some of it."""
        return self.resources.get(name) is not None or any(e.resource == name for e in self._entries.values())

    def allocated(self, name: str) -> Ids:
        """Ids of the resource that containers hold."""
        return frozenset(
            device for entry in self._entries.values() if entry.resource == name for device in entry.ids
        )

    async def allocate(self, pod_uid: str, needs: list[ContainerNeed]) -> AdmissionFailure | None:
        """Give every container its devices and write the checkpoint, or say why the pod is refused.

        `needs` are the init containers in order, then the others. One pod at a time, as kubelet admits.
        """
        async with self._admission:
            before = dict(self._entries)
            reusable: dict[str, Ids] = {}
            if self._cpus is not None:
                self._cpus.begin()
            whole, failure = self._pod_affinity(pod_uid, needs)
            for need in needs if failure is None else ():
                failure = await self._allocate_container(pod_uid, need, reusable, whole)
                if failure is not None:
                    break
            if failure is None and self._entries != before:
                failure = await self._checkpoint_or_failure()
            if self._cpus is not None:
                if failure is not None:
                    self._cpus.undo()
                await self._cpus.save()
            if failure is not None:
                self._entries = {
                    key: entry for key, entry in self._entries.items() if key[0] != pod_uid or key in before
                }
            return failure

    async def injected(self, pod_uid: str, container: str) -> list[wire.ContainerAllocateResponse]:
        """What the plugins said to inject into a container that is about to start. Raises PluginError."""
        responses = []
        for entry in self.held(pod_uid).get(container, []):
            resource = self.resources.get(entry.resource)
            if resource is not None and resource.plugin is not None and resource.plugin.wants_pre_start:
                try:
                    await resource.plugin.pre_start(entry.ids)
                except PluginError as error:
                    raise PluginError(
                        f"device plugin PreStartContainer rpc failed with err: {error}"
                    ) from error
            responses.append(wire.ContainerAllocateResponse.FromString(entry.response))
        return responses

    async def release(self, pod_uid: str) -> None:
        """The pod has ended: its devices are free again."""
        freed = [key for key in self._entries if key[0] == pod_uid]
        for key in freed:
            del self._entries[key]
        if freed:
            await self._save_list()
        if self._cpus is not None and self._cpus.release(pod_uid):
            await self._cpus.save()

    async def _allocate_container(
        self, pod_uid: str, need: ContainerNeed, reusable: dict[str, Ids], whole: Hint | None
    ) -> AdmissionFailure | None:
        requested = self._of_plugins(need.resources)
        hint, aligned = whole or ANY, True
        if whole is None and (requested or need.cpus):
            hint, aligned = affinity(
                self._topology,
                requested,
                self._devices,
                held=lambda name: self._held_by(pod_uid, name, need.name),
                reusable=reusable,
                others=() if self._cpus is None else (self._cpus.hints(pod_uid, need),),
            )
        if not aligned:
            return AdmissionFailure(REASON, REFUSAL)
        for name, count in requested.items():
            request = ContainerDeviceRequest(count, reusable.get(name, NO_IDS), hint)
            try:
                ids = await self._allocate_resource(pod_uid, need.name, name, request)
            except PluginError as error:
                return AdmissionFailure(UNEXPECTED, f"Allocate failed due to {error}, which is unexpected")
            left = reusable.get(name, NO_IDS)
            reusable[name] = left | ids if need.reusable_after else left - ids
        refused = self._cpus.take(pod_uid, need, hint) if self._cpus is not None else None
        if refused is None:
            return None
        message = f"Allocate failed due to {refused.upstream_message}, which is unexpected"
        return AdmissionFailure(
            refused.reason or UNEXPECTED, refused.upstream_message if refused.reason else message
        )

    def _pod_affinity(
        self, pod_uid: str, needs: Sequence[ContainerNeed]
    ) -> tuple[Hint | None, AdmissionFailure | None]:
        """One hint for all containers where the scope is the pod, else None; or why the pod is refused."""
        if self._topology.scope is not TopologyScope.POD or self._topology.policy is TopologyPolicy.NONE:
            return None, None
        requested = self._of_plugins(pod_request(needs))
        hint, aligned = affinity(
            self._topology,
            requested,
            self._devices,
            held=lambda name: self._held_by(pod_uid, name),
            others=() if self._cpus is None else (self._cpus.hints_of_all(pod_uid, needs),),
        )
        return hint, None if aligned else AdmissionFailure(REASON, REFUSAL)

    def _of_plugins(self, resources: Mapping[str, int]) -> dict[str, int]:
        return {name: count for name, count in resources.items() if self.is_device_resource(name)}

    def _held_by(self, pod_uid: str, resource: str, container: str = "") -> Ids:
        """What a container, or any of the pod's, holds of a resource."""
        return frozenset(
            device
            for entry in self._entries.values()
            if (entry.pod_uid, entry.resource) == (pod_uid, resource) and container in ("", entry.container)
            for device in entry.ids
        )

    async def _allocate_resource(
        self, pod_uid: str, container: str, name: str, request: ContainerDeviceRequest
    ) -> Ids:
        """The devices now held. Raises PluginError with the kubelet's or the plugin's words."""
        held = self._entries.get((pod_uid, container, name))
        if held is not None and len(held.ids) != request.count:
            raise PluginError(
                f'pod "{pod_uid}" container "{container}" changed request for resource "{name}" '
                f"from {len(held.ids)} to {request.count}"
            )
        resource = self.resources.get(name)
        if resource is None:
            raise PluginError(f"cannot allocate unregistered device {name}")
        if held is not None and resource.healthy:
            if not held.ids <= resource.healthy:
                raise PluginError(
                    "previously allocated devices are no longer healthy; "
                    f"cannot allocate unhealthy devices {name}"
                )
            return held.ids
        plugin = resource.plugin
        ids = await self._choose(plugin, self._devices(name), request)
        if not ids:
            return ids
        if plugin is None:
            raise PluginError(f"endpoint {name} has been stopped")
        response = await plugin.allocate(ids)
        self._entries[pod_uid, container, name] = CheckpointEntry(
            pod_uid,
            container,
            name,
            _by_numa(ids, resource.numa),
            response.SerializeToString(deterministic=True),
        )
        return ids

    async def _choose(
        self, plugin: PluginEndpoint | None, devices: Devices, request: ContainerDeviceRequest
    ) -> Ids:
        choice = choose(devices, request, plugin_prefers=plugin is not None and plugin.prefers)
        if isinstance(choice, AskPlugin) and plugin is not None:
            choice = prefer(choice, await plugin.preferred(choice.available, choice.must, choice.size))
        if isinstance(choice, Unavailable):
            raise PluginError(choice.upstream_message)
        if not isinstance(choice, DeviceSelection):
            raise PluginError(f"endpoint {devices.resource} has been stopped")
        return choice.ids

    def _devices(self, name: str) -> Devices:
        resource = self.resources.get(name) or PluginResource()
        return Devices(name, resource.numa, resource.healthy, self.allocated(name))

    async def _save_list(self) -> None:
        try:
            await self._write_checkpoint()
        except OSError as error:
            _LOG.error("device checkpoint not written: %s", error)

    async def _checkpoint_or_failure(self) -> AdmissionFailure | None:
        try:
            await self._write_checkpoint()
        except OSError as error:
            why = f'failed to write checkpoint file "{_CHECKPOINT_NAME}": {error.strerror or error}'
            return AdmissionFailure(UNEXPECTED, f"Allocate failed due to {why}, which is unexpected")
        return None

    async def _write_checkpoint(self) -> None:
        async with self._writing:
            registered = {name: sorted(devices) for name, devices in self.resources.healthy().items()}
            content = encode_checkpoint(Checkpoint(tuple(self._entries.values()), registered))
            await self._disk.write(self._paths.checkpoint, content)


def _by_numa(ids: Ids, numa: Mapping[str, int]) -> dict[int, tuple[str, ...]]:
    groups: dict[int, list[str]] = {}
    for device in sorted(ids):
        mask = numa.get(device, 0)
        for node in [n for n in range(mask.bit_length()) if mask >> n & 1] or [NO_NUMA]:
            groups.setdefault(node, []).append(device)
    return {node: tuple(group) for node, group in sorted(groups.items())}
