"""The agent driven over real sockets in the way kubelet does it, by a client that shares no code with it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from support.connections import connection
from support.kubelet_side import FOUR, GPU, PATIENCE_S, SHARED, Bench, FastClock, bench_of, healthy
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as dp
from tonnage.wire.kubelet import podresources_v1_pb2 as pr


class PatientClock(FastClock):
    """Nobody sleeps longer, but ten seconds are more than a minute."""

    def monotonic(self) -> float:
        return time.monotonic() / 10


class StoppableClock(FastClock):
    """Once it is stopped, nobody who sleeps wakes again."""

    def __init__(self) -> None:
        self.stopped = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds / 20):
                await self.stopped.wait()
            await asyncio.Event().wait()


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_of() as node:
        yield node


async def test_registration_and_every_call_of_the_protocol(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    request = await bench.kubelet.registered(GPU)
    assert (request.version, request.endpoint) == ("v1beta1", "nvidia-gpu.sock")
    assert request.options.get_preferred_allocation_available
    assert not bench.kubelet.options[GPU].pre_start_required
    devices = await bench.kubelet.devices(GPU)
    assert devices == {f"GPU-{i}": "Healthy" for i in range(4)}
    answer = await bench.kubelet.allocate(GPU, "GPU-2", "GPU-1")
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": "GPU-2,GPU-1"}
    wanted = dp.ContainerPreferredAllocationRequest(
        available_deviceIDs=["GPU-3", "GPU-2", "GPU-0"], must_include_deviceIDs=["GPU-3"], allocation_size=2
    )
    preferred = await bench.kubelet.call(
        GPU,
        "GetPreferredAllocation",
        dp.PreferredAllocationRequest(container_requests=[wanted]),
        dp.PreferredAllocationResponse,
    )
    best = [list(r.deviceIDs) for r in preferred.container_responses]
    assert best == [["GPU-2", "GPU-3"]]  # of one NUMA node
    request_id = dp.PreStartContainerRequest(devices_ids=["GPU-1"])
    await bench.kubelet.call(GPU, "PreStartContainer", request_id, dp.PreStartContainerResponse)


async def test_shr_2_sharing_appears_and_disappears_with_the_configuration(bench: Bench) -> None:
    bench.configure(FOUR)
    await bench.kubelet.start()
    bench.start()
    devices = await bench.kubelet.devices(SHARED)
    assert len(healthy(devices)) == 16
    answer = await bench.kubelet.allocate(SHARED, "GPU-1::3")
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
    bench.kubelet.show_pod("service", SHARED, "GPU-1::3")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await bench.kubelet.allocate(SHARED, "GPU-0::0", "GPU-1::0")
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert caught.value.details() == (
        f'invalid allocation request for "{SHARED}": invalid request: '
        "maximum request size for shared resources is 1; found 2"
    )
    bench.configure("version: v1\n")
    assert await bench.kubelet.devices(SHARED, until=lambda d: not d) == {}
    devices = await bench.kubelet.devices(GPU)
    assert healthy(devices) == {"GPU-0", "GPU-2", "GPU-3"}  # a container has a replica of GPU-1


async def test_a_device_comes_back_when_its_holder_under_another_name_ends(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.devices(GPU)
    await bench.kubelet.allocate(GPU, "GPU-0")
    bench.kubelet.show_pod("train", GPU, "GPU-0")
    bench.configure(FOUR)
    devices = await bench.kubelet.devices(SHARED)
    assert healthy(devices) == {f"GPU-{i}::{r}" for i in (1, 2, 3) for r in range(4)}
    with pytest.raises(grpc.aio.AioRpcError, match=r"held as nvidia\.com/gpu"):
        await bench.kubelet.allocate(SHARED, "GPU-0::0")
    bench.kubelet.pods = pr.ListPodResourcesResponse()
    devices = await bench.kubelet.devices(SHARED, until=lambda d: len(healthy(d)) == 16)
    assert (await bench.kubelet.allocate(SHARED, "GPU-0::0")).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


async def test_an_answer_survives_the_agent_even_if_kubelet_never_showed_it(bench: Bench) -> None:
    bench.clock = PatientClock()  # what kubelet never shows counts for ten seconds
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.devices(GPU)
    await bench.kubelet.allocate(GPU, "GPU-3")
    await bench.end()
    bench.configure(FOUR)
    bench.start()
    devices = await bench.kubelet.devices(SHARED)
    assert {name.partition("::")[0] for name in devices.keys() - healthy(devices)} == {"GPU-3"}


async def test_pods_of_a_plugin_before_us_are_known_from_kubelet(bench: Bench) -> None:
    bench.kubelet.show_pod("old", GPU, "GPU-1")
    bench.configure(FOUR)
    await bench.kubelet.start()
    bench.start()
    devices = await bench.kubelet.devices(SHARED)
    assert {name.partition("::")[0] for name in devices.keys() - healthy(devices)} == {"GPU-1"}


async def test_while_kubelet_is_silent_its_checkpoint_counts(bench: Bench) -> None:
    bench.kubelet.plugins.mkdir(parents=True)
    entry = {
        "PodUID": "u",
        "ContainerName": "c",
        "ResourceName": GPU,
        "DeviceIDs": {"0": ["GPU-2"]},
        "AllocResp": "",
    }
    file = bench.kubelet.plugins / "kubelet_internal_checkpoint"
    file.write_text(
        json.dumps({"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {}}, "Checksum": 1})
    )
    bench.configure(FOUR)
    bench.kubelet.silent = True
    bench.start()
    await bench.kubelet.start()
    devices = await bench.kubelet.devices(SHARED)
    assert {name.partition("::")[0] for name in devices.keys() - healthy(devices)} == {"GPU-2"}
    bench.kubelet.silent = False
    await bench.kubelet.devices(SHARED, until=lambda d: len(healthy(d)) == 16)  # kubelet shows no such pod


async def test_a_restarted_kubelet_is_registered_at_again(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.registered(GPU)
    for _ in range(3):
        await bench.kubelet.stop()
        await bench.kubelet.start()
        assert (await bench.kubelet.registered(GPU)).endpoint == "nvidia-gpu.sock"
        await bench.kubelet.devices(GPU)
    assert (await bench.kubelet.allocate(GPU, "GPU-0")).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"


async def test_no_look_now_and_then_is_needed_to_meet_a_restarted_kubelet(bench: Bench) -> None:
    await bench.kubelet.start()
    clock = StoppableClock()
    bench.start(clock)
    await bench.kubelet.registered(GPU)
    await bench.kubelet.devices(GPU)
    clock.stopped.set()
    for _ in range(2):
        await bench.kubelet.stop()
        await bench.kubelet.start()
        await bench.kubelet.registered(GPU)
    (bench.kubelet.plugins / "nvidia-gpu.sock").unlink()
    await bench.kubelet.registered(GPU)


async def test_a_vanished_socket_is_opened_and_registered_again(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.registered(GPU)
    for _ in range(3):
        (bench.kubelet.plugins / "nvidia-gpu.sock").unlink()
        await bench.kubelet.registered(GPU)
        assert (bench.kubelet.plugins / "nvidia-gpu.sock").is_socket()
    await bench.kubelet.allocate(GPU, "GPU-0")


async def test_a_wiped_folder_is_made_and_registered_in_again(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.registered(GPU)
    await bench.kubelet.stop()
    shutil.rmtree(bench.kubelet.plugins)
    await bench.kubelet.start()
    await bench.kubelet.registered(GPU)
    await bench.kubelet.devices(GPU)
    await bench.kubelet.allocate(GPU, "GPU-0")


async def test_bytes_that_are_no_http2_disturb_nobody(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.devices(GPU)
    for garbage in (
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00" * 4096,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 4096,
    ):
        opening = asyncio.open_unix_connection(str(bench.kubelet.plugins / "nvidia-gpu.sock"))
        async with connection(opening) as (_, writer):
            writer.write(garbage)
        await bench.kubelet.allocate(GPU, "GPU-0")


@pytest.mark.parametrize(
    ("available", "required", "size", "chosen"),
    [
        pytest.param(["GPU-1"], ["GPU-2"], 1, ["GPU-1"], id="a required one is not available"),
        pytest.param(["GPU-1"], [], 5, ["GPU-1"], id="more than there are"),
        pytest.param(["GPU-1"], [], 0, [], id="none"),
        pytest.param(["GPU-1"], [], -1, [], id="fewer than none"),
        pytest.param([], [], 1, [], id="of nothing"),
        pytest.param(["x::y", "GPU-3"], [], 1, ["GPU-3"], id="an id that is none of ours comes last"),
    ],
)
async def test_odd_questions_for_a_preference_are_answered(
    bench: Bench, available: list[str], required: list[str], size: int, chosen: list[str]
) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.devices(GPU)
    asked = dp.ContainerPreferredAllocationRequest(
        available_deviceIDs=available, must_include_deviceIDs=required, allocation_size=size
    )
    request = dp.PreferredAllocationRequest(container_requests=[asked])
    answer = await bench.kubelet.call(GPU, "GetPreferredAllocation", request, dp.PreferredAllocationResponse)
    assert [list(one.deviceIDs) for one in answer.container_responses] == [chosen]


async def test_kubelet_may_come_after_the_agent(bench: Bench) -> None:
    bench.start()
    await bench.kubelet.start()
    await bench.kubelet.registered(GPU)


async def test_devices_that_change_fail_or_leave_are_shown(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.devices(GPU)
    bench.hardware("GPU-0", "GPU-1", "GPU-2", "GPU-9")
    await bench.kubelet.devices(GPU, until=lambda d: healthy(d) == {"GPU-0", "GPU-1", "GPU-2", "GPU-9"})
    bench.hardware("GPU-0", "GPU-1", GPU_1="lost")
    devices = await bench.kubelet.devices(GPU, until=lambda d: len(d) == 2)
    assert devices == {"GPU-0": "Healthy", "GPU-1": "Unhealthy"}
    with pytest.raises(grpc.aio.AioRpcError, match=r"GPU-1 is unhealthy \(GPU is lost\)"):
        await bench.kubelet.allocate(GPU, "GPU-1")
    (bench.root / "hardware.json").unlink()
    await bench.kubelet.devices(GPU, until=lambda d: d and not healthy(d))
    bench.hardware("GPU-0")
    await bench.kubelet.devices(GPU, until=lambda d: healthy(d) == {"GPU-0"})


async def test_every_open_stream_sees_every_change(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    request = await bench.kubelet.registered(GPU)
    await bench.kubelet.devices(GPU)
    queues: list[asyncio.Queue[dict[str, str] | None]] = [asyncio.Queue() for _ in range(3)]
    channel = grpc.aio.insecure_channel(f"unix:{bench.kubelet.plugins / request.endpoint}")
    for queue in queues:
        bench.kubelet.tasks.append(asyncio.create_task(bench.kubelet._watch(channel, queue)))
    async with asyncio.timeout(PATIENCE_S):
        for queue in queues:
            assert len(await queue.get() or {}) == 4
        bench.hardware("GPU-0")
        for queue in queues:
            assert await queue.get() == {"GPU-0": "Healthy"}
    await channel.close()


async def test_a_bad_configuration_changes_nothing_even_after_a_restart(bench: Bench) -> None:
    bench.configure(FOUR)
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.devices(SHARED)
    await bench.end()
    bench.configure("version: v1\nsharing: {timeSlicing: {resources: [{name: gpu, replicas: 1}]}}")
    bench.start()
    assert len(await bench.kubelet.devices(SHARED, until=healthy)) == 16
    assert bench.kubelet.lists.keys() == {SHARED}


async def test_cancelled_it_removes_its_sockets_and_ends_clean(bench: Bench) -> None:
    await bench.kubelet.start()
    task = bench.start()
    await bench.kubelet.registered(GPU)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {file.name for file in bench.kubelet.plugins.iterdir()} == {"kubelet.sock"}


async def test_a_second_agent_on_the_node_is_refused(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.registered(GPU)
    options = AgentOptions("node-1", f"scenario:{bench.root / 'hardware.json'}", bench.root)
    with pytest.raises(HardwareError, match="another agent runs on this node"):
        await run_agent(options, api=None, clock=FastClock())


async def test_a_folder_without_permission_is_tried_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.kubelet.start()
    blocker = bench.kubelet.plugins / ".nvidia-gpu.sock"
    blocker.mkdir()  # works for root too, whom no permission stops
    bench.start()
    refused = asyncio.Event()
    handler = logging.Handler()
    handler.emit = lambda record: refused.set() if "opened as a socket" in record.getMessage() else None  # type: ignore[method-assign]
    monkeypatch.setattr(logging.getLogger("tonnage.agent.plugin.device_plugin"), "handlers", [handler])
    async with asyncio.timeout(PATIENCE_S):
        await refused.wait()
    blocker.rmdir()
    await bench.kubelet.registered(GPU)


async def test_what_cannot_be_written_down_is_not_given_out(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.devices(GPU)
    blocker = bench.root / "var/lib/tonnage/allocations"
    blocker.mkdir()  # the ledger cannot take its place: as a full disk, but for root too
    (blocker / "x").touch()
    with pytest.raises(grpc.aio.AioRpcError, match="allocations cannot be written"):
        await bench.kubelet.allocate(GPU, "GPU-0")
    (blocker / "x").unlink()
    blocker.rmdir()
    await bench.kubelet.allocate(GPU, "GPU-0")


async def test_a_request_of_five_megabytes_is_refused_and_the_next_answered(bench: Bench) -> None:
    await bench.kubelet.start()
    bench.start()
    await bench.kubelet.devices(GPU)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await bench.kubelet.allocate(GPU, "x" * (5 << 20))
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    await bench.kubelet.allocate(GPU, "GPU-0")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        pytest.param({"node_name": "No de"}, "not a node's name", id="node name"),
        pytest.param({"devices": "scenario:"}, "lacks a file name", id="no file"),
        pytest.param({"devices": "rocm"}, "unknown devices 'rocm'", id="unknown vendor"),
        pytest.param({"config_map": "name"}, "not a ConfigMap: 'name'", id="no namespace"),
    ],
)
async def test_options_are_checked(tmp_path: Path, options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        await run_agent(
            AgentOptions(**{"node_name": "n", "root": tmp_path, **options}), api=None, clock=FastClock()
        )
