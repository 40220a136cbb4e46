"""Node by node: the refusals as verdicts, with holders and layers, which the scheduler does not name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from tonnage.decide.kubernetes.requests import PODS, is_extended
from tonnage.decide.kubernetes.scheduler.filtering import prepared, refusals_of
from tonnage.decide.kubernetes.scheduler.refusal import Check, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.diagnose.explain.nodes.alignment import behind, kubelet_reasons
from tonnage.diagnose.explain.nodes.claims import Surveys, with_survey
from tonnage.diagnose.explain.nodes.closed_nodes import CORDONED, with_node_state
from tonnage.diagnose.explain.nodes.json_entries import entries_of
from tonnage.diagnose.related_resources import related_on
from tonnage.diagnose.rules.devices.not_advertised import CLAIM_INSTEAD, claims_alone, layer_for
from tonnage.diagnose.wording import listed_own
from tonnage.model.json import JsonValue
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.layer import Layer
from tonnage.model.node.device_counts import device_count
from tonnage.model.reasons.facts import Guest, Holder
from tonnage.model.reasons.pod.admission import Unreadable
from tonnage.model.reasons.pod.claims import ClaimNotAllocatable
from tonnage.model.reasons.pod.scheduling import (
    AmountReason,
    InsufficientResource,
    NodeUnschedulable,
    ResourceNotAdvertised,
    ResourceTooLarge,
    TaintNotTolerated,
    TooManyPods,
)
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Holding, NodeClass, NodeList, NodeVerdict, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_MOST_HOLDERS = 64
_MOST_NAMED = 8
_OFFERED = "status.allocatable["


class NodeVerdicts(NodeList):
    """The verdict of every node, in name order, each made when it is looked at: the filters are asked again.

    `alike` gives the nodes by classes that answer the same but for their names and the pods they hold;
    `kind_of` as `Surveys` has it.
    """

    def __init__(
        self,
        pod: Pod,
        view: ClusterView,
        alike: Callable[[], Iterable[Sequence[str]]] | None = None,
        kind_of: Callable[[str], int] | None = None,
    ) -> None:
        self._pod = pod
        self._view = view
        self._alike = alike
        self._names: tuple[str, ...] | None = None
        self._checks: tuple[Check, ...] | None = None
        self._surveys = Surveys(pod, view, kind_of)

    def __len__(self) -> int:
        return len(self._view.nodes)

    def at(self, place: int) -> NodeVerdict:
        """The verdict of one node, by its place in the order of names."""
        return self.of(self._all()[place])

    def _all(self) -> tuple[str, ...]:
        if self._names is None:
            self._names = tuple(self._view.nodes)
        return self._names

    def of(self, name: str) -> NodeVerdict:
        """The verdict of one node."""
        if self._checks is None:
            self._checks = prepared(self._pod, self._view)
        node = self._view.nodes[name]
        refusals = refusals_of(self._pod, node, self._view, self._checks)
        return _verdict(self._pod, node, refusals, self._view, self._surveys)

    def to_json(self) -> list[JsonValue]:
        """An entry a node."""
        if self._alike is None:
            return super().to_json()
        return entries_of(self._all(), self._alike(), self.of, self._held)

    def _held(self, name: str, resource: str) -> tuple[tuple[Holder, ...], str]:
        return _held(self._view.nodes[name], resource, self._pod, self._view)

    def holders_on(self, names: Iterable[str], resource: str) -> Iterator[str]:
        """Pods that hold some of a resource on these nodes, node by node."""
        return (pod for name in names for pod, _ in holders(self._view.nodes[name], resource))


def each_alone(verdicts: Iterable[NodeVerdict]) -> tuple[NodeClass, ...]:
    """Every node a class of its own."""
    return tuple(NodeClass(verdict, (verdict.node,)) for verdict in verdicts)


def classed(
    verdicts: NodeVerdicts,
    names: NDArray[np.object_],
    classes: Iterable[NDArray[np.intp]],
    asking: Callable[[str], NDArray[np.int64]],
) -> tuple[NodeClass, ...]:
    """Classes of nodes, given by their places among `names`, of which the first member is looked at.

    `asking`: how many pods ask for a resource, node by node.
    """
    node_classes: list[NodeClass] = []
    for rows in classes:
        members: tuple[str, ...] = tuple(names[rows].tolist())
        verdict = verdicts.of(members[0])
        short = [
            reason.resource
            for reason in verdict.reasons
            if isinstance(reason, InsufficientResource) and reason.holders is not None
        ]
        held: list[Holding] = []
        for resource in short if len(members) > 1 else ():
            pods = tuple(islice(verdicts.holders_on(members, resource), _MOST_NAMED))
            held.append(Holding(resource, pods, int(asking(resource)[rows].sum())))
        node_classes.append(NodeClass(verdict, members, tuple(held)))
    return tuple(node_classes)


def holders(node: NodeView, resource: str) -> tuple[tuple[str, int], ...]:
    """Pods that hold some of a resource on a node, as (`namespace/name`, amount), by name."""
    pairs = zip(node.pods, node.amounts, strict=True)
    by_amount = [
        (f"{pod.namespace}/{pod.name}", amount)
        for pod, amounts in pairs
        if (amount := amounts.get(resource, 0)) > 0
    ]
    by_amount.sort()
    return tuple(by_amount)


def _verdict(
    pod: Pod, node: NodeView, refusals: tuple[PluginRefusal, ...], view: ClusterView, surveys: Surveys
) -> NodeVerdict:
    reasons = [
        replace(_with_node_facts(reason, pod, node, view, surveys), hidden=index > 0)
        for index, refusal in enumerate(refusals)
        for reason in refusal.reasons
    ]
    unoffered = unread_amounts(node.node)
    reasons = [r for r in _without_doubles(reasons) if not _hangs_on(r, unoffered)]
    unread = tuple(_unreadable(node))
    if not unread:
        reasons += behind(pod, node, view) if reasons else kubelet_reasons(pod, node, view)
    if any(reason.lasting for reason in reasons):
        verdict = Verdict.NEVER
    elif unread:
        verdict = Verdict.UNKNOWN
    else:
        verdict = Verdict.NOT_NOW if reasons else Verdict.FITS
    return NodeVerdict(node.name, verdict, (*reasons, *unread))


def unread_amounts(node: Node) -> frozenset[str]:
    """Resources of which a node offers what nobody can read; in sums they count as nothing."""
    wheres = (problem.where for problem in node.problems)
    return frozenset(
        where.removeprefix(_OFFERED).removesuffix("]") for where in wheres if where.startswith(_OFFERED)
    )


def _hangs_on(reason: Reason, resources: frozenset[str]) -> bool:
    if isinstance(reason, TooManyPods):
        return PODS in resources
    return isinstance(reason, AmountReason | ResourceNotAdvertised) and reason.resource in resources


def _without_doubles(reasons: list[Reason]) -> Iterator[Reason]:
    """Each once: a cordon has a taint of its own, and a node that is not ready two."""
    cordoned = any(isinstance(reason, NodeUnschedulable) for reason in reasons)
    earlier: set[tuple[str, str]] = set()
    for reason in reasons:
        of_cordon = isinstance(reason, TaintNotTolerated) and reason.key == CORDONED
        if (reason.code, reason.message) in earlier or (cordoned and of_cordon):
            continue
        earlier.add((reason.code, reason.message))
        yield reason


def _with_node_facts(reason: Reason, pod: Pod, node: NodeView, view: ClusterView, surveys: Surveys) -> Reason:
    """The reason with what its filter does not look at: holders, survey, the node's own words, the layer."""
    if isinstance(reason, InsufficientResource) and "/" in reason.resource:
        shown, holders_text = _held(node, reason.resource, pod, view)
        text = f"{_with_replicas(reason, node, view)}{holders_text}"
        return replace(reason, holders=shown, message=text)
    if isinstance(reason, ResourceTooLarge):
        return replace(reason, message=_with_replicas(reason, node, view))
    if isinstance(reason, ClaimNotAllocatable):
        return with_survey(reason, surveys, node, view)
    if isinstance(reason, NodeUnschedulable | TaintNotTolerated):
        return with_node_state(reason, node.node)
    if not isinstance(reason, ResourceNotAdvertised):
        return reason
    return _not_offered(reason, node, view)


