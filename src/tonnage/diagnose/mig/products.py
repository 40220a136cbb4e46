"""What a GPU product can be divided into, by the catalogue alone; MIG-1, MIG-2, MIG-5."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from tonnage.decide.node.mig.goal import INSTEAD
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.mig import MigModel, MigProfile, is_undivided, mig_model, mig_models, usable_mib
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.mig.geometry import all_counts
from tonnage.model.mig.placements import placements, written
from tonnage.model.mig.profile_names import parse_profile

_SHORT: Final = re.compile(r"[A-Z]+[0-9]+-[0-9]{2,3}")
"""A model and the GB of its board; other GB are another board, or none."""
HEAD: Final = ("PROFILE", "MOST", "COMPUTE", "MEMORY", "MIB", "MAY BEGIN AT")


@dataclass(frozen=True, slots=True)
class Product:
    """GPUs of one kind. `key` is that of the catalogue of GPUs, empty where only its board is known."""

    name: str
    key: str
    memory_mib: int
    device: str = ""
    """Its PCI device id, where known."""


def product_named(text: str) -> Product:
    """By its key (`A100-80`), the driver's name or enough words of it. Raises ConfigError: unknown."""
    models = gpu_models()
    for key, model in models.items():
        if text.casefold() in (key.casefold(), model.product.casefold()):
            return Product(model.product, key, model.memory_mib, model.pci_device)
    if named := _short_names().get(text.upper()):
        return product_named(named)
    mig = None if _SHORT.fullmatch(text.upper()) else mig_model(text)
    if mig is not None:
        return Product(text, "", 1024 * max(parse_profile(name).gb for name in mig.profiles))
    if is_undivided(text):
        return Product(text, "", 0)
    raise ConfigError(Problem(f"unknown GPU model {text[:60]}", remedy=_nearest_names(text, tuple(models))))


def _short_names() -> dict[str, str]:
    """Names such as `H100-94`, model and GB of the board, and the name of a product that has it."""
    names: dict[str, str] = {}
    for model in mig_models():
        gb = max(parse_profile(name).gb for name in model.profiles)
        for words in model.words:
            spelt = _spelt(words)
            if _SHORT.fullmatch(f"{spelt[0]}-{gb}"):
                names[f"{spelt[0]}-{gb}"] = max(names.get(f"{spelt[0]}-{gb}", ""), " ".join(spelt), key=len)
    return names


def _nearest_names(text: str, models: tuple[str, ...]) -> str:
    """What may be asked for, and first what is most like a text; every name can be given as it is written."""
    mig_names = [" ".join(_spelt(words)) for model in mig_models() for words in model.words]
    names = {name.casefold(): name for name in (*mig_names, *models, *_short_names())}
    like = [candidate for candidate in names if text.casefold() in candidate] if text else []
    near = like or get_close_matches(text.casefold()[:60], names, n=3)
    meant = f"did you mean {' or '.join(names[candidate] for candidate in near[:4])}? " if near else ""
    return f"{meant}known: {'; '.join(sorted(names.values()))}"


def _spelt(words: Iterable[str]) -> list[str]:
    """The model's words before those of its memory."""
    return sorted(
        words, key=lambda word: (word[0].isdigit(), word not in ("RTX", "PRO"), word != "RTX", word)
    )


def model_of(product: Product) -> MigModel:
    """Raises ConfigError: it cannot be divided."""
    model = mig_model(product.name)
    if model is not None:
        return model
    undivided = is_undivided(product.name)
    why = "it has no MIG" if undivided else "the catalogue does not say what fits on it"
    raise ConfigError(Problem(f"{product.name} cannot be divided", why=why, remedy=" or ".join(INSTEAD)))


def profiles_json(product: Product) -> JsonObject:
    """The profiles of a product for scripts, the largest first."""
    model = model_of(product)
    memory, measured = usable_mib(model, product.key, product.memory_mib)
    return {
        "product": product.name,
        "computeSlices": model.compute,
        "memorySlices": model.memory,
        "estimated": not measured,
        "profiles": [
            {
                "name": profile.name,
                "most": profile.most,
                "computeSlices": profile.compute,
                "memorySlices": profile.memory,
                "memoryMiB": memory[parse_profile(profile.name).plain],
                "starts": [*profile.starts],
                **({"mediaEngines": profile.media, "flowEngines": profile.flow} if model.media else {}),
            }
            for profile in _largest_first(model)
        ],
    }


def profiles_rows(product: Product) -> Iterator[tuple[str, ...]]:
    """The same for a person, under `HEAD`; a tilde is before memory that is estimated."""
    model = model_of(product)
    memory, measured = usable_mib(model, product.key, product.memory_mib)
    for profile in _largest_first(model):
        yield (
            profile.name,
            str(profile.most),
            f"{profile.compute}/{model.compute}",
            f"{profile.memory}/{model.memory}",
            f"{'' if measured else '~'}{memory[parse_profile(profile.name).plain]}",
            ",".join(map(str, profile.starts)),
        )


def layouts_json(product: Product, *, media: bool) -> JsonObject:
    """Every full layout of a product, each with places that it can have. `media`: also of media variants."""
    layouts: list[JsonObject] = [
        {
            "profiles": dict(counts.items()),
            "placed": [{"profile": name, "start": start} for name, start in placed],
        }
        for counts, placed in _full(model_of(product), media=media)
    ]
    return {"product": product.name, "layouts": [*layouts]}


def layouts_rows(product: Product, *, media: bool) -> Iterator[tuple[str, str]]:
    """The same for a person: a layout as it is asked for, and where its instances go."""
    for counts, placed in _full(model_of(product), media=media):
        yield written(counts), ", ".join(f"{name}@{start}" for name, start in placed)


def _full(model: MigModel, *, media: bool) -> Iterator[tuple[dict[str, int], list[tuple[str, int]]]]:
    names = [name for name in model.profiles if media or name == parse_profile(name).plain]
    for counts in all_counts(model, names, full=True):
        placed = ((profile.name, start) for profile, start in placements(model, dict(counts)) or ())
        yield dict(reversed(counts)), sorted(placed, key=lambda placement: placement[1])


def _largest_first(model: MigModel) -> list[MigProfile]:
    return [*model.profiles.values()][::-1]
