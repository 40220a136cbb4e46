"""The machine under a genuine node, as its containers see it: a PCI bus and kernel modules that are made up.

A container has a sysfs of its own, which shows the machine that the tests run on. So the node's containerd
mounts two folders over it in every container that it starts.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.driver_root import make_pci_device, pci_address
from support.genuine_node import GenuineNode
from support.nvml.state import FakeGpu

_CONFIG: Final = "/etc/containerd.toml"
_SPEC: Final = "/etc/containerd-spec.json"
_FOLDER: Final = "/var/lib/made-machine"
_RUNTIME: Final = '    runtime_type = "io.containerd.runc.v2"\n'
_OVER: Final = {"bus": "/sys/bus/pci/devices", "module": "/sys/module"}
_FIRMWARE: Final = "firmware_class/parameters/path"
"""Of a module that every kernel has; drivers are given its file."""


class MadeMachine:
    """What it shows may change at any time, as hardware does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for name in _OVER:
            (folder / name).mkdir(parents=True)
        self.module(_FIRMWARE)

    def plug(self, gpu: FakeGpu) -> None:
        """The bus has this GPU."""
        make_pci_device(self._folder / "bus" / pci_address(gpu), gpu)

    def pull(self, gpu: FakeGpu) -> None:
        """And has it no longer."""
        shutil.rmtree(self._folder / "bus" / pci_address(gpu))

    def module(self, file: str) -> None:
        """A kernel module has that file."""
        path = self._folder / "module" / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("0\n", encoding="ascii")


@contextmanager
def made_machine(node: GenuineNode) -> Iterator[MadeMachine]:
    """An empty bus, in containers that start from now on; afterwards the machine's own again."""
    config, folder = node.root.at(_CONFIG), node.root.at(_FOLDER)
    before = config.read_text(encoding="utf-8")
    assert _RUNTIME in before
    machine = MadeMachine(folder)
    node.root.at(_SPEC).write_text(json.dumps(_spec(node)), encoding="utf-8")
    config.write_text(
        before.replace(_RUNTIME, f'{_RUNTIME}    base_runtime_spec = "{_SPEC}"\n'), encoding="utf-8"
    )
    try:
        node.restart("containerd")
        yield machine
    finally:
        config.write_text(before, encoding="utf-8")
        node.restart("containerd")
        shutil.rmtree(folder)


def _spec(node: GenuineNode) -> Any:
    """What containerd starts from without one, and the two folders."""
    spec: Any = json.loads(node.run("ctr", "oci", "spec").stdout)
    options = ["rbind", "rw"]
    spec["mounts"] += [
        {"type": "bind", "source": f"{_FOLDER}/{name}", "destination": place, "options": options}
        for name, place in _OVER.items()
    ]
    return spec
