"""Who has which device, in kubelet's words: its pod resources API and, when it is silent, its checkpoint."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import grpc
import grpc.aio

from tonnage.adapters.checkpoints import file_problem
from tonnage.adapters.kubelet.checkpoint_file import holds_in
from tonnage.adapters.kubelet.plugin_folder import CHANNEL_OPTIONS, file_stamp, kubelet_error, socket_identity
from tonnage.model.devices.claims import DRIVER
from tonnage.model.devices.sharing import Hold, HoldKind
from tonnage.model.errors import ClusterError, HardwareError, Problem
from tonnage.ports.node import Shown
from tonnage.wire.kubelet import methods
from tonnage.wire.kubelet import podresources_v1_pb2 as wire
from tonnage.wire.kubelet.methods import Method, RequestT, ResponseT

_LIST_S: Final = 5.0
_MAX_BYTES: Final = 16 << 20


class KubeletFiles:
    """KubeletHolds over `pod-resources/kubelet.sock` and `device-plugins/kubelet_internal_checkpoint`.

    Over the socket alone it is KubeletDevices.
    """

    def __init__(self, kubelet: Path) -> None:
        self._socket = kubelet / "pod-resources" / "kubelet.sock"
        self._checkpoint = kubelet / "device-plugins" / "kubelet_internal_checkpoint"
        self._channel: grpc.aio.Channel | None = None
        self._dialled = ""
        self._read = ""
        self._holds: tuple[Hold, ...] = ()

    def identity(self) -> str:
        return socket_identity(self._socket)

    async def shown(self) -> Shown:
        return shown_of(await self._answer(methods.POD_RESOURCES_LIST, wire.ListPodResourcesRequest()))

    async def replicas(self) -> Mapping[tuple[str, str], int]:
        request = wire.AllocatableResourcesRequest()
        return replicas_in(await self._answer(methods.POD_RESOURCES_ALLOCATABLE, request))

    async def _answer(self, method: Method[RequestT, ResponseT], request: RequestT) -> ResponseT:
        identity = self.identity()
        if not identity:
            raise ClusterError(Problem("kubelet's pod resources socket is missing", str(self._socket)))
        if identity != self._dialled:
            await self.close()
            options = (*CHANNEL_OPTIONS, ("grpc.max_receive_message_length", _MAX_BYTES))
            self._channel = grpc.aio.insecure_channel(f"unix:{self._socket}", options=options)
            self._dialled = identity
        assert self._channel is not None
        call = self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            answer: ResponseT = await call(request, timeout=_LIST_S)
        except grpc.aio.AioRpcError as error:
            self._dialled = ""
            raise kubelet_error("kubelet did not list pod resources", self._socket, error) from None
        return answer

    async def checkpoint(self) -> tuple[Hold, ...]:
        stamp = file_stamp(self._checkpoint)
        if not stamp or stamp != self._read:
            self._holds = await asyncio.to_thread(_read_checkpoint, self._checkpoint)
            self._read = stamp
        return self._holds

    async def close(self) -> None:
        if self._channel is not None:
            channel, self._channel, self._dialled = self._channel, None, ""
            await channel.close()


def shown_of(listing: wire.ListPodResourcesResponse) -> Shown:
    """kubelet's list in our words."""
    holds = tuple(
        Hold(devices.resource_name, tuple(devices.device_ids), pod.namespace, pod.name, container.name)
        for pod in listing.pod_resources
        for container in pod.containers
        for devices in container.devices
    )
    pods = frozenset((pod.namespace, pod.name) for pod in listing.pod_resources)
    return Shown(holds, pods, tuple(_claims(listing)))


def _claims(listing: wire.ListPodResourcesResponse) -> Iterator[Hold]:
    """What containers have by claims of our driver; a claim's other devices are other drivers'."""
    for pod in listing.pod_resources:
        for container in pod.containers:
            for claim in container.dynamic_resources:
                devices = [part.device_name for part in claim.claim_resources if part.driver_name == DRIVER]
                name = f"{claim.claim_namespace}/{claim.claim_name}"
                if devices:
                    yield Hold(
                        *(name, tuple(devices), pod.namespace, pod.name, container.name),
                        kind=HoldKind.CLAIM,
                    )


def replicas_in(answer: wire.AllocatableResourcesResponse) -> Mapping[tuple[str, str], int]:
    """The devices of kubelet's answer, each with its ids; one of several NUMA nodes is there often."""
    ids = {
        (devices.resource_name, device_id) for devices in answer.devices for device_id in devices.device_ids
    }
    return Counter((resource, device_id.partition("::")[0]) for resource, device_id in ids)


def _read_checkpoint(file: Path) -> tuple[Hold, ...]:
    try:
        with file.open("rb") as stream:
            raw = stream.read(_MAX_BYTES + 1)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise HardwareError(file_problem("cannot be read", file, error)) from None
    try:
        return holds_in(raw)
    except (ValueError, KeyError, TypeError) as error:
        raise HardwareError(
            Problem("kubelet's checkpoint is malformed", str(file), type(error).__name__)
        ) from None
