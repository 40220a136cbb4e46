"""A driver root as a host has it: the library, device nodes and /proc entries of a pretended driver."""

from __future__ import annotations

import os
import shutil
import stat
import uuid
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from support.nvml.library import SONAME, nvml_library
from support.nvml.state import NO_INSTANCE, XID, DriverState, FakeEvent, FakeGpu, FakeMig, Rule

LIBRARIES: Final = Path("usr/lib/x86_64-linux-gnu")
STATE_FILE: Final = "fake-nvml.conf"
_BOOT_ID: Final = Path("proc/sys/kernel/random/boot_id")
_NULL: Final = os.makedev(1, 3)


def make_driver_root(folder: Path, state: DriverState) -> Path:
    """`folder` filled with a driver's files; the state file lies beside the library, in `LIBRARIES`.

    Device nodes are those of /dev/null, so that they can be opened; without the right to make nodes they are
    links to it. `sys` has what the kernel says about the GPUs' PCI addresses.
    """
    (folder / LIBRARIES).mkdir(parents=True, exist_ok=True)
    state.write(folder / LIBRARIES / STATE_FILE)
    install_driver(folder, state.driver_version)
    _devices(folder / "dev", state)
    _proc(folder / "proc/driver", state)
    _kernel(folder)
    for gpu in state.gpus:
        make_pci_device(folder / "sys/bus/pci/devices" / pci_address(gpu), gpu)
    return folder


def install_driver(folder: Path, version: str) -> None:
    """Put the library of that version in place of another's, as an installer does."""
    libraries = folder / LIBRARIES
    file = libraries / f"libnvidia-ml.so.{version}"
    made = libraries / f".{file.name}"
    shutil.copyfile(nvml_library(), made)
    made.chmod(0o755)
    made.replace(file)
    link = libraries / f".{SONAME}"
    link.unlink(missing_ok=True)
    link.symlink_to(file.name)
    link.replace(libraries / SONAME)
    for other in libraries.glob("libnvidia-ml.so.*.*"):
        if other != file:
            other.unlink()


class Driver:
    """A driver root whose state changes while others use it."""

    def __init__(self, folder: Path, state: DriverState) -> None:
        self.root = make_driver_root(folder, state)
        self.state = state

    @property
    def file(self) -> Path:
        return self.root / LIBRARIES / STATE_FILE

    def become(self, state: DriverState) -> None:
        self.state = state
        state.write(self.file)

    def change(self, slot: int, **facts: int | str) -> None:
        """Set facts of a GPU, in the words of the state file with `_` for `-`."""
        gpu = self.state.gpu(slot)
        words = {word.replace("_", "-"): value for word, value in facts.items()}
        self.become(self.state.with_gpu(replace(gpu, facts={**gpu.facts, **words})))

    def lose(self, slot: int) -> None:
        """The GPU falls off the bus."""
        self.become(self.state.with_gpu(replace(self.state.gpu(slot), lost=True)))

    def recover(self, slot: int) -> None:
        self.become(self.state.with_gpu(replace(self.state.gpu(slot), lost=False)))

    def plug(self, gpu: FakeGpu) -> None:
        """Put a GPU into its slot; the kernel shows it, too."""
        make_pci_device(self.root / "sys/bus/pci/devices" / pci_address(gpu), gpu)
        self.become(self.state.with_gpu(gpu))
        _proc(self.root / "proc/driver", self.state)

    def divide(self, slot: int, *migs: FakeMig, enabled: bool = True) -> None:
        """Somebody makes these MIG devices out of the GPU, in the place of others; their nodes come along."""
        self.become(self.state.with_gpu(replace(self.state.gpu(slot), mig_enabled=enabled, migs=migs)))
        _devices(self.root / "dev", self.state)
        _proc(self.root / "proc/driver", self.state)

    def pull(self, slot: int) -> None:
        """Take the GPU out of its slot."""
        address = pci_address(self.state.gpu(slot))
        shutil.rmtree(self.root / "sys/bus/pci/devices" / address)
        shutil.rmtree(self.root / "proc/driver/nvidia/gpus" / address)
        self.become(self.state.without(slot))

    def unload(self) -> None:
        """The kernel module goes."""
        self.file.unlink()
        _module(self.root).rename(_module(self.root).with_name("unloaded"))

    def load(self) -> None:
        """The kernel module is there again: loaded anew, and known under another inode."""
        _kernel(self.root)
        (_module(self.root).with_name("unloaded")).rmdir()
        self.become(self.state)

    def reboot(self) -> None:
        """The node was started again."""
        (self.root / _BOOT_ID).write_text(f"{uuid.uuid4()}\n", encoding="ascii")

    def rule(self, *rules: Rule) -> None:
        """These rules and no others."""
        self.become(replace(self.state, rules=rules))

    def xid(self, slot: int, code: int) -> None:
        """The GPU reports an error."""
        self.event(slot, code, XID)

    def event(self, slot: int, data: int, kind: int, gi: int = NO_INSTANCE, ci: int = NO_INSTANCE) -> None:
        sequence = max((event.sequence for event in self.state.events), default=0) + 1
        kept = self.state.events[-99:]
        self.become(replace(self.state, events=(*kept, FakeEvent(sequence, slot, data, kind, gi, ci))))

    def upgrade(self, version: str) -> None:
        """Another driver: its library and its kernel module, at once."""
        install_driver(self.root, version)
        self.become(replace(self.state, driver_version=version))
        _proc(self.root / "proc/driver", self.state)

    def calls(self) -> Counter[str]:
        """How often each function was called; the state must name a file for it."""
        file = self.state.calls_file
        lines = file.read_text(encoding="ascii").splitlines() if file is not None and file.exists() else []
        return Counter(line.partition(" ")[0] for line in lines)


