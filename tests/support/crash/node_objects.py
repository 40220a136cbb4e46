"""What a node of the crash run is given, and what it should offer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.crash.hardware import Gpu
from support.crash.transitions import Place

_GPUS, _INSTANCES, _PARTS = 3, 16, 8


def should_offer(gpus: dict[int, Gpu]) -> dict[str, str]:
    """The resource of every device that is there."""
    found: dict[str, str] = {}
    for gpu in gpus.values():
        if not gpu.enabled:
            found[gpu.uuid] = "nvidia.com/gpu"
        found |= {uuid: f"nvidia.com/mig-{name.replace('+', '.')}" for uuid, name in gpu.names().items()}
    return found


def device_of(gpu: Gpu, place: Place) -> tuple[str, str]:
    """Resource and uuid of a MIG device of that GPU instance."""
    uuid = next(uuid for (gi, _), (_, uuid) in gpu.computes.items() if gi == place[1])
    return f"nvidia.com/mig-{gpu.names()[uuid].replace('+', '.')}", uuid


def named_object(name: str, **meta: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **meta}}


def gpu_pod(name: str, resource: str) -> dict[str, Any]:
    limits = {resource: "1"} if resource else {}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    return {**named_object(name), "spec": {"nodeName": "n", "containers": [container]}}


def write_capabilities(root: Path) -> None:
    """Numbers and nodes for every instance that may ever be, as a driver has them."""
    names = [
        f"gpu{gpu}/gi{gi}/{part}access"
        for gpu in range(_GPUS)
        for gi in range(_INSTANCES)
        for part in ("", *(f"ci{ci}/" for ci in range(_PARTS)))
    ]
    minors = root / "proc/driver/nvidia-caps/mig-minors"
    minors.parent.mkdir(parents=True, exist_ok=True)
    minors.write_text("".join(f"{name} {number}\n" for number, name in enumerate(names, start=3)))
    (root / "dev/nvidia-caps").mkdir(parents=True, exist_ok=True)
    for number in range(3, 3 + len(names)):
        (root / f"dev/nvidia-caps/nvidia-cap{number}").symlink_to("/dev/null")
    for gpu in range(_GPUS):
        (root / f"dev/nvidia{gpu}").symlink_to("/dev/null")
