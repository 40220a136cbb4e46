"""What the API server refuses about a pod's spec outside of its containers: the same rule as `explain`'s."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.lint.finding import Draft, field_draft
from tonnage.diagnose.lint.manifest_objects import PodSite, at_path, is_variable
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.pods.fields import field_faults, pod_level_faults
from tonnage.documents.pods.placement import placement_faults
from tonnage.model.reasons.pod.admission import PodFieldInvalid, PodLevelResource, PodPlacementInvalid


def of_pod(site: PodSite, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on fields that are refused whatever the cluster is."""
    for fault in pod_level_faults(site.spec):
        yield field_draft(PodLevelResource, fault, site, on_key=True)
    if inputs.shapes.knows(site.manifest.api_version, site.manifest.kind):
        yield from _fields(site)
    for fault in placement_faults(site.spec):
        if not is_variable(at_path(site.spec, fault.place)):
            yield field_draft(PodPlacementInvalid, fault, site)


def _fields(site: PodSite) -> Iterator[Draft]:
    """A custom kind may fill in names and images by itself."""
    for fault in field_faults(site.spec):
        if not is_variable(at_path(site.spec, fault.place)):
            yield field_draft(PodFieldInvalid, fault, site)
