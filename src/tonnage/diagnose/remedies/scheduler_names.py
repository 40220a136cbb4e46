"""Remedies of a pod that no scheduler serves: whatever else helps, one must take it on as well."""

from __future__ import annotations

from dataclasses import replace

from tonnage.diagnose.case import Case
from tonnage.diagnose.cluster_view import Ground
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.scheduler_profile import DEFAULT_NAME
from tonnage.model.reasons.gpu.allocation import SharedRequestTooLarge
from tonnage.model.reasons.messages.symptoms import TopologyAffinity
from tonnage.model.reasons.pod.pods import SchedulerSilent
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Remedy

_LEAVE = "leave it to the default scheduler"
_ALL = " (all of these are needed)"
"""What refuses a pod on the node that the scheduler takes."""


def served(
    remedies: tuple[Remedy, ...], case: Case, ground: Ground, reasons: tuple[Reason, ...]
) -> tuple[Remedy, ...]:
    """The remedies as they help a pod whose scheduler is silent; the same where it is not."""
    silent = next((reason for reason in reasons if isinstance(reason, SchedulerSilent)), None)
    if silent is None:
        return remedies
    if not silent.lasting:
        once = ", once kube-scheduler runs"
        return tuple(replace(remedy, effect=remedy.effect + once) for remedy in remedies)
    parts = case.original != case.pod  # what it asks of its own scheduler the default one does not know
    as_default = replace(case.original, scheduler_name=DEFAULT_NAME)
    chosen = ground.chosen(as_default, case.view) if parts else case.decision.chosen
    if chosen is not None and not any(
        isinstance(reason, TopologyAffinity | SharedRequestTooLarge) for reason in reasons
    ):
        patch: JsonObject = {"spec": {"schedulerName": DEFAULT_NAME}}
        return (Remedy(_LEAVE, f"fits {chosen}", patch),)
    return () if parts else tuple(_as_well(remedy) for remedy in remedies)


def _as_well(remedy: Remedy) -> Remedy:
    spec = remedy.patch.get("spec")
    patch: JsonObject = {"spec": {"schedulerName": DEFAULT_NAME, **(spec if isinstance(spec, dict) else {})}}
    return Remedy(f"{_LEAVE}; and {remedy.action}", remedy.effect.removesuffix(_ALL) + _ALL, patch)
