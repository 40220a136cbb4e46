"""What a node runs while its configuration is wrong, gone or out of sight: the last good one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from support.configured_node import MAP, replicas, running, shared
from tonnage.agent.config.selection import CHECKPOINT
from tonnage.decide.node.choose_config import Wishes
from tonnage.model.errors import HardwareError
from tonnage.wire.kinds import CONFIG_MAP, NODE


async def test_a_deleted_config_map_keeps_what_ran_and_a_deleted_key_means_it(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    cluster.configs(default=replicas(4))
    async with running(tmp_path, cluster, clock) as config:
        await config.until(lambda c: shared(c) == 4)
        cluster.remove(CONFIG_MAP, "device-plugin-config", "tonnage-system")
        current = await config.until(lambda c: c.error)
        assert shared(current) == 4
        assert "was deleted" in current.error
        cluster.configs(other=replicas(2))
        assert shared(await config.until(lambda c: not c.error)) == 1  # asks for nothing any more: built in


async def test_without_its_node_object_it_goes_on_with_the_configuration_it_had(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    cluster.configs(default=replicas(2), inference=replicas(4))
    cluster.label("node-1", "inference")
    async with running(tmp_path, cluster, clock) as config:
        await config.until(lambda c: shared(c) == 4)
        await config.saved.wait()
    cluster.remove(NODE, "node-1")
    async with running(tmp_path, cluster, clock) as config:
        await config.until(lambda c: shared(c) == 4)
        cluster.configs(default=replicas(2), inference=replicas(5))
        await config.until(lambda c: shared(c) == 5)
        cluster.label("node-1", None)
        await config.until(lambda c: shared(c) == 2)


async def test_what_ran_last_runs_first_while_the_cluster_is_silent(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    cluster.configs(default=replicas(4))
    async with running(tmp_path, cluster, clock) as config:
        await config.until(lambda c: shared(c) == 4)
        async with asyncio.timeout(60):
            await config.saved.wait()
    cluster.reachable = False
    cluster.configs(default=replicas(6))
    async with running(tmp_path, cluster, clock) as config:
        assert shared(await config.until(lambda c: True)) == 4
        cluster.reachable = True
        await config.until(lambda c: shared(c) == 6)


async def test_never_run_and_badly_configured_it_offers_devices_and_says_so(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    cluster.configs(default=replicas(2))
    cluster.label("node-1", "typo")
    async with running(tmp_path, cluster, clock) as config:
        current = await config.until(lambda c: c.error)
        assert shared(current) == 2


async def test_a_damaged_checkpoint_is_set_aside(tmp_path: Path, clock: Any) -> None:
    (tmp_path / CHECKPOINT).write_bytes(b"tonnage-checkpoint v1 " + b"0" * 64 + b"\n{}")
    async with running(tmp_path, None, clock) as config:
        assert shared(await config.until(lambda c: True)) == 1
    assert (tmp_path / f"{CHECKPOINT}.damaged").exists()


async def test_a_disk_that_refuses_stops_nothing(tmp_path: Path, clock: Any) -> None:
    blocked = tmp_path / "state"
    blocked.write_text("a file where a folder should be")
    async with running(blocked, None, clock) as config:
        assert shared(await config.until(lambda c: True)) == 1
        with pytest.raises(HardwareError):
            await config.checkpoints.save("x", b"")


@pytest.mark.parametrize("label", [None, "inference"])
async def test_without_the_right_to_look_the_file_counts_until_the_right_comes(
    tmp_path: Path, cluster: Any, clock: Any, label: str | None
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(replicas(2))
    cluster.configs(default=replicas(4), inference=replicas(4))
    cluster.label("node-1", label)
    cluster.forbidden = {"configmaps"} if label else {"configmaps", "nodes"}
    async with running(tmp_path / "state", cluster, clock, file) as config:
        current = await config.until(lambda c: True)
        assert shared(current) == 2
        why = f"ConfigMap {MAP} is forbidden to this agent"
        assert (why in current.error) == bool(label)
        cluster.forbidden = set()
        await config.until(lambda c: shared(c) == 4)


async def test_never_run_and_every_fallback_fails_it_offers_devices_and_says_so(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    cluster.configs(a=replicas(2), b=replicas(3))
    wishes = Wishes(MAP, fallbacks=("named", "single"))
    async with running(tmp_path, cluster, clock, wishes=wishes) as config:
        current = await config.until(lambda c: c.error)
        assert shared(current) == 1
        assert "all fallbacks failed" in current.error
        assert "its keys: a, b" in current.error
