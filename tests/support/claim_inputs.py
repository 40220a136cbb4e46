"""Devices and words of which tests of claims are made."""

from __future__ import annotations

from typing import Any

from tonnage.model.devices.inventory import Device, MigDevice

V = "resource.nvidia.com/v1beta1"

GPUS = tuple(Device(f"GPU-{n}", n, "Tesla T4", 15360, "7.5", minor=n) for n in range(3))


def part(profile: str, number: int | None, start: int, **more: Any) -> MigDevice:
    return MigDevice(
        f"MIG-{start}", start, profile, start, 0, 4864, (start, 1), profile_number=number, **more
    )
