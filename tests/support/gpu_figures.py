"""Figures of this machine's GPUs, asked by themselves and through the agent, in one record."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import re
import statistics
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from support.device_contract import READ, preferred, with_links
from support.plugin_node import allocate, first_list, plugin_node
from tonnage import __version__
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.vendors.nvml import NvmlBackend
from tonnage.model.devices.inventory import Inventory

Figures = dict[str, dict[str, float]]

_RUNS: Final = 20
_CALLS: Final = 300
_MODULE: Final = Path("/proc/driver/nvidia/version")
_LIBRARY: Final = re.compile(r"^.* (/\S*libnvidia-ml\.so\S*)$", re.MULTILINE)


async def record_of_gpus(date: str) -> dict[str, Any]:
    """Everything that is known about a run on this machine, as JSON. `date` is YYYY-MM-DD."""
    inventory, figures = await _driver()
    figures |= await _agent({device.uuid for device in inventory.devices if not device.mig_enabled})
    products = Counter(device.product for device in inventory.devices)
    return {
        "date": date,
        "tonnage": __version__,
        "gpus": dict(products),
        "memoryMiB": sorted({device.memory_mib for device in inventory.devices}),
        "driver": inventory.driver_version,
        "cuda": inventory.cuda_version,
        "kernelModule": _kernel_module(),
        "library": _library(),
        "machine": {
            "cores": os.cpu_count(),
            "kernel": platform.release(),
            "architecture": platform.machine(),
            "python": platform.python_version(),
        },
        "figures": figures,
    }


def file_name(record: dict[str, Any]) -> str:
    """One file for each sort of machine; a driver without a kernel module is a pretended one."""
    products = "-and-".join(f"{count}-{product}" for product, count in sorted(record["gpus"].items()))
    slug = re.sub(r"[^a-z0-9]+", "-", f"{products}-{record['driver']}".lower()).strip("-")
    return f"{'gpu' if record['kernelModule'] else 'pretended'}-{slug}.json"


def write_record(folder: Path, record: dict[str, Any]) -> Path:
    """The file that was written, in place of one about the same sort of machine."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / file_name(record)
    made = file.with_suffix(".new")
    made.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    return made.replace(file)


async def _driver() -> tuple[Inventory, Figures]:
    backend = NvmlBackend(SystemClock())
    try:
        first = await _timed(backend.scan, 1)
        started = time.perf_counter()
        inventory = await with_links(backend)
        links = [time.perf_counter() - started]
        return inventory, {
            "first scan, ms": _spread(first),
            "links read, ms": _spread(links),
            "later scan, ms": _spread(await _timed(backend.scan, _RUNS)),
            "readings of all GPUs, ms": _spread(await _timed(partial(backend.sample, READ), _RUNS)),
        }
    finally:
        await backend.close()


async def _agent(uuids: set[str]) -> Figures:
    """Whole GPUs through the agent's sockets; nothing where there are none."""
    if not uuids:
        return {}
    free = sorted(uuids)
    async with plugin_node() as node:
        await node.start_kubelet()
        started = time.perf_counter()
        await node.start_agent(devices="nvml")
        async with node.channel() as channel:
            register = time.perf_counter() - started
            stream, _ = await first_list(channel)
            listed = time.perf_counter() - started
            allocated = await _timed(partial(allocate, channel, free[0]), _CALLS)
            chosen = [
                took
                for size in range(1, len(free) + 1)
                for took in await _timed(partial(preferred, channel, free, size), _RUNS)
            ]
            assert node.agent is not None
            resident = _resident_mib(node.agent.pid)
            del stream
    return {
        "agent's start to registration, ms": _spread([register]),
        "agent's start to first list, ms": _spread([listed]),
        "Allocate, ms": _spread(allocated),
        "preferred allocation of every size, ms": _spread(chosen),
        "agent's resident memory, MiB": _spread([resident / 1000]),
    }


async def _timed(call: Callable[[], Awaitable[object]], runs: int) -> list[float]:
    """Seconds of each run."""
    took: list[float] = []
    for _ in range(runs):
        started = time.perf_counter()
        await call()
        took.append(time.perf_counter() - started)
        await asyncio.sleep(0)
    return took


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    """Thousands: milliseconds of seconds."""
    ordered = sorted(1000 * value for value in seconds)
    return {
        "median": round(statistics.median(ordered), 3),
        "p99": round(ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)], 3),
        "least": round(ordered[0], 3),
        "most": round(ordered[-1], 3),
        "runs": len(ordered),
    }


def _resident_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:"))


def _kernel_module() -> str:
    try:
        return _MODULE.read_text(encoding="utf-8").partition("\n")[0]
    except OSError:
        return ""


def _library() -> str:
    """The NVML library that this process has loaded."""
    found = _LIBRARY.search(Path("/proc/self/maps").read_text(encoding="utf-8"))
    return found[1] if found else ""
