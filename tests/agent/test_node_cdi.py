"""The loop that keeps the agent's CDI specs: there before a device is named, and never stale."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from support.agent_context import context_of
from support.dying_loops import KilledError, killed_at
from support.looking import until
from tonnage.adapters.cdi.files import MAX_BYTES, FolderCdi
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.board import NodeBoard
from tonnage.agent.cdi import CdiSpecs, NodeCdi
from tonnage.agent.context import AgentContext
from tonnage.agent.events import NodeEvents
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.loop.effects import ActionPorts
from tonnage.model.devices.device_nodes import DeviceNodes
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import DeviceListStrategy, Injection, PluginConfig
from tonnage.model.names import CDI_GPU_KIND
from tonnage.model.node.plugin_settings import ExtraDevice, MigStrategy

SPEC = "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
LIBRARIES = "usr/lib/x86_64-linux-gnu"
ONE = Inventory((Device("GPU-0", 0, "x", 1, minor=0),), "1.1", nodes=DeviceNodes(frozenset({"/dev/nvidia0"})))
PART = MigDevice("MIG-1", 0, "1g.10gb", gpu_instance=1, compute_instance=0, memory_mib=1)
DIVIDED = replace(
    ONE,
    devices=(replace(ONE.devices[0], mig_enabled=True, migs=(PART,)),),
    nodes=DeviceNodes(
        frozenset({"/dev/nvidia0", "/dev/nvidia-caps/nvidia-cap3", "/dev/nvidia-caps/nvidia-cap4"}),
        capabilities={"gpu0/gi1/access": 3, "gpu0/gi1/ci0/access": 4},
    ),
)
CDI = PluginConfig(device_list=(DeviceListStrategy.CDI_CRI,), mig_strategy=MigStrategy.MIXED)


class Node:
    """A node whose devices and configuration the test sets."""

    def __init__(self, root: Path, context: AgentContext, fuse: int = 1 << 30) -> None:
        self.root = root
        self.board = NodeBoard.blank(context.clock)
        files = FolderCdi(root)
        context = replace(context, performer=killed_at(fuse, ActionPorts(specs=files)))
        self.specs = CdiSpecs(context, self.board, files)
        self.loop = NodeCdi(context, self.board, self.specs)

    def become(self, inventory: Inventory, config: PluginConfig = CDI) -> None:
        self.board.inventory.publish(inventory)
        self.board.configuration.publish(ConfigInForce(config, ConfigChoice("", "built-in")))

    def driver(self, version: str) -> None:
        """The driver's files are those of that version."""
        folder = self.root / LIBRARIES
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        (folder / f"libcuda.so.{version}").write_text("")
        (folder / "libcuda.so.1").symlink_to(f"libcuda.so.{version}")

    @property
    def names(self) -> set[str]:
        """Of the devices in the spec's file; empty when there is none."""
        file = self.root / SPEC
        return {device["name"] for device in self.spec["devices"]} if file.exists() else set()

    @property
    def spec(self) -> Any:
        return json.loads((self.root / SPEC).read_text())

    async def until(self, done: Callable[[], bool]) -> None:
        await until(done)

    async def refusal(self, *names: str) -> str:
        answer = Injection(cdi_devices=tuple(f"{CDI_GPU_KIND}={name}" for name in names))
        refused = await self.specs.lacking([answer])
        return refused.message if refused else ""


@asynccontextmanager
async def running(tmp_path: Path, fast_clock: Any) -> AsyncIterator[Node]:
    events = NodeEvents("n", None, fast_clock)
    checkpoints = FolderCheckpoints(tmp_path / "state")
    node = Node(tmp_path, context_of("n", None, fast_clock, checkpoints, events))
    node.driver("1.1")
    task = asyncio.create_task(node.loop.run())
    yield node
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_device_is_in_the_spec_before_it_is_named(tmp_path: Path, clock: Any) -> None:
    async with running(tmp_path, clock) as node:
        node.become(ONE)
        assert await node.refusal("GPU-0", "0") == ""
        assert node.names == {"GPU-0", "0", "gpu0", "all"}


