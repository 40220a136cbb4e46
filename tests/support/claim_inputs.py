"""Devices and words of which tests of claims are made."""

from __future__ import annotations

from typing import Any

from tonnage.model.devices.inventory import Device, MigDevice, ProfileSize

V = "resource.nvidia.com/v1beta1"

GPUS = tuple(Device(f"GPU-{n}", n, "Tesla T4", 15360, "7.5", minor=n) for n in range(3))

A100_SIZES = {
    19: ProfileSize(4864, 14, copy_engines=1),
    20: ProfileSize(4864, 14, 1, decoders=1, jpeg_engines=1, optical_flow_engines=1),
    15: ProfileSize(9856, 14, 1, decoders=1),
    14: ProfileSize(9856, 28, 2, decoders=1),
    9: ProfileSize(19968, 42, 3, decoders=2),
    5: ProfileSize(19968, 56, 4, decoders=2),
    0: ProfileSize(40192, 98, 7, decoders=5, jpeg_engines=1, optical_flow_engines=1),
}
"""Of an A100 with 40 GB, by the driver's number of the profile, as `nvidia-smi mig -lgip` lists them."""


def part(profile: str, number: int | None, start: int, **more: Any) -> MigDevice:
    return MigDevice(
        f"MIG-{start}", start, profile, start, 0, 4864, (start, 1), profile_number=number, **more
    )
