"""GPU models out of `gpus.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class GpuModel:
    """A product; `key` is its short name, `product` and `memory_mib` what NVML says, clocks the highest."""

    key: str
    product: str
    memory_mib: int
    compute_capability: str
    architecture: str
    power_limit_w: int
    mig: bool
    pci_device: str
    source: str
    sm_clock_mhz: int = 1500
    memory_clock_mhz: int = 1500
    nvswitch_links: int = 0


@cache
def gpu_models() -> Mapping[str, GpuModel]:
    """Every known model by key; read once.

    >>> gpu_models()["T4"].memory_mib
    15360
    """
    text = resources.files(__package__).joinpath("gpus.toml").read_text(encoding="utf-8")
    return MappingProxyType({key: GpuModel(key=key, **row) for key, row in tomllib.loads(text).items()})
