"""A survey of a node for claims in words: what excludes its devices, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.decide.kubernetes.claims.exclusions import Exclusion, RequestSurvey, Survey, Why
from tonnage.decide.kubernetes.claims.relief import Relief, ReliefKind
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.remedies.selector_advice import attributes_like, unselected
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.kubernetes.resource_claims import ResourceClaim
from tonnage.model.name_lists import listed

_OFFER_SOME: Final = (
    "have the node offer devices as claims, or use one that does: kubectl get resourceslices lists them"
)
_MOST_NAMED: Final = 4
_MOST_HOLDERS: Final = 3
_MOST_RELIEFS: Final = 3
_LONGEST: Final = 160
"""Of an expression in a message; the facts have the whole."""
_CLOSEST_FIRST: Final = (
    Why.IN_USE,
    Why.COUNTERS,
    Why.CAPACITY,
    Why.TAINT,
    Why.CONDITIONS,
    Why.OTHER_NODE,
    Why.SELECTOR,
)


def survey_text(surveyed: Survey, view: ClusterView, claims: tuple[ResourceClaim, ...]) -> str:
    """Why the node cannot meet the claims."""
    parts = [f"the pool {pool}" for pool in surveyed.pools]
    if not surveyed.reached and not parts:
        return no_devices_text(claims)
    short = surveyed.short
    parts += [_request_text(request, view) for request in short]
    if not short and surveyed.constraint is not None:
        name = "distinctAttribute" if surveyed.constraint.distinct else "matchAttribute"
        parts.append(f"the free devices together do not meet {name} {surveyed.constraint.attribute}")
        if surveyed.without_attribute:
            parts[-1] += f", which {surveyed.without_attribute} of them do not have"
    elif not short:
        parts.append("each request can be met alone, but not all of them at once")
    return "; ".join(parts)


def no_devices_text(claims: tuple[ResourceClaim, ...]) -> str:
    """What stands against a node that reaches no devices at all."""
    return f"no driver publishes devices that the node reaches; it cannot meet {listed(map(str, claims))}"


def survey_remedy(surveyed: Survey, pod: Pod, view: ClusterView) -> str:
    """What would have the node meet the pod's claims; each change of a claim was tried."""
    if surveyed.pools and not surveyed.in_time:
        return "check the driver: it is replacing its slices, or publishes them wrongly"
    healing = [relief for relief in surveyed.reliefs if _comes_with_health(relief, surveyed)]
    ways = [*_waits(surveyed, view), *_repairs(surveyed, enough=bool(healing))]
    ways += [_relief_text(relief, pod, view) for relief in surveyed.reliefs if relief not in healing]
    if surveyed.constraint is not None:
        ways.insert(0, f"remove the constraint on {surveyed.constraint.attribute}")
        if surveyed.without_attribute == surveyed.reached and (
            like := attributes_like(surveyed.constraint.attribute, view.supply)
        ):
            ways[0] += f", or compare {listed(like)}"
    if ways:
        return "; or ".join(ways[:_MOST_RELIEFS])
    if surveyed.in_time:
        return "wait for devices"
    if surveyed.requests and all(_of_other_class(request) for request in surveyed.requests):
        return ""
    return "ask for fewer devices, or widen the selectors" if surveyed.reached else _OFFER_SOME


def _of_other_class(request: RequestSurvey) -> bool:
    """Whether the node has devices, and none is of the request's class."""
    excluded = request.exclusions
    return bool(excluded) and not request.left and all(exclusion.by_class for exclusion in excluded)


def _request_text(request: RequestSurvey, view: ClusterView) -> str:
    amount = "all devices" if request.wants_all else f"{request.needs}"
    head = (
        f"claim {request.claim}, request {request.request}: "
        f"wants {amount} of class {request.cls}, {request.left} left"
    )
    causes = list(_causes(request, view))
    return f"{head} ({'; '.join(causes)})" if causes else head


