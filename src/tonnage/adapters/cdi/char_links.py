"""Links `/dev/char/<major>:<minor>` to the driver's nodes, by which systemd knows devices.

A container runtime whose cgroups are systemd's names devices so. Without the links older ones leave the
devices out of systemd's rules, and the next `systemctl daemon-reload` takes them away from containers that
run: "Failed to initialize NVML: Unknown Error". udev makes none for NVIDIA's nodes.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tonnage.adapters.cdi.device_nodes import read_device_nodes
from tonnage.adapters.checkpoints import file_problem
from tonnage.model.errors import HardwareError

_FOLDER: Final = "dev/char"


def missing_links(root: Path) -> Mapping[str, str]:
    """Links that are not there, by path, and where they are to lead; `root` stands before /dev."""
    missing: dict[str, str] = {}
    for path in sorted(read_device_nodes(root).own):
        try:
            number = (root / path[1:]).stat().st_rdev
        except OSError:  # it went meanwhile
            continue
        link = f"/{_FOLDER}/{os.major(number)}:{os.minor(number)}"
        if not os.path.lexists(root / link[1:]):
            missing.setdefault(link, f"../{path.removeprefix('/dev/')}")
    return missing


def make_links(root: Path, links: Mapping[str, str]) -> None:
    """Make them; what is there by now stays.

    Raises:
        HardwareError: one cannot be created.
    """
    for path, target in links.items():
        link = root / path[1:]
        try:
            link.parent.mkdir(mode=0o755, exist_ok=True)
            if not os.path.lexists(link):
                link.symlink_to(target)
        except OSError as error:
            raise HardwareError(file_problem("cannot be created", link, error)) from None
