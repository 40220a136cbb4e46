"""Requests that no kubelet sends, over the real sockets: each is answered or refused in words."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.kubelet_side import GPU, PATIENCE_S, SHARED, Bench, bench_of, healthy
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as dp

TWO_SHARED = (
    "version: v1\nsharing: {timeSlicing: {renameByDefault: true, resources: "
    "[{name: nvidia.com/gpu, replicas: 2, devices: [0, 1]}]}}\n"
)
METHODS = ("GetDevicePluginOptions", "GetPreferredAllocation", "Allocate", "PreStartContainer")
REQUEST_OF = {"GetPreferredAllocation": "PreferredAllocation"}
KNOWN = [*(f"GPU-{i}" for i in range(5)), "GPU-0::0", "GPU-0::1", "GPU-1::1", "GPU-0::9", "::"]
IDS = st.lists(
    st.one_of(
        st.sampled_from(
            [*(f"GPU-{i}" for i in range(5)), "GPU-0::0", "GPU-0::1", "GPU-1::1", "GPU-0::9", "::"]
        ),
        st.text(st.characters(codec="utf-8"), max_size=300),
    ),
    max_size=40,
)
SIZES = st.one_of(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(-1, 9))
ALLOCATIONS = st.lists(IDS, max_size=5).map(
    lambda ids: dp.AllocateRequest(
        container_requests=[dp.ContainerAllocateRequest(devices_ids=each) for each in ids]
    ).SerializeToString()
)
PREFERENCES = st.lists(st.tuples(IDS, IDS, SIZES), max_size=3).map(
    lambda asked: dp.PreferredAllocationRequest(
        container_requests=[
            dp.ContainerPreferredAllocationRequest(
                available_deviceIDs=available, must_include_deviceIDs=required, allocation_size=size
            )
            for available, required, size in asked
        ]
    ).SerializeToString()
)
REQUESTS = st.one_of(
    st.tuples(st.sampled_from(METHODS), st.binary(max_size=500)),
    st.tuples(st.just("Allocate"), ALLOCATIONS),
    st.tuples(st.just("GetPreferredAllocation"), PREFERENCES),
)


@pytest.fixture
def run() -> Iterator[Callable[[str, tuple[str, bytes]], None]]:
    """Ask a running agent; kubelet's own stream goes on beside it."""
    with asyncio.Runner() as runner:
        node = bench_of()
        bench = runner.run(node.__aenter__())
        runner.run(_start(bench))
        yield lambda resource, request: runner.run(_ask(bench, resource, *request))
        runner.run(_is_well(bench))
        runner.run(node.__aexit__(None, None, None))


async def _start(bench: Bench) -> None:
    bench.configure(TWO_SHARED)
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.devices(GPU)
    await bench.kubelet.devices(SHARED)


async def _ask(bench: Bench, resource: str, method: str, message: bytes) -> None:
    call: Any = bench.kubelet.channels[resource].unary_unary(f"/v1beta1.DevicePlugin/{method}")
    try:
        answer = await call(message, timeout=PATIENCE_S)
    except grpc.aio.AioRpcError as error:
        refused = (error.code(), (error.details() or "").partition(":")[0])
    else:
        _check(method, message, answer)
        return
    request = "Empty" if method == "GetDevicePluginOptions" else f"{REQUEST_OF.get(method, method)}Request"
    words = {f'invalid allocation request for "{resource}"', f"no {request}"}
    assert refused in {(grpc.StatusCode.UNKNOWN, each) for each in words}


def _check(method: str, message: bytes, answer: bytes) -> None:
    """What was answered belongs to what was asked."""
    if method == "Allocate":
        asked = dp.AllocateRequest.FromString(message).container_requests
        given = dp.AllocateResponse.FromString(answer).container_responses
        for one, other in zip(asked, given, strict=True):
            uuids = {slot.partition("::")[0] for slot in one.devices_ids}
            assert set(other.envs["NVIDIA_VISIBLE_DEVICES"].split(",")) == uuids
    elif method == "GetPreferredAllocation":
        wanted = dp.PreferredAllocationRequest.FromString(message).container_requests
        chosen = dp.PreferredAllocationResponse.FromString(answer).container_responses
        for question, reply in zip(wanted, chosen, strict=True):
            ids = list(reply.deviceIDs)
            assert len(set(ids)) == len(ids) <= max(0, question.allocation_size)
            assert set(ids) <= set(question.available_deviceIDs)


async def _is_well(bench: Bench) -> None:
    assert bench.task is not None
    assert not bench.task.done()
    await bench.kubelet.allocate(GPU, "GPU-3")
    bench.hardware("GPU-0", "GPU-1", "GPU-2")
    assert healthy(await bench.kubelet.devices(GPU, until=lambda told: "GPU-3" not in told)) == {"GPU-2"}


def test_every_request_is_answered_or_refused_in_words(
    run: Callable[[str, tuple[str, bytes]], None],
) -> None:
    @given(st.sampled_from((GPU, SHARED)), REQUESTS)
    def ask(resource: str, request: tuple[str, bytes]) -> None:
        run(resource, request)

    ask()
