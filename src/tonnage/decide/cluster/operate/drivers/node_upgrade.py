"""The next step of one node's upgrade, once it has a slot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from tonnage.decide.cluster.operate.drivers.states import (
    FAILURE,
    JOBS_SINCE,
    OUR_CORDON,
    REQUESTED,
    SAFE_LOAD,
    STATE_LABEL,
    STEP_SINCE,
    TARGET,
    USERS_CORDON,
    VALIDATION_SINCE,
    UpgradeState,
    state_of,
)
from tonnage.model.drivers.node import GROUP_LABEL, DriverNode, DriverPod
from tonnage.model.drivers.policy import DrainLimits, UpgradePolicy
from tonnage.model.json import JsonObject

MOST_RESTARTS: Final = 3
"""Of the driver's container, after which its node has failed; one that starts later recovers by itself."""
VALIDATION_S: Final = 600
PULL_S: Final = 300
_PULLING: Final = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName")
_S: Final = UpgradeState
_OWN: Final = (USERS_CORDON, OUR_CORDON, JOBS_SINCE, VALIDATION_SINCE, STEP_SINCE, FAILURE, REQUESTED)


@dataclass(frozen=True, slots=True)
class LeavingPod:
    """A pod that a step is about. `stays` is why it may not be evicted; `terminating`: it leaves already."""

    namespace: str
    name: str
    stays: str = ""
    terminating: bool = False

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class UpgradingNode:
    """A node, the driver that it should have, and the one that it has.

    `digest` and `group` are what it should have, empty where it has no group; `held` is what stands against
    giving it that. `leaving` are the pods that its state is about: those waited for, or to be evicted.
    """

    node: DriverNode
    digest: str = ""
    group: str = ""
    pod: DriverPod | None = None
    held: str = ""
    assigned: bool = True
    """Whether a policy asks for a driver on it at all."""
    changing: bool = False
    """Whether its driver's DaemonSet is just being written, so that `digest` is that of the one before."""
    leaving: tuple[LeavingPod, ...] = ()
    cordoned_anew: bool = False
    """Whether a user has lifted our cordon and cordoned the node again before anybody looked."""

    @property
    def state(self) -> UpgradeState | None:
        """Where its upgrade stands; None: the label has a value of somebody else's."""
        return state_of(self.node.labels.get(STATE_LABEL, ""))

    @property
    def current(self) -> bool:
        """Whether its driver pod is made from what it should have."""
        return self.pod is not None and self.pod.digest == self.digest and not self.pod.terminating

    @property
    def outdated(self) -> bool:
        """Whether it has a driver, and another than it should have."""
        return bool(self.digest) and self.pod is not None and self.pod.digest != self.digest

    @property
    def waits_to_load(self) -> bool:
        """Whether its driver pod waits for the node to be drained."""
        return bool(self.node.annotations.get(SAFE_LOAD))


@dataclass(frozen=True, slots=True)
class NodeStep:
    """What to change: state, cordon, annotations (None removes), group, and pods to evict.

    `restart` is the driver's own pod. `waits` is for whom the node waits where nothing is to be changed.
    """

    node: str
    to: UpgradeState | None = None
    cordon: bool | None = None
    annotations: Mapping[str, str | None] = field(default_factory=dict)
    group: str = ""
    evict: tuple[LeavingPod, ...] = ()
    restart: DriverPod | None = None
    waits: str = ""

    def patch(self, resource_version: str) -> JsonObject | None:
        """The merge patch of the Node, if it still is the one that was judged; None: it stays as it is."""
        labels: JsonObject = {} if self.to is None else {STATE_LABEL: self.to.value or None}
        if self.group:
            labels[GROUP_LABEL] = self.group
        if not labels and self.cordon is None and not self.annotations:
            return None
        metadata: JsonObject = {"resourceVersion": resource_version}
        if labels:
            metadata["labels"] = labels
        if self.annotations:
            metadata["annotations"] = dict(self.annotations)
        patch: JsonObject = {"metadata": metadata}
        if self.cordon is not None:
            patch["spec"] = {"unschedulable": True if self.cordon else None}
        return patch


