"""The rules in the order in which their reasons stand."""

from __future__ import annotations

from typing import Final

from tonnage.diagnose.case import ManifestRule, Rule
from tonnage.diagnose.rules.admission import ineffective_quotas, pod_fields
from tonnage.diagnose.rules.devices import (
    device_faults,
    false_labels,
    gpu_config,
    hami,
    idle_gpus,
    link_choice,
    mig_config,
    not_advertised,
    numa,
    product_choice,
    renamed_resource,
    shared_replicas,
    silent_agents,
    single_request,
)
from tonnage.diagnose.rules.resource_claims import cdi_support, claims, dropped_capacity, no_devices
from tonnage.diagnose.rules.scheduling import (
    cluster_wide,
    gates,
    missing_labels,
    pod_condition,
    preemption,
    schedulers,
    unverified_release,
    volumes,
)

MANIFEST_RULES: Final[tuple[ManifestRule, ...]] = (pod_fields,)
RULES: Final[tuple[Rule, ...]] = (
    hami,
    schedulers,
    gates,
    cluster_wide,
    preemption,
    claims,
    no_devices,
    volumes,
    renamed_resource,
    not_advertised,
    gpu_config,
    device_faults,
    silent_agents,
    mig_config,
    single_request,
    shared_replicas,
    numa,
    product_choice,
    false_labels,
    link_choice,
    missing_labels,
    idle_gpus,
    cdi_support,
    dropped_capacity,
    pod_condition,
    ineffective_quotas,
    unverified_release,
)
