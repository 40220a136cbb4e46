"""Changes to a manifest or to the cluster that would answer a reason, as values to try on the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Final

from tonnage.decide.kubernetes.matching import failing_requirements
from tonnage.decide.kubernetes.requests import is_extended, written_apart
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.diagnose.blocking_pods import wait_for, wait_for_one
from tonnage.diagnose.case import device_needs
from tonnage.diagnose.explain.nodes.closed_nodes import CORDONED
from tonnage.diagnose.related_resources import is_same_device, misspelt, profile_of
from tonnage.diagnose.remedies.labelling import label_node
from tonnage.diagnose.remedies.mig_edits import larger_device, partition, renaming
from tonnage.diagnose.remedies.remedy_edit import RemedyEdit
from tonnage.model.kubernetes.cluster import Container, Node, Pod, SpreadConstraint
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Requirement, Taint, Toleration
from tonnage.model.names import GPU, SHARED_SUFFIX
from tonnage.model.node.device_counts import device_count
from tonnage.model.reasons.messages.symptoms import TopologyAffinity
from tonnage.model.reasons.pod.scheduling import (
    HostPortTaken,
    InsufficientResource,
    NodeAffinityMismatch,
    NodeUnschedulable,
    PodAntiAffinity,
    PodAntiAffinityOfOthers,
    ResourceNotAdvertised,
    ResourceTooLarge,
    TaintNotTolerated,
    TooManyPods,
    TopologySkew,
)
from tonnage.model.reasons.reason import Reason

_REPLICAS: Final = f"{GPU}.replicas"
_EXCLUSIVE: Final = "1"
LEAST_PART: Final = 3
"""A pod can do with a third of the devices that it asks for, perhaps; with less it is another program."""
_COMPARING: Final = ("Gt", "Lt")


def edits_for(
    pod: Pod, node: NodeView, reasons: tuple[Reason, ...], now: datetime | None, *, less: bool = False
) -> tuple[RemedyEdit, ...] | None:
    """The edits that together would answer every reason of a node; None when some reason has no answer.

    `less`: rather ask for less, or for another MIG device, than wait; rather partition GPUs than rename.
    """
    edits: list[RemedyEdit] = []
    for reason in reasons:
        edit = (_instead(pod, node, reason) if less else None) or _edit(pod, node, reason, now)
        if edit is None:
            return None
        if edit.key not in {earlier.key for earlier in edits}:
            edits.append(edit)
    return tuple(edits)


def _edit(pod: Pod, node: NodeView, reason: Reason, now: datetime | None) -> RemedyEdit | None:
    match reason:
        case TaintNotTolerated() if reason.lasting:
            return tolerate(pod, Taint(reason.key, reason.value, reason.effect))
        case NodeAffinityMismatch():
            return widen(pod, node.node) or label_node(pod, node.node)
        case NodeUnschedulable():
            return uncordon(node)
        case ResourceNotAdvertised():
            return rename(pod, node, reason.resource)
        case ResourceTooLarge():
            return shrink(pod, reason.resource, reason.free) or _less(pod, reason)
        case InsufficientResource() | TooManyPods():
            return wait_for(pod, node, reason, now)
        case TopologyAffinity():
            return fewer(pod, reason)
        case TopologySkew():
            return spread_wider(pod, reason)
        case PodAntiAffinity(pod=name) | PodAntiAffinityOfOthers(pod=name) | HostPortTaken(holder=name):
            return wait_for_one(pod, node, name, now)
        case _:
            return None


def fewer(pod: Pod, reason: TopologyAffinity) -> RemedyEdit | None:
    """Ask for as many devices as one NUMA node has, in a pod that asks for one kind."""
    if reason.most is None or len(reason.most) != 1:
        return None
    [(resource, count)] = reason.most.items()
    return shrink(pod, resource, count)


def could_ask_less(reasons: Iterable[Reason]) -> bool:
    """Whether a node is short of something of which a part would do, or another MIG device; or a rule could
    be a wish.
    """
    return any(
        isinstance(r, TopologySkew)
        or (isinstance(r, InsufficientResource) and not is_extended(r.resource))
        or (isinstance(r, InsufficientResource | ResourceNotAdvertised) and profile_of(r.resource))
        for r in reasons
    )


def _instead(pod: Pod, node: NodeView, reason: Reason) -> RemedyEdit | None:
    """What else would do than the plain answer to a reason."""
    if isinstance(reason, ResourceNotAdvertised):
        return partition(pod, node, reason.resource)
    if isinstance(reason, InsufficientResource) and profile_of(reason.resource):
        return larger_device(pod, node, reason.resource)
    return _less(pod, reason)


def _less(pod: Pod, reason: Reason) -> RemedyEdit | None:
    """As much CPU, memory or disk as is free, where one container asks for it; spreading as a wish."""
    if isinstance(reason, TopologySkew):
        return spread_softly(pod, reason)
    if not isinstance(reason, InsufficientResource | ResourceTooLarge):
        return None
    resource, free = reason.resource, reason.free
    asking = [c for c in (*pod.containers, *pod.init_containers) if c.requests.get(resource)]
    if is_extended(resource) or free < 1 or len(asking) != 1:
        return None

    def changed(container: Container) -> Container:
        if container is not asking[0]:
            return container
        requested = container.requested | {resource}
        return replace(container, requests={**container.requests, resource: free}, requested=requested)

    def on_pod(other: Pod) -> Pod:
        containers, init = map(changed, other.containers), map(changed, other.init_containers)
        return replace(other, containers=tuple(containers), init_containers=tuple(init))

    written, requested_text = written_apart(resource, free, asking[0].requests[resource])
    key = f"request {written} {resource}"
    lost = 4 * (asking[0].requests[resource] - free) // asking[0].requests[resource]
    action = f"{key}, which is free, not {requested_text}"
    return RemedyEdit(key, action, 14 + max(0, lost), on_pod=on_pod)


def spread_wider(pod: Pod, reason: TopologySkew) -> RemedyEdit | None:
    """Allow as uneven a spreading as one more pod makes."""
    key, skew = reason.key, reason.skew
    key_text = f"raise maxSkew over {key} to {skew}"
    cost = 12 + skew - reason.max_skew
    return _spread(
        pod, key, RemedyEdit(key_text, key_text, cost), lambda c: replace(c, max_skew=max(c.max_skew, skew))
    )


def spread_softly(pod: Pod, reason: TopologySkew) -> RemedyEdit | None:
    """Make a rule of spreading a wish; minDomains is refused of wishes."""
    key = reason.key
    key_text = f"spread over {key} with whenUnsatisfiable: ScheduleAnyway"
    return _spread(
        pod, key, RemedyEdit(key_text, key_text, 15), lambda c: replace(c, hard=False, min_domains=1)
    )


def _spread(
    pod: Pod, key: str, edit: RemedyEdit, change: Callable[[SpreadConstraint], SpreadConstraint]
) -> RemedyEdit | None:
    """The edit as a change of the pod's one constraint over `key`: patches know them by it."""
    if sum(c.topology_key == key for c in pod.spread) != 1:
        return None

    def on_pod(other: Pod) -> Pod:
        return replace(other, spread=tuple(change(c) if c.topology_key == key else c for c in other.spread))

    return replace(edit, on_pod=on_pod)


