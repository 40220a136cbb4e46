"""Resource claims as a whole: what is missing before any node is looked at, and selectors that fail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from tonnage.decide.kubernetes.admission.quota import claim_refusals
from tonnage.decide.kubernetes.admission.quota_refusals import exceeded_by_claim
from tonnage.decide.kubernetes.claims.device_requests import MOST_DEVICES
from tonnage.decide.kubernetes.claims.pod_claims import claims_of
from tonnage.decide.kubernetes.scheduler.filters.claims import NAME
from tonnage.diagnose.case import Case
from tonnage.diagnose.counted_claims import over_quota_on
from tonnage.diagnose.explain.template_claims import with_made_claims
from tonnage.diagnose.related_resources import class_remedy
from tonnage.diagnose.remedies.selector_advice import advised, written_otherwise
from tonnage.model.kubernetes.resource_claims import PodClaim, ResourceClaim
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.claims import ClaimError, ClaimMissing, ClaimNotUsable, DeviceClassMissing
from tonnage.model.reasons.reason import Reason

_MISSING_KEY: Final = re.compile(r"no such key: ([A-Za-z0-9_./-]{1,128})")
_FILTER: Final = f'running "{NAME}" filter plugin: '
_MISSING_CLASS: Final = re.compile(r"device class (\S+) does not exist")
_WHERE: Final = re.compile(r"(class|claim) (\S+): selector #([0-9]{1,3})")
_WRONG_TYPE: Final = re.compile(r"no such overload")


def reasons(case: Case) -> Iterable[Reason]:
    """Claims or classes that are not there, or an error that ends the attempt on every node."""
    decision = case.decision
    if decision.held:
        yield from _held(case)
    elif decision.conflict and decision.halted_by == NAME:
        yield _halted(case)
    elif decision.failed and not decision.halted_by:
        yield _failed(case)
    elif decision.chosen is not None:
        yield from over_quota_on(case, decision.chosen)


def _held(case: Case) -> Iterator[Reason]:
    claims = case.view.supply.claims
    for pod_claim in case.pod.claims:
        name = pod_claim.claim or pod_claim.made
        claim = claims.get((case.pod.namespace, name))
        if not pod_claim.skipped and claim is None:
            yield _missing(case, pod_claim, name)
            return
        if claim is not None and (unusable := _unusable(case, pod_claim, claim)):
            yield unusable
            return
    message = f"not tried yet: {case.decision.held}"
    yield _reason(case, ClaimMissing, message, "wait, or delete the claim and create it again")


def _unusable(case: Case, pod_claim: PodClaim, claim: ResourceClaim) -> Reason | None:
    """A claim that is there and that the pod cannot have."""
    if claim.terminating:
        using = [user.name for user in claim.reserved_for if user.name and user.uid != case.pod.uid]
        users, single = listed(using), len(using) == 1
        message = f"the ResourceClaim {claim.name} is being deleted"
        remedy = "create the claim again"
        if users:
            message += f"; {users} still {'uses' if single else 'use'} it"
            remedy = f"wait until {users} {'has' if single else 'have'} ended, then {remedy}"
    elif not pod_claim.claim and claim.owner != case.pod.uid:
        message = f"the ResourceClaim {claim.name} was created for another pod of the same name"
        remedy = (
            f"delete it, to have it again: kubectl delete resourceclaim -n {claim.namespace} {claim.name}"
        )
    else:
        return None
    return _reason(case, ClaimNotUsable, message, remedy)


def _missing(case: Case, pod_claim: PodClaim, name: str) -> Reason:
    namespace = case.pod.namespace
    if pod_claim.template and not pod_claim.made:
        templates = {(t.namespace, t.name) for t in case.view.snapshot.claim_templates}
        if (namespace, pod_claim.template) in templates:
            if over := _over_quota(case, pod_claim):
                return over
            message = (
                f"the claim {pod_claim.name} has not been created from the template {pod_claim.template} yet"
            )
            remedy = "read the Events of kube-controller-manager on the pod: it creates the claim"
        else:
            message = f"the ResourceClaimTemplate {pod_claim.template} does not exist in {namespace}"
            here = [name for place, name in templates if place == namespace]
            near = get_close_matches(pod_claim.template, here, n=1)
            remedy = f"use {near[0]} if you meant that" if near else f"create it in {namespace}"
        return _reason(case, ClaimMissing, message, remedy)
    names = [claim for place, claim in case.view.supply.claims if place == namespace]
    near = get_close_matches(name, names, n=1)
    remedy = f"use {near[0]} if you meant that" if near else f"create it in {namespace}"
    message = f"the ResourceClaim {name} does not exist in {namespace}"
    return _reason(case, ClaimMissing, message, remedy)


def _over_quota(case: Case, pod_claim: PodClaim) -> Reason | None:
    """The quota that keeps the claim from being made: its Events go, and the pod keeps waiting."""
    _, there = with_made_claims(replace(case.pod, claims=(pod_claim,)), case.view.snapshot)
    refusals = claim_refusals(there.claims[-1], case.view.snapshot, minor=case.view.profile.minor)
    return exceeded_by_claim(pod_claim.name, refusals[0]) if refusals else None


def _halted(case: Case) -> Reason:
    text = case.decision.conflict
    match = _MISSING_CLASS.search(text)
    if match is None:
        return _reason(case, ClaimError, text, "write `exactly` or `firstAvailable` in each request")
    remedy = class_remedy(match[1], case.view.supply.classes)
    return _reason(case, DeviceClassMissing, f"the DeviceClass {match[1]} does not exist", remedy)


def _failed(case: Case) -> Reason:
    """The error as the scheduler has it, with what to write instead."""
    text = case.decision.message
    key = _MISSING_KEY.search(text)
    message = "a device selector fails, which ends the attempt on every node"
    remedy = "correct the expression, or the class that has it"
    if key:
        message = f"a device has no {key[1]}: {message}"
    elif _WRONG_TYPE.search(text):
        message = f"an attribute is of another type than the selector compares it with: {message}"
    elif "CEL compile error" in text:
        message = "a device selector is not valid, which the API server would have refused"
    elif "CEL" not in text:
        message, remedy = _refused_claim(text)
    selector = _selector(case, text)
    expression = better = None
    if selector is not None:
        owner, expression = selector
        message = f"{message} ({owner}: {expression})"
        better = advised(expression, key[1] if key else "", case.view.supply)
        if better:
            remedy = f"write in {owner}: {better}"
        elif instead := written_otherwise(expression, text):
            remedy = f"{instead}, in {owner}"
        elif key:
            remedy = f"check first with has() that {key[1]} exists, and begin with device.driver == …"
    return ClaimError(
        subject=_subject(case),
        message=message,
        remedy=remedy,
        source=NAME,
        error=text,
        expression=expression,
        instead=better or None,
    )


def _refused_claim(text: str) -> tuple[str, str]:
    """What the allocator refuses whatever devices there are, and what to write instead."""
    where = text.removeprefix(_FILTER)
    message = f"the scheduler cannot allocate the claim at all: {where}"
    remedy = "correct the claim"
    if "exceeds the claim limit" in text:
        remedy = f"ask for at most {MOST_DEVICES} devices in a claim, and share the others among more claims"
    elif "a claim constraint would not be satisfied" in text:
        remedy = "ask for a count instead of allocationMode: All, or remove the constraint"
    elif "unsupported constraint type" in text:
        remedy = "remove distinctAttribute, or turn on DRAConsumableCapacity (on since 1.36)"
    elif "DRAConsumableCapacity feature is disabled" in text:
        remedy = "remove capacity from the request, or turn on DRAConsumableCapacity (on since 1.36)"
    elif "asks for all devices" in text:
        remedy = "wait until the driver has published all slices of the pool, or ask for a count"
    return message, remedy


def _selector(case: Case, text: str) -> tuple[str, str] | None:
    """Whose selector failed, and the expression."""
    match = _WHERE.search(text)
    if match is None:
        return None
    kind, name, index = match[1], match[2], int(match[3])
    supply = case.view.supply
    if kind == "class":
        selectors = supply.classes[name].selectors if name in supply.classes else ()
        return (f"DeviceClass {name}", selectors[index]) if index < len(selectors) else None
    claim = supply.claims.get((name.partition("/")[0], name.partition("/")[2]))
    parts = (
        [part for request in claim.requests for part in (request.alternatives or (request,))] if claim else []
    )
    expressions = [part.selectors[index] for part in parts if index < len(part.selectors)]
    error = text.rpartition("no such key: ")[2].partition(".")[0]
    likely = [expression for expression in expressions if error in expression] or expressions
    return (f"ResourceClaim {name}", likely[0]) if likely else None


def _reason(
    case: Case,
    kind: type[ClaimMissing | ClaimNotUsable | ClaimError | DeviceClassMissing],
    message: str,
    remedy: str,
) -> Reason:
    claims = claims_of(case.pod, case.view.supply.claims).claims
    return kind(
        subject=_subject(case),
        message=message,
        remedy=remedy,
        source=NAME,
        claims=tuple(map(str, claims)),
    )


def _subject(case: Case) -> str:
    return f"Pod {case.pod.namespace}/{case.pod.name}"
