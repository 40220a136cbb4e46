"""MIG profiles of GPU boards out of `mig.toml`: what each takes, and how many a GPU holds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True, slots=True)
class MigProfile:
    """What a profile takes of a GPU, in slices, and how many of it a GPU holds at most.

    `starts` are the memory slices at which one may begin. `media` (decoders, encoders, JPEG engines each)
    and `flow` (optical flow) are engines that it takes, where a board has too few of them for every layout.
    """

    name: str
    compute: int
    memory: int
    most: int
    starts: tuple[int, ...] = ()
    media: int = 0
    flow: int = 0


@dataclass(frozen=True, slots=True)
class MigBoard:
    """GPUs that have the same profiles. `devices` are PCI device ids, `balanced` NVIDIA's mixed layout.

    Products whose name has all the words of one of `words` are on it.
    """

    name: str
    compute: int
    memory: int
    profiles: Mapping[str, MigProfile] = field(hash=False)
    devices: tuple[str, ...]
    balanced: Mapping[str, int] = field(default_factory=dict, hash=False)
    words: tuple[frozenset[str], ...] = ()
    media: int = 0
    flow: int = 0


@cache
def _table() -> Mapping[str, Any]:
    text = resources.files(__package__).joinpath("mig.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


@cache
def mig_boards() -> tuple[MigBoard, ...]:
    """Every known board; read once."""
    table = _table()
    found: list[MigBoard] = []
    for name, row in table["boards"].items():
        family = table["families"][row["family"]]
        profiles = {
            profile: MigProfile(profile, **{**kind, "starts": tuple(kind.get("starts", ()))})
            for profile, kind in zip(row["names"], family["kinds"], strict=True)
        }
        balanced = {row["names"][place]: count for place, count in family.get("balanced", ())}
        words = tuple(frozenset(some) for some in row.get("words", ()))
        sizes, devices = (family["compute"], family["memory"]), tuple(row["devices"])
        engines = family.get("engines", {})
        found.append(MigBoard(name, *sizes, MappingProxyType(profiles), devices, balanced, words, **engines))
    return tuple(found)


@cache
def mig_profiles() -> tuple[str, ...]:
    """The names of all profiles, sorted.

    >>> "1g.10gb" in mig_profiles(), "1g.11gb" in mig_profiles()
    (True, False)
    """
    return tuple(sorted({name for board in mig_boards() for name in board.profiles}))


def mig_board(product: str, profiles: Iterable[str] = ()) -> MigBoard | None:
    """The board of a product by the driver's name or its label's spelling; None: not known here.

    Where a product is built in several ways, it is the one that has most of `profiles`.

    >>> mig_board("NVIDIA-A100-SXM4-40GB").name, mig_board("Tesla T4")
    ('A100 40GB', None)
    >>> mig_board("NVIDIA GB200").name, mig_board("NVIDIA GB200", ["3g.95gb"]).name
    ('GB200', 'GB200 of 189 GB')
    """
    told, wanted = _words(product), {*profiles}
    fitting = {board.name: [len(some) for some in board.words if some <= told] for board in mig_boards()}
    able = [board for board in mig_boards() if fitting[board.name]]
    return max(
        able, key=lambda board: (len(wanted & board.profiles.keys()), max(fitting[board.name])), default=None
    )


def told_board(product: str, known: MigBoard | None, told: Iterable[MigProfile]) -> MigBoard:
    """The board of which a driver told these profiles and their places; engines are as `known`.

    >>> told_board("Z9", None, [MigProfile("1g.9gb", 1, 1, 2, (0, 1))]).memory
    2
    """
    there = {one.name: one for one in told}
    if known is None:
        sizes = max(one.compute for one in there.values()), _end(there.values())
        return MigBoard(product, *sizes, MappingProxyType(there), ())
    order = [name for name in known.profiles if name in there]
    order += sorted(there.keys() - known.profiles.keys())
    profiles = {
        name: replace(there[name], media=known.profiles[name].media, flow=known.profiles[name].flow)
        if name in known.profiles
        else there[name]
        for name in order
    }
    balanced = known.balanced if known.balanced.keys() <= there.keys() else {}
    return replace(known, memory=_end(there.values()), profiles=MappingProxyType(profiles), balanced=balanced)


def _end(profiles: Iterable[MigProfile]) -> int:
    return max(one.starts[-1] + one.memory for one in profiles)


def usable_mib(board: MigBoard, key: str, total_mib: int) -> tuple[dict[str, int], bool]:
    """(MiB that a device of each profile has, whether that was seen); media variants are left out.

    `key` is the product's in the catalogue of GPUs. Where nobody has seen it: its slices less 5 %.

    >>> usable_mib(mig_board("NVIDIA A100-SXM4-80GB"), "A100-80", 81920)[0]["1g.10gb"]
    9856
    """
    plain = [name for name in board.profiles if "+" not in name and "-" not in name]
    seen = _table()["memory_mib"].get(key)
    if seen is not None:
        return dict(zip(plain, seen, strict=True)), True
    share = {name: board.profiles[name].memory / board.memory for name in plain}
    return {name: int(total_mib * share[name] * 0.95) for name in plain}, False


def is_undivided(product: str) -> bool:
    """Whether it is known that a product cannot be divided.

    >>> is_undivided("Tesla V100-SXM2-16GB"), is_undivided("NVIDIA A100-SXM4-40GB"), is_undivided("RTX 9")
    (True, False, False)
    """
    return mig_board(product) is None and not _words(product).isdisjoint(_table()["undivided"]["words"])


def _words(product: str) -> frozenset[str]:
    return frozenset(re.split(r"[^A-Z0-9]+", product.upper()))
