"""Pods that the scheduler is done with: running, ended, or refused by the layers below it."""

from __future__ import annotations

from typing import Final

from tonnage.diagnose.agent_silence import silence, silent_agents
from tonnage.diagnose.case import device_needs
from tonnage.diagnose.explain.bound.bound_pods import ADMISSION, rejection_to_come
from tonnage.diagnose.explain.bound.device_preparation import (
    claims_in,
    driver_gone,
    handler_missing,
    with_agents_word,
)
from tonnage.diagnose.explain.bound.held_replicas import held_replicas
from tonnage.diagnose.explain.bound.link_quality import held_by, link_reasons
from tonnage.diagnose.explain.bound.missing_node import node_gone
from tonnage.diagnose.explain.bound.neighbours import with_node_facts
from tonnage.diagnose.explain.bound.status_messages import known_event, known_trouble
from tonnage.diagnose.explain.bound.topology_failures import for_the_next, not_aligned
from tonnage.diagnose.explain.bound.unhealthy_devices import held_unhealthy_devices
from tonnage.diagnose.rules.devices.single_request import STRICT_KEY
from tonnage.diagnose.topo.families import Boards
from tonnage.model.kubernetes.cluster import ContainerWait, Pod, Snapshot
from tonnage.model.layer import Layer
from tonnage.model.name_lists import listed
from tonnage.model.reasons.gpu.allocation import SharedRequestTooLarge
from tonnage.model.reasons.messages.symptoms import TopologyAffinity
from tonnage.model.reasons.pod.kubelet import ContainerFailed, ContainerWaiting, KubeletRejected, NodeMissing
from tonnage.model.reasons.pod.pods import KindNotRead
from tonnage.model.reasons.reason import Reason, Symptom
from tonnage.model.verdict import Explanation, Placement, Remedy, Subject, Verdict

_STARTING: Final = frozenset({"ContainerCreating", "PodInitializing", ""})
_APPLICATION: Final = frozenset({"CrashLoopBackOff"})
_PLUGIN_WORDS: Final = (
    "invalid allocation request",
    "GetPreferredAllocation",
    "Allocate failed due to rpc error",
)
"""Words of kubelet's refusals that quote the device plugin."""
_ONE_REPLICA: Final = "maximum request size for shared resources is 1"
_WELL: Final = {"Running": Verdict.RUNNING, "Succeeded": Verdict.ENDED}
_UNEXPECTED: Final = "UnexpectedAdmissionError"


def explain_placed(pod: Pod, subject: Subject, snapshot: Snapshot) -> Explanation:
    """The explanation of a pod that has a node, or has ended."""
    reason = _trouble(pod, snapshot)
    boards: Boards = {}
    held = held_by(pod, snapshot, boards)
    links = held.to_json() if held is not None else None
    placement = Placement(pod.node_name or None, devices=devices_of(pod, snapshot), links=links)
    of_links = link_reasons(held, snapshot, boards) if held is not None else ()
    of_devices = (*held_unhealthy_devices(pod, snapshot), *held_replicas(pod, snapshot))
    besides = (*of_devices, *of_links) if reason is None else ()
    return Explanation(
        subject=subject,
        verdict=_verdict(pod, reason),
        layer=reason.layer if reason else None,
        phase=pod.status.phase,
        needs=device_needs(pod),
        message=reason.message if reason else _state_text(pod, placement) + (held.summary if held else ""),
        upstream_message=pod.status.message or next((w.message for w in pod.status.waiting if w.message), ""),
        placement=placement,
        reasons=((reason,) if reason else tuple(note for note, _ in besides)) + _old_facts(pod, snapshot),
        remedies=_remedies(pod, reason, snapshot) if reason else tuple(remedy for _, remedy in besides),
    )


def _old_facts(pod: Pod, snapshot: Snapshot) -> tuple[Reason, ...]:
    """That what the agent says of the pod's devices is old, where it is silent."""
    silent = silent_agents(snapshot, (pod.node_name,)) if device_needs(pod) else ()
    return (silence(snapshot, silent),) if silent else ()


def _remedies(pod: Pod, reason: Reason, snapshot: Snapshot) -> tuple[Remedy, ...]:
    tried = for_the_next(pod, snapshot) if isinstance(reason, TopologyAffinity) else ()
    check = reason.check if isinstance(reason, Symptom) else None
    looked = (Remedy(f"look at {check}", "shows whether that is the cause"),) if check is not None else ()
    follows = (
        "shows whether that is the cause" if isinstance(reason, KindNotRead) else "the next pod can start"
    )
    return tuple(tried) or (*looked, Remedy(reason.remedy, follows))


def devices_of(pod: Pod, snapshot: Snapshot) -> dict[str, tuple[str, ...]]:
    """Ids of the devices that the node's agent says the pod holds, by resource; by claim also those that are
    allocated, where no agent reports them: with admin access, or of another driver.
    """
    status = snapshot.gpu.get(pod.node_name)
    by_resource: dict[str, tuple[str, ...]] = {}
    for device in status.devices if status is not None else ():
        for holder in device.holders:
            if (holder.namespace, holder.pod) == pod.key:
                by_resource[holder.resource] = (*by_resource.get(holder.resource, ()), *holder.ids)
    for claim in claims_in(pod, snapshot):
        if str(claim) not in by_resource and claim.allocation is not None:
            by_resource[str(claim)] = tuple(str(device.id) for device in claim.allocation.devices)
    return by_resource


