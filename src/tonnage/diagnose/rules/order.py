"""The rules in the order in which their findings are told."""

from __future__ import annotations

from typing import Final

from tonnage.diagnose.case import ManifestRule, Rule
from tonnage.diagnose.rules import (
    claims,
    claims_by_cdi,
    condition,
    device_faults,
    gates,
    gpu_config,
    halted,
    hami,
    held_idle,
    labels_of_nobody,
    links_undecided,
    mig_config,
    not_advertised,
    numa,
    pod_fields,
    preemption,
    product_undecided,
    quota_without_effect,
    renamed_resource,
    schedulers,
    single_request,
    unverified_release,
    volumes,
)

MANIFEST_RULES: Final[tuple[ManifestRule, ...]] = (pod_fields,)
RULES: Final[tuple[Rule, ...]] = (
    hami,
    schedulers,
    gates,
    halted,
    preemption,
    claims,
    volumes,
    renamed_resource,
    not_advertised,
    gpu_config,
    device_faults,
    mig_config,
    single_request,
    numa,
    product_undecided,
    links_undecided,
    labels_of_nobody,
    held_idle,
    claims_by_cdi,
    condition,
    quota_without_effect,
    unverified_release,
)
