"""Another vendor's driver for ResourceClaims (DRA), pretended: kubelet finds it as it finds a genuine one.

Source: Kubernetes 1.35, k8s.io/dynamic-resource-allocation/kubeletplugin and resourceslice.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import grpc.aio

from tonnage.documents.claim_drivers import VendorDriver
from tonnage.loop.informer import Informer
from tonnage.model.errors import ClusterError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, mapping, mappings, number, text
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.kubelet.devices.unix_grpc import serve_unix, unary_handler
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire.claims import ResourceSlice
from tonnage.wire.kinds import NODE, RESOURCE_CLAIM, RESOURCE_SLICE
from tonnage.wire.kubelet import claim_methods as methods
from tonnage.wire.kubelet import dra_v1_pb2 as wire
from tonnage.wire.kubelet import pluginregistration_pb2 as registration

_LOG: Final = logging.getLogger(__name__)
_AGAIN_S: Final = 5.0
_LONGEST_NAME: Final = 24
"""Of the driver, in its socket's name: the path of a socket holds 107 bytes."""


class PretendedVendorDriver:
    """One driver on one node. Its socket is the `number`th of the node's, and stands while `run` does.

    Slices are published once kubelet has registered the driver, for a kubelet that starts removes those of
    before; and again when somebody has changed or deleted them.
    """

    def __init__(
        self,
        driver: VendorDriver,
        node: str,
        number: int,
        api: KubernetesApi,
        clock: Clock,
        paths: NodePaths,
    ) -> None:
        self.name = driver.name
        self._devices = driver.slice_devices()
        self._node = node
        self._api = api
        self._clock = clock
        self._socket = paths.plugins_registry / f"{number}-{driver.name[:_LONGEST_NAME]}.sock"
        self._specs = paths.cdi_folders[1]
        self._registered = False
        self._wake = asyncio.Event()

    async def run(self) -> None:
        """Serve and publish until cancelled. Raises OSError when the socket cannot be made."""
        server = await self._serve()
        selector = f"spec.nodeName={self._node},spec.driver={self.name}"
        slices = Informer(
            *(self._api, RESOURCE_SLICE, self._clock),
            field_selector=selector,
            on_change=lambda _key: self._wake.set(),
        )
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(slices.run())
                await slices.synced()
                while True:
                    await self._wake.wait()
                    self._wake.clear()
                    if self._registered:
                        await self._keep_published(list(slices))
        finally:
            await server.stop(None)

    async def _serve(self) -> grpc.aio.Server:
        service = methods.SERVICES[methods.V1]
        return await serve_unix(
            self._socket,
            {
                methods.REGISTRATION: {
                    "GetInfo": unary_handler(methods.GET_INFO, self._introduce),
                    "NotifyRegistrationStatus": unary_handler(methods.NOTIFY, self._noted),
                },
                service: {
                    "NodePrepareResources": unary_handler(methods.prepare_method(), self._prepare),
                    "NodeUnprepareResources": unary_handler(methods.unprepare_method(), self._unprepare),
                },
            },
        )

    # The node's slice

    async def _keep_published(self, standing: list[ResourceSlice]) -> None:
        """Have the pool say what devices there are; what cannot be written is tried again."""
        try:
            await self._publish(standing)
        except ClusterError as error:
            _LOG.info("slices not published: node=%s driver=%s error=%s", self._node, self.name, error)
            await self._clock.sleep(_AGAIN_S)
            self._wake.set()

    async def _publish(self, standing: list[ResourceSlice]) -> None:
        """Write the slice, in another generation of the pool than any before. Raises ClusterError."""
        owner = (await self._api.get(NODE, self._node)).metadata.uid
        name = f"{self._node}-{self.name}"
        own = next((published for published in standing if published.metadata.name == name), None)
        for surplus in standing:
            if surplus is not own:
                await self._api.delete(RESOURCE_SLICE, surplus.metadata.name)
        if own is not None and self._says(own, owner):
            return
        newest = max((number(published.spec, "pool", "generation") for published in standing), default=0)
        pool: JsonObject = {"name": self._node, "generation": newest + 1, "resourceSliceCount": 1}
        owners: JsonObject = {"apiVersion": "v1", "kind": "Node", "name": self._node, "uid": owner}
        metadata: JsonObject = {"name": name, "ownerReferences": [{**owners, "controller": True}]}
        spec: JsonObject = {"driver": self.name, "nodeName": self._node, "pool": pool}
        body: JsonObject = {"metadata": metadata, "spec": {**spec, "devices": [*self._devices]}}
        if own is None:
            await self._api.create(RESOURCE_SLICE, body)
        else:
            metadata["resourceVersion"] = own.metadata.resource_version
            await self._api.replace(RESOURCE_SLICE, body)

    def _says(self, own: ResourceSlice, owner: str) -> bool:
        """Whether the slice is as it was published, and of this Node."""
        shown = _without_spelling(mappings(own.spec, "devices"))
        return shown == _without_spelling(self._devices) and any(
            reference.uid == owner for reference in own.metadata.owner_references
        )

    # What kubelet asks

    async def _introduce(self, _request: registration.InfoRequest, _context: Any) -> registration.PluginInfo:
        """Without an endpoint of its own: kubelet goes on asking at this socket."""
        return registration.PluginInfo(
            type=methods.PLUGIN_TYPE, name=self.name, supported_versions=[methods.V1]
        )

    async def _noted(
        self, request: registration.RegistrationStatus, _context: Any
    ) -> registration.RegistrationStatusResponse:
        self._registered = request.plugin_registered
        self._wake.set()
        return registration.RegistrationStatusResponse()

    async def _prepare(
        self, request: wire.NodePrepareResourcesRequest, _context: Any
    ) -> wire.NodePrepareResourcesResponse:
        answers = {claim.uid: await self._prepared(claim) for claim in request.claims}
        return wire.NodePrepareResourcesResponse(claims=answers)

    async def _prepared(self, claim: wire.Claim) -> wire.NodePrepareResourceResponse:
        try:
            standing = await self._api.get(RESOURCE_CLAIM, claim.name, claim.namespace)
        except ClusterError as error:
            return wire.NodePrepareResourceResponse(error=f"retrieve claim {claim.name}: {error}")
        if standing.metadata.uid != claim.uid:
            return wire.NodePrepareResourceResponse(error=f"claim {claim.name} got replaced")
        grants = self._grants(standing.status)
        names = [text(grant, "device") for grant in grants]
        offered = {device["name"] for device in self._devices}
        if missing := next((name for name in names if name not in offered), ""):
            why = f"requested device is not allocatable: {missing}"
            return wire.NodePrepareResourceResponse(error=why)
        _write_spec(self._spec_file(claim.uid), self._spec(claim.uid, names))
        return wire.NodePrepareResourceResponse(
            devices=[
                wire.Device(
                    request_names=[text(grant, "request").partition("/")[0]],
                    pool_name=self._node,
                    device_name=name,
                    cdi_device_ids=[f"{self._kind}={claim.uid}-{name}"],
                )
                for grant, name in zip(grants, names, strict=True)
            ]
        )

    def _grants(self, status: JsonObject) -> list[JsonObject]:
        """What the claim has of this driver on this node."""
        return [
            grant
            for grant in mappings(status, "allocation", "devices", "results")
            if text(grant, "driver") == self.name and text(grant, "pool") == self._node
        ]

    async def _unprepare(
        self, request: wire.NodeUnprepareResourcesRequest, _context: Any
    ) -> wire.NodeUnprepareResourcesResponse:
        for claim in request.claims:
            self._spec_file(claim.uid).unlink(missing_ok=True)
        answers = {claim.uid: wire.NodeUnprepareResourceResponse() for claim in request.claims}
        return wire.NodeUnprepareResourcesResponse(claims=answers)

    # What containers get

    @property
    def _kind(self) -> str:
        return f"{self.name}/claim"

    def _spec_file(self, uid: str) -> Path:
        return self._specs / f"{self.name}-claim_{uid.replace('/', '-')}.json"

    def _spec(self, uid: str, names: list[str]) -> JsonObject:
        """The CDI spec of a claim's devices, each a variable: nothing more of them is pretended."""
        devices: list[JsonValue] = [
            {
                "name": f"{uid}-{name}",
                "containerEdits": {"env": [f"{_variable(self.name, name)}={self._node}/{name}"]},
            }
            for name in names
        ]
        return {"cdiVersion": "0.5.0", "kind": self._kind, "devices": devices}


def _without_spelling(devices: Iterable[JsonObject]) -> list[tuple[object, ...]]:
    """The devices to compare: servers write quantities in a spelling of their own."""
    return [
        (
            device["name"],
            mapping(device, "attributes"),
            {
                key: parse_quantity(str(at(device, "capacity", key, "value")))
                for key in mapping(device, "capacity")
            },
        )
        for device in devices
    ]


def _variable(driver: str, device: str) -> str:
    """The variable that tells a container of a device.

    >>> _variable("gpu.example.com", "card-0")
    'GPU_EXAMPLE_COM_CARD_0'
    """
    return re.sub(r"[^A-Z0-9]", "_", f"{driver}_{device}".upper())


def _write_spec(file: Path, spec: JsonObject) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f".{file.name}.new")
    fresh.write_text(json.dumps(spec), encoding="ascii")
    fresh.replace(file)