def _causes(request: RequestSurvey, view: ClusterView) -> Iterator[str]:
    for why in _CLOSEST_FIRST:
        excluded = request.exclusions_of(why)
        if not excluded:
            continue
        names = _names(excluded)
        match why:
            case Why.SELECTOR:
                yield from _selectors(request, excluded)
            case Why.IN_USE:
                yield f"{names} in use by {_listed(_holder(name, view) for name in _by_frequency(excluded))}"
            case Why.TAINT:
                yield f"{names} tainted {_listed(_by_frequency(excluded))}"
            case Why.COUNTERS:
                yield f"{names} need more of {_listed(_by_frequency(excluded))} than is left"
            case Why.CAPACITY if excluded[0].owner:
                yield f"{names} without the capacity {excluded[0].owner}, by the name that is published"
            case Why.CAPACITY:
                beside = _listed(_holder(name, view) for name in _sharers(excluded, view))
                amounts = _listed(_by_frequency(excluded))
                yield f"too little {amounts} left of {names}{beside and f' beside {beside}'}"
            case Why.CONDITIONS:
                yield f"{names} wait for {excluded[0].detail}, which this release cannot"
            case Why.OTHER_NODE:
                yield f"{names} for other nodes"


def _selectors(request: RequestSurvey, excluded: tuple[Exclusion, ...]) -> Iterator[str]:
    """By selector; the class's own is no news where other devices are of the class."""
    of_class = [exclusion for exclusion in excluded if exclusion.by_class]
    others = [exclusion for exclusion in excluded if not exclusion.by_class]
    explains_all = len(of_class) == len(request.exclusions) and not request.left
    shown = excluded if explains_all else others
    for owner, expression in dict.fromkeys((e.owner, e.detail) for e in shown):
        names = _names([e for e in shown if (e.owner, e.detail) == (owner, expression)])
        yield f"{names} not selected by {owner}: {_cut(expression)}"
    if of_class and not explains_all:
        yield f"{_names(of_class)} not of {of_class[0].owner}"


def _names(excluded: Iterable[Exclusion]) -> str:
    """Few devices by name, many by number."""
    names = [exclusion.device.device for exclusion in excluded]
    return ", ".join(names) if len(names) <= _MOST_NAMED else f"{len(names)} devices"


def _by_frequency(excluded: Iterable[Exclusion]) -> list[str]:
    return [detail for detail, _ in Counter(exclusion.detail for exclusion in excluded).most_common()]


def _listed(names: Iterable[str]) -> str:
    return listed(names, _MOST_HOLDERS)


def _cut(expression: str) -> str:
    return expression if len(expression) <= _LONGEST else f"{expression[:_LONGEST]}..."


def _users(claim: str, view: ClusterView) -> list[str]:
    namespace, _, name = claim.partition("/")
    standing = view.supply.claims.get((namespace, name))
    return [user.name for user in standing.reserved_for if user.name] if standing is not None else []


def _holder(claim: str, view: ClusterView) -> str:
    """The claim that has a device, with the pods that use it."""
    users = _users(claim, view)
    return f"claim {claim} of {_listed(users)}" if users else f"claim {claim}"


