"""The CDI spec of a node of 8 GPUs, each divided into 7 MIG devices, over the pretended driver of the tests.

The driver has as many libraries as a real one; the devices are those of the last scan, as in the agent. Then
an agent as a process: from a change of the node, once it is made, to the spec that shows it, unasked.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.driver_root import LIBRARIES, Driver, make_driver_root
from support.nvml.state import DriverState, FakeGpu, FakeMig
from support.plugin_node import plugin_node
from tonnage.adapters.cdi.files import FolderCdi
from tonnage.adapters.clock import SystemClock
from tonnage.agent.main import backend_of
from tonnage.decide.node.cdi.rules import spec_problems
from tonnage.decide.node.cdi.spec import cdi_specs, spec_bytes
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import DeviceListStrategy, PluginConfig
from tonnage.model.node.plugin_settings import MigStrategy

GPUS, PARTS, OTHER_LIBRARIES = 8, 7, 60
FILE = "bench.json"
SPEC = "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
NEW = "999.1.1"
PATIENCE_S = 60
CONFIG = PluginConfig(mig_strategy=MigStrategy.MIXED, device_list=(DeviceListStrategy.CDI_CRI,))


def measure(rounds: int) -> dict[str, list[float]]:
    """Milliseconds."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        state = DriverState(tuple(_gpu(slot) for slot in range(GPUS)))
        root = make_driver_root(Path(folder), state)
        for number in range(OTHER_LIBRARIES):
            name = f"libnvidia-{number}.so"
            (root / LIBRARIES / f"{name}.{state.driver_version}").touch()
            (root / LIBRARIES / f"{name}.1").symlink_to(f"{name}.{state.driver_version}")
        figures = asyncio.run(_rounds(root, rounds))
    return figures | asyncio.run(_followed(rounds))


def _gpu(slot: int) -> FakeGpu:
    parts = tuple(FakeMig("1g", number, gi=7 + number) for number in range(PARTS))
    return FakeGpu(slot, mig_enabled=True, migs=parts)


async def _rounds(root: Path, rounds: int) -> dict[str, list[float]]:
    backend = backend_of("nvml", root, root, SystemClock())
    try:
        inventory = await backend.scan()
    finally:
        await backend.close()
    files = FolderCdi(root, root)
    figures: dict[str, list[float]] = {
        f"CDI spec of {GPUS} GPUs x {PARTS} MIG: files found, made, written, ms (wanted: under 100)": [],
        "  made alone, ms": [],
        "  held against the runtimes' rules, ms": [],
    }
    for _ in range(rounds):
        for values, value in zip(figures.values(), await _one_round(files, inventory), strict=True):
            values.append(value * 1000)
    return figures


async def _one_round(files: FolderCdi, inventory: Inventory) -> tuple[float, ...]:
    started = time.perf_counter()
    found = await files.driver_files(inventory.driver_version, CONFIG)
    before = time.perf_counter()
    spec = cdi_specs(inventory, found, CONFIG)[0]
    assert spec.document is not None
    assert len(spec.names) == GPUS * PARTS * 3 + 1, spec.left_out
    content = spec_bytes(spec.document)
    made = time.perf_counter()
    await files.write(FILE, content)
    written = time.perf_counter()
    assert not spec_problems(spec.document)
    return written - started, made - before, time.perf_counter() - written


async def _followed(rounds: int) -> dict[str, list[float]]:
    """Seconds."""
    figures: dict[str, list[float]] = {
        "GPUs divided to the spec with their parts, s (wanted: under 2)": [],
        "GPUs whole again to the spec with them, s (wanted: under 2)": [],
        "driver replaced to the spec with its libraries, s (wanted: under 2)": [],
        "driver gone to no spec, s (wanted: under 2)": [],
    }
    async with plugin_node() as node:
        await node.start_kubelet()
        driver = Driver(node.root, DriverState(tuple(FakeGpu(slot) for slot in range(GPUS))))
        flags = ("--mig-strategy=mixed", "--device-list-strategy=cdi-cri")
        await node.start_agent("--driver-root-ctr-path", str(node.root), *flags, devices="nvml")
        spec, old = node.root / SPEC, driver.state.driver_version
        await _until(lambda: "GPU-" in _text(spec))
        steps: tuple[tuple[Callable[[], None], Callable[[], bool]], ...] = (
            (partial(_divide, driver), lambda: _text(spec).count('"MIG-') == GPUS * PARTS),
            (partial(_make_whole, driver), lambda: _text(spec).count('"GPU-') == GPUS),
            (partial(driver.upgrade, NEW), lambda: NEW in _text(spec)),
            (driver.unload, lambda: not spec.exists()),
        )
        for _ in range(rounds):
            for values, (deed, shown) in zip(figures.values(), steps, strict=True):
                deed()
                started = time.perf_counter()
                await _until(shown)
                values.append(time.perf_counter() - started)
            driver.load()
            driver.upgrade(old)
            await _until(lambda: old in _text(spec))
    return figures


def _divide(driver: Driver) -> None:
    for slot in range(GPUS):
        driver.divide(slot, *_gpu(slot).migs)


def _make_whole(driver: Driver) -> None:
    for slot in range(GPUS):
        driver.divide(slot, enabled=False)


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - what is looked at is a file
            await asyncio.sleep(0.01)
