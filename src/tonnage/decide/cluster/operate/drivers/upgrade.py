"""Which nodes' drivers are upgraded next: slots, budgets, and versions that fail everywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.decide.cluster.operate.drivers.node_upgrade import (
    NodeStep,
    UpgradingNode,
    cordon_was_lifted,
    forgotten,
    started,
    step_of,
)
from tonnage.decide.cluster.operate.drivers.states import (
    OUR_CORDON,
    PAUSED,
    REQUESTED,
    SKIP_LABEL,
    TARGET,
    UNDER_WAY,
    UpgradeState,
)
from tonnage.model.drivers.policy import UpgradePolicy
from tonnage.model.operands import DEPLOY
from tonnage.model.whole_numbers import whole_number

_S: Final = UpgradeState
_AT_REST: Final = (_S.NONE, _S.DONE, _S.REQUIRED)


def upgrade_steps(
    members: Sequence[UpgradingNode], policy: UpgradePolicy, now: datetime, *, disabled: str = ""
) -> list[NodeStep]:
    """A step for each node of one policy, in order of names; `disabled` is why none is begun.

    What is under way goes on whatever the policy says by now, so that no node stays cordoned.
    """
    ordered = sorted(members, key=lambda member: member.node.name)
    steps = {
        member.node.name: step_of(member, policy, now) for member in ordered if member.state not in _AT_REST
    }
    waiting: list[UpgradingNode] = []
    for member in ordered:
        if member.state in _AT_REST:
            step = _at_rest(member, policy, disabled)
            if step is None:
                waiting.append(member)
            else:
                steps[member.node.name] = step
    for member, step in _admitted(waiting, ordered, policy):
        steps[member.node.name] = step
    return [steps[member.node.name] for member in ordered]


def _at_rest(member: UpgradingNode, policy: UpgradePolicy, disabled: str) -> NodeStep | None:
    """The step of a node whose upgrade has not begun; None: it needs a slot."""
    node, state = member.node, member.state
    if lifted := cordon_was_lifted(member):
        return lifted
    if not member.assigned and OUR_CORDON not in node.annotations:
        return forgotten(member)
    if not (member.outdated or member.waits_to_load):
        if OUR_CORDON in node.annotations:
            return NodeStep(node.name, _S.UNCORDON)
        # What is asked for in the moment the driver changes is meant for the one that comes.
        cleared = {REQUESTED: None} if REQUESTED in node.annotations and not member.changing else {}
        if state is _S.REQUIRED or (state is _S.NONE and member.current):
            return NodeStep(node.name, _S.DONE, annotations=cleared)
        return NodeStep(node.name, annotations=cleared)
    if node.labels.get(SKIP_LABEL) == "true":
        return NodeStep(node.name, waits=f"for nothing: its label {SKIP_LABEL}=true leaves it out")
    if disabled:
        return NodeStep(node.name, waits=f"for you: {disabled}")
    asked_for = node.annotations.get(REQUESTED) == "true"
    if not policy.automatic and not asked_for and state is not _S.REQUIRED:
        remedy = f"kubectl annotate node {node.name} {REQUESTED}=true"
        return NodeStep(node.name, waits=f"for you: upgradePolicy.autoUpgrade is off; run: {remedy}")
    if state is not _S.REQUIRED:
        return NodeStep(node.name, _S.REQUIRED)
    return None


def _admitted(
    waiting: Sequence[UpgradingNode], members: Sequence[UpgradingNode], policy: UpgradePolicy
) -> list[tuple[UpgradingNode, NodeStep]]:
    """Those that begin now, and for whom each of the others waits.

    A node that is cordoned already costs nobody anything more: it is not held to `maxUnavailable`.
    """
    under_way = [member for member in members if member.state in UNDER_WAY]
    missing = [member.node.name for member in members if _is_unavailable(member)]
    allowed = most_unavailable(policy, len(members))
    slots = policy.max_parallel - len(under_way) if policy.max_parallel > 0 else len(members)
    # Nodes that have a slot and are not cordoned yet are about to be missed.
    coming = [member for member in under_way if not _is_unavailable(member)]
    room = allowed - len(missing) - len(coming)
    halted = _halted(members)
    steps: list[tuple[UpgradingNode, NodeStep]] = []
    for member in sorted(waiting, key=lambda member: (not _is_unavailable(member), member.node.name)):
        cordoned = _is_unavailable(member)
        if member.held:
            step = NodeStep(member.node.name, waits=member.held)
        elif failed := halted.get(member.digest):
            remedy = "repair a node, or run: tonnage operator rollback"
            why = f"the driver has failed on {_names(failed)} and runs nowhere yet; {remedy}"
            step = NodeStep(member.node.name, waits=f"for {failed[0]}: {why}")
        elif slots <= 0:
            names = _names([other.node.name for other in under_way])
            step = NodeStep(member.node.name, waits=f"for a slot (maxParallelUpgrades), which {names} has")
        elif not cordoned and room <= 0:
            names = _names(missing) or _names([other.node.name for other in coming])
            limit = f"maxUnavailable allows {allowed} of {len(members)}"
            step = NodeStep(member.node.name, waits=f"for {names or 'a larger limit'}: {limit}")
        else:
            step = started(member)
            slots -= 1
            under_way.append(member)
            if not cordoned:
                room -= 1
                coming.append(member)
        steps.append((member, step))
    return steps


def _is_unavailable(member: UpgradingNode) -> bool:
    return member.node.unschedulable or not member.node.ready


def most_unavailable(policy: UpgradePolicy, nodes: int) -> int:
    """`maxUnavailable` of so many nodes; a percentage is rounded up, and what cannot be read allows none."""
    value = policy.max_unavailable
    if isinstance(value, int):
        return max(value, 0)
    percent = whole_number(value.removesuffix("%"))
    if percent is None:
        return 0
    return math.ceil(percent * nodes / 100) if value.endswith("%") else percent


def _halted(members: Sequence[UpgradingNode]) -> Mapping[str, list[str]]:
    """By digest: the nodes on which it failed, where it runs on none."""
    good = {
        member.digest
        for member in members
        if member.current
        and member.pod is not None
        and member.pod.ready
        and member.state in (*_AT_REST, _S.UNCORDON)
    }
    failed: dict[str, list[str]] = {}
    for member in members:
        target = member.node.annotations.get(TARGET, "")
        if member.state is _S.FAILED and target and target not in good:
            failed.setdefault(target, []).append(member.node.name)
    return failed


@dataclass(frozen=True, slots=True)
class LabelRestoration:
    """Operands that a driver pod paused and never resumed."""

    node: str
    labels: tuple[str, ...]


def left_paused(member: UpgradingNode) -> LabelRestoration | None:
    """Labels `paused-for-driver-upgrade` that nobody is going to take back.

    `k8s-driver-manager` pauses operands before the driver's container starts and resumes them when it is
    done: a driver pod that is ready has no use for a pause, and neither has a node that is to get none.
    """
    pod = member.pod
    at_work = pod is not None and (not pod.ready or pod.terminating)
    if at_work or (pod is None and member.digest) or member.state is _S.RESTART:
        return None
    labels = sorted(
        label for label, value in member.node.labels.items() if label.startswith(DEPLOY) and value == PAUSED
    )
    return LabelRestoration(member.node.name, tuple(labels)) if labels else None


def _names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:3])
    return f"{shown} and {len(names) - 3} more" if len(names) > 3 else shown