def _with_replicas(reason: AmountReason, node: NodeView, view: ClusterView) -> str:
    """The message with what a shared resource is on the node, in the parentheses that it may end in."""
    message = reason.message
    there = device_count(node.node, reason.resource, view.snapshot.gpu.get(node.name))
    if not there.shared:
        return message
    return (
        f"{message[:-1]}; {there.in_words()})" if message.endswith(")") else f"{message} ({there.in_words()})"
    )


def _not_offered(reason: ResourceNotAdvertised, node: NodeView, view: ClusterView) -> Reason:
    resource = reason.resource
    related = related_on(node.node, resource)
    if related:
        message = f"the node offers {', '.join(related)}, not {resource}"
        remedy = "ask for the name that is offered, or change the node's sharing or MIG configuration"
        return replace(reason, layer=Layer.PLUGIN, message=message, instead=tuple(related), remedy=remedy)
    if claims_alone(resource, node.node, view):
        message = f"the node offers its GPUs as claims, not as {resource}"
        return replace(reason, layer=Layer.PLUGIN, message=message, remedy=CLAIM_INSTEAD)
    layer = layer_for(resource, node.node, view.snapshot.gpu.get(node.name))
    if layer is not None and is_extended(resource):
        message = f"the node has a GPU but does not offer {resource}"
        return replace(reason, layer=layer, message=message, remedy=_below(layer, node.name))
    return reason


def _held(node: NodeView, resource: str, pod: Pod, view: ClusterView) -> tuple[tuple[Holder, ...], str]:
    """Holders of a resource, as facts and as the end of a message; with them those whom it is kept for."""
    pairs = holders(node, resource)
    shown: list[Holder] = [Holder(name, amount) for name, amount in pairs[:_MOST_HOLDERS]]
    text = f"; held by {listed_own([name for name, _ in pairs], pod.namespace)}" if pairs else ""
    guests = view.guests(node.name, pod) if view.nominated else ()
    reserved = [pair for pair in holders(node.plus(guests), resource) if pair not in pairs] if guests else []
    if reserved:
        shown += [Guest(name, n) for name, n in reserved[:_MOST_HOLDERS]]
        names = listed_own([name for name, _ in reserved], pod.namespace)
        text += f"; kept for {names}, for which the node is cleared"
    return tuple(shown), text


def _below(layer: Layer, node: str) -> str:
    part = {Layer.DRIVER: "driver", Layer.HARDWARE: "devices"}.get(layer, "device plugin")
    return f"check the {part} on {node}: tonnage doctor there names the fault"


def _unreadable(node: NodeView) -> Iterable[Reason]:
    problems = [(f"Node {node.name}", problem) for problem in node.node.problems]
    problems += [(f"Pod {p.namespace}/{p.name}", problem) for p in node.pods for problem in p.problems]
    for subject, problem in problems:
        yield Unreadable(
            subject=subject,
            message=f"{problem.where}: {problem.what}",
            remedy=problem.remedy or "correct the quantity",
            source="Kubernetes quantity",
            layer=Layer.SCHEDULER,
            lasting=False,
            field=problem.where,
        )
