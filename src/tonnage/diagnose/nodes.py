"""Node by node: the refusals as verdicts, with holders and layers, which the scheduler does not name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tonnage.decide.cluster.refusal import Refusal
from tonnage.decide.cluster.requests import is_extended, pod_requests
from tonnage.decide.cluster.scheduling import Decision
from tonnage.decide.cluster.view import NodeView, View
from tonnage.diagnose.claims import with_survey
from tonnage.diagnose.rules.not_advertised import layer_of
from tonnage.diagnose.rules.renamed_resource import related_on
from tonnage.diagnose.wording import listed, own
from tonnage.model.cluster import Pod
from tonnage.model.json import JsonValue
from tonnage.model.verdict import Code, Layer, NodeVerdict, Reason, Verdict

_MOST_HOLDERS = 64


def node_verdicts(pod: Pod, decision: Decision, view: View) -> tuple[NodeVerdict, ...]:
    """A verdict for every node of a thorough decision."""
    return tuple(
        _verdict(pod, node, decision.refusals.get(name, ()), view) for name, node in view.nodes.items()
    )


def holders(node: NodeView, resource: str) -> tuple[tuple[str, int], ...]:
    """Pods that hold some of a resource on a node, as (`namespace/name`, amount), by name."""
    found = ((f"{pod.namespace}/{pod.name}", pod_requests(pod).get(resource, 0)) for pod in node.pods)
    return tuple(sorted((name, amount) for name, amount in found if amount > 0))


def _verdict(pod: Pod, node: NodeView, refusals: tuple[Refusal, ...], view: View) -> NodeVerdict:
    reasons = [
        replace(_told_fully(reason, pod, node, view), hidden=index > 0)
        for index, refusal in enumerate(refusals)
        for reason in refusal.reasons
    ]
    unread = tuple(_unreadable(node))
    if any(reason.lasting for reason in reasons):
        verdict = Verdict.NEVER
    elif unread:
        verdict = Verdict.UNKNOWN
    else:
        verdict = Verdict.NOT_NOW if reasons else Verdict.FITS
    return NodeVerdict(node.name, verdict, (*reasons, *unread))


def _told_fully(reason: Reason, pod: Pod, node: NodeView, view: View) -> Reason:
    resource = str(reason.facts.get("resource", ""))
    if reason.code is Code.INSUFFICIENT and "/" in resource:
        held = holders(node, resource)
        shown: list[JsonValue] = [{"pod": name, "amount": amount} for name, amount in held[:_MOST_HOLDERS]]
        names = listed(own(name, pod.namespace) for name, _ in held)
        return replace(
            reason,
            facts={**reason.facts, "holders": shown},
            message=f"{reason.message}; held by {names}" if held else reason.message,
        )
    if reason.code is Code.CLAIM_UNALLOCATABLE:
        return with_survey(reason, pod, node, view)
    if reason.code is not Code.NOT_ADVERTISED:
        return reason
    related = related_on(node.node, resource)
    if related:
        told = f"the node offers {', '.join(related)}, not {resource}"
        facts: dict[str, JsonValue] = {**reason.facts, "instead": [*related]}
        remedy = "ask for the name that is offered, or change the node's sharing or MIG configuration"
        return replace(reason, layer=Layer.PLUGIN, message=told, facts=facts, remedy=remedy)
    layer = layer_of(node.node, view.snapshot.gpu.get(node.name))
    if layer is not None and is_extended(resource):
        told = f"the node has a GPU but does not offer {resource}"
        return replace(reason, layer=layer, message=told, remedy=_below(layer, node.name))
    return reason


def _below(layer: Layer, node: str) -> str:
    part = {Layer.DRIVER: "driver", Layer.HARDWARE: "devices"}.get(layer, "device plugin")
    return f"look at the {part} on {node}"


def _unreadable(node: NodeView) -> Iterable[Reason]:
    problems = [(f"Node {node.name}", problem) for problem in node.node.problems]
    problems += [(f"Pod {p.namespace}/{p.name}", problem) for p in node.pods for problem in p.problems]
    for subject, problem in problems:
        yield Reason(
            Code.UNREADABLE,
            Layer.SCHEDULER,
            subject,
            f"{problem.where}: {problem.what}",
            {"field": problem.where},
            problem.remedy or "correct the quantity",
            "Kubernetes quantity",
            lasting=False,
        )
