"""MIG profiles of GPU boards out of `mig.toml`: what each takes, and how many a GPU holds."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class MigProfile:
    """What a profile takes of a GPU, in slices, and how many of it a GPU holds at most."""

    name: str
    compute: int
    memory: int
    most: int


@dataclass(frozen=True, slots=True)
class MigBoard:
    """GPUs that have the same profiles. `devices` are PCI device ids."""

    name: str
    compute: int
    memory: int
    profiles: Mapping[str, MigProfile]
    devices: tuple[str, ...]


@cache
def mig_boards() -> tuple[MigBoard, ...]:
    """Every known board; read once."""
    text = resources.files(__package__).joinpath("mig.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    found: list[MigBoard] = []
    for name, row in table["boards"].items():
        family = table["families"][row["family"]]
        profiles = {
            profile: MigProfile(profile, **kind)
            for profile, kind in zip(row["names"], family["kinds"], strict=True)
        }
        devices = tuple(row["devices"])
        found.append(MigBoard(name, family["compute"], family["memory"], MappingProxyType(profiles), devices))
    return tuple(found)


@cache
def mig_profiles() -> tuple[str, ...]:
    """The names of all profiles, sorted.

    >>> "1g.10gb" in mig_profiles(), "1g.11gb" in mig_profiles()
    (True, False)
    """
    return tuple(sorted({name for board in mig_boards() for name in board.profiles}))
