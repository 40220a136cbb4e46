"""The names of NVIDIA's products as NVML gives them, out of `products.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class GpuProduct:
    """A variant of a model; `gb` as it is marketed, None where that is not told."""

    name: str
    gb: int | None = None
    forms: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The value of nvidia.com/gpu.product, in which GPU feature discovery writes - for blanks."""
        return self.name.replace(" ", "-")


@dataclass(frozen=True, slots=True)
class GpuProducts:
    """The variants of each family. `unlisted`: how labels of series begin that are not listed.

    `without_vendor` are the families whose labels older drivers wrote without NVIDIA.
    """

    families: Mapping[str, tuple[GpuProduct, ...]]
    unlisted: tuple[str, ...]

    without_vendor: tuple[str, ...]

    @property
    def labels(self) -> frozenset[str]:
        """Every label, also as drivers before 470 wrote it, which left the vendor out."""
        older = (product for family in self.without_vendor for product in self.families[family])
        return frozenset(
            {product.label for family in self.families.values() for product in family}
            | {product.label.removeprefix("NVIDIA-") for product in older}
        )


@cache
def gpu_products() -> GpuProducts:
    """Read once.

    >>> [product.label for product in gpu_products().families["H200"]]
    ['NVIDIA-H200', 'NVIDIA-H200-NVL']
    """
    text = resources.files(__package__).joinpath("products.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    families = {
        family: tuple(GpuProduct(row["name"], row.get("gb"), tuple(row.get("forms", ()))) for row in rows)
        for family, rows in table["families"].items()
    }
    return GpuProducts(MappingProxyType(families), tuple(table["unlisted"]), tuple(table["without_vendor"]))
