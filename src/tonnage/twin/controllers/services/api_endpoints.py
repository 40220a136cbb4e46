"""kubernetesservice.Controller: keeps `default/kubernetes`, the API server's Service, and its endpoints.

Source: pkg/controlplane/controller/kubernetesservice, pkg/controlplane/reconcilers (v1.35).
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable
from typing import Final

from tonnage.loop.informer import Delta, Informers, following
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mappings, number
from tonnage.model.kubernetes.well_known import KUBERNETES_SERVICE, SLICE_SERVICE
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.periodic_tasks import every
from tonnage.wire.kinds import ENDPOINT_SLICE, ENDPOINTS, SERVICE
from tonnage.wire.objects import Service

_LOG: Final = logging.getLogger(__name__)
_LOOKED_AT_S: Final = 10.0
_NOT_MIRRORED: Final = "endpointslice.kubernetes.io/skip-mirror"
_SOMEWHERE: Final = ("192.0.2.1", 9)
"""An address of no machine, to which nothing is sent."""


class ApiEndpointsController:
    """Makes anew every ten seconds what is missing, and mends the endpoints.

    `service` is the Service of a server that listens at a port. `address` is where it is reached; without one
    there are no endpoints.
    """

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        informers: Informers,
        service: Callable[[int], JsonObject],
        address: str = "",
    ) -> None:
        self._api = api
        self._clock = clock
        self._service = service
        self._address = address
        self._port = 0
        self._services = informers.of(SERVICE)
        self._services.subscribe(self._service_seen)
        self._endpoints = informers.of(ENDPOINTS)
        self._slices = informers.of(ENDPOINT_SLICE)

    async def run(self) -> None:
        """Keep them until cancelled."""
        async with following(self._services, self._endpoints, self._slices):
            await every(self._clock, _LOOKED_AT_S, self._look, _LOG)

    def _service_seen(self, delta: Delta[Service]) -> None:
        """Remember where the API server listens: its Service says so from the start."""
        service = delta.before or delta.after
        if (
            service is not None
            and (service.metadata.namespace, service.metadata.name) == KUBERNETES_SERVICE
            and not self._port
        ):
            self._port = next((number(port, "targetPort") for port in mappings(service.spec, "ports")), 0)

    async def _look(self) -> None:
        namespace, name = KUBERNETES_SERVICE
        if not self._port:
            return
        if self._services.get(name, namespace) is None:
            await self._api.create(SERVICE, self._service(self._port), namespace=namespace)
        if self._address:
            await self._lead()

    async def _lead(self) -> None:
        """Let the Endpoints and their slice say where the API server is."""
        namespace, name = KUBERNETES_SERVICE
        port: JsonObject = {"name": "https", "port": self._port, "protocol": "TCP"}
        head: JsonObject = {"name": name, "labels": {_NOT_MIRRORED: "true"}}
        subsets: list[JsonValue] = [{"addresses": [{"ip": self._address}], "ports": [port]}]
        endpoints: JsonObject = {"metadata": head, "subsets": subsets}
        current = self._endpoints.get(name, namespace)
        if current is None:
            await self._api.create(ENDPOINTS, endpoints, namespace=namespace)
        elif current.subsets != subsets or current.metadata.labels.get(_NOT_MIRRORED) != "true":
            await self._api.patch(ENDPOINTS, name, endpoints, namespace=namespace)
        head = {"name": name, "labels": {SLICE_SERVICE: name}}
        ends: list[JsonValue] = [{"addresses": [self._address], "conditions": {"ready": True}}]
        slices: JsonObject = {"metadata": head, "endpoints": ends, "ports": [port]}
        current_slice = self._slices.get(name, namespace)
        if current_slice is None:
            family: JsonObject = {"addressType": "IPv6" if ":" in self._address else "IPv4"}
            await self._api.create(ENDPOINT_SLICE, {**slices, **family}, namespace=namespace)
        elif (
            current_slice.endpoints != ends
            or current_slice.ports != [port]
            or current_slice.metadata.labels != head["labels"]
        ):
            await self._api.patch(ENDPOINT_SLICE, name, slices, namespace=namespace)


def host_address() -> str:
    """The address by which this machine reaches others, empty if it reaches none: loopback leads nowhere."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(_SOMEWHERE)
        except OSError:
            return ""
        address: str = asking.getsockname()[0]
        return address
