"""What the API server refuses about a pod's spec outside of its containers: the same rule as `explain`'s."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.lint.finding import Draft, LintCode
from tonnage.diagnose.lint.items import PodSite, at_path, is_variable
from tonnage.diagnose.lint.world import World
from tonnage.documents.pod_fields import pod_level_faults
from tonnage.documents.pod_placement import placement_faults


def of_pod(site: PodSite, world: World) -> Iterator[Draft]:
    """Findings on fields that are refused whatever the cluster is."""
    del world
    for fault in pod_level_faults(site.spec):
        place = (*site.path, *fault.place)
        yield Draft(LintCode.POD_LEVEL, place, fault.told, fault.remedy, on_key=True)
    for fault in placement_faults(site.spec):
        if not is_variable(at_path(site.spec, fault.place)):
            place = (*site.path, *fault.place)
            yield Draft(LintCode.PLACEMENT_INVALID, place, fault.told, fault.remedy)
