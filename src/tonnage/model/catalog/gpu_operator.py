"""Releases of NVIDIA's GPU operator and what each was released with, out of `gpu_operator.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class OperatorRelease:
    """Versions without a `v`, and without the system that an image is for."""

    version: str
    driver: str
    toolkit: str
    device_plugin: str


@cache
def operator_releases() -> Mapping[str, OperatorRelease]:
    """Every known release by its version; read once.

    >>> operator_releases()["26.7.0"].toolkit
    '1.20.0'
    """
    text = resources.files(__package__).joinpath("gpu_operator.toml").read_text(encoding="utf-8")
    rows = (OperatorRelease(**row) for row in tomllib.loads(text)["release"])
    return MappingProxyType({row.version: row for row in rows})
