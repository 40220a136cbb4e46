"""Changes that would let a pod in, each tried on the same rules before it is offered."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Final

from tonnage.decide.kubernetes.admission.charges import pod_charges
from tonnage.decide.kubernetes.admission.limit_ranges import with_amounts
from tonnage.decide.kubernetes.admission.pod_security import ENFORCE
from tonnage.decide.kubernetes.admission.priority import without
from tonnage.decide.kubernetes.admission.quota_refusals import fits
from tonnage.decide.kubernetes.admission.written_pod import mapping, mappings
from tonnage.diagnose.endless_pods import end_or_wait
from tonnage.diagnose.remedies.edits_by_reason import LEAST_PART
from tonnage.diagnose.sibling_pods import kept_pods
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Manifest, PriorityClass, Snapshot, WrittenAmounts
from tonnage.model.kubernetes.policies import Quota, RuntimeClass
from tonnage.model.kubernetes.quantity import parse_quantity, quantity_format, write_quantity
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.admission import (
    LimitRangeViolation,
    NameMissing,
    PodSecurityViolation,
    PriorityNotOfClass,
)
from tonnage.model.reasons.pod.quota import (
    QuotaExceededByClaim,
    QuotaNotTakenOver,
    QuotaRowsReason,
    QuotaUndeclared,
)
from tonnage.model.reasons.reason import Reason

_SECURE: Final[JsonObject] = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
_SECURE_CONTAINER: Final[JsonObject] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True, slots=True)
class Fix:
    """Something to do against a refusal, and what manifest and cluster would be then."""

    action: str
    manifest: Manifest
    snapshot: Snapshot
    patch: JsonObject


def fixes_for(reason: Reason, manifest: Manifest, snapshot: Snapshot) -> Iterator[Fix]:
    """What may help against a refusal, cheapest first."""
    match reason:
        case NameMissing():
            yield from _make_or_rename(reason, manifest, snapshot)
        case LimitRangeViolation():
            yield from _within(reason, manifest, snapshot)
        case PodSecurityViolation():
            yield from _secure(reason, manifest, snapshot)
        case QuotaRowsReason():
            yield from _free_or_raise(reason, manifest, snapshot)
        case PriorityNotOfClass(field=str(field)):
            left = without(field, manifest, snapshot)
            yield Fix(f"leave {field} out", left, snapshot, {"spec": {field: None}})
        case QuotaUndeclared():
            yield from _declare(reason, manifest, snapshot)
        case _:
            return


def _make_or_rename(reason: NameMissing, manifest: Manifest, snapshot: Snapshot) -> Iterator[Fix]:
    name, namespace = reason.name, manifest.pod.namespace
    field = _FIELDS[reason.kind]
    for near in get_close_matches(name, reason.others, n=1):
        action = f"use {near} if you meant that"
        yield Fix(action, _naming(reason, manifest, near), snapshot, {"spec": {field: near}})
    match reason.kind:
        case "ServiceAccount":
            accounts = snapshot.service_accounts | {(namespace, name)}
            there = replace(snapshot, service_accounts=accounts)
            action = f"kubectl create serviceaccount {name} -n {namespace}"
        case "PriorityClass":
            there = replace(snapshot, priority_classes=(*snapshot.priority_classes, PriorityClass(name, 0)))
            action = f"kubectl create priorityclass {name} --value=1000 (which value is yours to choose)"
        case _:
            there = replace(snapshot, runtime_classes=(*snapshot.runtime_classes, RuntimeClass(name)))
            action = f"create the RuntimeClass {name}, with a handler that the nodes' container runtimes have"
    yield Fix(action, manifest, there, {})
    action = f"leave {field} out, if nothing needs it"
    yield Fix(action, _naming(reason, manifest, ""), snapshot, {"spec": {field: None}})


_FIELDS: Final = {
    "ServiceAccount": "serviceAccountName",
    "PriorityClass": "priorityClassName",
    "RuntimeClass": "runtimeClassName",
}


def _naming(reason: NameMissing, manifest: Manifest, name: str) -> Manifest:
    """The manifest that names another one, or none."""
    match reason.kind:
        case "ServiceAccount":
            pod = replace(manifest.pod, service_account=name)
        case "PriorityClass":
            pod = replace(manifest.pod, priority_class=name)
        case _:
            pod = replace(manifest.pod, runtime_class=name)
    return replace(manifest, pod=pod)


def _within(reason: LimitRangeViolation, manifest: Manifest, snapshot: Snapshot) -> Iterator[Fix]:
    """Amounts as far as the bounds of containers go; or without the limit range."""
    amounts = manifest.amounts
    for breach in reason.breaches:
        row = {breach.resource: breach.allowed}
        if breach.bound in ("min", "max"):
            amounts = tuple(
                replace(entry, limits={**entry.limits, **row}, requests={**entry.requests, **row})
                if entry.container == breach.where
                else entry
                for entry in amounts
            )
    if amounts != manifest.amounts:
        yield _asking(amounts, manifest, snapshot)
    name, namespace = reason.range, manifest.pod.namespace
    others = tuple(
        entry for entry in snapshot.limit_ranges if (entry.namespace, entry.name) != (namespace, name)
    )
    action = f"have the limit range changed: kubectl edit limitrange {name} -n {namespace}"
    yield Fix(action, manifest, replace(snapshot, limit_ranges=others), {})


def _asking(amounts: tuple[WrittenAmounts, ...], manifest: Manifest, snapshot: Snapshot) -> Fix:
    """The fix that is to ask for other amounts."""
    parts: dict[str, list[JsonValue]] = {}
    amounts_text: list[str] = []
    for old, new in zip(manifest.amounts, amounts, strict=True):
        limits = {n: v for n, v in new.limits.items() if old.limits.get(n) != v}
        requests = {n: v for n, v in new.requests.items() if old.requests.get(n) != v and n in old.requests}
        if not limits and not requests:
            continue
        resources: JsonObject = {}
        if limits:
            resources["limits"] = {**limits}
        if requests:
            resources["requests"] = {**requests}
        section = "initContainers" if ".initContainers[" in new.where else "containers"
        parts.setdefault(section, []).append({"name": new.container, "resources": resources})
        amounts_text += [f"{name}: {value}" for name, value in (limits or requests).items()]
    patch: JsonObject = {"spec": {**parts}}
    return Fix(
        f"ask for {', '.join(dict.fromkeys(amounts_text))}", with_amounts(manifest, amounts), snapshot, patch
    )


def _secure(reason: PodSecurityViolation, manifest: Manifest, snapshot: Snapshot) -> Iterator[Fix]:
    """What can be set without knowing the program; else the namespace's label."""
    template, patch = _secured(manifest.written, reason)
    yield Fix(
        "set the fields in the pod that are asked for", replace(manifest, written=template), snapshot, patch
    )
    namespace = manifest.pod.namespace
    for level in ("baseline", "privileged"):
        labels = {**snapshot.namespaces.get(namespace, {}), ENFORCE: level}
        there = replace(snapshot, namespaces={**snapshot.namespaces, namespace: labels})
        action = f"kubectl label namespace {namespace} {ENFORCE}={level} --overwrite (for all of its pods)"
        yield Fix(action, manifest, there, {})