def _node(path: Path) -> None:
    path.unlink(missing_ok=True)
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, _NULL)
        path.read_bytes()  # a file system mounted `nodev` makes nodes and does not open them
    except PermissionError:
        path.unlink(missing_ok=True)
        path.symlink_to("/dev/null")
    else:
        path.chmod(0o666)


def _devices(folder: Path, state: DriverState) -> None:
    names = ["nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset"]
    names += [f"nvidia{gpu.minor_number}" for gpu in state.gpus]
    names += [f"nvidia-caps/nvidia-cap{minor}" for _, minor in _capabilities(state)]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        _node(folder / name)


def _capabilities(state: DriverState) -> Iterator[tuple[str, int]]:
    """The capabilities of MIG and the minor numbers of their device nodes, in the driver's order."""
    names = ["config", "monitor"]
    for gpu in state.gpus:
        seen: set[int] = set()
        for mig in gpu.migs:
            names += _capability_names(gpu, mig, first=mig.gi not in seen)
            seen.add(mig.gi)
    return ((name, number) for number, name in enumerate(names, start=1))


def _capability_names(gpu: FakeGpu, mig: FakeMig, *, first: bool) -> list[str]:
    instance = f"gpu{gpu.minor_number}/gi{mig.gi}"
    return [f"{instance}/access"] * first + [f"{instance}/ci{mig.ci}/access"]


def _kernel(folder: Path) -> None:
    """What tells one boot, and one loading of the kernel module, from the next."""
    if not (folder / _BOOT_ID).exists():
        (folder / _BOOT_ID).parent.mkdir(parents=True)
        (folder / _BOOT_ID).write_text(f"{uuid.uuid4()}\n", encoding="ascii")
    _module(folder).mkdir(parents=True, exist_ok=True)


def _module(folder: Path) -> Path:
    return folder / "sys/module/nvidia"


def _proc(folder: Path, state: DriverState) -> None:
    version = state.driver_version
    files = {
        "nvidia/version": f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {version}  Release Build\n"
        "GCC version:  gcc version 12.2.0 (Debian 12.2.0-14)\n",
        "nvidia/params": "ModifyDeviceFiles: 1\nDeviceFileUID: 0\nDeviceFileGID: 0\nDeviceFileMode: 438\n",
        "nvidia-caps/mig-minors": "".join(f"{name} {minor}\n" for name, minor in _capabilities(state)),
    }
    for gpu in state.gpus:
        files[f"nvidia/gpus/{pci_address(gpu)}/information"] = (
            f"Model: \t\t {gpu.catalogue.product}\nIRQ:   \t\t 34\nGPU UUID: \t {gpu.identity}\n"
            f"Bus Type: \t PCIe\nBus Location: \t {pci_address(gpu)}\nDevice Minor: \t {gpu.minor_number}\n"
        )
    for name, minor in _capabilities(state):
        place = name.replace("/gi", "/mig/gi", 1) if name.startswith("gpu") else f"mig/{name}"
        files[f"nvidia/capabilities/{place}"] = (
            f"DeviceFileMinor: {minor}\nDeviceFileMode: 292\nDeviceFileModify: 1\n"
        )
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def pci_address(gpu: FakeGpu) -> str:
    """Its PCI address as the kernel writes it: four digits of domain, small letters."""
    domain, _, rest = gpu.pci_bus_id.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def make_pci_device(folder: Path, gpu: FakeGpu) -> None:
    """What the kernel says of its PCI device, in its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {
        "vendor": "0x10de",
        "device": f"0x{gpu.catalogue.pci_device}",
        "class": "0x030200",
        "numa_node": str(-1 if gpu.numa is None else gpu.numa),
    }
    for name, text in facts.items():
        (folder / name).write_text(f"{text}\n", encoding="ascii")
