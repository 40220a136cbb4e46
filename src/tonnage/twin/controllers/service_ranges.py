"""Says of ServiceCIDRs that they are ready, and lets one go once no service has an address of it alone.

Source: pkg/controller/servicecidrs (v1.35).
"""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final

from tonnage.adapters.informer import Delta, Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi, PatchType
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import mappings, texts
from tonnage.twin.apiserver.services import ALLOCATOR, MANAGED_BY
from tonnage.twin.controllers.refusals import passing_over
from tonnage.twin.controllers.service_addresses import IP_ADDRESS
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Service
from tonnage.wire.timestamps import moment_of, timestamp

# Services have a spec and a status of any content, so they can stand for ranges.
SERVICE_CIDR: Final = Kind("networking.k8s.io", "v1", "ServiceCIDR", "servicecidrs", False, Service)
_FINALIZER: Final = "networking.k8s.io/service-cidr-finalizer"
_STAYS_S: Final = 10.0
"""How long one stays at least once it is to go: until then somebody may give addresses of it."""
_READY: Final[JsonObject] = {
    "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes Service CIDR is ready",
}  # fmt: skip
_NEEDED: Final[JsonObject] = {
    "type": "Ready",
    "status": "False",
    "reason": "Terminating",
    "message": "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
    "ServiceCIDR",
}
_Range = IPv4Network | IPv6Network


class ServiceRangesController:
    """Writes the condition `Ready`, and holds what is needed by a finalizer; `applying` is for the first."""

    def __init__(
        self, api: KubernetesApi, clock: Clock, informers: Informers, applying: KubernetesApi
    ) -> None:
        self._api = api
        self._applying = applying
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._ranges = informers.of(SERVICE_CIDR)
        self._ranges.subscribe(self._changed)
        self._addresses = informers.of(IP_ADDRESS)
        self._addresses.subscribe(self._changed)

    async def run(self) -> None:
        """Tell until cancelled."""
        async with following(self._ranges, self._addresses) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _changed(self, _delta: Delta[Service]) -> None:
        for one in self._ranges:
            self._queue.add(key_of(one))

    async def _reconcile(self, key: Key) -> float | None:
        found = self._ranges.get(key[1])
        if found is None:
            return None
        held = _FINALIZER in found.metadata.finalizers
        ends = found.metadata.deletion_timestamp
        if ends is not None and self._needed(found):
            await self._tell(found, _NEEDED)
        elif ends is not None:
            left = _STAYS_S - (self._clock.now() - moment_of(ends)).total_seconds()
            if left > 0:
                return left
            if held:
                await self._patch(key[1], {"$deleteFromPrimitiveList/finalizers": [_FINALIZER]})
        else:
            if not held:
                await self._patch(key[1], {"finalizers": [_FINALIZER]})
            await self._tell(found, _READY)
        return None

    def _needed(self, found: Service) -> bool:
        """Whether services have addresses that no other range has."""
        others = [one for other in self._ranges if other is not found for one in _ranges_of(other)]
        own = _ranges_of(found)
        if all(any(_holds(other, one) for other in others) for one in own):
            return False
        given = [
            ip_address(one.metadata.name)
            for one in self._addresses
            if one.metadata.labels.get(MANAGED_BY) == ALLOCATOR
        ]
        return any(
            any(one in mine for mine in own) and not any(one in other for other in others) for one in given
        )

    async def _tell(self, found: Service, condition: JsonObject) -> None:
        if any(condition.items() <= one.items() for one in mappings(found.status, "conditions")):
            return
        name = found.metadata.name
        conditions: list[JsonObject] = [{**condition, "lastTransitionTime": timestamp(self._clock.now())}]
        whole: JsonObject = {"metadata": {"name": name}, "status": {"conditions": [*conditions]}}
        with passing_over(404):
            await self._applying.patch(
                SERVICE_CIDR, name, whole, subresource="status", patch_type=PatchType.APPLY
            )

    async def _patch(self, name: str, metadata: JsonObject) -> None:
        with passing_over(404):
            await self._api.patch(SERVICE_CIDR, name, {"metadata": metadata}, patch_type=PatchType.STRATEGIC)


def _ranges_of(found: Service) -> list[_Range]:
    return [ip_network(one) for one in texts(found.spec, "cidrs")]


def _holds(wide: _Range, narrow: _Range) -> bool:
    return (
        wide.version == narrow.version
        and narrow.network_address in wide
        and wide.prefixlen <= narrow.prefixlen
    )
