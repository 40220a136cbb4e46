"""What is told of a node: whether it takes pods for its devices, what it runs, what it does not take."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.decide.kubernetes.scheduler.filters.node_affinity import pinned_names
from tonnage.decide.kubernetes.view import NodeView
from tonnage.diagnose.agent_silence import silence, silent_agents
from tonnage.diagnose.cluster_view import Ground, ground_of
from tonnage.diagnose.explain.nodes.verdicts import NodeVerdicts
from tonnage.diagnose.explain.workloads.pods import groups_of
from tonnage.diagnose.fleet.claim_pools import ClaimPool, claim_pools
from tonnage.diagnose.fleet.troubles import NOT_SERVED, unclaimable
from tonnage.diagnose.missing_kinds import unread_remedy, unread_text
from tonnage.diagnose.rules.devices.device_faults import named_unhealthy_devices
from tonnage.model.devices.claims import DRIVER, UNHEALTHY
from tonnage.model.kubernetes.cluster import Container, Pod, Snapshot
from tonnage.model.kubernetes.selectors import Toleration
from tonnage.model.layer import Layer
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.model.reasons.node.plugin import ClaimsNotServed
from tonnage.model.reasons.pod.pods import KindNotRead
from tonnage.model.reasons.pod.scheduling import InsufficientResource
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation, NodeVerdict, PodGroup, Remedy, Subject, Verdict

_OWN_TAINTS: Final = "node.kubernetes.io/"
_MOST_ASKED: Final = 1000
"""Pods that wait and are held against the node."""
_HOPE: Final = (Verdict.FITS, Verdict.NOT_NOW, Verdict.UNKNOWN, Verdict.NEVER)


def explain_node(name: str, snapshot: Snapshot, *, version: str = "") -> Explanation | None:
    """The explanation of a node of the cluster, or None.

    It is asked for one of each device that it has, by a pod that tolerates what somebody tainted it with.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    ground = ground_of(snapshot, version=version)
    node = ground.view.nodes.get(name)
    if node is None:
        return None
    answers = [_answer_for(resource, node, ground) for resource in _devices(node)]
    pools = claim_pools(snapshot).get(name, ())
    if pools or not answers:
        bare = _answer_for("", node, ground)
        answers += [_answer_of(pool, bare, snapshot) for pool in pools] or [bare]
    best = min((answer.verdict for answer in answers), key=_HOPE.index)
    reasons = tuple(_distinct(reason for answer in answers for reason in answer.reasons))
    if best in (Verdict.FITS, Verdict.NOT_NOW) and "Pod" in snapshot.missing:
        best, reasons = Verdict.UNKNOWN, (_pods_unread(name, snapshot), *reasons)
    if silent_agents(snapshot, [name]):
        reasons = (*reasons, silence(snapshot, [name]))
    groups = (*_waiting(node, ground), *groups_of(node.pods, ground, spaced=True))
    unhealthy = named_unhealthy_devices(snapshot.gpu.get(name))
    repairs = [f"repair {device}" for device in unhealthy] if best is not Verdict.FITS else []
    actions = dict.fromkeys([*repairs, *(reason.remedy for reason in reasons if reason.remedy)])
    return Explanation(
        subject=Subject("Node", "", name),
        verdict=best,
        layer=None if best is Verdict.FITS or not reasons else reasons[0].layer,
        phase="",
        needs={},
        message="; ".join(_sentences(node, pools, ground, reasons)),
        reasons=reasons,
        remedies=tuple(Remedy(action, "") for action in actions) if best is not Verdict.FITS else (),
        pods=groups,
    )


def _devices(node: NodeView) -> list[str]:
    names = {name for name in (*node.node.capacity, *node.node.allocatable) if is_extended(name)}
    return sorted(name for name in names if node.node.capacity.get(name) or node.node.allocatable.get(name))


def _pods_unread(name: str, snapshot: Snapshot) -> Reason:
    return KindNotRead(
        subject=f"Node {name}",
        message=f"{unread_text('Pod', snapshot)}: Tonnage does not know what the node has free",
        remedy=unread_remedy("Pod", snapshot),
        source="the API server's refusal",
        layer=Layer.SCHEDULER,
        kind="Pod",
    )


def _answer_for(resource: str, node: NodeView, ground: Ground) -> NodeVerdict:
    """What the node says to a pod for one of a device."""
    requests = {resource: 1} if resource else {}
    tolerations = tuple(
        Toleration(taint.key, "Exists", "", taint.effect)
        for taint in node.node.taints
        if not taint.key.startswith(_OWN_TAINTS)
    )
    pod = Pod("any", containers=(Container("main", requests=requests),), tolerations=tolerations)
    return NodeVerdicts(pod, ground.view).of(node.name)


def _answer_of(pool: ClaimPool, bare: NodeVerdict, snapshot: Snapshot) -> NodeVerdict:
    """What the node says to a claim for one of a pool's devices; `bare`: to a pod that asks for none."""
    if bare.verdict is not Verdict.FITS:
        return bare
    subject, fault = f"Node {bare.node}", next(unclaimable(pool, snapshot.gpu.get(bare.node)), None)
    if fault is not None and (fault.word == NOT_SERVED or not pool.usable):
        reason: Reason = ClaimsNotServed(
            subject=subject,
            message=fault.text,
            remedy=f"see the node's Events: kubectl describe node {bare.node}",
            source="NodeGPUStatus status.claims, ResourceSlices",
            driver=pool.driver,
            problem=fault.text,
        )
    elif pool.free == 0 and not (pool.shared and pool.usable):
        reason = InsufficientResource(
            subject=subject,
            message=_none_free(pool),
            remedy=_way_to_one(pool),
            source="ResourceSlices, ResourceClaims",
            lasting=False,
            resource=pool.resource,
            requested=1,
            allocatable=pool.usable,
            capacity=pool.count,
            used=pool.allocated or 0,
            free=0,
        )
    else:
        return bare
    return NodeVerdict(bare.node, Verdict.NOT_NOW, (reason,))


