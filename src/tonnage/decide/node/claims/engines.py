"""Multiprocessors and engines as capacities of a device, and as counters that MIG devices of a GPU share.

Source: kubernetes-sigs/dra-driver-nvidia-gpu v0.5, cmd/gpu-kubelet-plugin.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tonnage.model.devices.inventory import Device, MigDevice, ProfileSize

COUNTERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "multiprocessors": "multiprocessors",
        "copyEngines": "copy-engines",
        "decoders": "decoders",
        "encoders": "encoders",
        "jpegEngines": "jpeg-engines",
        "ofaEngines": "ofa-engines",
    }
)
"""NVIDIA's names of the counters, by those of the capacities."""


def size_of(device: Device, number: int | None) -> ProfileSize | None:
    """What the driver tells of the profile of that number."""
    return None if number is None else device.profile_sizes.get(number)


def engines_of(size: ProfileSize | MigDevice) -> dict[str, str]:
    """The capacities of a MIG device beside its memory."""
    return {name: str(count) for name, count in _counts(size).items()}


def most_engines(device: Device) -> dict[str, str]:
    """The capacities of a whole GPU beside its memory: the most that one of its MIG devices has.

    That is all but on boards that keep some of it from MIG. Empty where the driver tells of no profile.
    """
    counts = [_counts(size) for size in device.profile_sizes.values()]
    return {name: str(max(counted[name] for counted in counts)) for name in COUNTERS} if counts else {}


def _counts(size: ProfileSize | MigDevice) -> dict[str, int]:
    return {
        "multiprocessors": size.multiprocessors,
        "copyEngines": size.copy_engines,
        "decoders": size.decoders,
        "encoders": size.encoders,
        "jpegEngines": size.jpeg_engines,
        "ofaEngines": size.optical_flow_engines,
    }
