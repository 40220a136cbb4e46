"""Whether any node would ever take a pod: labels, resources, taints, and the engine for everything else.

Judged as if the cluster were empty: what has to end first is no mistake in a manifest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.claims.extended_resources import backed_by_classes
from tonnage.decide.kubernetes.matching import node_is_selected, requirement_holds, tolerates, untolerated
from tonnage.decide.kubernetes.requests import is_extended, pod_requests
from tonnage.diagnose.cluster_view import ground_of
from tonnage.diagnose.explain.explain import explain_waiting_pod
from tonnage.diagnose.explain.template_claims import with_made_claims
from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import PodSite, mapping
from tonnage.diagnose.lint.node_terms import terms
from tonnage.diagnose.lint.rule_inputs import LintCluster, RuleInputs
from tonnage.diagnose.related_resources import misspelt, related_names
from tonnage.documents.nearest import nearest_word
from tonnage.documents.pods.node_placement import node_affinity_faults, node_selector_faults
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Manifest, Node, Pod
from tonnage.model.kubernetes.selectors import Requirement, Taint
from tonnage.model.layer import Layer
from tonnage.model.name_lists import listed
from tonnage.model.node.device_counts import device_count
from tonnage.model.reasons.facts import SharedDevices
from tonnage.model.reasons.lint.placements import (
    FitsNowhere,
    SelectsNoNode,
    SingleNode,
    TolerationMatchesNothing,
)
from tonnage.model.reasons.pod.pods import ReplicasNotDevices
from tonnage.model.reasons.pod.scheduling import ResourceNotAdvertised, TaintNotTolerated
from tonnage.model.severity import Severity
from tonnage.model.verdict import Verdict

_HARD: Final = ("NoSchedule", "NoExecute")
_WELL_KNOWN: Final = "node.kubernetes.io/"
_BELOW: Final = (Layer.SCHEDULER, Layer.PLUGIN, Layer.DRIVER, Layer.HARDWARE)


def of_pod(site: PodSite, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on a pod against the nodes of a cluster, those that come first in the scheduler's order."""
    cluster = inputs.cluster
    if cluster is None or not cluster.ground.view.nodes:
        return
    if any((*node_selector_faults(site.spec), *node_affinity_faults(site.spec))):
        return
    manifest = inputs.read_pod(_as_pod(site))
    if manifest is None or manifest.pod.problems:
        return
    pod = manifest.pod
    nodes = [view.node for view in cluster.ground.view.nodes.values()]
    yield from _idle_tolerations(site, pod, nodes)
    drafts = [*_refusals(site, pod, nodes, cluster)] or [*_engine(site, manifest, inputs, cluster)]
    if site.manifest.kind == "DaemonSet":  # where there is nothing for it to do it has no pods
        drafts = [replace(draft, severity=Severity.NOTE) for draft in drafts]
    yield from drafts
    if not drafts or all(isinstance(draft.reason, SingleNode) for draft in drafts):
        yield from _replicas(site, pod, nodes, cluster)


def _replicas(site: PodSite, pod: Pod, nodes: list[Node], cluster: LintCluster) -> Iterator[Draft]:
    """Several of a resource of which a node that could take the pod offers replicas."""
    statuses = cluster.ground.view.snapshot.gpu
    for resource, amount in pod_requests(pod).items():
        if not is_extended(resource) or amount < 2:
            continue
        able = [n for n in nodes if n.allocatable.get(resource, 0) >= amount and node_is_selected(pod, n)]
        counts = [(node.name, device_count(node, resource, statuses.get(node.name))) for node in able]
        shared = [(name, count) for name, count in counts if count.shared]
        if not shared:
            continue
        worst = min((count for _, count in shared), key=lambda count: count.behind(amount))
        names = [name for name, count in shared if count.behind(amount) == worst.behind(amount)]
        reason = ReplicasNotDevices(
            subject="",
            message=f"on {listed(names, 4)}, {worst.in_words(amount)}; replicas add no memory or compute",
            remedy="ask for 1, which is a share of a GPU, or select nodes whose GPUs are not shared",
            resource=resource,
            requested=amount,
            nodes=tuple(SharedDevices(name, count.devices, count.replicas) for name, count in shared),
        )
        yield Draft(reason, _asked_at(site, resource), on_key=True)


