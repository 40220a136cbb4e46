"""Which configuration a node runs, and that a bad one changes nothing but is said."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.agent_world import events_in, world_of

from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.config_file import MountedConfigFile
from tonnage.adapters.container_runtime import RuntimeFiles
from tonnage.adapters.host_paths import HostPaths
from tonnage.agent.board import NodeBoard
from tonnage.agent.config.reading import Reading
from tonnage.agent.config.selection import CHECKPOINT, NodeConfig
from tonnage.agent.plugin.device_list import DeviceLists
from tonnage.decide.node.choose_config import ConfigInForce, Wishes
from tonnage.model.errors import HardwareError
from tonnage.model.node.plugin_settings import LabelPlace, MigStrategy, Override
from tonnage.wire.kinds import CONFIG_MAP, NODE

MAP = "tonnage-system/device-plugin-config"
BAD = "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 1}]}}"


def replicas(count: int) -> str:
    return (
        f"version: v1\nsharing: {{timeSlicing: {{resources: [{{name: nvidia.com/gpu, replicas: {count}}}]}}}}"
    )


class Told(FolderCheckpoints):
    """Says when something was saved."""

    def __init__(self, folder: Path, saved: asyncio.Event) -> None:
        super().__init__(folder)
        self.saved = saved

    async def save(self, name: str, payload: bytes, *, lasting: bool = True) -> None:
        await super().save(name, payload, lasting=lasting)
        self.saved.set()


class Watched:
    """A running NodeConfig whose changes can be awaited."""

    def __init__(
        self,
        folder: Path,
        cluster: Any,
        clock: Any,
        reading: Reading,
        driver_root: Path | None = None,
        file: Path | None = None,
    ) -> None:
        self.changed = asyncio.Event()
        self.events = events_in("node-1", cluster, clock)
        self.saved = asyncio.Event()
        self.checkpoints = Told(folder, self.saved)
        world = world_of("node-1", cluster, clock, self.checkpoints, self.events)
        lists = DeviceLists(world, RuntimeFiles(folder / "node"))
        host = HostPaths(folder / "node", driver_root)
        config_file = MountedConfigFile(file) if file else None
        self.board = NodeBoard.blank(clock)
        self.board.configuration.subscribe(self.changed.set)
        self.loop = NodeConfig(world, self.board, reading, lists, host=host, file=config_file)

    @property
    def current(self) -> ConfigInForce | None:
        """What runs."""
        return self.board.configuration.value

    async def until(self, condition: Any) -> ConfigInForce:
        async with asyncio.timeout(60):
            while self.current is None or not condition(self.current):
                self.changed.clear()
                await self.changed.wait()
            return self.current


@asynccontextmanager
async def running(
    folder: Path,
    cluster: Any,
    clock: Any,
    file: Path | None = None,
    wishes: Wishes | None = None,
    driver_root: Path | None = None,
    **reading: Any,
) -> AsyncIterator[Watched]:
    told = Reading(wishes or Wishes(MAP), **reading)
    watched = Watched(folder, cluster, clock, told, driver_root, file)
    tasks = [asyncio.create_task(watched.loop.run()), asyncio.create_task(watched.events.run())]
    try:
        yield watched
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def shared(current: ConfigInForce) -> int:
    return current.config.shared[0].replicas if current.config.shared else 1


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


TOOLKIT = "/usr/local/nvidia/toolkit/nvidia-ctk"


def hooked(count: int, path: str = TOOLKIT, root: str = "/") -> str:
    return f"{replicas(count)}\nflags: {{nvidiaDriverRoot: {root}, plugin: {{nvidiaCTKPath: {path}}}}}"


def node_with_toolkit(folder: Path) -> Path:
    """The folder of the hooks' program on a node where that is root's alone."""
    program = folder / "node" / TOOLKIT[1:]
    program.parent.mkdir(parents=True)
    program.touch(0o755)
    for each in (program.parent, *list(program.parents)[1:6]):
        each.chmod(0o755)
    return program.parent


async def test_a_program_for_hooks_that_a_container_can_write_is_refused_and_the_last_good_one_kept(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    """Container runtimes run it as root, whoever may write the ConfigMap."""
    toolkit = node_with_toolkit(tmp_path)
    cluster.configs(default=hooked(4))
    async with running(tmp_path, cluster, clock) as config:
        current = await config.until(lambda c: shared(c) == 4)
        assert (current.error, current.config.cdi.hook_path) == ("", TOOLKIT)
        toolkit.chmod(0o777)
        cluster.configs(default=hooked(8))
        current = await config.until(lambda c: c.error)
        assert (shared(current), current.config.cdi.hook_path) == (4, TOOLKIT)
        assert (
            f"{MAP}[default] flags.plugin.nvidiaCTKPath: nvidiaCTKPath may not be {TOOLKIT}" in current.error
        )
        assert "/usr/local/nvidia/toolkit is writable by others than root (mode 0777)" in current.error
        assert "or give the agent --nvidia-cdi-hook-path" in current.error
        await cluster.until(lambda: any(r == "DevicePluginConfigRefused" for r, _ in cluster.events()))
        toolkit.chmod(0o755)
        cluster.label("node-1", None)
        assert shared(await config.until(lambda c: not c.error)) == 8, "it is looked at again"


async def test_a_program_out_of_the_agents_sight_is_named_by_its_flag_alone(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    (tmp_path / "driver").mkdir()
    cluster.configs(default=replicas(2))
    said = hooked(4, root="/run/nvidia/driver")
    async with running(tmp_path, cluster, clock, driver_root=tmp_path / "driver") as config:
        await config.until(lambda c: shared(c) == 2)
        cluster.configs(default=said)
        current = await config.until(lambda c: c.error)
        assert shared(current) == 2
        assert "the agent does not see the host's files" in current.error
    own = Override(("flags", "plugin", "nvidiaCTKPath"), "/opt/x/nvidia-ctk", "--nvidia-cdi-hook-path")
    async with running(
        tmp_path / "other", cluster, clock, driver_root=tmp_path / "driver", overrides=(own,)
    ) as config:
        current = await config.until(lambda c: shared(c) == 4)
        assert (current.error, current.config.cdi.hook_path) == ("", "/opt/x/nvidia-ctk")


@pytest.mark.parametrize(
    ("flags", "field"),
    [
        ("{nvidiaDriverRoot: /usr/local/nvidia}", "nvidiaDriverRoot"),
        ("{nvidiaDevRoot: /usr/local/nvidia}", "nvidiaDevRoot"),
        ("{mpsRoot: /run/nvidia/mps}", "mpsRoot"),
    ],
)
async def test_a_root_that_others_fill_is_refused_too(
    tmp_path: Path, cluster: Any, clock: Any, flags: str, field: str
) -> None:
    """Its files and nodes would be in containers, and devices of it are what kubelet is told."""
    for name in ("usr/local/nvidia", "run/nvidia/mps"):
        (tmp_path / "node" / name).mkdir(parents=True)
        (tmp_path / "node" / name).chmod(0o777)
    cluster.configs(default=f"{replicas(4)}\nflags: {flags}")
    async with running(tmp_path, cluster, clock) as config:
        current = await config.until(lambda c: c.error)
        assert shared(current) == 1
        assert f"{field} may not be" in current.error


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


async def test_a_deleted_config_map_keeps_what_ran_and_a_deleted_key_means_it(
    tmp_path: Path, cluster: Any, clock: Any
) -> None:
    cluster.configs(default=replicas(4))
    async with running(tmp_path, cluster, clock) as config:
        await config.until(lambda c: shared(c) == 4)
        cluster.remove(CONFIG_MAP, "device-plugin-config", "tonnage-system")
        current = await config.until(lambda c: c.error)
        assert shared(current) == 4
        assert "is gone" in current.error
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
        why = f"ConfigMap {MAP} may not be read by this agent"
        assert (why in current.error) == bool(label)
        cluster.forbidden = set()
        await config.until(lambda c: shared(c) == 4)


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