def tolerate(asking: Pod, taint: Taint) -> RemedyEdit:
    """Tolerate one taint, by its value where it has one.

    Tolerations by comparison go: where their gate is off the API server refuses the whole pod for them.
    """
    operator = "Equal" if taint.value else "Exists"
    toleration = Toleration(taint.key, operator, taint.value, taint.effect)

    compares = any(t.operator in _COMPARING for t in asking.tolerations)
    instead = ", in place of what compares values (operators Gt and Lt)" if compares else ""

    def on_pod(pod: Pod) -> Pod:
        tolerations = (t for t in pod.tolerations if t.operator not in _COMPARING)
        return replace(pod, tolerations=(*tolerations, toleration))

    return RemedyEdit(f"tolerate {taint}", f"tolerate the taint {taint}{instead}", 1, on_pod=on_pod)


def widen(pod: Pod, node: Node, *others: Node) -> RemedyEdit | None:
    """Let nodeSelector and required affinity take the node's values too, where the node has the labels.

    With `others` also theirs, where they differ from what is wanted in the same labels.
    """
    selected = {key: value for key, value in pod.node_selector.items() if node.labels.get(key) != value}
    terms = [failing_requirements(term, node) for term in pod.affinity.node or ()]
    failing = min(terms, key=len) if terms and all(terms) else ()
    if any(key not in node.labels for key in selected) or not all(_can_widen(r, node) for r in failing):
        return None
    keys = (*sorted(selected), *(requirement.key for requirement in failing))
    if not keys:
        return None
    more = {key: tuple(dict.fromkeys(_values(key, (node, *others)))) for key in keys}
    changes = [
        f"{key}: {' or '.join(dict.fromkeys((selected[key], *more[key])))}" for key in sorted(selected)
    ]
    changes += [f"{r.key}: {' or '.join(dict.fromkeys((*r.values, *more[r.key])))}" for r in failing]

    def on_pod(other: Pod) -> Pod:
        return _widened(other, more, selected, failing)

    key, shape = f"widen {'; '.join(changes)}", f"widen {', '.join(keys)}"
    return RemedyEdit(key, f"accept {'; '.join(changes)}", 12, shape=shape, on_pod=on_pod)


def _values(key: str, nodes: Iterable[Node]) -> Iterator[str]:
    return (node.labels[key] for node in nodes if key in node.labels)


