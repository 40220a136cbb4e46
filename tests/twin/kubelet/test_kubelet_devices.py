"""The kubelet and a device plugin over real sockets: allocation, loss, restart (KUB-2, KUB-4, KUB-5)."""

from __future__ import annotations

import json
from typing import Any

import grpc.aio
import pytest

GPU = "nvidia.com/gpu"
World = Any


async def test_a_registered_plugin_shows_on_the_node(world: World) -> None:
    await world.plugin(count=4)
    assert (world.capacity(), world.allocatable()) == ("4", "4")


async def test_an_unhealthy_device_lowers_allocatable_and_not_capacity(world: World) -> None:
    """KUB-2."""
    plugin = await world.plugin(count=4)
    plugin.set_health("GPU-2", healthy=False)
    await world.api.until(lambda: world.allocatable() == "3")
    assert world.capacity() == "4"
    plugin.set_health("GPU-2", healthy=True)
    await world.api.until(lambda: world.allocatable() == "4")


async def test_a_plugin_that_dies_takes_allocatable_at_once_and_capacity_after_five_minutes(
    world: World,
) -> None:
    plugin = await world.plugin(count=4)
    await plugin.stop()
    await world.api.until(lambda: world.allocatable() == "0")
    assert world.capacity() == "4"
    await world.clock.advance(301)
    await world.api.until(lambda: world.capacity() == "0")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        pytest.param({"version": "v1alpha"}, 'API version "v1alpha" is not supported', id="another version"),
        pytest.param(
            {"resource_name": "gpu"}, 'the ResourceName "gpu" is invalid', id="no extended resource"
        ),
        pytest.param({"endpoint": "nobody.sock"}, "failed to dial device plugin", id="nobody listens"),
        pytest.param(
            {"endpoint": "../x.sock"}, "is not a name in the plugin folder", id="outside the folder"
        ),
    ],
)
async def test_a_bad_registration_is_refused(
    world: World, monkeypatch: pytest.MonkeyPatch, changes: dict[str, str], words: str
) -> None:
    monkeypatch.setattr("tonnage.twin.kubelet.plugins._DIAL_S", 0.05)
    plugin = await world.plugin(count=1)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await plugin.register(**changes)
    assert words in (refused.value.details() or "")


async def test_a_pod_gets_the_devices_that_the_plugin_prefers(world: World) -> None:
    plugin = await world.plugin(count=4)
    world.bind("train", gpus=2)
    await world.phase("train", "Running")
    assert plugin.preferences == [(["GPU-0", "GPU-1", "GPU-2", "GPU-3"], [], 2)]
    assert plugin.allocations == [["GPU-2", "GPU-3"]]
    assert world.held("train") == ["GPU-2", "GPU-3"]


async def test_a_plugin_without_preferences_is_not_asked_for_them(world: World) -> None:
    plugin = await world.plugin(count=4, prefers=False)
    world.bind("train", gpus=2)
    await world.phase("train", "Running")
    assert plugin.preferences == []
    assert len(plugin.allocations[0]) == 2


async def test_too_many_devices_are_refused_in_the_kubelets_words(world: World) -> None:
    await world.plugin(count=1)
    world.bind("greedy", gpus=2)
    status = await world.phase("greedy", "Failed")
    assert status["reason"] == "UnexpectedAdmissionError"
    assert status["message"] == (
        "Pod was rejected: Allocate failed due to requested number of devices unavailable for "
        "nvidia.com/gpu. Requested: 2, Available: 1, which is unexpected"
    )
    await world.api.until(lambda: world.api.events("greedy"))
    assert world.api.events("greedy")[0].startswith("Warning UnexpectedAdmissionError Allocate failed due to")


async def test_a_plugins_refusal_stands_in_the_pods_status(world: World) -> None:
    """KUB-4."""
    plugin = await world.plugin(count=2)
    plugin.refusal = "invalid request: maximum request size for shared resources is 1; found 2"
    world.bind("two", gpus=2)
    status = await world.phase("two", "Failed")
    assert status["message"] == (
        "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid request: maximum "
        "request size for shared resources is 1; found 2, which is unexpected"
    )
    assert world.held("two") == []


async def test_a_finished_pods_devices_are_given_to_the_next(world: World) -> None:
    await world.plugin(count=1)
    world.bind("first", gpus=1, command=["true"], restartPolicy="Never")
    await world.phase("first", "Succeeded")
    world.bind("second", gpus=1)
    await world.phase("second", "Running")


async def test_after_a_restart_plugins_register_again_and_no_pod_loses_its_device(world: World) -> None:
    """KUB-5."""
    plugin = await world.plugin(count=2)
    world.bind("train", gpus=1)
    await world.phase("train", "Running")
    before = world.held("train")
    socket = plugin.socket
    await world.kubelet.restart()
    assert not socket.exists()  # a starting kubelet clears the folder; that is how a plugin notices
    await world.api.until(lambda: world.allocatable() == "0")
    await plugin.stop()
    await plugin.start()
    await plugin.register()
    await world.api.until(lambda: world.allocatable() == "2")
    assert world.held("train") == before
    world.bind("next", gpus=1)
    await world.phase("next", "Running")
    assert set(world.held("next")).isdisjoint(before)
    assert world.api.pod("train")["status"]["containerStatuses"][0]["restartCount"] == 0


async def test_before_the_plugin_is_back_a_new_pod_is_refused(world: World) -> None:
    await world.plugin(count=2)
    await world.kubelet.restart()
    world.bind("early", gpus=1)
    status = await world.phase("early", "Failed")
    assert "no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu" in status["message"]


async def test_a_second_registration_replaces_the_first(world: World) -> None:
    plugin = await world.plugin(count=2)
    await plugin.register()
    await plugin.asked.until(lambda: plugin.streams == 2)
    plugin.set_health("GPU-0", healthy=False)
    await world.api.until(lambda: world.allocatable() == "1")
    world.bind("train", gpus=1)
    await world.phase("train", "Running")


async def test_a_full_disk_refuses_the_pod_and_gives_nothing_away(world: World) -> None:
    await world.plugin(count=1)
    world.disk.full = True
    world.bind("unlucky", gpus=1)
    status = await world.phase("unlucky", "Failed")
    assert status["message"].endswith(
        'failed to write checkpoint file "kubelet_internal_checkpoint": No space left on device, '
        "which is unexpected"
    )
    world.disk.full = False
    world.bind("lucky", gpus=1)
    await world.phase("lucky", "Running")


async def test_a_slow_disk_delays_the_start_and_the_container_waits_for_the_checkpoint(world: World) -> None:
    plugin = await world.plugin(count=1)
    world.disk.delay_s = 5.0
    world.bind("patient", gpus=1)
    await plugin.asked.until(lambda: plugin.allocations)
    await world.clock.settle()
    assert not world.runtime.containers("uid-patient")
    while not world.runtime.containers("uid-patient"):
        await world.clock.advance(1)
    data = json.loads(world.kubelet.paths.checkpoint.read_bytes())["Data"]
    assert [entry["PodUID"] for entry in data["PodDeviceEntries"]] == ["uid-patient"]


async def test_a_corrupt_checkpoint_is_left_out(world: World) -> None:
    world.kubelet.paths.checkpoint.write_bytes(b'{"Data":{},"Checksum":1}')
    await world.kubelet.restart()
    await world.plugin(count=1)
    world.bind("train", gpus=1)
    await world.phase("train", "Running")
