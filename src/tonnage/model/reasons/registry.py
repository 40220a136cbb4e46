"""Every class of reasons by its code, out of the folders beside this module."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Final

from tonnage.model.reasons.cluster import adoption, drivers, operator
from tonnage.model.reasons.gpu import allocation, claim_preparation, claim_serving, devices, mig, offers
from tonnage.model.reasons.lint import configurations, manifests, placements
from tonnage.model.reasons.messages import driver_symptoms, node_symptoms, symptoms
from tonnage.model.reasons.node import (
    cdi,
    device_nodes,
    driver,
    hardware,
    kubelet_files,
    labels,
    libraries,
    plugin,
    runtime,
    runtime_plans,
    toolkit,
    workload,
)
from tonnage.model.reasons.pod import (
    admission,
    claims,
    kubelet,
    migration,
    pods,
    quota,
    scheduling,
    volumes,
    workloads,
)
from tonnage.model.reasons.reason import ManifestReason, NodeReason, Reason

_ALL: Final[tuple[type[Reason], ...]] = (
    *admission.REASONS,
    *quota.REASONS,
    *scheduling.REASONS,
    *volumes.REASONS,
    *claims.REASONS,
    *pods.REASONS,
    *kubelet.REASONS,
    *devices.REASONS,
    *mig.REASONS,
    *offers.REASONS,
    *allocation.REASONS,
    *claim_preparation.REASONS,
    *claim_serving.REASONS,
    *operator.REASONS,
    *drivers.REASONS,
    *adoption.REASONS,
    *migration.REASONS,
    *workloads.REASONS,
    *node_symptoms.REASONS,
    *manifests.REASONS,
    *placements.REASONS,
    *configurations.REASONS,
    *symptoms.REASONS,
    *driver_symptoms.REASONS,
    *hardware.REASONS,
    *driver.REASONS,
    *device_nodes.REASONS,
    *libraries.REASONS,
    *runtime.REASONS,
    *toolkit.REASONS,
    *cdi.REASONS,
    *kubelet_files.REASONS,
    *plugin.REASONS,
    *labels.REASONS,
    *workload.REASONS,
    *runtime_plans.REASONS,
)


@cache
def reasons() -> Mapping[str, type[Reason]]:
    """All of them, by code.

    >>> reasons()["taint-not-tolerated"].__name__
    'TaintNotTolerated'
    """
    return MappingProxyType({cls.code: cls for cls in _ALL})


@cache
def aliases() -> Mapping[str, type[Reason]]:
    """Those that doctor or lint print by another code, by that code."""
    return MappingProxyType({cls.alias: cls for cls in _ALL if cls.alias})


@cache
def node_reasons() -> tuple[type[NodeReason], ...]:
    """Those that doctor can find."""
    return tuple(cls for cls in _ALL if issubclass(cls, NodeReason))


@cache
def manifest_reasons() -> tuple[type[ManifestReason], ...]:
    """Those that lint can find."""
    return tuple(cls for cls in _ALL if issubclass(cls, ManifestReason))
