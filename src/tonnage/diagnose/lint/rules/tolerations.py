"""Tolerations that the API server refuses.

Source: k8s.io/kubernetes pkg/apis/core/validation (ValidateTolerations), 1.36.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.lint.finding import Draft, field_draft
from tonnage.diagnose.lint.manifest_objects import PodSite, mappings
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.pods.fields import toleration_faults
from tonnage.model.reasons.pod.admission import TolerationInvalid
from tonnage.model.severity import Severity

_WITHOUT: Final = 35
"""The last minor version of which it is known that Gt and Lt are refused."""


def of_pod(site: PodSite, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on each toleration."""
    for fault in toleration_faults(site.spec):
        yield field_draft(TolerationInvalid, fault, site)
    for index, toleration in mappings(site.spec.get("tolerations")):
        operator = toleration.get("operator")
        if operator in ("Gt", "Lt"):
            at = (*site.path, "tolerations", index, "operator")
            late = Severity.WARNING if inputs.minor > _WITHOUT else Severity.ERROR
            message = f"{operator} needs a feature gate that is off"
            reason = TolerationInvalid(subject=site.manifest.subject, message=message, remedy="use Equal")
            yield Draft(reason, at, "the API server refuses it", severity=late)