def _secured(template: JsonObject, reason: PodSecurityViolation) -> tuple[JsonObject, JsonObject]:
    """The template with a security context that asks for no privilege, and the patch that makes it so."""
    spec = mapping(template.get("spec"))
    strict = reason.policy.startswith("restricted:")
    patch: JsonObject = {"securityContext": {**_SECURE}} if strict else {}
    changed: JsonObject = {**spec}
    if strict:
        changed["securityContext"] = {**mapping(spec.get("securityContext")), **_SECURE}
    for section in ("initContainers", "containers"):
        containers = mappings(spec.get(section))
        if containers and strict:
            changed[section] = [
                {
                    **container,
                    "securityContext": {**mapping(container.get("securityContext")), **_SECURE_CONTAINER},
                }
                for container in containers
            ]
            patch[section] = [
                {"name": container.get("name", ""), "securityContext": {**_SECURE_CONTAINER}}
                for container in containers
            ]
    return {**template, "spec": changed}, {"spec": patch} if patch else {}


def _free_or_raise(reason: QuotaRowsReason, manifest: Manifest, snapshot: Snapshot) -> Iterator[Fix]:
    quota = next(candidate for candidate in snapshot.quotas if _is_of(candidate, reason, manifest))
    if isinstance(reason, QuotaNotTakenOver):
        caught_up = replace(quota, hard={**quota.spec_hard})
        as_wanted = tuple(caught_up if entry == quota else entry for entry in snapshot.quotas)
        action = f"wait until the quota controller has processed the spec of {quota.name}"
        yield Fix(action, manifest, replace(snapshot, quotas=as_wanted), {})
        return
    row = reason.rows[0]
    requested, used, hard = (parse_quantity(text) for text in (row.asked, row.used, row.hard))
    going: list[str] = []
    freed = Fraction(0)
    remaining = kept_pods(manifest, snapshot)
    if isinstance(reason, QuotaExceededByClaim):  # claims without a uid come with pods of the same files
        remaining = frozenset(claim.name for claim in snapshot.claims if not claim.uid)
    users = (user for user in reason.holders if user[0] not in remaining)
    for name, amount in sorted(users, key=lambda user: (parse_quantity(user[1]), user[0])):
        if requested + used - freed <= hard:
            break
        going, freed = [*going, name], freed + parse_quantity(amount)
    if going and requested + used - freed <= hard:
        there = _without(going, quota, snapshot)
        leaving = [p for p in snapshot.pods if p.namespace == quota.namespace and p.name in going]
        action = end_or_wait(listed(going), leaving, len(going))
        if isinstance(reason, QuotaExceededByClaim):
            claims = f"claim {going[0]}" if len(going) == 1 else f"claims {listed(going)}"
            action = f"delete the {claims} once no pod uses {'it' if len(going) == 1 else 'them'}"
            less = replace(quota, used={**quota.used, row.key: write_quantity(used - freed)})
            quotas = tuple(less if entry.name == quota.name and entry.namespace == quota.namespace else entry
                           for entry in there.quotas)  # fmt: skip
            there = replace(there, quotas=quotas)
        yield Fix(action, manifest, there, {})
    pods = max(1, manifest.replicas)  # a quota that is raised for one pod refuses the next
    more = {
        entry.key: write_quantity(
            pods * parse_quantity(entry.asked) + parse_quantity(entry.used), quantity_format(entry.hard)
        )
        for entry in reason.rows
        if not fits(entry, quota.spec_hard)
    }
    raised = replace(quota, hard={**quota.hard, **quota.spec_hard, **more})
    quotas = tuple(raised if entry == quota else entry for entry in snapshot.quotas)
    patch = json.dumps({"spec": {"hard": more}})
    action = f"raise it: kubectl patch resourcequota {quota.name} -n {quota.namespace} -p '{patch}'"
    yield Fix(action, manifest, replace(snapshot, quotas=quotas), {})
    if requested <= LEAST_PART * (hard - used):
        yield from _smaller(row.key, hard - used, manifest, snapshot)


