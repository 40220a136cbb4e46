"""Names that people give to GPUs, and the label's values that they may mean."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from tonnage.decide.node.labels.syntax import sanitised
from tonnage.model.catalog.products import GpuProduct, gpu_products

_MEMORY: Final = re.compile(r"([0-9]{1,3})(GB|G|GIB)?")
_EMPTY_WORDS: Final = re.compile(r"NVIDIA|TESLA|GPU|RTX|HBM[0-9]E?|HBM")
_SOCKET: Final = re.compile(r"SXM[0-9]?")
_ROUNDING_GB: Final = 2


@dataclass(frozen=True, slots=True)
class ProductMeaning:
    """The labels that a name may mean, and whether that is certain."""

    labels: tuple[str, ...]
    certain: bool = False


def is_label(value: str) -> bool:
    """Whether GPU feature discovery writes the value for a product, or may: not every series is listed.

    >>> is_label("NVIDIA-H100-PCIe"), is_label("NVIDIA-GeForce-RTX-4090"), is_label("NVIDIA-H100")
    (True, True, False)
    """
    products = gpu_products()
    return value in products.labels or value.startswith(products.unlisted)


def product_meaning(value: str) -> ProductMeaning:
    """What a name that is no label may mean: every variant that its words fit.

    >>> product_meaning("NVIDIA-H100-SXM5-80GB")
    ProductMeaning(labels=('NVIDIA-H100-80GB-HBM3',), certain=True)
    >>> product_meaning("A100-80").labels, product_meaning("Foo-9000").labels
    (('NVIDIA-A100-SXM4-80GB', 'NVIDIA-A100-80GB-PCIe'), ())
    """
    products = gpu_products()
    plain = sanitised(value).lower()
    for family in products.families.values():
        for product in family:
            if product.label.lower() in (plain, plain.removeprefix("nvidia-")):
                return ProductMeaning((product.label,), certain=True)
    words = [word for word in re.split(r"[-_ ]+", value.upper()) if word]
    labels = tuple(
        product.label
        for family, variants in products.families.items()
        if family in words
        for product in variants
        if _fits([word for word in words if word != family], product)
    )
    return ProductMeaning(labels, certain=len(labels) == 1)


def nearest_label(value: str) -> str:
    """The label that is written most alike, empty where none is."""
    near = get_close_matches(value, sorted(gpu_products().labels), n=1, cutoff=0.8)
    return near[0] if near else ""


def _fits(words: list[str], product: GpuProduct) -> bool:
    own = set(product.label.upper().split("-"))
    return all(_is_of(word, product) or word in own for word in words)


def _is_of(word: str, product: GpuProduct) -> bool:
    """Whether a word says nothing, or what is so of the product."""
    if _EMPTY_WORDS.fullmatch(word) or word in product.forms:
        return True
    if word == "SXM":
        return any(_SOCKET.fullmatch(form) for form in product.forms)
    memory = _MEMORY.fullmatch(word)
    if memory is None or product.gb is None:
        return False
    return abs(int(memory[1]) - product.gb) <= _ROUNDING_GB
