"""Bad days on the whole twin: an agent, a kubelet or a GPU dies, and no device is lost or given twice."""

from __future__ import annotations

import asyncio

from support.fleet import Fleet
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import CONFIG_MAP, NODE, POD

CONFIG_LABEL = "nvidia.com/device-plugin.config"
ONE_REPLICA = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}\n"
REPLACED = "GPU-00000000-0000-4000-8000-000000000001"


async def _agent_of(fleet: Fleet, node: str) -> str:
    agents = await fleet.api.list(POD, namespace="tonnage-system", field_selector=f"spec.nodeName={node}")
    return next(pod.metadata.name for pod in agents.items if not pod.metadata.deletion_timestamp)


async def _choose_config(fleet: Fleet, key: str | None) -> None:
    await fleet.api.patch(NODE, "t4-0", {"metadata": {"labels": {CONFIG_LABEL: key}}})


async def test_a_killed_agent_takes_its_devices_out_and_its_successor_brings_them_back(fleet: Fleet) -> None:
    await fleet.run_pod("train")
    await fleet.until_phase("train", "Running")
    held = await fleet.uuids_in("train")
    doomed = await _agent_of(fleet, "t4-0")
    seen: list[int] = []

    async def gone() -> bool:
        seen.append(await fleet.allocatable())
        return seen[-1] == 0

    waiting = asyncio.create_task(fleet.until(gone))
    await fleet.api.delete(POD, doomed, namespace="tonnage-system", grace_period_s=0)
    await waiting

    async def back() -> bool:
        return await fleet.allocatable() == 2

    await fleet.until(back)
    assert await _agent_of(fleet, "t4-0") != doomed
    assert await fleet.capacity() == 2
    assert len(held) == 1


async def test_a_lost_gpu_leaves_capacity_and_lowers_allocatable(fleet: Fleet) -> None:
    """KUB-2"""
    fleet.gpu_node.hardware.set_health(1, "lost")

    async def lowered() -> bool:
        return await fleet.allocatable() == 1

    await fleet.until(lowered)
    assert await fleet.capacity() == 2
    fleet.gpu_node.hardware.set_health(1, "healthy")

    async def recovered() -> bool:
        return await fleet.allocatable() == 2

    await fleet.until(recovered)


async def test_an_exchanged_gpu_is_what_the_next_pod_sees(fleet: Fleet) -> None:
    fleet.gpu_node.hardware.exchange(0, REPLACED)

    async def published() -> bool:
        status = await fleet.gpu_status()
        return any(device["uuid"] == REPLACED for device in status.get("devices", []))

    await fleet.until(published)
    await fleet.run_pod("both", count=2)
    await fleet.until_phase("both", "Running")
    assert REPLACED in await fleet.uuids_in("both")


async def test_a_restarted_kubelet_gets_its_plugins_back_and_no_pod_loses_its_device(fleet: Fleet) -> None:
    """KUB-5"""
    await fleet.run_pod("train")
    await fleet.until_phase("train", "Running")
    before = await fleet.uuids_in("train")
    await fleet.gpu_node.kubelet.restart()

    async def registered_again() -> bool:
        # A pod bound before that fails, on the real kubelet as well: its devices count as unhealthy.
        return fleet.gpu_node.kubelet.devices.resources.capacity_and_allocatable().get("nvidia.com/gpu") == (
            2,
            2,
        )

    await fleet.until(registered_again)
    await fleet.run_pod("second")
    await fleet.until_phase("second", "Running")
    assert await fleet.uuids_in("train") == before
    assert (await fleet.uuids_in("second")).isdisjoint(before)


