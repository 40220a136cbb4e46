"""Names of resources, in what containers ask for and in quotas: which cannot exist, and what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from tonnage.diagnose.lint.finding import Draft
from tonnage.documents.yaml.reader import Path
from tonnage.model.catalog.mig import mig_profiles
from tonnage.model.kubernetes.name_words import without_pattern, wrong_in_container_resource
from tonnage.model.names import GPU, MIG_PREFIX, SHARED_SUFFIX
from tonnage.model.reasons.lint.configurations import MigProfileUnknown
from tonnage.model.reasons.lint.manifests import ResourceNameUnknown
from tonnage.model.severity import Severity

_STANDARD: Final = ("cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi")
_PREFIXES: Final = ("requests.", "limits.")
_DEVICES: Final = (
    GPU,
    GPU + SHARED_SUFFIX,
    "amd.com/gpu",
    "habana.ai/gaudi",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
)
_OTHERS: Final = re.compile(
    r"nvidia\.com/(gpumem|gpucores|gpumem-percentage|vgpu|pgpu|priority|hostdev|rdma.*|[A-Z].*|.*_.*)"
)
"""Names that other programs offer under the vendor's domain."""
_CUTOFF: Final = 0.82


def name_drafts(name: str, place: Path) -> Iterator[Draft]:
    """A resource name that cannot exist, or is close to one that does."""
    if "/" not in name:
        if next(wrong_in_container_resource(name), ""):
            near = get_close_matches(f"nvidia.com/{name}", _DEVICES, n=1, cutoff=_CUTOFF)
            remedy = (
                f"use {near[0]} if you meant that"
                if near
                else f"use one of {', '.join(_STANDARD)}, or domain/name"
            )
            message = f"{name[:100]} is not a Kubernetes resource, and has no domain"
            why = "must be a standard resource type or fully qualified"
            meant = near[0] if near else None
            yield _refused(
                ResourceNameUnknown(message=message, remedy=remedy, resource=name, meant=meant), why, place
            )
        return
    # Before the general rule, which refuses these keys as well but knows no remedy.
    if name.startswith(_PREFIXES):
        message = f"{name[:100]} is a quota's key, not a resource"
        meant = name.partition(".")[2]
        remedy, why = f"write {meant[:100]}", "doesn't follow extended resource name standard"
        yield _refused(
            ResourceNameUnknown(message=message, remedy=remedy, resource=name, meant=meant), why, place
        )
        return
    wrong = next(wrong_in_container_resource(name), "")
    if wrong:
        message, remedy = f"{name[:100]} is not a valid resource name", "write domain/name"
        yield _refused(ResourceNameUnknown(message=message, remedy=remedy, resource=name), wrong, place)
        return
    bare = name.removesuffix(SHARED_SUFFIX)
    if bare.startswith(MIG_PREFIX):
        yield from _mig_name(bare, place)
        return
    if name in _DEVICES or _OTHERS.fullmatch(name):
        return
    near = get_close_matches(name.lower(), _DEVICES, n=1, cutoff=_CUTOFF)
    if near:
        message = f"{name[:100]} is not a name that a device plugin offers by itself"
        remedy = f"use {near[0]} if you meant that"
        reason = ResourceNameUnknown(message=message, remedy=remedy, resource=name, meant=near[0])
        yield Draft(reason, place, on_key=True)


def _refused(reason: ResourceNameUnknown, why: str, place: Path) -> Draft:
    """A name that the API server does not take; `why` in its words."""
    why = f"the API server refuses it: {without_pattern(why)}"
    return Draft(reason, place, why, severity=Severity.ERROR, on_key=True)


def _mig_name(name: str, place: Path) -> Iterator[Draft]:
    profile = name.removeprefix(MIG_PREFIX)
    profiles = {name_with_plus.replace("+", "."): name_with_plus for name_with_plus in mig_profiles()}
    if profile in profiles:
        return
    instance = re.fullmatch(r"[1-7]c\.(.+)", profile)
    if instance is not None and instance[1] in profiles:
        message, near = (
            f"{name} is a compute instance; the device plugin offers whole GPU instances",
            [instance[1]],
        )
    else:
        near = get_close_matches(profile, list(profiles), n=1, cutoff=0.5)
        message = f"no known GPU has a MIG profile {profile[:60]}"
    meant = f"{MIG_PREFIX}{near[0]}" if near else None
    remedy = f"use {meant} if you meant that" if meant else "see nvidia-smi mig -lgip"
    reason = MigProfileUnknown(message=message, remedy=remedy, profile=profile, meant=meant)
    yield Draft(reason, place, on_key=True)
