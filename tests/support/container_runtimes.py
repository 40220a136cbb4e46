"""A node with containerd and podman and no kubelet, whose driver has a whole GPU and one in MIG devices."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.cri import Cri, RefusedError
from support.driver_root import Driver
from support.genuine_node import GenuineNode
from support.images import busybox_archive
from support.installed_agent import CONTROL, DRIVER_ROOT, MAJOR
from support.leftovers import cgroup_of, own_folder
from support.node_root import make_node_root
from support.nvml.state import DriverState, FakeGpu, FakeMig
from support.own_network import is_own_network
from support.podman import Podman
from tonnage.adapters.cdi_files import FolderCdi
from tonnage.adapters.clock import SystemClock
from tonnage.agent.main import backend_of
from tonnage.cli.binaries import NODE, find_binaries
from tonnage.decide.node.cdi import gpu_spec
from tonnage.model.cdi import CdiOptions, CdiSpec
from tonnage.model.plugin_settings import CdiSettings
from tonnage.model.sharing import PluginConfig

CAPABILITIES: Final = 236
"""The major number of the nodes of MIG capabilities; the kernel gives out another one on every machine."""
PARTS: Final = (FakeMig("3g", 0, gi=1), FakeMig("3g", 4, gi=2))
STATE: Final = DriverState((FakeGpu(0, "A100-40"), FakeGpu(1, "A100-40", mig_enabled=True, migs=PARTS)))


@dataclass(frozen=True, slots=True)
class Runtimes:
    """Both runtimes read the same specs: those in `etc` and, which win, in `run`."""

    node: GenuineNode
    cri: Cri
    podman: Podman
    driver: Driver

    @property
    def etc(self) -> Path:
        return self.node.root.at("/etc/cdi")

    @property
    def run(self) -> Path:
        """The node's /run is seen by its own processes alone."""
        return Path(f"/proc/{self.node.pid('containerd')}/root/run/cdi")

    def spec(self, kind: str, *, hook: str = "") -> CdiSpec:
        """Of the devices as they are now; `hook` is the hooks' program, if there is one."""
        return asyncio.run(self._spec(kind, CdiSettings(hook_path=hook) if hook else CdiSettings()))

    async def _spec(self, kind: str, settings: CdiSettings) -> CdiSpec:
        root = self.driver.root
        backend = backend_of("nvml", root, root, SystemClock())
        try:
            inventory = await backend.scan()
        finally:
            await backend.close()
        config = PluginConfig(driver_root=DRIVER_ROOT, cdi=settings)
        folder = FolderCdi(root, root, host=self.node.root.at("/"))
        files = await folder.driver_files(inventory.driver_version, config)
        return gpu_spec(inventory, files, CdiOptions(kind, DRIVER_ROOT, DRIVER_ROOT))

    def said_in(self, runtime: str, script: str, *devices: str) -> str:
        """What a container's script says. Raises RefusedError: the runtime's own words."""
        if runtime == "podman":
            ended = self.podman.run(script, devices)
            if ended.returncode:
                raise RefusedError(ended.stderr.decode())
            return ended.stdout.decode()
        if runtime == "annotations":
            return self.cri.start(self.cri.create(script, (), {"cdi.k8s.io/test": ",".join(devices)}))
        return self.cri.start(self.cri.create(script, devices))

    def refusal(self, runtime: str, *devices: str) -> str:
        """Why the runtime makes no container with these devices; empty when it does."""
        try:
            self.said_in(runtime, "true", *devices)
        except RefusedError as error:
            return str(error)
        return ""


@contextmanager
def container_runtimes() -> Iterator[Runtimes]:
    """Ready for containers; nothing is left of them afterwards."""
    assert is_own_network(), "run `make test-kubernetes`, or scripts/test_kubernetes.py"
    with own_folder() as folder:
        binaries = find_binaries(os.environ, programs=NODE)
        cgroup = cgroup_of(folder)
        programs = {name: binaries.path(name) for name in NODE if name != "kubelet"}
        root = make_node_root(folder / "root", programs=programs, secrets={}, cgroup=cgroup)
        root.at("/etc/resolv.conf").touch()  # containerd wants one in the node's network
        driver = Driver(root.at(DRIVER_ROOT), STATE)
        _renumber(driver.root / "dev")
        node = GenuineNode(folder, root, cgroup)
        try:
            node.boot(kubelet=False)
            busybox_archive(folder)
            node.import_image(folder / "busybox.tar")
            cri = Cri(node)
            yield Runtimes(node, cri, Podman(node), driver)
            cri.close()
        finally:
            node.crash()


def numbers(names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Major and minor numbers of the driver's nodes, by their paths in a container."""
    return {f"/dev/{name}": _number(name) for name in names}


def _number(name: str) -> tuple[int, int]:
    if name in CONTROL:
        return CONTROL[name]
    digits = "".join(filter(str.isdigit, name))
    return (CAPABILITIES if "cap" in name else MAJOR, int(digits))


def _renumber(folder: Path) -> None:
    """Numbers as a driver's nodes have them: nothing answers there, and who may open one is told so."""
    for path in sorted(folder.rglob("nvidia*")):
        if path.is_dir():
            continue
        path.unlink()
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*_number(str(path.relative_to(folder)))))
        path.chmod(0o666)
