"""kubelet's side of a device plugin, by a client that shares no code with the agent: it times what comes."""

from __future__ import annotations

import math
import queue
import shutil
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import grpc

from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as plugin
from tonnage.wire.kubelet import methods
from tonnage.wire.kubelet import podresources_v1_pb2 as resources

PATIENCE_S = 60.0
NEVER_S = 60.0
"""A plugin that has not come back to a new kubelet by then does not."""
SLOW_MS = 1000.0


class Kubelet:
    """The registration socket, and a list of pod resources.

    `holders` are ids by resource; each is a pod's.
    """

    def __init__(self, folder: Path) -> None:
        self.holders: dict[str, tuple[str, ...]] = {}
        self.plugins = folder / "device-plugins"
        self._resources = folder / "pod-resources"
        self._server: grpc.Server | None = None
        self._beside: grpc.Server | None = None
        self._heard: queue.SimpleQueue[tuple[float, str]] = queue.SimpleQueue()
        self.plugins.mkdir(parents=True)
        self._resources.mkdir()

    def start(self) -> float:
        """When its socket was there."""

        def register(request: plugin.RegisterRequest, _context: Any) -> plugin.Empty:
            self._heard.put((time.perf_counter(), request.endpoint))
            return plugin.Empty()

        def listed(_request: Any, _context: Any) -> resources.ListPodResourcesResponse:
            pods = (_pod(name, device_id) for name, ids in self.holders.items() for device_id in ids)
            return resources.ListPodResourcesResponse(pod_resources=pods)

        self._beside = _serve(self._resources / "kubelet.sock", methods.POD_RESOURCES_LIST, listed)
        self._server = _serve(self.plugins / "kubelet.sock", methods.REGISTER, register)
        return time.perf_counter()

    def stop(self) -> None:
        for server in (self._server, self._beside):
            if server is not None:
                server.stop(None).wait()
        (self.plugins / "kubelet.sock").unlink(missing_ok=True)

    def registered(self, patience_s: float = PATIENCE_S) -> tuple[float, Path]:
        """When the next plugin registered, and its socket. Raises queue.Empty: none did."""
        at, endpoint = self._heard.get(timeout=patience_s)
        return at, self.plugins / endpoint

    def restarted(self, *, folder_made_anew: bool = False) -> float:
        """Seconds from its socket to the next registration, infinite if none comes in `NEVER_S`.

        It removes every socket, as kubelet does.
        """
        self.stop()
        for file in self.plugins.glob("*.sock"):
            file.unlink(missing_ok=True)
        if folder_made_anew:
            while self.plugins.exists():  # a plugin may make its socket anew meanwhile
                shutil.rmtree(self.plugins, ignore_errors=True)
            self.plugins.mkdir()
        while not self._heard.empty():
            self._heard.get()
        there = self.start()
        try:
            at, _ = self.registered(NEVER_S)
        except queue.Empty:
            return math.inf
        return at - there


class Asking:
    """Calls to one plugin's socket; each method gives milliseconds, one for each call."""

    def __init__(self, socket: Path) -> None:
        self._channel = grpc.insecure_channel(f"unix:{socket}")
        stream = self._channel.unary_stream(
            methods.LIST_AND_WATCH.path,
            request_serializer=plugin.Empty.SerializeToString,
            response_deserializer=plugin.ListAndWatchResponse.FromString,
        )(plugin.Empty())
        self.ids = tuple(device.ID for device in next(stream).devices)
        self._stream = stream  # kubelet keeps it open, too
        self._turns = count()

    def allocate(self, calls: int, *, size: int = 1) -> list[float]:
        """Of `size` ids, others with each call."""
        call = self._call(methods.ALLOCATE)
        requests = [
            plugin.AllocateRequest(
                container_requests=[plugin.ContainerAllocateRequest(devices_ids=self._turn(size))]
            )
            for _ in range(calls)
        ]
        return [_ms(call, request) for request in requests]

    def prefer(self, calls: int, *, size: int) -> list[float]:
        """When all devices are free. Who takes longer than a second is asked once."""
        call = self._call(methods.GET_PREFERRED)
        asked = plugin.ContainerPreferredAllocationRequest(available_deviceIDs=self.ids, allocation_size=size)
        request = plugin.PreferredAllocationRequest(container_requests=[asked])
        first = _ms(call, request)
        return [first] if first > SLOW_MS else [first, *(_ms(call, request) for _ in range(calls - 1))]

    def close(self) -> None:
        self._stream.cancel()
        self._channel.close()

    def _turn(self, size: int) -> tuple[str, ...]:
        number = next(self._turns)
        return tuple(self.ids[(number * size + each) % len(self.ids)] for each in range(size))

    def _call(self, method: methods.Method[Any, Any]) -> Callable[[Any], Any]:
        return self._channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )


def _pod(resource: str, device_id: str) -> resources.PodResources:
    device = resources.ContainerDevices(resource_name=resource, device_ids=[device_id])
    name = f"serve-{device_id.lower().replace('::', '-')}"
    main = resources.ContainerResources(name="main", devices=[device])
    return resources.PodResources(name=name, namespace="inference", containers=[main])


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def _serve(file: Path, method: methods.Method[Any, Any], answer: Callable[[Any, Any], Any]) -> grpc.Server:
    file.unlink(missing_ok=True)
    _, service, name = method.path.split("/")
    handler: grpc.RpcMethodHandler[Any, Any] = grpc.unary_unary_rpc_method_handler(
        answer, method.request.FromString, method.response.SerializeToString
    )
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {name: handler}),))
    server.add_insecure_port(f"unix:{file}")
    server.start()
    return server


def _ms(call: Callable[[Any], Any], request: Any) -> float:
    started = time.perf_counter()
    call(request)
    return (time.perf_counter() - started) * 1000