def uncordon(node: NodeView) -> RemedyEdit:
    """Open a cordoned node: the cluster takes its taint away then."""

    def on_view(view: ClusterView) -> ClusterView:
        current = view.nodes[node.name]
        taints = tuple(taint for taint in current.node.taints if taint.key != CORDONED)
        opened = replace(current.node, unschedulable=False, taints=taints)
        return view.with_node(replace(current, node=opened))

    return RemedyEdit(
        f"uncordon {node.name}", f"uncordon {node.name}: kubectl uncordon {node.name}", 6, on_view=on_view
    )


def rename(pod: Pod, node_view: NodeView, resource: str) -> RemedyEdit | None:
    """Ask for the device by the name under which the node offers it; instead of a MIG device for a larger."""
    node = node_view.node
    there = [name for name, amount in sorted(node.allocatable.items()) if amount > 0]
    name = next((name for name in there if is_same_device(name, resource)), "")
    if not name and profile_of(resource) is not None:
        return larger_device(pod, node_view, resource)  # no profile is another one's misspelling
    name = name or misspelt(resource, there)
    shares = not resource.endswith(SHARED_SUFFIX) and device_count(node, name).shared
    if not name or (shares and _most_asked(pod, resource) > 1):
        return None  # several replicas are no substitute for several GPUs
    difference = ": a share of a GPU instead of a whole one" if shares else ""
    action = f"ask for {name} instead of {resource}{difference}"
    return RemedyEdit(f"rename {resource} {name}", action, 3, on_pod=renaming(resource, name))


def _most_asked(pod: Pod, resource: str) -> int:
    return max(c.requests.get(resource, 0) for c in (*pod.containers, *pod.init_containers))


def shrink(pod: Pod, resource: str, most: int) -> RemedyEdit | None:
    """Ask for fewer devices: as many as are free, in a pod whose one container asks for them."""
    asking = [c for c in (*pod.containers, *pod.init_containers) if c.requests.get(resource)]
    if most < 1 or len(asking) != 1 or resource not in device_needs(pod):
        return None
    requested = asking[0].requests[resource]
    if most * LEAST_PART < requested:
        return None  # who trains on four GPUs has no use for one

    def on_pod(other: Pod) -> Pod:
        return _with_amounts(
            other, lambda amounts: {n: most if n == resource else a for n, a in amounts.items()}
        )

    return RemedyEdit(
        f"shrink {resource} {most}",
        f"ask for {most} {resource}",
        13 + requested - most,
        asks=(resource, most),
        on_pod=on_pod,
    )


def select_unshared(node: Node) -> RemedyEdit | None:
    """Keep to nodes that share none of their GPUs, where the node has the label that says so."""
    if node.labels.get(_REPLICAS) != _EXCLUSIVE:
        return None

    def on_pod(pod: Pod) -> Pod:
        return replace(pod, node_selector={**pod.node_selector, _REPLICAS: _EXCLUSIVE})

    action = f'select nodes whose GPUs are not shared (nodeSelector {_REPLICAS}: "{_EXCLUSIVE}")'
    return RemedyEdit("select unshared GPUs", action, 1, on_pod=on_pod)


def single(resource: str) -> RemedyEdit:
    """Ask for one of a resource in every container that asks for more."""

    def on_pod(pod: Pod) -> Pod:
        return _with_amounts(
            pod, lambda amounts: {n: min(a, 1) if n == resource else a for n, a in amounts.items()}
        )

    return RemedyEdit(f"single {resource}", f"ask for 1 {resource} in each container", 12, on_pod=on_pod)


def _can_widen(requirement: Requirement, node: Node) -> bool:
    return requirement.operator == "In" and requirement.key in node.labels


def _widened(
    pod: Pod,
    more: Mapping[str, tuple[str, ...]],
    selected: Mapping[str, str],
    failing: tuple[Requirement, ...],
) -> Pod:
    keys = {requirement.key for requirement in failing}

    def wider(requirement: Requirement) -> Requirement:
        if requirement.key not in keys or requirement.operator != "In":
            return requirement
        values = dict.fromkeys((*requirement.values, *more[requirement.key]))
        return replace(requirement, values=tuple(values))

    added = tuple(
        Requirement(key, "In", tuple(dict.fromkeys((value, *more[key]))))
        for key, value in sorted(selected.items())
    )
    terms = pod.affinity.node
    if terms is not None:
        terms = tuple(
            replace(term, expressions=(*(wider(r) for r in term.expressions), *added)) for term in terms
        )
    elif added:
        terms = (NodeSelectorTerm(added),)
    selector = {key: value for key, value in pod.node_selector.items() if key not in selected}
    return replace(pod, node_selector=selector, affinity=replace(pod.affinity, node=terms))


def _with_amounts(pod: Pod, change: Callable[[dict[str, int]], dict[str, int]]) -> Pod:
    def changed(container: Container) -> Container:
        return replace(
            container, requests=change(dict(container.requests)), limits=change(dict(container.limits))
        )

    return replace(
        pod,
        containers=tuple(changed(c) for c in pod.containers),
        init_containers=tuple(changed(c) for c in pod.init_containers),
    )
