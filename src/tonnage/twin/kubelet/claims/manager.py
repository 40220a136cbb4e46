"""dra.Manager: claims are prepared before the first container of a pod, and given back after the last pod.

Source: Kubernetes 1.35, pkg/kubelet/cm/dra/manager.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from tonnage.loop.ticks import next_beat
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mappings, text
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.kubelet.devices.plugins import PluginError
from tonnage.twin.kubelet.node_disk import NodeDisk
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire import kinds
from tonnage.wire.objects import Pod

if TYPE_CHECKING:
    from tonnage.model.kubernetes.resource_claims import ResourceClaim
    from tonnage.twin.kubelet.claims.claim_cache import ClaimedDevice, ClaimInfo
    from tonnage.twin.kubelet.claims.device_health import DeviceHealth
    from tonnage.twin.kubelet.claims.drivers import Drivers
    from tonnage.wire.kubelet import dra_v1_pb2 as wire

_LOG: Final = logging.getLogger(__name__)
WIPE_S: Final = 30.0
"""How long a driver may be away before its slices are removed."""


class ClaimManager:
    """The claims of one node. Modules that only drivers and claims need are loaded with the first of them."""

    def __init__(
        self,
        node: str,
        api: KubernetesApi,
        clock: Clock,
        paths: NodePaths,
        disk: NodeDisk,
        on_health: Callable[[], None] | None = None,
    ) -> None:
        """`on_health` is called when devices' health changed; None: nobody wants to know it."""
        self._node = node
        self._on_health = on_health
        self._health: DeviceHealth | None = None
        self._api = api
        self._clock = clock
        self._paths = paths
        self._disk = disk
        self._claims: dict[tuple[str, str], ClaimInfo] = {}
        self._prepared: set[str] = set()
        """Uids of claims that this kubelet has had prepared: one that starts again asks once more."""
        self._drivers: Drivers | None = None
        self._lock = asyncio.Lock()
        self._wiping: dict[str, asyncio.Task[None]] = {}
        self._folder_stamp = 0

    async def start(self) -> None:
        """Remember what the checkpoint says; a corrupt one is logged and left out."""
        content = await self._disk.read(self._paths.claim_state)
        if content is None:
            return
        from tonnage.twin.kubelet.claims.claim_cache import decode_claims

        try:
            self._claims = {claim.key: claim for claim in decode_claims(content)}
        except ValueError as error:
            _LOG.error("claim checkpoint not used: file=%s error=%s", self._paths.claim_state, error)

    async def run(self) -> None:
        """Remove slices of before, then follow drivers until cancelled."""
        try:
            await self._wipe("")
            while True:
                await self._look()
                await next_beat(self._clock)
        finally:
            if self._health is not None:
                await self._health.close()
            for task in self._wiping.values():
                task.cancel()
            await asyncio.gather(*self._wiping.values(), return_exceptions=True)

    async def prepare(self, pod: Pod) -> str:
        """What stands against the pod's claims, in kubelet's words; empty once they are prepared."""
        from tonnage.twin.kubelet.claims.pod_claims import claims_to_prepare

        claims = await claims_to_prepare(self._api, pod, self._registered)
        if isinstance(claims, str):
            return claims
        async with self._lock:
            if why := await self._note(pod, claims):
                return why
            pending = [claim for claim in claims if claim.uid not in self._prepared]
            for driver, refs in _batches(self._claims[claim.key] for claim in pending).items():
                if why := await self._prepare_by(driver, refs):
                    return why
            self._prepared.update(claim.uid for claim in pending)
            await self._save()
        return ""

    async def release(self, pod_uid: str) -> str:
        """Give back what only this pod had; why that failed, empty when it is done."""
        async with self._lock:
            own = [claim for claim in self._claims.values() if pod_uid in claim.pod_uids]
            last = [claim for claim in own if len(claim.pod_uids) == 1]
            for driver, refs in _batches(last).items():
                if why := await self._unprepare_by(driver, refs):
                    return why
            for claim in own:
                if claim in last:
                    del self._claims[claim.key]
                    self._prepared.discard(claim.claim_uid)
                else:
                    self._set_pods(claim, tuple(uid for uid in claim.pod_uids if uid != pod_uid))
            if own:
                await self._save()
        return ""

    async def sweep(self, living: Set[str]) -> None:
        """Give back the claims of pods that ended while the kubelet was down."""
        for uid in {uid for claim in self._claims.values() for uid in claim.pod_uids} - living:
            if why := await self.release(uid):
                _LOG.info("claims not given back: pod=%s why=%s", uid, why)

    def cdi_devices(self, pod: Pod, container: str) -> list[str]:
        """The names that the container runtime gets for a container."""
        return [
            name
            for _, claim, request in self._of_container(pod, container)
            for name in claim.cdi_devices(request)
        ]

    def of_container(self, pod: Pod, container: str) -> list[ClaimInfo]:
        """The claims that a container uses, each once."""
        claims = {claim.key: claim for _, claim, _ in self._of_container(pod, container)}
        return list(claims.values())

    def add_health(self, pod: Pod, status: JsonObject) -> None:
        """Have the pod's status say how the devices of its claims are, as far as that is known.

        As in 1.35: of claims that were made from templates, which alone the status names, and of containers
        that are none of the initial ones.
        """
        if self._health is None:
            return
        for entry in mappings(status, "containerStatuses"):
            if rows := self._health_rows(pod, text(entry, "name"), self._health):
                entry["allocatedResourcesStatus"] = rows

    def _health_rows(self, pod: Pod, container: str, health: DeviceHealth) -> list[JsonValue]:
        """All devices of a claim, whichever request the container names: kubelet does not choose either."""
        rows: list[JsonValue] = []
        templated = {entry.get("name") for entry in pod.status.resource_claim_statuses}
        for reference, claim, request in self._of_container(pod, container):
            if reference not in templated:
                continue
            resources: list[JsonValue] = [
                {
                    "resourceID": next(
                        iter(device.cdi_device_ids or ()), f"{driver}/{device.pool_name}/{device.device_name}"
                    ),
                    "health": health.of(driver, device.pool_name, device.device_name),
                }
                for driver, state in claim.driver_state.items()
                for device in state.devices or ()
            ]
            name = f"claim:{reference}/{request}" if request else f"claim:{reference}"
            if resources:
                rows.append({"name": name, "resources": resources})
        return rows

    def _of_container(self, pod: Pod, name: str) -> Iterator[tuple[str, ClaimInfo, str]]:
        """(name in the pod, claim, request) of every entry in a container's `resources.claims`.

        An empty request: all. Devices for extended resources come by no name.
        """
        spec, by_class = pod.spec, pod.status.extended_resource_claim_status
        made = self._claims.get((pod.metadata.namespace, text(by_class, "resourceClaimName")))
        for mapped in mappings(by_class, "requestMappings"):
            if made is not None and mapped.get("containerName") == name:
                yield "", made, text(mapped, "requestName")
        if not spec.resource_claims:
            return
        container = next((c for c in (*spec.init_containers, *spec.containers) if c.name == name), None)
        names = {entry.get("name"): entry.get("resourceClaimName") for entry in spec.resource_claims}
        names |= {
            entry.get("name"): made
            for entry in pod.status.resource_claim_statuses
            if (made := entry.get("resourceClaimName"))
        }
        for entry in container.resources.claims if container is not None else ():
            claim = self._claims.get((pod.metadata.namespace, str(names.get(entry.get("name")))))
            if claim is not None:
                yield str(entry.get("name")), claim, str(entry.get("request") or "")

    def _registered(self, driver: str) -> bool:
        return self._drivers is not None and self._drivers.registered(driver)

    async def _look(self) -> None:
        """Drivers come and go with files of a folder, which is looked into when it changed."""
        stamp = _stamp(self._paths.plugins_registry)
        if stamp == self._folder_stamp:
            return
        self._folder_stamp = stamp
        if self._drivers is None:
            from tonnage.twin.kubelet.claims.drivers import Drivers

            self._drivers = Drivers(self._paths, self._gone)
        if not await self._drivers.look():
            self._folder_stamp = 0
        if self._on_health is not None:
            if self._health is None:
                from tonnage.twin.kubelet.claims.device_health import DeviceHealth

                self._health = DeviceHealth(self._clock, self._on_health)
            self._health.follow(self._drivers)

    async def _gone(self, driver: str) -> None:
        """Remove the driver's slices, unless it comes back in time."""

        async def wipe() -> None:
            await self._clock.sleep(WIPE_S)
            if not self._registered(driver):
                await self._wipe(driver)

        if (before := self._wiping.pop(driver, None)) is not None:
            before.cancel()
        self._wiping[driver] = asyncio.create_task(wipe(), name=f"slices of {driver}")

    async def _wipe(self, driver: str) -> None:
        """Delete the node's slices, of that driver or of all; whoever lives publishes again."""
        selector = f"spec.nodeName={self._node}" + (f",spec.driver={driver}" if driver else "")
        try:
            listing = await self._api.list(kinds.RESOURCE_SLICE, field_selector=selector)
            for resource_slice in listing.items:
                await self._api.delete(kinds.RESOURCE_SLICE, resource_slice.metadata.name)
        except ApiError as error:
            if error.code != 404:
                _LOG.info("slices not removed: node=%s error=%s", self._node, error)
        except ClusterError as error:
            _LOG.info("slices not removed: node=%s error=%s", self._node, error)

    async def _note(self, pod: Pod, claims: Sequence[ResourceClaim]) -> str:
        """Enter the pod with its claims, on disk before any driver is asked; why that cannot be."""
        from tonnage.twin.kubelet.claims.claim_cache import ClaimInfo, DriverState

        for claim in claims:
            noted = self._claims.get(claim.key)
            if noted is not None and noted.claim_uid != claim.uid:
                return (
                    f"old ResourceClaim with same name {claim.name} and different UID {noted.claim_uid}"
                    " still exists (previous pod force-deleted?!)"
                )
        for claim in claims:
            noted = self._claims.get(claim.key)
            uids = (*(noted.pod_uids if noted is not None else ()), pod.metadata.uid)
            if noted is not None:
                self._set_pods(noted, tuple(dict.fromkeys(uids)))
                continue
            devices = claim.allocation.devices if claim.allocation is not None else ()
            states = {device.id.driver: DriverState() for device in devices}
            self._claims[claim.key] = ClaimInfo(claim.uid, claim.name, claim.namespace, uids, states)
        try:
            await self._save()
        except OSError as error:
            return f"checkpoint ResourceClaim cache: {error.strerror or error}"
        return ""

    async def _prepare_by(self, driver: str, refs: list[ClaimInfo]) -> str:
        """Have one driver prepare its part of claims; why it did not."""
        assert self._drivers is not None
        from tonnage.twin.kubelet.claims.claim_cache import ClaimedDevice

        try:
            answer = await self._drivers.prepare(driver, [_wire_claim(ref) for ref in refs])
        except PluginError as error:
            return f"NodePrepareResources: {error}"
        by_uid = {ref.claim_uid: ref for ref in refs}
        for uid, prepared in answer.claims.items():
            if uid not in by_uid:
                return f"NodePrepareResources returned result for unknown claim UID {uid}"
            if prepared.error:
                name = by_uid[uid].claim_name
                return f"NodePrepareResources failed for ResourceClaim {name}: {prepared.error}"
            devices = tuple(
                ClaimedDevice(
                    device.pool_name,
                    device.device_name,
                    tuple(device.request_names),
                    tuple(device.cdi_device_ids),
                    device.share_id or None,
                )
                for device in prepared.devices
            )
            self._set_devices(self._claims[by_uid[uid].key], driver, devices)
        skipped = len(refs) - len(answer.claims)
        return f"NodePrepareResources skipped {skipped} ResourceClaims" if skipped else ""

    async def _unprepare_by(self, driver: str, refs: list[ClaimInfo]) -> str:
        if self._drivers is None:
            return f"DRA driver {driver} is not registered"
        try:
            answer = await self._drivers.unprepare(driver, [_wire_claim(ref) for ref in refs])
        except PluginError as error:
            return str(error) if "not registered" in str(error) else f"NodeUnprepareResources: {error}"
        names = {ref.claim_uid: ref.claim_name for ref in refs}
        for uid, answered in answer.claims.items():
            if answered.error:
                name = names.get(uid, uid)
                return f"NodeUnprepareResources failed for ResourceClaim {name}: {answered.error}"
        skipped = len(refs) - len(answer.claims)
        return f"NodeUnprepareResources skipped {skipped} ResourceClaims" if skipped else ""

    def _set_pods(self, claim: ClaimInfo, pods: tuple[str, ...]) -> None:
        self._claims[claim.key] = msgspec.structs.replace(claim, pod_uids=pods)

    def _set_devices(self, claim: ClaimInfo, driver: str, devices: tuple[ClaimedDevice, ...]) -> None:
        from tonnage.twin.kubelet.claims.claim_cache import DriverState

        states = {**claim.driver_state, driver: DriverState(devices)}
        self._claims[claim.key] = msgspec.structs.replace(claim, driver_state=states)

    async def _save(self) -> None:
        from tonnage.twin.kubelet.claims.claim_cache import encode_claims

        await self._disk.write(self._paths.claim_state, encode_claims(self._claims.values()))


def _batches(claims: Iterable[ClaimInfo]) -> dict[str, list[ClaimInfo]]:
    """The claims of each driver."""
    batches: defaultdict[str, list[ClaimInfo]] = defaultdict(list)
    for claim in claims:
        for driver in claim.driver_state:
            batches[driver].append(claim)
    return batches


def _wire_claim(claim: ClaimInfo) -> wire.Claim:
    from tonnage.wire.kubelet import dra_v1_pb2 as wire

    return wire.Claim(namespace=claim.namespace, uid=claim.claim_uid, name=claim.claim_name)


def _stamp(folder: Path) -> int:
    try:
        return folder.stat().st_mtime_ns
    except OSError:
        return 0
