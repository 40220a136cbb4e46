"""MIG profiles of GPU models out of `mig.toml`: what each takes, and how many a GPU holds."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from tonnage.model.mig.profile_names import ProfileName


@dataclass(frozen=True, slots=True)
class MigProfile:
    """What a profile takes of a GPU, in slices, and how many of it a GPU holds at most.

    `starts` are the memory slices at which one may begin. `media` (decoders, encoders, JPEG engines each)
    and `flow` (optical flow) are engines that it takes, where a model has too few of them for every layout.
    `number` is the driver's own for it; None: not known.
    """

    name: str
    compute: int
    memory: int
    most: int
    starts: tuple[int, ...] = ()
    media: int = 0
    flow: int = 0
    number: int | None = None


@dataclass(frozen=True, slots=True)
class MigModel:
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
def mig_models() -> tuple[MigModel, ...]:
    """Every known model; read once."""
    table = _table()
    models: list[MigModel] = []
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
        models.append(MigModel(name, *sizes, MappingProxyType(profiles), devices, balanced, words, **engines))
    return tuple(models)


@cache
def mig_profiles() -> tuple[str, ...]:
    """The names of all profiles, sorted.

    >>> "1g.10gb" in mig_profiles(), "1g.11gb" in mig_profiles()
    (True, False)
    """
    return tuple(sorted({name for model in mig_models() for name in model.profiles}))


def mig_model(product: str, profiles: Iterable[str] = ()) -> MigModel | None:
    """The model of a product by the driver's name or its label's spelling; None: not known here.

    Where a product is built in several ways, it is the one that has most of `profiles`.

    >>> mig_model("NVIDIA-A100-SXM4-40GB").name, mig_model("Tesla T4")
    ('A100 40GB', None)
    >>> mig_model("NVIDIA GB200").name, mig_model("NVIDIA GB200", ["3g.95gb"]).name
    ('GB200', 'GB200 of 189 GB')
    """
    fitting, profile_names = _fitting(product), {*profiles}
    return max(
        fitting,
        key=lambda model: (len(profile_names & model.profiles.keys()), fitting[model]),
        default=None,
    )


@lru_cache(maxsize=64)
def _fitting(product: str) -> Mapping[MigModel, int]:
    """Models that a product may be -> how many words of its name say so. A fleet has few products."""
    product_words = _words(product)
    words = {model: [len(some) for some in model.words if some <= product_words] for model in mig_models()}
    return MappingProxyType({model: max(lengths) for model, lengths in words.items() if lengths})


def reported_model(product: str, catalogued: MigModel | None, reported: Iterable[MigProfile]) -> MigModel:
    """The model whose driver has reported these profiles and their places; engines are as `catalogued`.

    >>> reported_model("Z9", None, [MigProfile("1g.9gb", 1, 1, 2, (0, 1))]).memory
    2
    """
    there = {profile.name: profile for profile in reported}
    if catalogued is None:
        sizes = max(profile.compute for profile in there.values()), _end(there.values())
        return MigModel(product, *sizes, MappingProxyType(there), ())
    order = [name for name in catalogued.profiles if name in there]
    order += sorted(there.keys() - catalogued.profiles.keys())
    profiles = {
        name: replace(there[name], media=catalogued.profiles[name].media, flow=catalogued.profiles[name].flow)
        if name in catalogued.profiles
        else there[name]
        for name in order
    }
    balanced = catalogued.balanced if catalogued.balanced.keys() <= there.keys() else {}
    return replace(
        catalogued, memory=_end(there.values()), profiles=MappingProxyType(profiles), balanced=balanced
    )


def _end(profiles: Iterable[MigProfile]) -> int:
    return max(profile.starts[-1] + profile.memory for profile in profiles)


def usable_mib(model: MigModel, key: str, total_mib: int) -> tuple[dict[str, int], bool]:
    """(MiB that a device of each profile has, whether that was seen); media variants are left out.

    `key` is the product's in the catalogue of GPUs. Where nobody has seen it: its slices less 5 %.

    >>> usable_mib(mig_model("NVIDIA A100-SXM4-80GB"), "A100-80", 81920)[0]["1g.10gb"]
    9856
    """
    plain = [name for name in model.profiles if "+" not in name and "-" not in name]
    measured = _table()["memory_mib"].get(key)
    if measured is not None:
        return dict(zip(plain, measured, strict=True)), True
    share = {name: model.profiles[name].memory / model.memory for name in plain}
    return {name: int(total_mib * share[name] * 0.95) for name in plain}, False


def device_mib(model: MigModel, key: str, total_mib: int, profile: ProfileName) -> int:
    """MiB that a device of a profile has; 0 where the model has no such profile.

    Compute instances and media variants have the memory of their plain GPU instance.
    """
    return usable_mib(model, key, total_mib)[0].get(profile.plain, 0)


def is_undivided(product: str) -> bool:
    """Whether it is known that a product cannot be divided.

    >>> is_undivided("Tesla V100-SXM2-16GB"), is_undivided("NVIDIA A100-SXM4-40GB"), is_undivided("RTX 9")
    (True, False, False)
    """
    return mig_model(product) is None and not _words(product).isdisjoint(_table()["undivided"]["words"])


def _words(product: str) -> frozenset[str]:
    return frozenset(re.split(r"[^A-Z0-9]+", product.upper()))
