"""LimitRanger: what LimitRanges give to containers that do not ask, and what they refuse.

Source: k8s.io/kubernetes plugin/pkg/admission/limitranger/admission.go, 1.34 to 1.37 alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

from tonnage.decide.kubernetes.admission.refusal import AdmissionRefusal
from tonnage.decide.kubernetes.admission.written_pod import mapping
from tonnage.decide.kubernetes.requests import pod_limits, pod_requests
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Container, Manifest, Requests, WrittenAmounts
from tonnage.model.kubernetes.policies import LimitItem, LimitRange
from tonnage.model.kubernetes.quantity import (
    integer_value,
    milli_value,
    parse_quantity,
    quantity_format,
    write_quantity,
)
from tonnage.model.kubernetes.selectors import Labels
from tonnage.model.reasons.facts import LimitBreach
from tonnage.model.reasons.pod import admission as reasons


@dataclass(frozen=True, slots=True)
class Breach:
    """A row of a LimitRange that is broken. `text` is what the server says of it."""

    resource: str
    bound: str
    """`max`, `min` or `ratio`."""
    allowed: str
    where: str
    """A container's name, or `pod`."""
    text: str


def _refusal(limit_range: LimitRange, broken: tuple[Breach, ...]) -> AdmissionRefusal:
    """Everything that a limit range has against an object; the server lists several breaches in any order."""
    texts = list(dict.fromkeys(breach.text for breach in broken))
    places = list(dict.fromkeys(f"{breach.text} ({breach.where})" for breach in broken))
    reason = reasons.LimitRangeViolation(
        subject=f"LimitRange {limit_range.namespace}/{limit_range.name}",
        message=f"the limit range {limit_range.name} of {limit_range.namespace} does not allow it: "
        f"{'; '.join(places)}",
        remedy=f"stay within it, or have it changed: kubectl edit limitrange {limit_range.name} -n "
        f"{limit_range.namespace}",
        source="API server, LimitRanger admission",
        range=limit_range.name,
        breaches=tuple(
            LimitBreach(entry.resource, entry.bound, entry.allowed, entry.where) for entry in broken
        ),
    )
    return AdmissionRefusal(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]", reason)


def with_defaults(manifest: Manifest, ranges: Iterable[LimitRange]) -> Manifest:
    """The manifest with what the namespace's limit ranges give to containers that name no amount."""
    own = [limit_range for limit_range in ranges if limit_range.namespace == manifest.pod.namespace]
    defaults: dict[str, str] = {}
    default_requests: dict[str, str] = {}
    for limit in (limit for limit_range in sorted(own, key=lambda r: r.name) for limit in limit_range.items):
        if limit.type == "Container":
            defaults = {**limit.default, **defaults}
            default_requests = {**limit.default_request, **default_requests}
    if not defaults and not default_requests:
        return manifest
    amounts = tuple(_completed(written, defaults, default_requests) for written in manifest.amounts)
    return with_amounts(manifest, amounts)


def _completed(written: WrittenAmounts, limits: Labels, requests: Labels) -> WrittenAmounts:
    """A request that only has a limit is as high as that: so the server has it before any limit range."""
    named = {**written.limits, **written.requests}
    return replace(written, limits={**limits, **written.limits}, requests={**requests, **named})


def with_amounts(manifest: Manifest, amounts: tuple[WrittenAmounts, ...]) -> Manifest:
    """The manifest with other amounts, in the order of its containers."""
    pod = manifest.pod
    count = len(pod.containers)
    containers = (
        _container(container, written)
        for container, written in zip((*pod.containers, *pod.init_containers), amounts, strict=True)
    )
    made = tuple(containers)
    changed = replace(pod, containers=made[:count], init_containers=made[count:])
    return replace(manifest, pod=changed, amounts=amounts)


def _container(container: Container, written: WrittenAmounts) -> Container:
    limits, requests = _numbers(written.limits), _numbers(written.requests)
    return replace(container, limits=limits, requests=limits | requests)


def _numbers(texts: Labels) -> dict[str, int]:
    return {n: milli_value(text) if n == "cpu" else integer_value(text) for n, text in texts.items()}


def breaches(manifest: Manifest, ranges: Iterable[LimitRange]) -> tuple[AdmissionRefusal, ...]:
    """Every limit range of the namespace that refuses the pod, by name."""
    out_of_range = []
    for limit_range in sorted(ranges, key=lambda r: r.name):
        if limit_range.namespace == manifest.pod.namespace:
            broken = tuple(breach for limit in limit_range.items for breach in _broken(limit, manifest))
            if broken:
                out_of_range.append(_refusal(limit_range, broken))
    return tuple(out_of_range)


def claim_breaches(
    namespace: str, requests: Labels, ranges: Iterable[LimitRange]
) -> tuple[AdmissionRefusal, ...]:
    """Every limit range that refuses a volume claim which asks for these amounts, by name."""
    out_of_range = []
    for limit_range in sorted(ranges, key=lambda r: r.name):
        items = [
            limit
            for limit in limit_range.items
            if limit.type == _CLAIM and limit_range.namespace == namespace
        ]
        broken = tuple(breach for limit in items for breach in _broken_by_claim(limit, requests))
        if broken:
            out_of_range.append(_refusal(limit_range, broken))
    return tuple(out_of_range)


