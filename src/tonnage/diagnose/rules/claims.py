"""Resource claims as a whole: what is missing before any node is looked at, and selectors that fail."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from typing import Final

from tonnage.decide.cluster.claims.waiting import claims_of
from tonnage.decide.cluster.filters.claims import NAME
from tonnage.diagnose.case import Case
from tonnage.model.resource_claims import PodClaim
from tonnage.model.verdict import Code, Layer, Reason

_MISSING_KEY: Final = re.compile(r"no such key: ([A-Za-z0-9_./-]{1,128})")
_MISSING_CLASS: Final = re.compile(r"device class (\S+) does not exist")
_WRONG_TYPE: Final = re.compile(r"no such overload")


def findings(case: Case) -> Iterable[Reason]:
    """Claims or classes that are not there, or an error that ends the attempt on every node."""
    decision = case.decision
    if decision.held:
        yield from _held(case)
    elif decision.conflict and decision.halted_by == NAME:
        yield _halted(case)
    elif decision.failed:
        yield _failed(case)


def _held(case: Case) -> Iterator[Reason]:
    known = case.view.supply.claims
    for entry in case.pod.claims:
        name = entry.claim or entry.made
        if not entry.skipped and (case.pod.namespace, name) not in known:
            yield _missing(case, entry, name)
            return
    told = f"not tried yet: {case.decision.held}"
    yield _reason(case, Code.CLAIM_MISSING, told, "wait, or make the claim anew", lasting=False)


def _missing(case: Case, entry: PodClaim, name: str) -> Reason:
    namespace = case.pod.namespace
    if entry.template and not entry.made:
        templates = {(t.namespace, t.name) for t in case.view.snapshot.claim_templates}
        if (namespace, entry.template) in templates:
            told = f"the claim {entry.name} has not been made from the template {entry.template} yet"
            remedy = "kube-controller-manager makes it: look at its Events on the pod"
        else:
            told = f"the ResourceClaimTemplate {entry.template} does not exist in {namespace}"
            remedy = f"create it: kubectl get resourceclaimtemplates -n {namespace}"
        return _reason(case, Code.CLAIM_MISSING, told, remedy, lasting=False)
    names = [claim for place, claim in case.view.supply.claims if place == namespace]
    near = get_close_matches(name, names, n=1)
    remedy = f"did you mean {near[0]}?" if near else f"create it in {namespace}"
    told = f"the ResourceClaim {name} does not exist in {namespace}"
    return _reason(case, Code.CLAIM_MISSING, told, remedy, lasting=False)


def _halted(case: Case) -> Reason:
    text = case.decision.conflict
    match = _MISSING_CLASS.search(text)
    if match is None:
        return _reason(case, Code.CLAIM_ERROR, text, "write `exactly` or `firstAvailable` in each request")
    classes = list(case.view.supply.classes)
    near = get_close_matches(match[1], classes, n=1)
    there = (
        f"; there are {', '.join(sorted(classes)[:8])}"
        if classes
        else "; the driver's chart makes its classes"
    )
    remedy = f"did you mean {near[0]}?" if near else f"create the DeviceClass {match[1]}{there}"
    return _reason(case, Code.DEVICE_CLASS_MISSING, f"the DeviceClass {match[1]} does not exist", remedy)


def _failed(case: Case) -> Reason:
    """The error as the scheduler has it, with what to write instead."""
    text = case.decision.message
    key = _MISSING_KEY.search(text)
    told = "a device selector fails, and that ends the attempt on every node"
    remedy = "correct the expression, or the class that has it"
    if key:
        told = f"a device has no {key[1]}: {told}"
        remedy = (
            f"ask first whether it is there: has(device.attributes[DOMAIN].{key[1]}) && …, "
            f"or device.attributes[DOMAIN].?{key[1]}.orValue(…); begin with device.driver == '…'"
        )
    elif _WRONG_TYPE.search(text):
        told = f"an attribute is of another type than the selector compares it with: {told}"
    return replace(_reason(case, Code.CLAIM_ERROR, told, remedy), facts={"error": text})


def _reason(case: Case, code: Code, told: str, remedy: str, *, lasting: bool = True) -> Reason:
    subject = f"Pod {case.pod.namespace}/{case.pod.name}"
    claims = [str(claim) for claim in claims_of(case.pod, case.view.supply.claims).claims]
    return Reason(code, Layer.SCHEDULER, subject, told, {"claims": [*claims]}, remedy, NAME, lasting=lasting)