def _verdict(pod: Pod, reason: Reason | None) -> Verdict:
    if reason is None:
        return _WELL.get(pod.status.phase, Verdict.FITS)
    if isinstance(reason, KindNotRead):
        return Verdict.UNKNOWN
    if isinstance(reason, NodeMissing) or (reason.source == ADMISSION and reason.lasting):
        return Verdict.NEVER
    return Verdict.NEVER if pod.status.phase == "Failed" else Verdict.NOT_NOW


def _state_text(pod: Pod, placement: Placement) -> str:
    node = pod.node_name or "no node"
    if pod.status.phase == "Succeeded":
        return f"completed on {node}"
    if pod.status.terminating:
        return f"on {node}, being deleted"
    devices = "; ".join(f"{name}: {', '.join(ids)}" for name, ids in sorted(placement.devices.items()))
    state = "runs on" if pod.status.phase == "Running" else "is assigned to"
    return f"{state} {node}{f' with {devices}' if devices else ''}"


def _trouble(pod: Pod, snapshot: Snapshot) -> Reason | None:
    """What the layers below the scheduler say in the pod's own status."""
    if pod.status.phase == "Failed":
        reason = _too_many_replicas(pod, snapshot) or not_aligned(pod, snapshot)
        return reason or _status_trouble(pod, snapshot) or _failed(pod)
    gone = node_gone(pod, snapshot)
    if gone is not None and isinstance(gone, NodeMissing):
        return gone
    unstarted = driver_gone(pod, snapshot) or handler_missing(pod, snapshot)
    if unstarted is not None:
        return with_agents_word(unstarted, pod, snapshot)
    stuck = next((w for w in pod.status.waiting if w.reason not in _STARTING), None)
    if stuck is not None:
        return _status_trouble(pod, snapshot) or _stuck(pod, stuck)
    waits = pod.status.phase == "Pending" and not pod.status.ended
    event = known_event(pod, snapshot.events) if waits else None
    event = with_agents_word(event, pod, snapshot) if event is not None else None
    return event or gone or (rejection_to_come(pod, snapshot) if waits else None)


def _status_trouble(pod: Pod, snapshot: Snapshot) -> Reason | None:
    """What the catalogue of messages makes of the pod's status, with what the node's agent adds to it."""
    reason = known_trouble(pod)
    return with_node_facts(reason, pod, snapshot) if reason is not None else None


def _too_many_replicas(pod: Pod, snapshot: Snapshot) -> Reason | None:
    """KUB-4: the device plugin refused a container that asked for several of a shared resource."""
    if _ONE_REPLICA not in pod.status.message:
        return None
    status = snapshot.gpu.get(pod.node_name)
    named = f" by the device-plugin configuration {status.config}" if status and status.config else ""
    requested = ", ".join(f"{n} {name}" for name, n in device_needs(pod).items())
    return SharedRequestTooLarge(
        subject=f"Pod {pod.namespace}/{pod.name}",
        message=f"failed on {pod.node_name} ({pod.status.reason}): asks for {requested}, and the device "
        f"plugin gives a container at most one ({STRICT_KEY} is true there{named})",
        remedy="ask for one (more replicas of one device give no more compute), then delete the pod",
        source="Pod status.message, NodeGPUStatus",
        reason=pod.status.reason,
        config=status.config if status else "",
    )


def _failed(pod: Pod) -> Reason:
    """A pod that failed with words that nobody knows here."""
    reason, message = pod.status.reason, pod.status.message
    text = f"failed on {pod.node_name or 'its node'}"
    detail = ": ".join(part for part in (reason, message) if part)
    text = f"{text}: {detail}" if detail else f"{text}: its containers ended with an error{_ends(pod)}"
    subject, source = f"Pod {pod.namespace}/{pod.name}", "Pod status.reason and status.message"
    if not reason:
        remedy = f"kubectl logs -n {pod.namespace} {pod.name} --previous"
        return ContainerFailed(subject=subject, message=text, remedy=remedy, source=source, reason=reason)
    layer, remedy = (
        Layer.KUBELET,
        "delete the pod (its controller creates a new one); kubelet never starts it again",
    )
    if reason == _UNEXPECTED and any(word in message for word in _PLUGIN_WORDS):
        layer, remedy = Layer.PLUGIN, "do what the plugin's message says, then delete the pod"
    return KubeletRejected(
        subject=subject, message=text, remedy=remedy, source=source, layer=layer, reason=reason
    )


def _ends(pod: Pod) -> str:
    exits = [f"{end.container} with exit code {end.exit_code}" for end in pod.status.ended if end.exit_code]
    return f" ({listed(exits)})" if exits else ""


def _stuck(pod: Pod, wait: ContainerWait) -> Reason:
    layer = Layer.APPLICATION if wait.reason in _APPLICATION else Layer.RUNTIME
    return ContainerWaiting(
        subject=f"Container {wait.container}",
        message=f"on {pod.node_name}, container {wait.container} waits: {wait.reason}"
        + (f": {wait.message}" if wait.message else ""),
        remedy=f"kubectl logs -n {pod.namespace} {pod.name} -c {wait.container} --previous"
        if layer is Layer.APPLICATION
        else f"kubectl describe pod -n {pod.namespace} {pod.name}, and the node's container runtime",
        source="Pod status.containerStatuses",
        layer=layer,
        lasting=False,
        reason=wait.reason,
    )
