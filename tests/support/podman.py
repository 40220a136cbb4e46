"""podman on a genuine node, out of a folder of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from support.genuine_node import GenuineNode
from support.images import kept_file, kept_podman
from support.node_root import PROGRAMS

PLACE: Final = "/opt/podman"
_CONTAINER_ROOT: Final = f"{PLACE}/busybox"
_CONFIG: Final = f"""\
[containers]
cgroupns = "host"
default_ulimits = ["nofile=1024:20000", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
conmon_path = ["{PLACE}/conmon"]
events_logger = "none"
runtime = "runc"
[engine.runtimes]
runc = ["{PROGRAMS}/runc"]
"""
"""The limits are such that no right is needed to set them."""


class Podman:
    """podman on a genuine node, with a root file system that has busybox and nothing else."""

    def __init__(self, node: GenuineNode) -> None:
        self._node = node
        shutil.copytree(kept_podman(), node.root.at(PLACE), symlinks=True, ignore=_what_the_machine_has)
        node.root.at("/etc/ld.so.conf").write_text(f"{PLACE}\n")  # podman starts itself without a variable
        node.run("ldconfig")
        node.root.at(f"{PLACE}/containers.conf").write_text(_CONFIG)
        root = node.root.at(_CONTAINER_ROOT)
        (root / "bin").mkdir(parents=True)
        program = root / "bin/busybox"
        shutil.copy2(kept_file("busybox-static", "busybox"), program)
        names = subprocess.run(
            [str(program), "--list"], capture_output=True, text=True, check=True, timeout=300
        ).stdout
        for name in names.split():
            if name != "busybox":
                (root / "bin" / name).symlink_to("busybox")

    def run(self, script: str, devices: Sequence[str]) -> subprocess.CompletedProcess[bytes]:
        """A shell script in a container that has these CDI devices, and nothing of one before."""
        root = self._node.root.at(_CONTAINER_ROOT)
        for name in ("dev", "etc", "opt", "proc", "run", "sys", "tmp", "usr", "var"):
            shutil.rmtree(root / name, ignore_errors=True)  # mounts leave the files on which they stood
            (root / name).mkdir()
        return self._node.run(
            "env",
            f"CONTAINERS_CONF={PLACE}/containers.conf",
            f"{PLACE}/podman",
            f"--root={PLACE}/data",
            "--runroot=/run/podman",
            f"--tmpdir=/run/podman-{os.getpid()}",
            "--storage-driver=vfs",
            "run",
            "--rm",
            "--network=none",
            "--cap-add=mknod",
            f"--cgroup-parent=/{self._node.cgroup}",
            *(f"--device={device}" for device in devices),
            "--rootfs",
            _CONTAINER_ROOT,
            "/bin/sh",
            "-c",
            script,
            check=False,
        )


def _what_the_machine_has(_folder: str, names: list[str]) -> set[str]:
    """Libraries that lie where the node finds its machine's."""
    folders = [folder for top in ("/lib", "/usr/lib") for folder in Path(top).glob("*-linux-gnu")]
    return {name for name in names if ".so" in name and any((folder / name).exists() for folder in folders)}
