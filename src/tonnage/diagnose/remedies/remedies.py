"""What to do, tried on the engine before it is offered, cheapest first."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.decide.kubernetes.scheduler.filtering import first_refusal
from tonnage.decide.kubernetes.scheduler.scheduling import schedule_on
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.case import Case
from tonnage.diagnose.cluster_view import Ground
from tonnage.diagnose.explain.disruption_budgets import breaking, broken
from tonnage.diagnose.explain.nodes.alignment import refuses
from tonnage.diagnose.explain.nodes.verdicts import NodeVerdicts
from tonnage.diagnose.remedies.edits_by_reason import could_ask_less, edits_for, select_unshared, single
from tonnage.diagnose.remedies.patch import patch_of
from tonnage.diagnose.remedies.plan import RemedyPlan, applied
from tonnage.diagnose.remedies.waiting_plans import waiting
from tonnage.diagnose.rules.devices.device_faults import repairs
from tonnage.diagnose.wording import own
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.name_lists import listed
from tonnage.model.names import SHARED_SUFFIX
from tonnage.model.node.device_counts import DeviceCount, device_count
from tonnage.model.reasons.gpu.allocation import SharedRequestTooLarge
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Remedy

_MOST_TRIALS: Final = 24
_MOST_OFFERED: Final = 6
_MOST_NAMED: Final = 4
_OF_REPLICAS: Final = 100
"""What a remedy costs more that gives a pod several replicas."""
_PREEMPTS: Final = "PreemptLowerPriority"


def remedies_for(case: Case, ground: Ground) -> tuple[Remedy, ...]:
    """Remedies for a pod that no node takes, each of which makes the engine place it."""
    plans: dict[frozenset[str], RemedyPlan] = {}
    waits: list[RemedyPlan] = []
    repaired = [RemedyPlan((edit,), name) for name, edit in repairs(case)]
    for plan in (*_plans(case, ground)[:_MOST_TRIALS], *repaired):
        needed = _least(plan, case, ground) or _least(_kept_from_replicas(plan, case), case, ground)
        if needed is None or needed.key in plans:
            continue
        if case.decision.nominated and not needed.changes:
            continue  # the scheduler ends pods for it: there are none to end by hand
        if len(needed.waits) == 1:
            waits.append(needed)
        else:
            plans[needed.key] = needed
    merged = waiting(waits, tuple(plans), case, _replica_words)
    whole = [plan for plan in plans.values() if not any(plan.is_less_than(o) for o in plans.values())]
    alone = [(_cost(plan, case), _remedy(plan, case, ground)) for plan in (*whole, *merged.alone)]
    together = [(_cost(plan, case), remedy) for plan, remedy in merged.together]
    ranked = [*_cleared(case), *alone, *together, *_by_priority(case, ground)]
    ranked.sort(key=lambda pair: pair[0])
    by_action: dict[str, Remedy] = {}
    for _, remedy in ranked:
        by_action.setdefault(remedy.action, remedy)
    return tuple(by_action.values())[:_MOST_OFFERED]


def _cost(plan: RemedyPlan, case: Case) -> int:
    """What leads to replicas comes after all that leads to devices."""
    pod, view = applied(plan.edits, case)
    return plan.cost + (_OF_REPLICAS if _replica_words(pod, plan.node, view) else 0)


def _replica_words(pod: Pod, name: str, view: ClusterView) -> str:
    """That the pod would get replicas of fewer devices on a node, as the end of an effect."""
    there = _replicas(pod, name, view) if name in view.nodes else None
    return f", where {there.in_words(_most_asked(pod)[there.resource])}" if there is not None else ""


def _kept_from_replicas(plan: RemedyPlan, case: Case) -> RemedyPlan:
    """The plan for nodes whose GPUs are not shared: with fewer devices asked for, others may do as well."""
    edit = select_unshared(case.view.nodes[plan.node].node)
    return plan if edit is None else RemedyPlan((*plan.edits, edit), plan.node)


def one_of_each(case: Case, ground: Ground, reasons: tuple[Reason, ...]) -> tuple[Remedy, ...]:
    """Asking for one of each shared resource of which a node gives no more, where that places the pod."""
    names = {r.resource for r in reasons if isinstance(r, SharedRequestTooLarge) and r.resource is not None}
    edits = tuple(single(name) for name in sorted(names))
    plan = RemedyPlan(edits, str(case.decision.chosen))
    return (_remedy(plan, case, ground),) if edits and _chosen(plan, case, ground, shares=True) else ()


def _least(plan: RemedyPlan, case: Case, ground: Ground) -> RemedyPlan | None:
    """The plan without the edits that it does not need, the dearest left out first; None when it fails."""
    if not _chosen(plan, case, ground):
        return None
    for edit in sorted(plan.edits, key=lambda e: -e.cost) if len(plan.edits) > 1 else ():
        others = RemedyPlan(tuple(other for other in plan.edits if other is not edit), plan.node)
        if others.edits and _chosen(others, case, ground):
            plan = others
    return plan


def _chosen(plan: RemedyPlan, case: Case, ground: Ground, *, shares: bool = False) -> str | None:
    """Where the engine places the changed pod; None as well where that node's kubelet would not take it.

    In a large cluster only the plan's own node is tried. Replicas are no substitute for GPUs, unless the plan
    is for `shares`.
    """
    pod, view = applied(plan.edits, case)
    if ground.engine is None:
        chosen = schedule_on(pod, view).chosen
    else:
        chosen = None if first_refusal(pod, view.nodes[plan.node], view) else plan.node
    status = view.snapshot.gpu.get(chosen or "")
    strict = status.single_requests if status is not None else frozenset[str]()
    amounts = (c.requests.get(name, 0) for c in (*pod.containers, *pod.init_containers) for name in strict)
    if chosen is None or any(amount > 1 for amount in amounts):
        return None
    if (
        not shares
        and _replaces_gpus(pod, case.pod)
        and _replicas(pod, chosen, view, above=1 if _most(case.pod) == 1 else 0)
    ):
        return None
    return None if refuses(pod, view.nodes[chosen], view) else chosen


def _most_asked(pod: Pod) -> Counter[str]:
    """What a container asks for at most, by device resource."""
    most: Counter[str] = Counter()
    for container in (*pod.containers, *pod.init_containers):
        most |= Counter({name: n for name, n in container.requests.items() if is_extended(name)})
    return most


def _most(pod: Pod) -> int:
    return max(_most_asked(pod).values(), default=0)


def _replaces_gpus(pod: Pod, before: Pod) -> bool:
    """Whether other devices are asked for than whole ones that were."""
    amounts = _most_asked(before)
    return _most_asked(pod) != amounts and not any(name.endswith(SHARED_SUFFIX) for name in amounts)


def _replicas(pod: Pod, name: str, view: ClusterView, *, above: int = 1) -> DeviceCount | None:
    """A shared resource of the node of which a container would get more than so many."""
    node, status = view.nodes[name].node, view.snapshot.gpu.get(name)
    amounts = _most_asked(pod).items()
    counts = (device_count(node, resource, status) for resource, n in amounts if n > above)
    return next((count for count in counts if count.shared), None)


def _cleared(case: Case) -> list[tuple[int, Remedy]]:
    """A preemption under way needs nothing but time."""
    node, going = case.decision.nominated, case.decision.victims
    if node is None:
        return []
    victims = listed(own(f"{v.namespace}/{v.name}", case.pod.namespace) for v in going)
    return [(0, Remedy(f"wait until {victims} {'has' if len(going) == 1 else 'have'} ended", f"fits {node}"))]


def _plans(case: Case, ground: Ground) -> list[RemedyPlan]:
    """One plan for each distinct way in which a node could be made to take the pod, cheapest first."""
    plans: dict[frozenset[str], RemedyPlan] = {}
    verdicts = NodeVerdicts(case.pod, case.view)
    for node_class in case.classes:
        others = (verdicts.of(name) for name in node_class.members[1 : _MOST_NAMED + 2] if node_class.held)
        for verdict in (node_class.first, *others):
            for less in (False, True) if could_ask_less(verdict.reasons) else (False,):
                node, now = case.view.nodes[verdict.node], case.view.snapshot.now
                edits = edits_for(case.pod, node, verdict.reasons, now, less=less)
                if edits:
                    plan = RemedyPlan(edits, verdict.node)
                    plans.setdefault(plan.key, plan)
    return sorted(plans.values(), key=lambda plan: (plan.cost, sorted(plan.key)))


def _remedy(plan: RemedyPlan, case: Case, ground: Ground) -> Remedy:
    action = "; and ".join(edit.action for edit in plan.edits)
    pod, view = applied(plan.edits, case)
    changed = ground.engine is not None and view is not case.view  # a node that waits for pods to end
    chosen = plan.node if changed else ground.chosen(pod, view)
    effect = f"fits {chosen}{_replica_words(pod, str(chosen), view)}"
    if len(plan.edits) > 1:
        effect += " (all of these are needed)"
    return Remedy(action, effect, patch_of(case.pod, pod), pod if view is case.view else None)


def _by_priority(case: Case, ground: Ground) -> list[tuple[int, Remedy]]:
    """The lowest priority class with which the pod would push others aside, and whom."""
    pod = case.pod
    if case.decision.nominated is not None:
        return []
    least = pod.priority + pod.may_preempt
    classes = sorted(case.view.snapshot.priority_classes, key=lambda cls: (cls.value, cls.name))
    for cls in classes:
        if cls.value < least or not cls.may_preempt or cls.name.startswith("system-"):
            continue
        raised = replace(pod, priority=cls.value, priority_class=cls.name, may_preempt=True)
        if effect := _evicting(raised, ground):
            policy: JsonObject = {} if pod.may_preempt else {"preemptionPolicy": None}
            patch: JsonObject = {"spec": {"priorityClassName": cls.name, **policy}}
            return [(50, Remedy(f"use the priority class {cls.name}", effect, patch))]
    if not pod.may_preempt and (effect := _evicting(replace(pod, may_preempt=True), ground)):
        action = f"let it preempt: a priority class of {pod.priority} with preemptionPolicy {_PREEMPTS}"
        return [(50, Remedy(action, effect))]
    return []


def _evicting(pod: Pod, ground: Ground) -> str:
    """The effect of preemption, where it would clear a node for the pod."""
    decision = ground.decision(pod)
    if decision.nominated is None:
        return ""
    victims = (own(f"{v.namespace}/{v.name}", pod.namespace) for v in decision.victims)
    broke = breaking(broken(decision.victims, ground.view.snapshot.budgets), pod.namespace)
    return f"fits {decision.nominated} after evicting {listed(victims)}{broke}"
