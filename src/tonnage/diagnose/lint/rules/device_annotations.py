"""Annotations by which a pod gets devices that it does not request (ADM-8).

Source: nvidia-container-toolkit v1.20, its NRI plugin: `nvidia.cdi.k8s.io`, `…/pod`, `…/container.<name>`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import PodSite, mapping
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.model.reasons.lint.manifests import DeviceAnnotation

_ASKS: Final = "nvidia.cdi.k8s.io"
_LONGEST: Final = 100
_OPERATORS: Final = "gpu-operator"
"""The namespace that the chart's policy lets annotate by default, for the operator's own pods."""


def of_pod(site: PodSite, inputs: RuleInputs) -> Iterator[Draft]:
    """A finding for each annotation that asks NVIDIA's NRI plugin for devices."""
    del inputs
    if site.manifest.namespace == _OPERATORS:
        return
    for key, value in mapping(site.metadata.get("annotations")).items():
        if key == _ASKS or key.startswith(f"{_ASKS}/"):
            message = (
                f"this asks NVIDIA's NRI plugin for {str(value)[:_LONGEST]}: where that runs, any such pod"
                " gets it, and neither quota nor scheduler counts it; elsewhere nothing happens"
            )
            remedy = "request nvidia.com/gpu; the chart's admissionPolicy denies the annotation to tenants"
            place = (*site.path[:-1], "metadata", "annotations", key)
            reason = DeviceAnnotation(message=message, remedy=remedy, annotation=key, value=str(value))
            yield Draft(reason, place, on_key=True)
