"""A controller that is killed before or after any write of an upgrade: the next one comes to the same end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from controller.driver_bench import DRIVERS, UPGRADES, DriverBench
from controller.test_crash import Fuse, is_killed
from support.sampling import Sampler
from tonnage.controller.main import run_controller
from tonnage.wire.kinds import NODE, NVIDIA_DRIVER


async def _life(at: int | None, *, after: bool = False) -> tuple[Fuse, dict[str, Any]]:
    """The writes of a controller that is killed at one, and what the cluster comes to by the next one."""
    bench = DriverBench()
    await bench.install()
    await bench.machine("a")
    await bench.machine("b")
    await bench.machine("c", system="rhel", version="9.4")
    cordon: Any = {"spec": {"unschedulable": True}}
    await bench.api.patch(NODE, "b", cordon)
    both = {**UPGRADES, "maxParallelUpgrades": 2}
    await bench.drivers("580.95.05", upgradePolicy=both)
    bench.start(DRIVERS)
    await bench.clock.advance(6)
    bench.tasks.pop().cancel()
    await bench.clock.advance(1)
    await bench.drivers("595.91.07", upgradePolicy=both)
    await bench.driver("unused")
    no_driver: Any = {"metadata": {"labels": {"nvidia.com/gpu.deploy.driver": "false"}}}
    await bench.api.patch(NODE, "c", no_driver)  # its group has no node any more
    fuse = Fuse(bench.api, at, after=after)
    second = asyncio.create_task(
        run_controller(replace(DRIVERS, identity="second"), api=fuse, clock=bench.clock)
    )
    await bench.clock.advance(30)
    if at is None:
        second.cancel()
    [ended] = await asyncio.gather(second, return_exceptions=True)
    assert at is None or is_killed(ended), ended
    bench.start(replace(DRIVERS, identity="next"))
    await bench.clock.advance(60)
    end = {
        "states": await bench.states(),
        "running": await bench.running(),
        "cordoned": [node.metadata.name for node in await bench.nodes() if node.spec.unschedulable],
        "labels": [await bench.labels(name) for name in "abc"],
        "sets": [daemon_set.metadata.name for daemon_set in await bench.sets()],
        "unused": (await bench.api.get(NVIDIA_DRIVER, "unused")).status["state"],
        "notes": [
            sorted(key for key in node.metadata.annotations if "upgrade" in key)
            for node in await bench.nodes()
        ],
        "missed": bench.most_missing,
    }
    for task in bench.tasks:
        task.cancel()
    await asyncio.gather(*bench.tasks, return_exceptions=True)
    return fuse, end


@pytest.mark.long
async def test_killed_at_any_write_of_an_upgrade_the_next_controller_ends_it(sample: Sampler) -> None:
    fuse, whole = await _life(None)
    writes = fuse.writes
    kinds = {"Lease", "Node", "DaemonSet", "Pod", "ClusterPolicy", "NVIDIADriver", "Event"}
    assert kinds == set(writes)
    assert "DaemonSet" in {writes[number] for number in fuse.deleted}
    assert whole["sets"] == ["nvidia-driver-daemonset-ubuntu22.04"]
    assert whole["unused"] == "disabled"
    assert {whole["states"][name] for name in "ab"} == {"upgrade-done"}
    assert whole["cordoned"] == ["b"]
    assert whole["missed"] == 2
    assert all("595.91.07" in image for image in whole["running"].values())
    at_lease = [number for number, kind in enumerate(writes) if kind == "Lease"]
    points = [
        (number, after)
        for number in range(len(writes))
        if number not in at_lease[2:]
        for after in (False, True)
    ]
    rare = {*fuse.deleted, *(number for number, kind in enumerate(writes) if kind == "NVIDIADriver")}
    always = [point for point in points if point[0] in rare]
    others = [point for point in points if point[0] not in rare]
    sampled = sample.items("moments of a driver's upgrade", others, share=Fraction(1, 5))
    for at, after in [*always, *sampled]:
        _, end = await _life(at, after=after)
        assert end == whole, f"killed {'after' if after else 'before'} write {at} ({writes[at]})"
