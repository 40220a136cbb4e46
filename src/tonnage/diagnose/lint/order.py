"""The rules in the order in which they look."""

from __future__ import annotations

from typing import Final

from tonnage.diagnose.lint.rule_inputs import ItemRule, PodRule
from tonnage.diagnose.lint.rules import (
    api_server,
    claims,
    cluster_policy,
    counters,
    device_annotations,
    device_plugin,
    fields,
    gated_fields,
    kubelet_configuration,
    mig_parted,
    monitors,
    names,
    node_labels,
    placement,
    pod_fields,
    quotas,
    requests,
    tolerations,
)

ITEM_RULES: Final[tuple[ItemRule, ...]] = (
    requests,
    quotas,
    device_plugin,
    mig_parted,
    cluster_policy,
    kubelet_configuration,
    claims,
    gated_fields,
    monitors,
    counters,
    fields,
    api_server,
)
POD_RULES: Final[tuple[PodRule, ...]] = (
    requests,
    claims,
    tolerations,
    pod_fields,
    node_labels,
    names,
    placement,
    device_annotations,
)
