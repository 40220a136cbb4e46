"""The rules in the order in which their findings are told."""

from __future__ import annotations

from typing import Final

from tonnage.diagnose.case import ManifestRule, Rule
from tonnage.diagnose.rules import (
    claims,
    gpu_config,
    links_undecided,
    not_advertised,
    numa,
    product_undecided,
    quantities,
    renamed_resource,
    single_request,
    volumes,
)

MANIFEST_RULES: Final[tuple[ManifestRule, ...]] = (quantities,)
RULES: Final[tuple[Rule, ...]] = (
    claims,
    volumes,
    renamed_resource,
    not_advertised,
    gpu_config,
    single_request,
    numa,
    product_undecided,
    links_undecided,
)