def _is_of(quota: Quota, reason: QuotaRowsReason, manifest: Manifest) -> bool:
    return quota.name == reason.quota and quota.namespace == manifest.pod.namespace


def _smaller(key: str, left: Fraction, manifest: Manifest, snapshot: Snapshot) -> Iterator[Fix]:
    """A pod of one container may do with what is left of a device."""
    name = key.removeprefix("requests.")
    asking = [written_amounts for written_amounts in manifest.amounts if name in written_amounts.limits]
    if "/" not in name or name == key or left < 1 or len(asking) != 1:
        return
    row = {name: write_quantity(left)}
    amounts = tuple(
        replace(
            written_amounts,
            limits={**written_amounts.limits, **row},
            requests={**written_amounts.requests, **row},
        )
        if written_amounts is asking[0]
        else written_amounts
        for written_amounts in manifest.amounts
    )
    yield _asking(amounts, manifest, snapshot)


def _without(going: list[str], quota: Quota, snapshot: Snapshot) -> Snapshot:
    """The cluster after pods of the quota's namespace have ended, what they used given back."""
    gone = {(quota.namespace, name) for name in going}
    pods = tuple(pod for pod in snapshot.pods if pod.key not in gone)
    claims = tuple(claim for claim in snapshot.claims if claim.key not in gone)
    used = {**quota.used}
    for pod in snapshot.pods:
        if pod.key in gone:
            for key, amount in pod_charges(pod).items():
                if key in used:
                    used[key] = write_quantity(parse_quantity(used[key]) - amount)
    quotas = tuple(replace(entry, used=used) if entry == quota else entry for entry in snapshot.quotas)
    return replace(snapshot, pods=pods, claims=claims, quotas=quotas)