async def test_killed_around_any_write_or_removal_the_next_agent_has_the_specs_right(
    tmp_path: Path, clock: Any
) -> None:
    """Of a node that gets its first spec, is then divided, and then has no device any more."""
    turns = [(ONE, CDI, "GPU-0"), (DIVIDED, CDI, "MIG-1"), (Inventory((), "1.1"), CDI, "")]
    for place, (inventory, config, name) in enumerate(turns):
        fuse, killed = 0, True
        while killed:
            root = tmp_path / f"{place}-{fuse}"
            checkpoints = FolderCheckpoints(root / "state")
            context = context_of("n", None, clock, checkpoints)
            for before, asked, named in turns[:place]:
                node = Node(root, context)
                node.driver("1.1")
                node.become(before, asked)
                assert await node.refusal(named) == ""
            killed = False
            for life in (fuse, 1 << 30):
                node = Node(root, context, life)
                node.driver("1.1")
                node.become(inventory, config)
                try:
                    await node.refusal(name or "GPU-0")
                except KilledError:
                    killed = True
            assert name in node.names or (not name and not node.names)
            assert "GPU-0" in node.names or inventory is not ONE
            fuse += 1
        assert fuse > 2, "killed before and after an action at least"


async def test_a_device_that_no_spec_has_is_refused_with_the_reason(tmp_path: Path, clock: Any) -> None:
    async with running(tmp_path, clock) as node:
        node.become(replace(ONE, devices=(*ONE.devices, Device("GPU-1", 1, "x", 1, minor=1))))
        assert await node.refusal("GPU-0") == ""
        refused = await node.refusal("GPU-0", "GPU-1")
        assert f"no CDI spec has {CDI_GPU_KIND}=GPU-1 yet" in refused
        assert "GPU-1 is left out of the CDI spec: /dev/nvidia1 is missing" in refused


async def test_a_folder_that_cannot_be_written_refuses_until_it_can(tmp_path: Path, clock: Any) -> None:
    async with running(tmp_path, clock) as node:
        (tmp_path / "var").write_text("in the way")
        node.become(ONE)
        assert "k8s.device-plugin.nvidia.com-gpu.json" in await node.refusal("GPU-0")
        (tmp_path / "var").unlink()
        assert await node.refusal("GPU-0") == ""


def a_loop(file: Path) -> None:
    file.symlink_to(file.name)


def a_pipe(file: Path) -> None:
    os.mkfifo(file)


def a_large_file(file: Path) -> None:
    file.write_bytes(b" " * (MAX_BYTES + 1))


def a_link_to_another_file(file: Path) -> None:
    (file.parent / "other").write_text("{}")
    file.symlink_to("other")


@pytest.mark.parametrize("something", [a_loop, a_pipe, a_large_file, a_link_to_another_file])
async def test_what_lies_in_the_specs_place_and_is_none_is_replaced(
    something: Callable[[Path], None], tmp_path: Path, clock: Any
) -> None:
    """Hostile or broken: nothing is waited for, and nothing is written through a link."""
    (tmp_path / SPEC).parent.mkdir(parents=True)
    something(tmp_path / SPEC)
    async with running(tmp_path, clock) as node:
        node.become(ONE)
        assert await node.refusal("GPU-0") == ""
        assert node.names == {"GPU-0", "0", "gpu0", "all"}
        assert not (tmp_path / SPEC).is_symlink()
    other = (tmp_path / SPEC).parent / "other"
    assert not other.exists() or other.read_text() == "{}"


async def test_it_is_let_alone_where_nobody_wants_cdi(tmp_path: Path, clock: Any) -> None:
    (tmp_path / SPEC).parent.mkdir(parents=True)
    a_loop(tmp_path / SPEC)
    async with running(tmp_path, clock) as node:
        node.become(ONE, PluginConfig())
        assert "no CDI spec has" in await node.refusal("GPU-0"), "it has looked"
        assert (tmp_path / SPEC).is_symlink()


async def test_a_file_that_refuses_costs_its_own_kind_alone_until_it_does_not(
    tmp_path: Path, clock: Any
) -> None:
    """Here the spec of GPUDirect Storage, for which somebody made a folder."""
    folder = (tmp_path / SPEC).parent / "k8s.device-plugin.nvidia.com-gds.json"
    folder.mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidia-fs0").symlink_to("/dev/null")
    asked = Injection(cdi_devices=(f"{CDI_GPU_KIND}=GPU-0", "k8s.device-plugin.nvidia.com/gds=all"))
    async with running(tmp_path, clock) as node:
        node.become(ONE, replace(CDI, extras=(ExtraDevice.GDS,)))
        assert await node.refusal("GPU-0") == ""
        refused = await node.specs.lacking([asked])
        assert refused is not None
        assert "gds=all yet" in refused.message
        assert "Is a directory" in refused.message
        folder.rmdir()
        assert await node.specs.lacking([asked]) is None


async def test_annotations_count_as_names(tmp_path: Path, clock: Any) -> None:
    async with running(tmp_path, clock) as node:
        node.become(ONE)
        value = f"{CDI_GPU_KIND}=GPU-0,{CDI_GPU_KIND}=GPU-7"
        refused = await node.specs.lacking([Injection(annotations={"cdi.k8s.io/a": value})])
        assert refused is not None
        assert refused.message.startswith(f"no CDI spec has {CDI_GPU_KIND}=GPU-7 yet")


