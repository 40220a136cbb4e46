"""Files of a node that the agent and `tonnage doctor` read, whoever wrote them."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tonnage.adapters.cdi.driver_files import words_in
from tonnage.adapters.cdi.files import spec_files
from tonnage.adapters.container_runtime import RuntimeFiles
from tonnage.adapters.http.address import parse_address
from tonnage.adapters.machine import MachineFiles
from tonnage.adapters.mps.shared_memory import _size_kib
from tonnage.adapters.node_facts.cdi import cdi_facts
from tonnage.adapters.node_facts.files import NodeFiles
from tonnage.adapters.node_facts.hardware import (
    device_node_facts,
    driver_facts,
    hardware_facts,
    library_facts,
)
from tonnage.adapters.node_facts.kubelet import kubelet_facts, kubelet_holds
from tonnage.adapters.node_facts.loader_cache import cached_libraries
from tonnage.adapters.node_facts.plugin import plugin_facts
from tonnage.adapters.node_facts.processes import containers_of, gpu_containers, process_ids, wants_nri
from tonnage.adapters.node_facts.runtime import runtime_facts
from tonnage.adapters.node_facts.runtime_version import text_fields
from tonnage.adapters.runtime_files import RuntimeConfigFiles
from tonnage.adapters.vendors.driver_root import _check_whole
from tonnage.adapters.vendors.platforms import is_tegra, refused_platform
from tonnage.model.node.plugin_settings import FeatureSettings
from tonnage.twin.kubelet.devices.cdi import resolve_cdi

Target = Callable[[bytes], None]
PLACES: Final = (
    *("etc/cdi/a.json", "etc/cdi/a.yaml", "var/run/cdi/b.json", "var/run/cdi/b.yaml"),
    *("etc/containerd/config.toml", "etc/crio/crio.conf", "etc/nvidia-container-runtime/config.toml"),
    *("var/lib/kubelet/config.yaml", "var/lib/kubelet/cpu_manager_state", "var/lib/dpkg/status"),
    *("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", "etc/ld.so.cache", "etc/os-release"),
    *("proc/cpuinfo", "proc/devices", "proc/cmdline", "proc/meminfo", "proc/sys/kernel/osrelease"),
    *("proc/sys/kernel/tainted", "proc/driver/nvidia/version", "proc/driver/nvidia-caps/mig-minors"),
    *("proc/driver/nvidia/gpus/0000:01:00.0/information", "sys/bus/pci/devices/0000:01:00.0/config"),
    *("sys/bus/pci/devices/0000:01:00.0/vendor", "sys/bus/pci/devices/0000:01:00.0/class"),
    *("proc/7/cmdline", "proc/7/cgroup", "proc/7/environ", "proc/7/status", "proc/7/mountinfo"),
    *("run/nvidia/validations/driver-ready", "etc/modprobe.d/a.conf", "lib/modules/6.1/modules.dep"),
    *("var/lib/tonnage/device-plugin-config", "var/lib/tonnage/device-list", "usr/lib/libnvidia-ml.so.1"),
    *("sys/devices/soc0/family", "proc/7/net/fib_trie"),
)
_COMMANDS: Final = {
    "proc/7/cmdline": b"tonnage\0node\0--metrics-address\0:0",
    "proc/7/cgroup": b"0::/kubepods/besteffort/pod1/" + b"0" * 64,
    "proc/7/environ": b"NVIDIA_VISIBLE_DEVICES=all",
}


@contextmanager
def node_files() -> Iterator[Target]:
    """One file of a node; which one, the first byte says."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder, asyncio.Runner() as runner:
        root = Path(folder)
        for path in PLACES:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
        for path, plain in _COMMANDS.items():
            (root / path).write_bytes(plain)

        def target(data: bytes) -> None:
            place, content = (PLACES[data[0] % len(PLACES)], data[1:]) if data else (PLACES[0], b"")
            file = root / place
            file.write_bytes(content)
            try:
                _read_by_doctor(root)
                runner.run(_read_by_agent(root))
                with suppress(OSError):
                    _check_whole(file)
                _size(file)
            finally:
                file.unlink()
                if place in _COMMANDS:
                    file.write_bytes(_COMMANDS[place])

        yield target


def _read_by_doctor(root: Path) -> None:
    files = NodeFiles(root)
    pids = process_ids(files)
    for look in (hardware_facts, driver_facts, device_node_facts, library_facts, cdi_facts, kubelet_facts):
        look(files)
    runtime_facts(files, pids)
    tuple(wants_nri(files, pids))
    gpu_containers(files, pids)
    containers_of(files, pids)
    plugin_facts(files, pids)


async def _read_by_agent(root: Path) -> None:
    await kubelet_holds(NodeFiles(root))
    MachineFiles(root).now(FeatureSettings().machine_type_file)
    runtime = RuntimeFiles(root)
    await runtime.look()
    await runtime.policies()
    files = RuntimeConfigFiles(root)
    files.read(["/etc/containerd/config.toml"], imports=True)
    tuple(spec_files((root / "etc/cdi", root / "var/run/cdi")))
    resolve_cdi((root / "etc/cdi", root / "var/run/cdi"), ("nvidia.com/gpu=0",))
    words_in(root, "/usr/lib/libnvidia-ml.so.1", ("create-symlinks",))
    refused_platform(root)
    is_tegra(root)


def _size(meminfo: Path) -> None:
    with suppress(OSError, ValueError, IndexError):
        assert _size_kib(meminfo) >= 0


def addresses(data: bytes) -> None:
    parse_address(data.decode("utf-8", "replace"))


def loader_cache(data: bytes) -> None:
    """The cache of the system's loader, and what a runtime says of itself."""
    cached_libraries(data, ("libnvidia-ml.so.1", "libcuda.so.1"))
    text_fields(data)