def _declare(reason: QuotaUndeclared, manifest: Manifest, snapshot: Snapshot) -> Iterator[Fix]:
    """A limit as high as the request, or the other way round; else what a container of an example has."""
    amounts = []
    for written_amounts in manifest.amounts:
        limits, requests = {**written_amounts.limits}, {**written_amounts.requests}
        for key, names in reason.missing:
            resource = key.removeprefix("requests.").removeprefix("limits.")
            if written_amounts.container not in names:
                continue
            amount = requests.get(resource) or limits.get(resource)
            amount = amount or _example(resource, len(names), manifest, snapshot)
            (limits if key.startswith("limits.") else requests)[resource] = amount
        amounts.append(replace(written_amounts, limits=limits, requests={**limits, **requests}))
    fix = _asking(tuple(amounts), manifest, snapshot)
    named = [
        f"{name}: {value}"
        for old, new in zip(manifest.amounts, amounts, strict=True)
        for name, value in {**new.requests, **new.limits}.items()
        if name not in old.limits and (name in new.limits or name not in old.requests)
    ]
    for_instance = ", ".join(dict.fromkeys(named))
    action = f"declare in the container how much it needs, for instance {for_instance}"
    yield replace(fix, action=action, patch=_declaring(tuple(amounts), manifest))


_EXAMPLE: Final = {"cpu": "4", "memory": "16Gi"}
_STEP: Final = {"cpu": Fraction(1, 1000), "memory": Fraction(2**20)}


def _example(resource: str, containers: int, manifest: Manifest, snapshot: Snapshot) -> str:
    """An amount for each of some containers, no more than the namespace's quotas have left."""
    most = parse_quantity(_EXAMPLE[resource])
    charges = pod_charges(manifest.pod)
    for quota in snapshot.quotas:
        for key in (resource, f"requests.{resource}", f"limits.{resource}"):
            if quota.namespace == manifest.pod.namespace and key in quota.hard:
                used = parse_quantity(quota.used.get(key, "0")) + charges.get(key, 0)
                most = min(most, (parse_quantity(quota.hard[key]) - used) / containers)
    most -= most % _STEP[resource]
    form = quantity_format(_EXAMPLE[resource])
    return write_quantity(most, form) if most > 0 else _EXAMPLE[resource]


def _declaring(amounts: tuple[WrittenAmounts, ...], manifest: Manifest) -> JsonObject:
    """A patch with every amount that the manifest itself does not name."""
    spec: dict[str, list[JsonValue]] = {}
    for old, new in zip(manifest.amounts, amounts, strict=True):
        limits: JsonObject = {n: v for n, v in new.limits.items() if n not in old.limits}
        requests: JsonObject = {
            n: v for n, v in new.requests.items() if n not in old.requests and n not in new.limits
        }
        resources: JsonObject = {k: v for k, v in (("limits", limits), ("requests", requests)) if v}
        if resources:
            section = "initContainers" if ".initContainers[" in new.where else "containers"
            spec.setdefault(section, []).append({"name": new.container, "resources": resources})
    return {"spec": {**spec}}