async def test_a_gpu_held_whole_is_not_free_as_a_share(fleet: Fleet) -> None:
    await fleet.run_pod("whole")
    await fleet.until_phase("whole", "Running")
    held = await fleet.uuids_in("whole")
    await _choose_config(fleet, "shared")

    async def shared_half() -> bool:
        return await fleet.allocatable("nvidia.com/gpu.shared") == 4

    await fleet.until(shared_half)
    assert await fleet.capacity("nvidia.com/gpu.shared") == 8
    for name in ("a", "b", "c", "d"):
        await fleet.run_pod(name, "nvidia.com/gpu.shared")
    for name in ("a", "b", "c", "d"):
        await fleet.until_phase(name, "Running")
        assert (await fleet.uuids_in(name)).isdisjoint(held)
    await fleet.api.delete(POD, "whole", namespace="default", grace_period_s=0)

    async def all_free() -> bool:
        return await fleet.allocatable("nvidia.com/gpu.shared") == 8

    await fleet.until(all_free)


async def test_a_gpu_of_an_init_container_is_not_free_under_another_name(fleet: Fleet) -> None:
    """kubelet's pod resources API does not list ordinary init containers; the pod is named all the same."""
    init: JsonObject = {
        "name": "load",
        "image": "busybox:1.37",
        "command": ["sleep", "infinity"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    main: JsonObject = {"name": "c", "image": "busybox:1.37", "command": ["sleep", "infinity"]}
    spec: JsonObject = {"initContainers": [init], "containers": [main], "terminationGracePeriodSeconds": 0}
    await fleet.api.create(POD, {"metadata": {"name": "loading"}, "spec": spec}, namespace="default")

    async def held_by_name() -> bool:
        status = await fleet.gpu_status()
        holders = [holder for device in status.get("devices", []) for holder in device["holders"]]
        return [(holder.get("pod"), holder.get("container")) for holder in holders] == [("loading", "load")]

    await fleet.until(held_by_name)
    await _choose_config(fleet, "shared")

    async def shared_half() -> bool:
        return await fleet.allocatable("nvidia.com/gpu.shared") == 4

    await fleet.until(shared_half)
    await fleet.api.delete(POD, "loading", namespace="default", grace_period_s=0)

    async def all_free() -> bool:
        return await fleet.allocatable("nvidia.com/gpu.shared") == 8

    await fleet.until(all_free)


async def test_a_bad_config_keeps_the_last_good_one_and_says_so(fleet: Fleet) -> None:
    """SHR-3: a wrong label value keeps what ran and is reported."""
    await _choose_config(fleet, "sharde")

    async def reported() -> bool:
        status = await fleet.gpu_status()
        return "sharde" in str(status.get("config", {}))

    await fleet.until(reported)
    assert await fleet.allocatable() == 2
    await fleet.api.patch(
        CONFIG_MAP,
        "device-plugin-config",
        {"data": {"sharde": ONE_REPLICA}},
        namespace="tonnage-system",
    )

    async def explained() -> bool:
        status = await fleet.gpu_status()
        return "at least 2" in str(status.get("config", {})) or ">= 2" in str(status.get("config", {}))

    await fleet.until(explained)
    assert await fleet.allocatable() == 2


async def test_cut_watches_lose_nothing(fleet: Fleet) -> None:
    for number in range(2):
        fleet.cluster.server.store.cut_watches()
        await fleet.run_pod(f"pod-{number}")
        fleet.cluster.server.store.cut_watches()
    for number in range(2):
        await fleet.until_phase(f"pod-{number}", "Running")
    first, second = await fleet.uuids_in("pod-0"), await fleet.uuids_in("pod-1")
    assert first.isdisjoint(second)


async def test_a_full_disk_fails_the_pod_and_gives_the_device_to_nobody(fleet: Fleet) -> None:
    fleet.gpu_node.disk.full = True
    await fleet.run_pod("unlucky")
    failed = await fleet.until_phase("unlucky", "Failed")
    assert failed.status.reason == "UnexpectedAdmissionError"
    fleet.gpu_node.disk.full = False
    await fleet.run_pod("both", count=2)
    await fleet.until_phase("both", "Running")


async def test_a_slow_disk_delays_and_loses_nothing(fleet: Fleet) -> None:
    fleet.gpu_node.disk.delay_s = 0.3
    for name in ("a", "b"):
        await fleet.run_pod(name)
    for name in ("a", "b"):
        await fleet.until_phase(name, "Running")
    assert (await fleet.uuids_in("a")).isdisjoint(await fleet.uuids_in("b"))
