"""A node with container runtimes and no kubelet, whose driver has a whole GPU and one in MIG devices."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.cri import Cri, RefusedError
from support.driver_root import Driver
from support.genuine_node import GenuineNode
from support.images import BUSYBOX, busybox_archive, kept_containerd
from support.installed_agent import CONTROL, DRIVER_ROOT, MAJOR
from support.leftovers import cgroup_of, own_folder
from support.node_root import CONTAINERD_SOCKET, PROGRAMS, make_node_root
from support.nvml.state import DriverState, FakeGpu, FakeMig
from support.own_network import is_own_network
from support.podman import Podman
from tonnage.adapters.cdi.files import FolderCdi
from tonnage.adapters.clock import SystemClock
from tonnage.agent.main import backend_of
from tonnage.cli.locations.binaries import NODE, find_binaries
from tonnage.decide.node.cdi.spec import gpu_spec
from tonnage.model.devices.cdi import CdiOptions, CdiSpec
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.node.plugin_settings import CdiSettings

CAPABILITIES: Final = 236
"""The major number of the nodes of MIG capabilities; the kernel gives out another one on every machine."""
PARTS: Final = (FakeMig("3g", 0, gi=1), FakeMig("3g", 4, gi=2))
STATE: Final = DriverState((FakeGpu(0, "A100-40"), FakeGpu(1, "A100-40", mig_enabled=True, migs=PARTS)))
DEBIANS_CONFIG: Final = f"""\
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{BUSYBOX}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      BinaryName = "{PROGRAMS}/runc"
"""
"""Of version 1.7, which says nothing of CDI."""


@dataclass(frozen=True, slots=True)
class Runtimes:
    """All runtimes read the same specs: those in `etc` and, which win, in `run`."""

    node: GenuineNode
    cri: Cri
    driver: Driver
    podman: Podman | None = None

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
            assert self.podman is not None
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
    """containerd and podman, ready for containers; nothing is left of them afterwards."""
    binaries = find_binaries(os.environ, programs=NODE)
    with _booted({name: binaries.path(name) for name in NODE if name != "kubelet"}) as (node, driver):
        cri = Cri(node)
        yield Runtimes(node, cri, driver, Podman(node))
        cri.close()


@contextmanager
def debians_containerd(prepare: Callable[[Runtimes], None]) -> Iterator[Runtimes]:
    """containerd 1.7 of Debian's package, started again with its configuration as `prepare` leaves it."""
    binaries = find_binaries(os.environ, programs=NODE)
    programs = {name: binaries.path(name) for name in NODE if name != "kubelet"}
    with _booted({**programs, **kept_containerd()}, DEBIANS_CONFIG) as (node, driver):
        cri = Cri(node)
        prepare(Runtimes(node, cri, driver))
        cri.close()
        node.restart("containerd")
        cri = Cri(node)
        yield Runtimes(node, cri, driver)
        cri.close()


@contextmanager
def _booted(programs: Mapping[str, Path], config: str = "") -> Iterator[tuple[GenuineNode, Driver]]:
    """`config` is containerd's, if it is not the suite's own."""
    assert is_own_network(), "run `make test-kubernetes`, or scripts/test_kubernetes.py"
    with own_folder() as folder:
        cgroup = cgroup_of(folder)
        root = make_node_root(folder / "root", programs=programs, secrets={}, cgroup=cgroup)
        root.at("/etc/resolv.conf").touch()  # containerd wants one in the node's network
        if config:
            root.at("/etc/containerd.toml").write_text(config)
        driver = Driver(root.at(DRIVER_ROOT), STATE)
        _renumber(driver.root / "dev")
        node = GenuineNode(folder, root, cgroup)
        try:
            node.boot(kubelet=False)
            busybox_archive(folder)
            node.import_image(folder / "busybox.tar")
            yield node, driver
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