def _broken_by_claim(limit: LimitItem, requests: Labels) -> Iterator[Breach]:
    """A claim has no limits: its requests are held against both bounds."""
    for bound, rows in (("min", limit.least), ("max", limit.most)):
        for name, allowed in sorted(rows.items()):
            per, request = f"per {limit.type} is {allowed}", requests.get(name)
            detail = ""
            if request is None:
                detail = f"{per}.  No request is specified"
            elif (
                parse_quantity(request) < parse_quantity(allowed)
                if bound == "min"
                else parse_quantity(request) > parse_quantity(allowed)
            ):
                detail = f"{per}, but request is {request}"
            if detail:
                yield Breach(name, bound, allowed, "claim", f"{_BEFORE[bound]}{name} usage {detail}")


_CLAIM: Final = "PersistentVolumeClaim"
_Sides = tuple[str, Labels, Labels]
"""Where, the requests and the limits."""


def _broken(limits_row: LimitItem, manifest: Manifest) -> Iterator[Breach]:
    if limits_row.type == "Container":
        sides: list[_Sides] = [(w.container, {**w.limits, **w.requests}, w.limits) for w in manifest.amounts]
    elif limits_row.type == "Pod":
        pod = replace(manifest.pod, overhead={})
        formats = formats_of(manifest)
        pod_texts = _texts(pod_requests(pod), formats, "requests.")
        sides = [("pod", pod_texts, _texts(pod_limits(pod), formats, "limits."))]
    else:
        return
    for where, requests, limits in sides:
        for bound, rows in (("min", limits_row.least), ("max", limits_row.most), ("ratio", limits_row.ratio)):
            for name, allowed in sorted(rows.items()):
                request, limit = requests.get(name), limits.get(name)
                detail = _TESTS[bound](f"per {limits_row.type} is {allowed}", allowed, request, limit)
                if detail:
                    subject = f"{_BEFORE[bound]}{name}{_AFTER[bound]} {detail}"
                    yield Breach(name, bound, allowed, where, subject)


_BEFORE: Final = {"min": "minimum ", "max": "maximum ", "ratio": ""}
_AFTER: Final = {"min": " usage", "max": " usage", "ratio": " max limit to request ratio"}


def _below(per: str, allowed: str, request: str | None, limit: str | None) -> str:
    least = parse_quantity(allowed)
    if request is None:
        return f"{per}.  No request is specified"
    if parse_quantity(request) < least:
        return f"{per}, but request is {request}"
    return f"{per}, but limit is {limit}" if limit is not None and parse_quantity(limit) < least else ""


def _above(per: str, allowed: str, request: str | None, limit: str | None) -> str:
    most = parse_quantity(allowed)
    if limit is None:
        return f"{per}.  No limit is specified"
    if parse_quantity(limit) > most:
        return f"{per}, but limit is {limit}"
    return (
        f"{per}, but request is {request}" if request is not None and parse_quantity(request) > most else ""
    )


def _beyond_ratio(per: str, allowed: str, request: str | None, limit: str | None) -> str:
    if request is None or parse_quantity(request) == 0:
        return f"{per}, but no request is specified or request is 0"
    if limit is None or parse_quantity(limit) == 0:
        return f"{per}, but no limit is specified or limit is 0"
    ratio = parse_quantity(limit) / parse_quantity(request)
    return f"{per}, but provided ratio is {float(ratio):.6f}" if ratio > parse_quantity(allowed) else ""


_TESTS: Final = {"min": _below, "max": _above, "ratio": _beyond_ratio}


def formats_of(manifest: Manifest) -> dict[str, str]:
    """How the pod writes the sums of resources, by `requests.` or `limits.` and the name.

    As it writes its own amount as a whole, else as the first container that asks for any of it.
    """
    whole = mapping(mapping(manifest.written.get("spec")).get("resources"))
    limits, requests = (mapping(whole.get(part)) for part in ("limits", "requests"))
    rows: list[tuple[str, JsonObject | Labels]] = [("limits.", limits), ("requests.", requests)]
    for written in manifest.amounts:
        rows += [("limits.", written.limits), ("requests.", {**written.limits, **written.requests})]
    rows.append(("requests.", limits))
    formats: dict[str, str] = {}
    for part, row in rows:
        for name, text in row.items():
            if parse_quantity(str(text)):
                formats.setdefault(f"{part}{name}", quantity_format(str(text)))
    return formats


def _texts(amounts: Requests, formats: Labels, part: str) -> dict[str, str]:
    return {
        name: write_quantity(
            Fraction(n, 1000 if name == "cpu" else 1), formats.get(f"{part}{name}", "decimal")
        )
        for name, n in amounts.items()
    }