async def test_a_changed_layout_is_in_the_spec_at_once(tmp_path: Path, clock: Any) -> None:
    async with running(tmp_path, clock) as node:
        node.become(ONE)
        await node.until(lambda: "GPU-0" in node.names)
        node.become(DIVIDED)
        await node.until(lambda: node.names == {"MIG-1", "0:0", "mig0:0", "all"})


async def test_a_replaced_driver_and_a_removed_spec_are_noticed_unasked(tmp_path: Path, clock: Any) -> None:
    """#621 #1400: specs were those of the driver at the start of the plugin."""
    async with running(tmp_path, clock) as node:
        node.become(ONE)
        await node.until(lambda: "GPU-0" in node.names)
        assert "libcuda.so.1.1" in str(node.spec["containerEdits"])
        node.driver("2.2")
        node.become(replace(ONE, driver_version="2.2"))
        await node.until(lambda: "libcuda.so.2.2" in str(node.spec["containerEdits"]))
        (tmp_path / SPEC).unlink()
        await node.until(lambda: "GPU-0" in node.names)
        (tmp_path / SPEC).write_text("{}")
        await node.until(lambda: "devices" in node.spec)


async def test_the_spec_goes_with_the_driver_and_comes_back(tmp_path: Path, clock: Any) -> None:
    async with running(tmp_path, clock) as node:
        node.become(ONE)
        await node.until(lambda: "GPU-0" in node.names)
        node.board.devices_error.publish("NVML: driver not loaded")
        await node.until(lambda: not (tmp_path / SPEC).exists())
        assert "driver not loaded" in await node.refusal("GPU-0")
        node.board.devices_error.publish("")
        assert await node.refusal("GPU-0") == ""


async def test_a_driver_without_libcuda_costs_containers_that_library_alone(
    tmp_path: Path, clock: Any
) -> None:
    """NVIDIA's plugin ended at its start: "failed to get CDI spec: libcuda.so.550.163.01: not found"."""
    async with running(tmp_path, clock) as node:
        for file in (tmp_path / LIBRARIES).iterdir():
            file.unlink()
        node.become(ONE)
        assert await node.refusal("GPU-0") == ""
        assert node.names == {"GPU-0", "0", "gpu0", "all"}
        assert "libcuda" not in str(node.spec["containerEdits"].get("mounts"))


async def test_without_a_cdi_strategy_nothing_is_written(tmp_path: Path, clock: Any) -> None:
    async with running(tmp_path, clock) as node:
        node.become(ONE, PluginConfig())
        assert await node.refusal() == ""
        assert "no CDI spec has" in await node.refusal("GPU-0"), "it has looked"
        assert not (tmp_path / "var").exists()


async def test_a_spec_of_ours_stays_fresh_for_containers_that_start_again(tmp_path: Path, clock: Any) -> None:
    async with running(tmp_path, clock) as node:
        node.become(ONE)
        await node.until(lambda: "GPU-0" in node.names)
        node.become(DIVIDED, replace(CDI, device_list=(DeviceListStrategy.ENVVAR,)))
        await node.until(lambda: "MIG-1" in node.names)


async def test_what_does_not_change_is_not_written_again(tmp_path: Path, clock: Any) -> None:
    async with running(tmp_path, clock) as node:
        node.become(ONE)
        await node.until(lambda: "GPU-0" in node.names)
        before = (tmp_path / SPEC).stat().st_ino
        node.become(replace(ONE, problems=("news",)))
        assert await node.refusal("GPU-0") == ""
        assert (tmp_path / SPEC).stat().st_ino == before


async def test_what_is_asked_for_beside_gpus_is_refused_until_it_is_there(tmp_path: Path, clock: Any) -> None:
    """GPUDirect Storage, whose kernel module is loaded later."""
    asked = Injection(cdi_devices=(f"{CDI_GPU_KIND}=GPU-0", "k8s.device-plugin.nvidia.com/gds=all"))
    async with running(tmp_path, clock) as node:
        node.become(ONE, replace(CDI, extras=(ExtraDevice.GDS,)))
        refused = await node.specs.lacking([asked])
        assert refused is not None
        assert "gdsEnabled is true, but the node lacks /dev/nvidia-fs*" in refused.message
        (tmp_path / "dev").mkdir()
        (tmp_path / "dev/nvidia-fs0").symlink_to("/dev/null")
        assert await node.specs.lacking([asked]) is None