def step_of(member: UpgradingNode, policy: UpgradePolicy, now: datetime) -> NodeStep:
    """The next step of a node whose upgrade is under way, or has failed."""
    name = member.node.name
    if lifted := cordon_was_lifted(member):
        return lifted
    if not member.assigned and member.state not in (None, _S.UNCORDON):
        return NodeStep(name, _S.UNCORDON)  # nobody wants the upgrade any more
    match member.state:
        case _S.CORDON:
            return _cordoned(member, now)
        case _S.JOBS:
            return _after_jobs(member, policy, now)
        case _S.POD_DELETION:
            return _after_pods(member, policy.pod_deletion, now, drain=policy.drain is not None)
        case _S.DRAIN:
            return _after_pods(member, policy.drain or DrainLimits(), now, drain=False)
        case _S.RESTART:
            return _after_restart(member, now)
        case _S.VALIDATION:
            return _after_validation(member, now)
        case _S.UNCORDON:
            return _released(member)
        case _S.FAILED:
            return _recovered(member)
        case _S.MAINTENANCE | _S.AFTER_MAINTENANCE:
            return NodeStep(name, waits="NVIDIA's maintenance operator has it")
        case _:
            value = member.node.labels.get(STATE_LABEL, "")
            return NodeStep(name, waits=f"its label {STATE_LABEL}={value} is of no state known; remove it")


def cordon_was_lifted(member: UpgradingNode) -> NodeStep | None:
    """Note that our cordon is gone: whether the node is cordoned is a user's choice from now on."""
    node = member.node
    if OUR_CORDON not in node.annotations or node.unschedulable:
        return None
    return NodeStep(node.name, annotations={OUR_CORDON: None, USERS_CORDON: "true"})


def started(member: UpgradingNode) -> NodeStep:
    """The first step of a node that gets a slot."""
    notes: dict[str, str | None] = {TARGET: member.digest, FAILURE: None, REQUESTED: None}
    return NodeStep(member.node.name, _S.CORDON, annotations=notes)


def _cordoned(member: UpgradingNode, now: datetime) -> NodeStep:
    """Cordon, and in the same write note whose cordon it is."""
    node = member.node
    ours = OUR_CORDON in node.annotations
    notes = _since(now)
    if node.unschedulable and not ours:
        notes[USERS_CORDON] = "true"
        return NodeStep(node.name, _S.JOBS, annotations=notes)
    notes |= {OUR_CORDON: "true", USERS_CORDON: None}
    return NodeStep(node.name, _S.JOBS, cordon=True, annotations=notes)


def _after_jobs(member: UpgradingNode, policy: UpgradePolicy, now: datetime) -> NodeStep:
    name = member.node.name
    if not policy.jobs or not member.leaving:
        return NodeStep(name, _S.POD_DELETION, annotations={**_since(now), JOBS_SINCE: None})
    began = member.node.annotations.get(JOBS_SINCE)
    waits = f"for pods that match {policy.jobs}: {_names(member.leaving)}"
    if began is None:
        return NodeStep(name, annotations={JOBS_SINCE: _seconds(now)}, waits=waits)
    if policy.jobs_timeout_s and _passed(began, now) >= policy.jobs_timeout_s:
        return NodeStep(name, _S.POD_DELETION, annotations={**_since(now), JOBS_SINCE: None})
    return NodeStep(name, waits=waits)


def _after_pods(member: UpgradingNode, limits: DrainLimits, now: datetime, *, drain: bool) -> NodeStep:
    """Evict what has to leave; what may not, and what does not in time, is the drain's or a failure."""
    name = member.node.name
    if not member.leaving:
        return NodeStep(name, _S.RESTART, annotations=_since(now))
    staying = [pod for pod in member.leaving if pod.stays]
    late = 0 < limits.timeout_s <= _passed(member.node.annotations.get(STEP_SINCE), now)
    if staying or late:
        if drain:
            return NodeStep(name, _S.DRAIN, annotations=_since(now))
        why = f"{staying[0]} may not be evicted: {staying[0].stays}" if staying else ""
        late_ones = f"pods have not left in {limits.timeout_s} s: {_names(member.leaving)}"
        return _failed(member, why or late_ones)
    evict = tuple(pod for pod in member.leaving if not pod.terminating)
    return NodeStep(name, evict=evict, waits=f"for pods to leave: {_names(member.leaving)}")


