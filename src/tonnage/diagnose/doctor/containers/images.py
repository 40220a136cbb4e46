"""APP-2: is an image's CUDA one that this driver and these GPUs can run?

Source: NVIDIA CUDA compatibility guide (any driver runs every minor version of its CUDA), CUDA release notes
(which toolkit compiles for which compute capability); NVIDIA_REQUIRE_CUDA of nvidia-container-toolkit v1.20.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.decide.node.runtime.versions import version_of
from tonnage.diagnose.doctor.finding import NodeFinding, finding
from tonnage.model.devices.inventory import Inventory
from tonnage.model.reasons.messages.node_symptoms import ImageNeedsNewerDriver
from tonnage.model.reasons.node.workload import ImageWithoutCodeForGpu

_SINCE: Final = (
    ((12, 1), (12, 9)),
    ((12, 0), (12, 8)),
    ((10, 3), (12, 9)),
    ((10, 0), (12, 8)),
    ((9, 0), (11, 8)),
    ((8, 9), (11, 8)),
    ((8, 6), (11, 1)),
    ((8, 0), (11, 0)),
    ((7, 5), (10, 0)),
    ((7, 0), (9, 0)),
)
"""Compute capability -> the first CUDA that compiles for it."""
_UNTIL: Final = (((13, 0), (7, 5)), ((12, 0), (5, 0)), ((11, 0), (3, 5)))
"""CUDA -> the lowest compute capability that it still compiles for."""


def image_findings(
    name: str, where: str, env: Mapping[str, str], capabilities: tuple[str, ...], inventory: Inventory | None
) -> Iterator[NodeFinding]:
    """`env` is the container's, with the CUDA version that NVIDIA's base images set."""
    cuda = version_of(env.get("CUDA_VERSION", ""))
    driver = version_of(inventory.cuda_version) if inventory is not None else None
    if cuda is None:
        return
    cuda_version = f"{cuda[0]}.{cuda[1]}"
    if inventory is not None and driver is not None and cuda[0] > driver[0]:
        yield finding(
            ImageNeedsNewerDriver(
                subject="",
                message=f"{name} is built with CUDA {cuda_version}; driver {inventory.driver_version} has"
                f" CUDA {inventory.cuda_version}",
                remedy=f"an image with CUDA {driver[0]}.x, a newer driver, or the package"
                f" cuda-compat-{cuda[0]}-{cuda[1]} in the image (data center GPUs only)",
                container=name,
                cuda=cuda_version,
                driver=inventory.driver_version,
            ),
            where=where,
            why="'CUDA driver version is insufficient for CUDA runtime version': a driver does not"
            " run a later major version",
        )
    for capability in dict.fromkeys(capabilities):
        capability_version = version_of(capability)
        reason = _no_code(cuda[:2], capability_version[:2]) if capability_version is not None else ""
        if reason:
            yield finding(
                ImageWithoutCodeForGpu(
                    message=f"{name} is built with CUDA {cuda_version}, which has no code for its GPU"
                    f" (compute capability {capability})",
                    remedy="an image whose CUDA knows the GPU, or a node with other GPUs"
                    " (label nvidia.com/gpu.compute.major)",
                    container=name,
                    cuda=cuda_version,
                    capability=capability,
                ),
                where=where,
                why=f"{reason}; 'no kernel image is available for execution on the device', unless it"
                " brings PTX",
            )


def _no_code(cuda: tuple[int, ...], capability: tuple[int, ...]) -> str:
    """Why that CUDA does not compile for that GPU; empty if it does.

    >>> _no_code((12, 4), (10, 0))
    'CUDA 12.8 is the first that supports it'
    >>> _no_code((13, 0), (7, 0)), _no_code((12, 4), (9, 0))
    ('CUDA 13.0 dropped it', '')
    """
    since = next((first for capability_limit, first in _SINCE if capability >= capability_limit), None)
    if since is not None and cuda < since:
        return f"CUDA {since[0]}.{since[1]} is the first that supports it"
    for version, lowest in _UNTIL:
        if cuda >= version:
            return f"CUDA {version[0]}.{version[1]} dropped it" if capability < lowest else ""
    return ""