def _as_pod(site: PodSite) -> JsonObject:
    own: JsonObject = {key: site.metadata[key] for key in ("labels", "annotations") if key in site.metadata}
    metadata: JsonObject = {**own, "name": site.manifest.name or "pod", "namespace": site.manifest.namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": site.spec}


def _refusals(site: PodSite, pod: Pod, nodes: list[Node], cluster: LintCluster) -> Iterator[Draft]:
    selected = [node for node in nodes if node_is_selected(pod, node)]
    if not selected:
        yield from _unselected(site, pod, nodes)
        return
    by_class = backed_by_classes(pod, cluster.ground.view.supply)
    amounts = {name: amount for name, amount in pod_requests(pod).items() if is_extended(name) and amount > 0}
    needs = {name: amount for name, amount in amounts.items() if name not in by_class}
    for name in needs:
        if not any(node.allocatable.get(name, 0) > 0 or node.capacity.get(name, 0) > 0 for node in nodes):
            yield _not_advertised(site, name, cluster)
            return
    able = [node for node in selected if all(node.allocatable.get(n, 0) >= a for n, a in needs.items())]
    if not able:
        return
    tolerating = [node for node in able if not untolerated(node.taints, pod.tolerations, _HARD)]
    if not tolerating:
        yield _tainted(site, pod, able)
    elif len(tolerating) == 1 and len(nodes) > 1 and needs and site.manifest.kind != "DaemonSet":
        message = f"{tolerating[0].name} alone has {listed(needs)} for this pod"
        why = "while that node is drained or broken the pod runs nowhere"
        reason = SingleNode(
            message=message,
            remedy="select more than one model or profile, or give another node the same",
            node=tolerating[0].name,
            resources=tuple(needs),
        )
        yield Draft(reason, _asked_at(site, next(iter(needs))), why, on_key=True)


def _unselected(site: PodSite, pod: Pod, nodes: list[Node]) -> Iterator[Draft]:
    """The labels that no node has; if each is somewhere, that no node has them together."""
    partial = False
    for key, value in pod.node_selector.items():
        if not any(node.labels.get(key) == value for node in nodes):
            partial = True
            yield _no_value(key, [value], (*site.path, "nodeSelector", key), nodes)
    required = [*_required(site)]
    idle = [(path, r) for path, r in required if not any(requirement_holds(r, node.labels) for node in nodes)]
    for path, requirement in idle:
        partial = True
        yield _no_value(requirement.key, requirement.values, path, nodes)
    if not partial:
        place: Path = (*site.path, "affinity" if required else "nodeSelector")
        message = "each label is on some node, but no node has all of them"
        yield Draft(SelectsNoNode(message=message, remedy="widen it, or label a node"), place, on_key=True)


def _required(site: PodSite) -> Iterator[tuple[Path, Requirement]]:
    for path, term, required in terms(site):
        for index, expression in enumerate(_list(term.get("matchExpressions"))):
            if required and isinstance(expression, dict):
                values = tuple(str(value) for value in _list(expression.get("values")))
                key, operator = str(expression.get("key", "")), str(expression.get("operator", ""))
                at: Path = (*path, "matchExpressions", index)
                yield (*at, "values", 0) if values else (*at, "key"), Requirement(key, operator, values)


def _list(value: JsonValue) -> list[JsonValue]:
    return value if isinstance(value, list) else []


def _no_value(key: str, values: Sequence[str], path: Path, nodes: list[Node]) -> Draft:
    there = sorted({node.labels[key] for node in nodes if key in node.labels})
    if not there:
        keys = sorted({label for node in nodes for label in node.labels})
        near = nearest_word(key, keys)
        remedy = f"use {near} if you meant that" if near else "label a node, or leave it out"
        message = f"no node has the label {key[:100]}"
    else:
        message = f"no node has {key[:100]} as wanted ({listed(values)})"
        remedy = f"nodes have {listed(there)}"
    reason = SelectsNoNode(
        message=message, remedy=remedy, key=key, values=tuple(values), node_values=tuple(there)
    )
    return Draft(reason, path)


def _not_advertised(site: PodSite, name: str, cluster: LintCluster) -> Draft:
    view = cluster.ground.view
    related = related_names(name, view)
    message = f"no node offers {name}"
    if related:
        message += f"; nodes offer {listed(related)}"
    near = misspelt(name, sorted({n for v in view.nodes.values() for n in v.node.allocatable}))
    meant = next(iter(related), near)
    message += f"; nodes offer {near}" if near and not related else ""
    remedy = f"ask for {meant}" if meant else "install or repair the device plugin"
    reason = ResourceNotAdvertised(
        subject=site.manifest.subject,
        message=message,
        remedy=remedy,
        layer=Layer.PLUGIN,
        resource=name,
        instead=tuple(related),
        meant=meant,
    )
    return Draft(reason, _asked_at(site, name), on_key=True)


def _tainted(site: PodSite, pod: Pod, able: list[Node]) -> Draft:
    taints: dict[str, Taint] = {}
    for node in able:
        for taint in untolerated(node.taints, pod.tolerations, _HARD):
            taints.setdefault(str(taint), taint)
    first = next(iter(taints.values()))
    value = f", value: {first.value}, operator: Equal" if first.value else ", operator: Exists"
    place: Path = (*site.path, "tolerations") if "tolerations" in site.spec else site.path
    reason = TaintNotTolerated(
        subject=site.manifest.subject,
        message=f"every suitable node ({listed([node.name for node in able])}) has a taint that is not "
        f"tolerated: {listed(taints)}",
        remedy=f"if the pod belongs there, tolerate it: {{key: {first.key}{value}, effect: {first.effect}}}",
        key=first.key,
        value=first.value,
        effect=first.effect,
    )
    return Draft(reason, place, on_key=True)


def _asked_at(site: PodSite, name: str) -> Path:
    for path, container in site.containers():
        for section in ("limits", "requests"):
            if name in mapping(mapping(container.get("resources")).get(section)):
                return (*path, "resources", section, name)
    return site.path


def _idle_tolerations(site: PodSite, pod: Pod, nodes: list[Node]) -> Iterator[Draft]:
    """A toleration of a taint's key, with another value or effect than any node's."""
    taints = {str(taint): taint for node in nodes for taint in node.taints}
    for index, toleration in enumerate(pod.tolerations):
        if not toleration.key or toleration.key.startswith(_WELL_KNOWN):
            continue
        if any(tolerates(toleration, taint) for taint in taints.values()):
            continue
        like = [text for text, taint in taints.items() if taint.key == toleration.key]
        at: Path = (*site.path, "tolerations", index)
        if like:
            message = f"this tolerates no taint of any node; nodes have {listed(like)}"
            remedy, severity = "write the taint's value and effect", None
        else:
            message = f"no node has a taint with the key {toleration.key[:100]}"
            remedy, severity = "remove it, unless such a taint is to come", Severity.NOTE
        reason = TolerationMatchesNothing(
            message=message, remedy=remedy, key=toleration.key, taints=tuple(like)
        )
        yield Draft(reason, at, severity=severity)


def _engine(site: PodSite, manifest: Manifest, inputs: RuleInputs, cluster: LintCluster) -> Iterator[Draft]:
    """What only the engine knows: amounts, spreading, other pods, claims."""
    ground = cluster.ground
    if manifest.pod.claims:
        made, snapshot = with_made_claims(manifest.pod, ground.view.snapshot)
        ground = ground_of(snapshot, version=f"1.{inputs.minor}")
        explanation = explain_waiting_pod(ground, made)
    else:
        explanation = explain_waiting_pod(ground, manifest.pod)
    if explanation.verdict is Verdict.NEVER and explanation.layer in _BELOW:
        remedy = explanation.remedies[0].action if explanation.remedies else ""
        reason = FitsNowhere(message=explanation.message, remedy=remedy, answer=explanation.message)
        yield Draft(reason, site.path, on_key=True)