def _sentences(
    node: NodeView, pools: tuple[ClaimPool, ...], ground: Ground, reasons: tuple[Reason, ...]
) -> Iterator[str]:
    """What it has and has free; which taints a pod must tolerate; what ails it."""
    devices = _devices(node)
    if not devices and not pools:
        yield "it offers no device"
    for name in devices:
        allocatable, held = node.node.allocatable.get(name, 0), node.requested.get(name, 0)
        capacity = node.node.capacity.get(name, allocatable)
        whole = f" (of {capacity} that it has)" if capacity != allocatable else ""
        if "Pod" in ground.view.snapshot.missing:
            yield f"{allocatable} {name}{whole}"
        else:
            yield f"{max(0, allocatable - held)} of {allocatable} {name} free{whole}"
    status = ground.view.snapshot.gpu.get(node.name)
    yield from (_pool_text(pool, status) for pool in pools)
    unhealthy = tuple(named_unhealthy_devices(status))
    if unhealthy:
        yield f"not healthy: {listed(unhealthy)}"
    taints = [
        f"{taint.key}{f'={taint.value}' if taint.value else ''}:{taint.effect}"
        for taint in node.node.taints
        if not taint.key.startswith(_OWN_TAINTS)
    ]
    if taints:
        yield f"pods must tolerate {listed(taints)}"
    others = (reason for reason in reasons if not isinstance(reason, InsufficientResource | ClaimsNotServed))
    yield from (reason.message for reason in islice(others, 2))


def _pool_text(pool: ClaimPool, status: GpuStatus | None) -> str:
    """What the node offers as claims, what of it is free, and why claims cannot have the rest."""
    singular, noun = _nouns(pool)
    faults = "; ".join(fault.text for fault in unclaimable(pool, status))
    but = f", but {faults}" if faults else ""
    if not pool.published:
        devices = f"1 {singular}" if len(pool.devices) == 1 else f"{len(pool.devices)} {noun}"
        return f"{devices} of {pool.driver} for claims{but}"
    if not pool.usable:
        return f"{_none_free(pool)}{but}"
    amounts = f"{pool.usable}" if pool.free is None else f"{pool.free} of {pool.usable}"
    return f"{amounts} {noun} of {pool.driver} free for claims{but}"


def _none_free(pool: ClaimPool) -> str:
    """That no claim can get one of the pool's devices: others have them, or which taints keep claims off."""
    if pool.usable:
        held = f"; held by {listed(name for name, _ in pool.holders or ())}" if pool.holders else ""
        return f"none of {pool.usable} {_nouns(pool)[1]} of {pool.driver} is free for claims{held}"
    names_by_taint: dict[str, list[str]] = {}
    for name, taint in pool.tainted.items():
        names_by_taint.setdefault(taint, []).append(name)
    causes = [f"{listed(names, 4)} tainted {taint}" for taint, names in names_by_taint.items()]
    causes += [f"others have what {pool.crowded_out} would share"] if pool.crowded_out else []
    return f"no claim can get a {_nouns(pool)[0]} of {pool.driver}: {'; '.join(causes)}"


def _way_to_one(pool: ClaimPool) -> str:
    if pool.usable or pool.crowded_out:
        return "wait for a pod there to end, or free one"
    if all(taint.startswith(UNHEALTHY) for taint in pool.tainted.values()):
        return "wait until the devices are healthy, or repair them"
    return "remove the taints, or have claims tolerate them"


def _nouns(pool: ClaimPool) -> tuple[str, str]:
    """What one of the pool's devices is called, and several: those of another vendor may be no GPUs."""
    if pool.type not in ("", "gpu"):
        return f"{pool.type} device", f"{pool.type} devices"
    return ("GPU", "GPUs") if pool.type == "gpu" or pool.driver == DRIVER else ("device", "devices")


def _waiting(node: NodeView, ground: Ground) -> Iterator[PodGroup]:
    """Pods without a node, by what this one has against them."""
    groups: dict[tuple[str, ...], tuple[list[str], Explanation]] = {}
    pods = [pod for pod in ground.view.snapshot.pods if not pod.node_name and not pod.finished]
    for pod in pods[:_MOST_ASKED]:
        if node.name not in (pinned_names(pod) or {node.name}):
            continue  # of a DaemonSet, for another node
        verdict = NodeVerdicts(pod, ground.view).of(node.name)
        messages = tuple(reason.message for reason in verdict.reasons)
        name = f"{pod.namespace}/{pod.name}"
        text = "; ".join(messages) or "the node can take it: something else holds it back"
        names, _ = groups.setdefault(
            (verdict.verdict.value, *messages), ([], _of_pod(pod, verdict, f"waits: {text}"))
        )
        names.append(name)
    yield from (PodGroup(tuple(names), explanation) for names, explanation in groups.values())


def _of_pod(pod: Pod, verdict: NodeVerdict, message: str) -> Explanation:
    layer = verdict.reasons[0].layer if verdict.reasons else None
    subject = Subject("Pod", pod.namespace, pod.name)
    return Explanation(
        subject, verdict.verdict, layer, "Pending", {}, message, reasons=tuple(verdict.reasons)
    )


def _distinct(reasons: Iterator[Reason]) -> Iterator[Reason]:
    earlier: set[tuple[str, str]] = set()
    for reason in reasons:
        if (reason.code, reason.message) not in earlier:
            earlier.add((reason.code, reason.message))
            yield replace(reason, hidden=False)
