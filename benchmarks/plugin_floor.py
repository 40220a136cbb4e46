"""The least that a device plugin in Python can be: it answers at once and knows nothing.

`python -m benchmarks.plugin_floor FOLDER IDS` registers at kubelet's socket in the folder; the file has an id
a line. It is what an answer costs before anything is decided, and a start before anything is read.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet import methods

RESOURCE = "example.com/floor"
ENDPOINT = "floor.sock"


Preference = Callable[[wire.ContainerPreferredAllocationRequest], Sequence[str]]
"""The ids that a container should get."""


def first_available(request: wire.ContainerPreferredAllocationRequest) -> Sequence[str]:
    """As many as are needed, in kubelet's order."""
    return request.available_deviceIDs[: request.allocation_size]


def main(folder: Path, ids: tuple[str, ...], preference: Preference = first_available) -> None:
    """Serve until killed."""
    socket = folder / ENDPOINT
    socket.unlink(missing_ok=True)
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers((_handlers(ids, preference),))
    server.add_insecure_port(f"unix:{socket}")
    server.start()
    method = methods.REGISTER
    with grpc.insecure_channel(f"unix:{folder}/kubelet.sock") as channel:
        register = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        register(wire.RegisterRequest(version="v1beta1", endpoint=ENDPOINT, resource_name=RESOURCE))
    server.wait_for_termination()


def _handlers(ids: tuple[str, ...], preference: Preference) -> grpc.GenericRpcHandler:
    def options(_request: Any, _context: Any) -> wire.DevicePluginOptions:
        return wire.DevicePluginOptions()

    def watch(_request: Any, _context: Any) -> Iterator[wire.ListAndWatchResponse]:
        devices = [wire.Device(ID=each, health=methods.HEALTHY) for each in ids]
        yield wire.ListAndWatchResponse(devices=devices)
        threading.Event().wait()

    def allocate(request: wire.AllocateRequest, _context: Any) -> wire.AllocateResponse:
        answers = [
            wire.ContainerAllocateResponse(envs={"NVIDIA_VISIBLE_DEVICES": ",".join(container.devices_ids)})
            for container in request.container_requests
        ]
        return wire.AllocateResponse(container_responses=answers)

    def prefer(request: wire.PreferredAllocationRequest, _context: Any) -> wire.PreferredAllocationResponse:
        answers = [
            wire.ContainerPreferredAllocationResponse(deviceIDs=preference(container))
            for container in request.container_requests
        ]
        return wire.PreferredAllocationResponse(container_responses=answers)

    calls: dict[methods.Method[Any, Any], Callable[..., Any]] = {
        methods.GET_OPTIONS: options,
        methods.ALLOCATE: allocate,
        methods.GET_PREFERRED: prefer,
    }
    handlers: dict[str, grpc.RpcMethodHandler[Any, Any]] = {
        method.path.rpartition("/")[2]: grpc.unary_unary_rpc_method_handler(
            answer, method.request.FromString, method.response.SerializeToString
        )
        for method, answer in calls.items()
    }
    handlers["ListAndWatch"] = grpc.unary_stream_rpc_method_handler(
        watch, wire.Empty.FromString, wire.ListAndWatchResponse.SerializeToString
    )
    return grpc.method_handlers_generic_handler("v1beta1.DevicePlugin", handlers)


if __name__ == "__main__":
    main(Path(sys.argv[1]), tuple(Path(sys.argv[2]).read_text().split()))