def _after_restart(member: UpgradingNode, now: datetime) -> NodeStep:
    """What follows once the node is drained: its group's label, the old pod's end, the new pod's start.

    In this order: DaemonSets choose nodes by the label, and a pod of the group before must not be restarted.
    """
    node, pod = member.node, member.pod
    if not member.digest:
        return NodeStep(node.name, waits=f"for DaemonSet {member.group}, which is not written yet")
    if node.group != member.group:
        return NodeStep(node.name, group=member.group)
    if pod is None:
        return NodeStep(node.name, waits=f"for a pod of DaemonSet {member.group}, which is not there yet")
    if pod.terminating:
        return NodeStep(node.name, waits=f"for driver pod {pod.name} to end")
    if not member.current:
        return NodeStep(node.name, restart=pod, waits=f"for driver pod {pod.name} to end")
    if member.waits_to_load:
        return NodeStep(node.name, annotations={SAFE_LOAD: None})
    if pod.ready:
        notes = {**_since(now), VALIDATION_SINCE: _seconds(now)}
        return NodeStep(node.name, _S.VALIDATION, annotations=notes)
    waited = _passed(node.annotations.get(STEP_SINCE), now)
    if pod.restarts >= MOST_RESTARTS:
        return _failed(member, f"driver pod {pod.name} restarted {pod.restarts} times: {_trouble(pod)}")
    if waited >= PULL_S and any(word in pod.trouble for word in _PULLING):
        return _failed(member, f"the image of driver pod {pod.name} cannot be pulled: {_trouble(pod)}")
    return NodeStep(node.name, waits=f"for driver pod {pod.name} to be ready: {_trouble(pod)}")


def _after_validation(member: UpgradingNode, now: datetime) -> NodeStep:
    name, pod = member.node.name, member.pod
    if pod is None or not member.current or not pod.ready:
        return NodeStep(name, _S.RESTART, annotations={**_since(now), VALIDATION_SINCE: None})
    if not member.node.waits:
        return NodeStep(name, _S.UNCORDON, annotations={VALIDATION_SINCE: None})
    began = member.node.annotations.get(VALIDATION_SINCE)
    if began is None:
        return NodeStep(name, annotations={VALIDATION_SINCE: _seconds(now)})
    if _passed(began, now) >= VALIDATION_S:
        return _failed(member, f"not validated in {VALIDATION_S} s: {member.node.waits}")
    return NodeStep(name, waits=f"for its GPUs to be ready: {member.node.waits}")


def _released(member: UpgradingNode) -> NodeStep:
    """Lift the cordon unless it is a user's, and leave nothing behind but the state."""
    node = member.node
    users = USERS_CORDON in node.annotations or member.cordoned_anew
    notes: dict[str, str | None] = {key: None for key in _OWN if key in node.annotations}
    return NodeStep(
        node.name, _S.DONE, cordon=False if node.unschedulable and not users else None, annotations=notes
    )


def forgotten(member: UpgradingNode) -> NodeStep:
    """Leave nothing behind, not even the state: no policy asks for a driver on the node."""
    node = member.node
    notes: dict[str, str | None] = {key: None for key in (*_OWN, TARGET) if key in node.annotations}
    return NodeStep(node.name, _S.NONE, annotations=notes)


def _recovered(member: UpgradingNode) -> NodeStep:
    """A failed node goes on where its driver runs after all, another is wanted, or a user asks for it."""
    node, pod = member.node, member.pod
    if member.current and pod is not None and pod.ready and not node.waits:
        return NodeStep(node.name, _S.UNCORDON)
    retry = node.annotations.get(REQUESTED) == "true"
    if retry or (member.outdated and member.digest != node.annotations.get(TARGET)):
        return NodeStep(node.name, _S.REQUIRED, annotations={FAILURE: None, REQUESTED: None})
    why = node.annotations.get(FAILURE, "its upgrade failed")
    remedy = f"repair it, then run: kubectl annotate node {node.name} {REQUESTED}=true"
    return NodeStep(node.name, waits=f"for you, {why}; {remedy}")


def _failed(member: UpgradingNode, why: str) -> NodeStep:
    return NodeStep(
        member.node.name,
        _S.FAILED,
        annotations={FAILURE: why[:1000], JOBS_SINCE: None, VALIDATION_SINCE: None, STEP_SINCE: None},
    )


def _trouble(pod: DriverPod) -> str:
    return pod.trouble or "its container has not started yet"


def _names(pods: tuple[LeavingPod, ...]) -> str:
    shown = ", ".join(map(str, pods[:3]))
    return f"{shown} and {len(pods) - 3} more" if len(pods) > 3 else shown


def _since(now: datetime) -> dict[str, str | None]:
    return {STEP_SINCE: _seconds(now)}


def _seconds(now: datetime) -> str:
    return str(int(now.timestamp()))


def _passed(since: str | None, now: datetime) -> float:
    """Seconds since then; 0 where it cannot be read, so that a wrong note only makes a node wait longer."""
    if since is None or not since.isascii() or not since.isdecimal() or len(since) > 12:
        return 0.0
    return max(now.timestamp() - int(since), 0.0)
