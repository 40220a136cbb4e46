"""Which configuration a node runs, and that a bad one changes nothing but is said."""

from __future__ import annotations

import asyncio
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from support.configured_node import MAP, replicas, running, shared
from tonnage.agent.config.reading import Reading
from tonnage.decide.node.choose_config import ConfigInForce, Wishes
from tonnage.model.node.plugin_settings import LabelPlace, MigStrategy, Override
from tonnage.wire.kinds import NODE

BAD = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}"


async def test_shr_3_each_label_has_its_configuration_and_content_counts(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    """#364, NVIDIA/gpu-operator#1144: only another label was noticed."""
    cluster.configs(default=replicas(2), inference=replicas(4), development=replicas(8))
    cluster.label("node-1", "inference")
    async with running(tmp_path, cluster, clock) as config:
        assert (await config.until(lambda c: shared(c) == 4)).choice.key == "inference"
        cluster.label("node-1", "development")
        await config.until(lambda c: shared(c) == 8)
        cluster.label("node-1", None)
        await config.until(lambda c: shared(c) == 2)
        cluster.configs(default=replicas(3))
        await config.until(lambda c: shared(c) == 3)


async def test_shr_3_a_wrong_label_keeps_the_last_good_one_and_says_so(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    cluster.configs(inference=replicas(4))
    cluster.label("node-1", "inference")
    async with running(tmp_path, cluster, clock) as config:
        await config.until(lambda c: shared(c) == 4)
        cluster.label("node-1", "inferense")
        current = await config.until(lambda c: c.error)
        assert shared(current) == 4
        assert "no device-plugin configuration 'inferense'" in current.error
        await cluster.until(lambda: any(r == "DevicePluginConfigRefused" for r, _ in cluster.events()))
        cluster.label("node-1", "inference")
        assert shared(await config.until(lambda c: not c.error)) == 4


async def test_shr_3_one_replica_is_refused_with_line_and_remedy(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    cluster.configs(default=replicas(4))
    async with running(tmp_path, cluster, clock) as config:
        await config.until(lambda c: shared(c) == 4)
        cluster.configs(default=BAD)
        current = await config.until(lambda c: c.error)
        assert shared(current) == 4
        assert f"{MAP}[default]:2:" in current.error
        assert "leave the sharing section out" in current.error


async def test_a_text_of_aliases_is_refused_and_named_in_little_memory(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    """107 KB took the agent to a gigabyte, and so to its limit, for ever: what ran last was not kept."""
    cluster.configs(default=replicas(4))
    async with running(tmp_path, cluster, clock) as config:
        await config.until(lambda c: shared(c) == 4)
        tracemalloc.start()
        try:
            cluster.configs(default=f"version: v1\nname: &long {'x' * 95_000}\nlist:\n" + "- *long\n" * 3000)
            current = await config.until(lambda c: c.error)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert shared(current) == 4
        assert current.error.startswith(f"{MAP}[default]:91:3: more than 8 MiB, where an alias counts as")
        assert "such as *long here" in current.error
        assert peak < 16 << 20
        cluster.configs(default=replicas(5))
        await config.until(lambda c: shared(c) == 5 and not c.error)


async def test_the_same_refusal_again_is_counted_on_one_event(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    cluster.configs(default=replicas(4))

    def refusals() -> list[Any]:
        return [o for o in cluster.objects.values() if o.get("reason") == "DevicePluginConfigRefused"]

    async with running(tmp_path, cluster, clock) as config:
        await config.until(lambda c: shared(c) == 4)
        for turn in range(1, 4):
            cluster.configs(default=BAD)
            await config.until(lambda c: c.error)
            await cluster.until(lambda turn=turn: [o["count"] for o in refusals()] == [turn])
            cluster.configs(default=replicas(4))
            await config.until(lambda c: not c.error)


async def test_a_file_is_followed(tmp_path: Path, clock: Any) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(replicas(2))
    async with running(tmp_path / "state", None, clock, file) as config:
        await config.until(lambda c: shared(c) == 2)
        file.write_text(replicas(5))
        await config.until(lambda c: shared(c) == 5)
        file.unlink()
        current = await config.until(lambda c: c.error)
        assert shared(current) == 5
        assert "cannot be read" in current.error


async def test_flags_win_over_every_text_and_over_none(tmp_path: Path, cluster: Any, clock: Any) -> None:
    told = (Override(("flags", "migStrategy"), "mixed", "--mig-strategy"),)
    async with running(tmp_path, cluster, clock, overrides=told) as config:
        assert (await config.until(lambda c: True)).config.mig_strategy is MigStrategy.MIXED
        cluster.configs(default=replicas(3) + "\nflags: {migStrategy: none}")
        current = await config.until(lambda c: shared(c) == 3)
        assert current.config.mig_strategy is MigStrategy.MIXED


async def test_a_lenient_node_says_what_it_overlooked(tmp_path: Path, cluster: Any, clock: Any) -> None:
    cluster.configs(default=replicas(4))
    async with running(tmp_path, cluster, clock, lenient=True) as config:
        await config.until(lambda c: shared(c) == 4)
        cluster.configs(default=replicas(5) + "\ncolour: red")
        current = await config.until(lambda c: shared(c) == 5)
        remark = f"{MAP}[default]:3:1 colour: unknown, left out"
        assert current.config.remarks == (remark,)
        await cluster.until(lambda: any(remark in message for _, message in cluster.events()))


async def test_of_a_thousand_configurations_in_a_row_the_last_one_runs(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    texts = [
        replicas(2),
        BAD,
        replicas(3),
        "version: v2",
        "{",
        replicas(4),
        "",
        "flags: {migStrategy: single}",
    ]
    cluster.configs(default=replicas(7))
    async with running(tmp_path, cluster, clock) as config:
        await config.until(lambda c: shared(c) == 7)
        for turn in range(1000):
            cluster.configs(default=texts[turn % len(texts)])
            if turn % 7 == 0:
                await asyncio.sleep(0)
            current = config.current
            assert current is not None
            assert shared(current) in (1, 2, 3, 4, 7)
        cluster.configs(default=replicas(9))
        current = await config.until(lambda c: shared(c) == 9)
        assert not current.error
        assert len(asyncio.all_tasks()) < 30


async def test_the_environment_of_the_config_manager_chooses(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    """Another label, another default, and what is asked for without either."""
    wishes = Wishes(MAP, "example.com/config", "basic", ("single",))
    cluster.configs(basic=replicas(2), inference=replicas(4))
    cluster.put(NODE, "node-1", metadata={"labels": {"nvidia.com/device-plugin.config": "inference"}})
    async with running(tmp_path, cluster, clock, wishes=wishes) as config:
        await config.until(lambda c: shared(c) == 2)
        cluster.put(NODE, "node-1", metadata={"labels": {"example.com/config": "inference"}})
        await config.until(lambda c: shared(c) == 4)
        cluster.put(NODE, "node-1", metadata={"labels": {}})
        await config.until(lambda c: shared(c) == 2)
        cluster.configs(inference=replicas(5), other=replicas(6))
        current = await config.until(lambda c: c.error)
        assert (shared(current), "no device-plugin configuration 'basic'" in current.error) == (2, True)


@pytest.mark.parametrize(
    ("said", "place", "remarks"),
    [
        ("true", LabelPlace.OBJECT, 0),
        ("false", LabelPlace.FILE, 0),
        ("true", LabelPlace.FILE, 1),
        ("false", LabelPlace.DIRECT, 1),
        ("false", LabelPlace.NONE, 0),
        ("null", LabelPlace.DIRECT, 0),
    ],
)
def test_a_text_that_wants_labels_elsewhere_is_told_so(said: str, place: str, remarks: int) -> None:
    reading = Reading(Wishes(MAP), labels=place)
    found = reading.parsed(f"flags: {{useNodeFeatureAPI: {said}}}", "f").remarks
    assert len(found) == remarks
    assert all(f"--labels {place}" in remark for remark in found)


async def test_auto_is_settled_by_what_the_node_says_and_a_restart_is_no_news(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    auto = "flags: {plugin: {deviceListStrategy: auto}}"
    cluster.configs(default=auto)
    info = {"kubeletVersion": "v1.35.8", "containerRuntimeVersion": "containerd://2.2.1"}

    def strategy(current: ConfigInForce) -> list[str]:
        return [each.value for each in current.config.device_list]

    async with running(tmp_path, cluster, clock) as config:
        current = await config.until(lambda c: c.choice.key == "default")
        assert strategy(current) == ["envvar"]
        cluster.put(NODE, "node-1", status={"nodeInfo": info})
        current = await config.until(lambda c: strategy(c) == ["cdi-cri"])
        assert "containerd 2.2.1 have CDI" in current.device_list
        cluster.configs(default="{")
        assert strategy(await config.until(lambda c: c.error)) == ["cdi-cri"]
        cluster.configs(default=auto)
        await config.until(lambda c: not c.error)
    before = cluster.events()
    async with running(tmp_path, cluster, clock) as config:
        asked = config.board.config_confirmed
        current = await config.until(lambda c: asked.value and "have CDI" in c.device_list)
        assert strategy(current) == ["cdi-cri"]
    assert cluster.events() == before
