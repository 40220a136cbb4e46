"""Resource slices, device classes and claims as model values: `resource.k8s.io` v1, v1beta2 and v1beta1.

What the API server would have filled in is filled in. Nothing here raises: what cannot be read is a problem
of its object, and whoever asks for that object hears of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

import msgspec

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.kubernetes.resource_claims import (
    AllocatedDevice,
    Attribute,
    Capacity,
    ClaimAllocation,
    ClaimDeviceId,
    ClaimTemplate,
    Constraint,
    Consumer,
    DeviceClass,
    DeviceRequest,
    Mode,
    NodeScope,
    PodClaim,
    RequestPolicy,
    ResourceClaim,
    ResourceSlice,
    SemanticVersion,
    SliceDevice,
    TaintRule,
)
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Requirement, Taint, Toleration
from tonnage.reading.object_parts import ReadingProblems, moment
from tonnage.wire import claims as claim_objects
from tonnage.wire.kinds import RESOURCE_CLAIM

_FLAT_VERSION: Final = "resource.k8s.io/v1beta1"
"""Its requests and devices have no level for their kind."""


def slice_from(obj: claim_objects.ResourceSlice) -> ResourceSlice:
    """A slice."""
    notes, spec = ReadingProblems(), obj.spec
    pool = _map(spec.get("pool"))
    return ResourceSlice(
        name=obj.metadata.name,
        driver=_text(spec.get("driver")),
        pool=_text(pool.get("name")),
        generation=_whole(pool.get("generation"), 0),
        slices=_whole(pool.get("resourceSliceCount"), 1),
        scope=_scope(spec, notes, "spec"),
        scope_by_device=spec.get("perDeviceNodeSelection") is True,
        devices=tuple(
            _device(device, notes, f"spec.devices[{index}]") for index, device in _maps(spec.get("devices"))
        ),
        counters={
            _text(part.get("name")): _counters(part.get("counters"), notes, f"spec.sharedCounters[{index}]")
            for index, part in _maps(spec.get("sharedCounters"))
        },
        problems=tuple(notes.problems),
    )


def device_class_from(obj: claim_objects.DeviceClass) -> DeviceClass:
    """A class."""
    notes, created = ReadingProblems(), moment(obj.metadata.creation_timestamp)
    return DeviceClass(
        obj.metadata.name,
        _selectors(obj.spec.get("selectors"), notes, "spec"),
        _text(obj.spec.get("extendedResourceName")),
        created.timestamp() if created is not None else 0.0,
        tuple(notes.problems),
    )


def claim_from(obj: claim_objects.ResourceClaim) -> ResourceClaim:
    """A claim with what it has been given."""
    notes, meta = ReadingProblems(), obj.metadata
    requests, constraints = _requests_and_constraints(obj.spec, obj.api_version, notes, "spec")
    return ResourceClaim(
        namespace=meta.namespace or "default",
        name=meta.name,
        uid=meta.uid,
        requests=requests,
        constraints=constraints,
        allocation=_allocation(obj.status.get("allocation"), notes),
        reserved_for=tuple(
            Consumer(_text(c.get("uid")), _text(c.get("name")), _text(c.get("resource")))
            for _, c in _maps(obj.status.get("reservedFor"))
        ),
        owner=next((o.uid for o in meta.owner_references if o.controller), ""),
        terminating=meta.deletion_timestamp is not None,
        problems=tuple(notes.problems),
    )


def consumers_of(obj: claim_objects.ResourceClaim) -> list[JsonObject]:
    """Who has reserved a claim (status.reservedFor), as it is written."""
    return list(obj.status.get("reservedFor") or ())


def claim_in(resource: tuple[str, str], obj: JsonObject) -> ResourceClaim | None:
    """The claim for devices that an object of this group and plural is; None: it is something else."""
    if resource != (RESOURCE_CLAIM.group, RESOURCE_CLAIM.plural):
        return None
    return claim_from(msgspec.convert(obj, claim_objects.ResourceClaim))


def template_from(obj: claim_objects.ResourceClaimTemplate) -> ClaimTemplate:
    """A template of claims."""
    notes = ReadingProblems()
    inner = _map(obj.spec.get("spec"))
    requests, constraints = _requests_and_constraints(inner, obj.api_version, notes, "spec.spec")
    namespace = obj.metadata.namespace or "default"
    return ClaimTemplate(namespace, obj.metadata.name, requests, constraints, tuple(notes.problems))


def taint_rule_from(obj: claim_objects.DeviceTaintRule) -> TaintRule:
    """A rule that taints devices."""
    taint, selector = _map(obj.spec.get("taint")), obj.spec.get("deviceSelector")
    chosen = _map(selector)
    driver, pool, device = (_text(chosen.get(name)) or None for name in ("driver", "pool", "device"))
    read = Taint(_text(taint.get("key")), _text(taint.get("value")), _text(taint.get("effect")))
    return TaintRule(read, driver, pool, device, chooses=isinstance(selector, dict))


def pod_claims_of(
    claims: Iterable[dict[str, Any]], statuses: Iterable[dict[str, Any]]
) -> tuple[PodClaim, ...]:
    """`spec.resourceClaims` of a pod, with the names of the claims that were made for it."""
    made = {_text(status.get("name")): status.get("resourceClaimName") for status in statuses}
    return tuple(
        PodClaim(
            name := _text(claim.get("name")),
            _text(claim.get("resourceClaimName")),
            _text(claim.get("resourceClaimTemplateName")),
            _text(made.get(name)),
            skipped=name in made and not made[name],
        )
        for claim in claims
    )


def _scope(part: Mapping[str, Any], notes: ReadingProblems, where: str) -> NodeScope | None:
    """Which nodes reach something; None when it does not say in a way known here."""
    selector = part.get("nodeSelector")
    if isinstance(part.get("nodeName"), str) and part["nodeName"]:
        return NodeScope(part["nodeName"])
    if part.get("allNodes") is True:
        return NodeScope(everywhere=True)
    if isinstance(selector, dict):
        return NodeScope(selector=_terms(selector, notes, f"{where}.nodeSelector"))
    return NodeScope() if part.get("perDeviceNodeSelection") is True else None


def _terms(selector: Mapping[str, Any], notes: ReadingProblems, where: str) -> tuple[NodeSelectorTerm, ...]:
    terms = tuple(
        NodeSelectorTerm(_requirements(term.get("matchExpressions")), _requirements(term.get("matchFields")))
        for _, term in _maps(selector.get("nodeSelectorTerms"))
    )
    if not terms:
        notes.add(where, "it has no terms", "write nodeSelectorTerms with one term")
    return terms


def _requirements(value: object) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(_text(r.get("key")), _text(r.get("operator")), _texts(r.get("values")))
        for _, r in _maps(value)
    )


def _device(device: Mapping[str, Any], notes: ReadingProblems, where: str) -> SliceDevice:
    basic = device.get("basic")
    name = _text(device.get("name"))
    part = basic if isinstance(basic, dict) else device
    return SliceDevice(
        name=name,
        attributes={str(key): _attribute(value) for key, value in _map(part.get("attributes")).items()},
        capacity={
            str(key): _capacity(value, notes, f"{where}.capacity[{key}]")
            for key, value in _map(part.get("capacity")).items()
        },
        taints=tuple(
            Taint(_text(t.get("key")), _text(t.get("value")), _text(t.get("effect")))
            for _, t in _maps(part.get("taints"))
        ),
        consumes={
            _text(c.get("counterSet")): _counters(c.get("counters"), notes, f"{where}.consumesCounters")
            for _, c in _maps(part.get("consumesCounters"))
        },
        shareable=part.get("allowMultipleAllocations") is True,
        waits_for=_texts(part.get("bindingConditions")),
        scope=_scope(part, notes, where) or NodeScope(),
    )


def _attribute(value: object) -> Attribute:
    fields = _map(value)
    match fields:
        case {"int": int(number)} if not isinstance(number, bool):
            return number
        case {"bool": bool(flag)}:
            return flag
        case {"string": str(text)}:
            return text
        case {"version": str(text)}:
            return SemanticVersion(text)
        case _:
            return None


def _capacity(value: object, notes: ReadingProblems, where: str) -> Capacity:
    fields = _map(value) if isinstance(value, dict) else {"value": value}
    policy = fields.get("requestPolicy")
    amount = _quantity(fields.get("value"), notes, where) or Fraction(0)
    return Capacity(amount, _policy(policy, notes, where) if isinstance(policy, dict) else None)


def _policy(policy: Mapping[str, Any], notes: ReadingProblems, where: str) -> RequestPolicy:
    bounds = _map(policy.get("validRange"))

    def read(part: Mapping[str, Any], name: str) -> Fraction | None:
        return _quantity(part[name], notes, f"{where}.requestPolicy") if name in part else None

    values = policy.get("validValues")
    amounts = [_quantity(v, notes, f"{where}.requestPolicy") for v in values or ()] if values else []
    return RequestPolicy(
        default=read(policy, "default"),
        values=tuple(value for value in amounts if value is not None),
        least=read(bounds, "min"),
        most=read(bounds, "max"),
        step=read(bounds, "step"),
    )


def _counters(value: object, notes: ReadingProblems, where: str) -> dict[str, Fraction]:
    return {
        str(name): _quantity(_map(counter).get("value"), notes, f"{where}[{name}]") or Fraction(0)
        for name, counter in _map(value).items()
    }


def _quantities(value: object, notes: ReadingProblems, where: str) -> dict[str, Fraction]:
    amounts = {str(k): _quantity(v, notes, f"{where}[{k}]") for k, v in _map(value).items()}
    return {name: amount for name, amount in amounts.items() if amount is not None}


def _quantity(value: object, notes: ReadingProblems, where: str) -> Fraction | None:
    try:
        return parse_quantity(str(value))
    except ValueError as error:
        notes.add(where, f"{str(value)[:64]!r} is not a quantity", str(error))
        return None


def _requests_and_constraints(
    spec: Mapping[str, Any], api_version: str, notes: ReadingProblems, where: str
) -> tuple[tuple[DeviceRequest, ...], tuple[Constraint, ...]]:
    devices = _map(spec.get("devices"))
    place = f"{where}.devices"
    requests = tuple(
        _request(request, api_version, notes, f"{place}.requests[{index}]")
        for index, request in _maps(devices.get("requests"))
    )
    return requests, tuple(_constraint(c) for _, c in _maps(devices.get("constraints")))


def _request(
    request: Mapping[str, Any], api_version: str, notes: ReadingProblems, where: str
) -> DeviceRequest:
    name = _text(request.get("name"))
    exactly = request.get("exactly")
    alternatives = request.get("firstAvailable")
    if isinstance(exactly, dict):
        return _exact(name, exactly, notes, f"{where}.exactly")
    if isinstance(alternatives, list) and alternatives:
        parts = tuple(
            _exact(_text(part.get("name")), part, notes, f"{where}.firstAvailable[{index}]")
            for index, part in _maps(alternatives)
        )
        return DeviceRequest(name, alternatives=parts)
    if api_version == _FLAT_VERSION and request.get("deviceClassName"):
        return _exact(name, request, notes, where)
    return DeviceRequest(name, complete=False)


def _exact(name: str, part: Mapping[str, Any], notes: ReadingProblems, where: str) -> DeviceRequest:
    capacity = part.get("capacity")
    capacity_requests = _map(capacity).get("requests")
    return DeviceRequest(
        name=name,
        device_class=_text(part.get("deviceClassName")),
        mode=_text(part.get("allocationMode")) or Mode.EXACT,
        count=_whole(part.get("count"), 0) or 1,
        admin=part.get("adminAccess") is True,
        selectors=_selectors(part.get("selectors"), notes, where),
        tolerations=tuple(
            Toleration(
                _text(t.get("key")), _text(t.get("operator")), _text(t.get("value")), _text(t.get("effect"))
            )
            for _, t in _maps(part.get("tolerations"))
        ),
        capacity=_quantities(capacity_requests, notes, f"{where}.capacity") if capacity is not None else None,
    )


def _selectors(value: object, notes: ReadingProblems, where: str) -> tuple[str, ...]:
    expressions: list[str] = []
    for index, selector in _maps(value):
        expression = _map(selector.get("cel")).get("expression")
        if isinstance(expression, str):
            expressions.append(expression)
        else:
            notes.add(f"{where}.selectors[{index}]", "it has no CEL expression", "write cel.expression")
    return tuple(expressions)


def _constraint(part: Mapping[str, Any]) -> Constraint:
    requests = _texts(part.get("requests"))
    if isinstance(part.get("matchAttribute"), str):
        return Constraint(part["matchAttribute"], requests=requests)
    return Constraint(_text(part.get("distinctAttribute")), distinct=True, requests=requests)


def _allocation(value: object, notes: ReadingProblems) -> ClaimAllocation | None:
    if not isinstance(value, dict):
        return None
    selector = value.get("nodeSelector")
    devices = tuple(
        AllocatedDevice(
            _text(device.get("request")),
            ClaimDeviceId(
                _text(device.get("driver")), _text(device.get("pool")), _text(device.get("device"))
            ),
            device.get("adminAccess") is True,
            _text(device.get("shareID")),
            _quantities(device.get("consumedCapacity"), notes, "status.allocation"),
        )
        for _, device in _maps(_map(value.get("devices")).get("results"))
    )
    where = "status.allocation.nodeSelector"
    return ClaimAllocation(devices, _terms(selector, notes, where) if isinstance(selector, dict) else None)


def _maps(value: object) -> Iterable[tuple[int, dict[str, Any]]]:
    """The objects of a list, each with its place in it."""
    items = value if isinstance(value, list) else []
    return [(index, element) for index, element in enumerate(items) if isinstance(element, dict)]


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _texts(value: object) -> tuple[str, ...]:
    return tuple(str(element) for element in value) if isinstance(value, list) else ()


def _whole(value: object, otherwise: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else otherwise
