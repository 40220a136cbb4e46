"""Tells of APIServices of other servers what stands in their way: no service, no port, no endpoints.

Nothing is asked of a server that could be reached, and nothing is told of it.

Source: k8s.io/kube-aggregator/pkg/controllers/status/remote (v1.35).
"""

from __future__ import annotations

from typing import Final

from tonnage.adapters.informer import Informers, Key, following, key_of
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.adapters.work_queue import WorkQueue, work
from tonnage.model.json import JsonObject
from tonnage.model.well_known import SLICE_SERVICE
from tonnage.twin.apiserver.access import at, mapping, mappings, number, text
from tonnage.twin.controllers.writing import merge_status
from tonnage.wire.kinds import ENDPOINT_SLICE, SERVICE, Kind
from tonnage.wire.objects import Service
from tonnage.wire.timestamps import timestamp

# Services have a spec and a status of any content, so they can stand for these.
API_SERVICE: Final = Kind("apiregistration.k8s.io", "v1", "APIService", "apiservices", False, Service)


class ApiAvailabilityController:
    """Writes the condition `Available`."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        self._apis = informers.of(API_SERVICE, self._queue.add)
        self._services = informers.of(SERVICE, self._changed)
        self._slices = informers.of(ENDPOINT_SLICE, self._changed)

    async def run(self) -> None:
        """Tell until cancelled."""
        async with following(self._apis, self._services, self._slices) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _changed(self, key: Key) -> None:
        for one in self._apis:
            if text(one.spec, "service", "namespace") == key[0]:
                self._queue.add(key_of(one))

    async def _reconcile(self, key: Key) -> None:
        api = self._apis.get(key[1])
        if api is None or at(api.spec, "service") is None:
            return
        told = self._hindrance(mapping(api.spec, "service"))
        before = mappings(api.status, "conditions")
        if told is None or any(told.items() <= one.items() for one in before):
            return
        others = [one for one in before if text(one, "type") != "Available"]
        now = timestamp(self._clock.now())
        status: JsonObject = {"conditions": [*others, {**told, "lastTransitionTime": now}]}
        await merge_status(self._api, API_SERVICE, api, status)

    def _hindrance(self, wanted: JsonObject) -> JsonObject | None:
        """The condition, without its time, of an APIService whose service cannot be reached."""
        name, namespace, port = text(wanted, "name"), text(wanted, "namespace"), number(wanted, "port")
        service, what = self._services.get(name, namespace), f'service/{name} in "{namespace}"'
        if service is None:
            return _unavailable("ServiceNotFound", f"{what} is not present")
        if text(service.spec, "type") != "ClusterIP":
            return None
        ports = [one for one in mappings(service.spec, "ports") if number(one, "port") == port]
        if not ports:
            return _unavailable("ServicePortError", f"{what} is not listening on port {port}")
        label = text(ports[0], "name")
        slices = [
            one
            for one in self._slices
            if one.metadata.namespace == namespace and one.metadata.labels.get(SLICE_SERVICE) == name
        ]
        if not slices:
            return _unavailable("EndpointsNotFound", f"cannot find endpointslices for {what}")
        for one in slices:
            ready = any(at(end, "conditions", "ready") is not False for end in one.endpoints or [])
            if ready and any(text(row, "name") == label for row in one.ports or []):
                return None
        words = f'endpointslices for {what} have no addresses with port name "{label}"'
        return _unavailable("MissingEndpoints", words)


def _unavailable(reason: str, message: str) -> JsonObject:
    return {"type": "Available", "status": "False", "reason": reason, "message": message}
