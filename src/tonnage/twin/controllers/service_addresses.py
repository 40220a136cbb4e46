"""An IPAddress for every address of a service, as a genuine API server keeps them.

Source: pkg/registry/core/service/ipallocator (ipallocator.go, controller/repairip.go), v1.35.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import ip_address
from typing import Final

from tonnage.adapters.informer import Delta, Informers, following
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.services import ALLOCATOR, MANAGED_BY
from tonnage.twin.controllers.refusals import passing_over
from tonnage.wire.kinds import SERVICE, Kind
from tonnage.wire.objects import Service

# Services have a spec of any content, so they can stand for addresses.
IP_ADDRESS: Final = Kind("networking.k8s.io", "v1", "IPAddress", "ipaddresses", False, Service)
_FAMILY: Final = "ipaddress.kubernetes.io/ip-family"


class ServiceAddressesController:
    """Makes IPAddresses for services and deletes those whose service has the address no more."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._services = informers.of(SERVICE)
        self._services.add_index("address", _addresses_of)
        self._services.subscribe(self._service_changed)
        self._addresses = informers.of(IP_ADDRESS, lambda key: self._queue.add(key[1]))

    async def run(self) -> None:
        """Keep them until cancelled."""
        async with following(self._services, self._addresses) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _service_changed(self, delta: Delta[Service]) -> None:
        before, after = (set(_addresses_of(one)) if one else set() for one in (delta.before, delta.after))
        for address in before ^ after:
            self._queue.add(address)

    async def _reconcile(self, address: str) -> None:
        found = self._addresses.get(address)
        parent = next((_reference(one) for one in self._services.by_index("address", address)), None)
        with passing_over(404, 409):
            if found is None:
                if parent is not None:
                    await self._api.create(IP_ADDRESS, _body(address, parent))
            elif _is_ours(found) and found.spec.get("parentRef") != parent:
                # It is made again, if it is still somebody's, once it is seen to be gone.
                await self._api.delete(IP_ADDRESS, address, uid=found.metadata.uid)


def _addresses_of(service: Service) -> Iterable[str]:
    addresses = service.spec.get("clusterIPs") or ()
    return [one for one in addresses if one != "None"] if isinstance(addresses, list) else []


def _reference(service: Service) -> JsonObject:
    metadata = service.metadata
    return {"resource": "services", "namespace": metadata.namespace, "name": metadata.name}


def _is_ours(found: Service) -> bool:
    return found.metadata.labels.get(MANAGED_BY) == ALLOCATOR


def _body(address: str, parent: JsonObject) -> JsonObject:
    labels: JsonObject = {_FAMILY: f"IPv{ip_address(address).version}", MANAGED_BY: ALLOCATOR}
    return {
        "apiVersion": IP_ADDRESS.api_version,
        "kind": IP_ADDRESS.kind,
        "metadata": {"name": address, "labels": labels},
        "spec": {"parentRef": parent},
    }