def _waits(surveyed: Survey, view: ClusterView) -> Iterator[str]:
    """Whose end would bring devices: each of those who have enough, or all where none has."""
    if not surveyed.in_time:
        return
    short = surveyed.short
    in_use = Counter(e.detail for request in short for e in request.exclusions_of(Why.IN_USE))
    counted = in_use + Counter(
        holder
        for request in short
        for part in dict.fromkeys((e.device[:2], e.detail) for e in request.exclusions_of(Why.COUNTERS))
        for holder in _counter_holders(*part, view)
    )
    counted += Counter(
        holder for request in short for holder in _sharers(request.exclusions_of(Why.CAPACITY), view)
    )
    if not counted:
        return
    whole = all(name in in_use for name in counted)  # of parts of devices nobody's end is known to be enough
    missing = short[0].needs - short[0].left if len(short) == 1 and whole else 0
    enough = [name for name, devices in counted.items() if missing and devices >= missing]
    unused = [name for name in enough or counted if not _users(name, view)]
    busy = [_holder(name, view) for name in enough or counted if name not in unused]
    if unused and (enough or not busy):
        yield f"delete {_listed(f'claim {name}' for name in unused)}, which no pod uses"
        unused = []
    if not busy:
        return
    busy += [_holder(name, view) for name in unused]
    if len(busy) == 1:
        yield f"wait until {busy[0]} has ended"
    else:
        yield f"wait until {'one of these has' if enough else 'enough of these have'} ended: {_listed(busy)}"


def _comes_with_health(relief: Relief, surveyed: Survey) -> bool:
    """Whether the relief would tolerate unhealthy devices alone, which no pod should be given."""
    key = (relief.claim.key, relief.request)
    requests = [part for part in surveyed.requests if (part.claim.key, part.request) == key]
    tainted = [exclusion for part in requests for exclusion in part.exclusions_of(Why.TAINT)]
    return relief.kind is ReliefKind.TAINT and all(exclusion.unhealthy for exclusion in tainted)


def _repairs(surveyed: Survey, *, enough: bool) -> Iterator[str]:
    """To wait for unhealthy devices, where they are `enough`, or are with all that are in use."""
    excluded = [exclusion for part in surveyed.short for exclusion in part.exclusions]
    ill = {exclusion.device: exclusion for exclusion in excluded if exclusion.unhealthy}
    in_use = any(exclusion.why is Why.IN_USE for exclusion in excluded)
    if enough or (ill and surveyed.once_healthy):
        verb, them = ("is", "it") if len(ill) == 1 else ("are", "them")
        besides = ", and until enough of those in use are free" if in_use and not enough else ""
        yield f"wait until {_names(ill.values())} {verb} healthy, or repair {them}{besides}"


def _sharers(excluded: Iterable[Exclusion], view: ClusterView) -> list[str]:
    """The claims that have parts of devices. Administrators' access takes no part."""
    shared = {exclusion.device for exclusion in excluded} & view.supply.parts.keys()
    return [
        str(claim)
        for claim in (view.supply.claims.values() if shared else ())
        if claim.allocation is not None
        and any(device.id in shared and not device.admin for device in claim.allocation.devices)
    ]


def _counter_holders(pool: tuple[str, str], sets: str, view: ClusterView) -> list[str]:
    """The claims with devices that take of the same counters."""
    names = sets.split(", ")
    taking = (
        view.supply.held.get(part.id_of(device))
        for part in view.supply.by_pool.get(pool, ())
        for device in part.devices
        if any(name in names for name in device.consumes)
    )
    return [str(claim) for claim in taking if claim is not None]


def _written_in(claim: ResourceClaim, pod: Pod) -> str:
    """Where a person changes what a claim asks: in the template, if the pod's claim is made from one."""
    template = next((entry.template for entry in pod.claims if entry.made == claim.name), "")
    return f"template {template}" if template else f"claim {claim}"


def _relief_text(relief: Relief, pod: Pod, view: ClusterView) -> str:
    where = f"in request {relief.request} of {_written_in(relief.claim, pod)}"
    match relief.kind:
        case ReliefKind.SELECTOR:
            hint = unselected(relief.detail, view.supply)
            change = f"change the selector {where}, without which devices are left: {_cut(relief.detail)}"
            return f"{change} ({hint})" if hint else change
        case ReliefKind.COUNT:
            return f"ask for {relief.count} of {relief.of} devices {where}"
        case ReliefKind.CAPACITY:
            return f"change the capacity {relief.detail} that is asked for {where}"
        case ReliefKind.TAINT:
            return f"tolerate the devices' taints {where}"
