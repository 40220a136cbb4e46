"""What would have to end first: which pods of a node, and until when they may run at most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta

from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.diagnose.endless_pods import cannot_wait, end_or_wait, scaled_down
from tonnage.diagnose.explain.nodes.closed_nodes import utc
from tonnage.diagnose.remedies.remedy_edit import RemedyEdit
from tonnage.diagnose.wording import own
from tonnage.model.kubernetes.cluster import Pod
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.scheduling import InsufficientResource, TooManyPods

_SOON_COST = 15
_COST = 30
_ONCE = ("Job", "CronJob")
"""Controllers whose pods end, after which no other takes their place."""


def wait_for(
    pod: Pod, node: NodeView, reason: InsufficientResource | TooManyPods, now: datetime | None
) -> RemedyEdit | None:
    """Wait until enough pods on the node end: the fewest that free what is short, the largest first."""
    if isinstance(reason, InsufficientResource):
        resource, short = reason.resource, reason.requested - reason.free
    else:
        resource, short = "", reason.pods + 1 - reason.limit
    held = [(amount, p) for amount, p in _amounts(node, resource) if not _made_anew(p, pod)]
    ending = tuple(_enough(held, short))
    if not ending:
        return None
    alike = () if any(p.status.terminating for p in ending) else _alternatives(held, ending)
    among = alike or ending
    names = (_pod_with_end(p, pod.namespace, now) for p in among)
    pods_text = f"{len(ending)} of {listed(names)}" if alike else listed(names)
    pods_text = f"all of {pods_text}" if len(ending) > 1 and not alike else pods_text
    return _edit(node, ending, among, pods_text)


def wait_for_one(pod: Pod, node: NodeView, name: str, now: datetime | None) -> RemedyEdit | None:
    """Wait until one pod of the node, `namespace/name`, ends; None when it is elsewhere."""
    ending = tuple(
        other
        for other in node.pods
        if f"{other.namespace}/{other.name}" == name and not _made_anew(other, pod)
    )
    return _edit(node, ending, ending, _pod_with_end(ending[0], pod.namespace, now)) if ending else None


def ends_by(pod: Pod) -> datetime | None:
    """When a pod will have ended at the latest; None when nothing says so."""
    if pod.status.gone_by is not None:
        return pod.status.gone_by
    own = _own_end(pod)
    ends = [end for end in (own, pod.job_ends) if end is not None]
    return min(ends, default=None)


def _own_end(pod: Pod) -> datetime | None:
    if pod.deadline_s is None or pod.status.start is None:
        return None
    try:
        return pod.status.start + timedelta(seconds=pod.deadline_s)
    except OverflowError:
        return None


def until(pod: Pod, now: datetime | None) -> str:
    """The same in words, with why; empty when nothing says so. What should be over is told as such."""
    by = ends_by(pod)
    if by is None:
        return ""
    owner = f" of its Job {pod.owner.name}" if pod.owner and by == pod.job_ends else ""
    why = "being deleted" if pod.status.terminating else f"activeDeadlineSeconds{owner}"
    if now is not None and by < now:
        return f"it was to end by {utc(by)}, {why}, and has not"
    return f"it ends by {utc(by)}, {why}"


def _edit(node: NodeView, ending: tuple[Pod, ...], among: tuple[Pod, ...], pods_text: str) -> RemedyEdit:
    """Wait for `ending`, or for as many of `among`, which hold as much each."""

    def on_view(view: ClusterView) -> ClusterView:
        return view.with_node(view.nodes[node.name].without(ending))

    where = f"{pods_text} on {node.name}"
    waits_for = f"{where}{scaled_down(among)}"
    leaving = all(pod.status.terminating for pod in ending)
    endless = cannot_wait(among, len(ending))
    timed = all(ends_by(pod) is not None for pod in ending)
    cost = (_SOON_COST if leaving else _COST - timed + endless) + len(ending)
    action = f"wait for {where} to end" if leaving else end_or_wait(where, among, len(ending))
    return RemedyEdit(f"wait {waits_for}", action, cost, waits_for, endless=endless, on_view=on_view)


def _pod_with_end(pod: Pod, namespace: str, now: datetime | None) -> str:
    ending = until(pod, now)
    return own(f"{pod.namespace}/{pod.name}", namespace) + (f" ({ending})" if ending else "")


def _made_anew(other: Pod, pod: Pod) -> bool:
    """Whether a pod has the controller of the one that waits, which would make another one in its place."""
    owner = other.owner
    if owner is None or owner.kind in _ONCE or other.status.terminating:
        return False
    return owner == pod.owner and other.namespace == pod.namespace


def _enough(held: list[tuple[int, Pod]], short: int) -> Iterator[Pod]:
    """Pods to end, those first that end anyway, of the others those that need the least company."""
    amounts = sorted(held, key=lambda pair: (not pair[1].status.terminating, -pair[0], pair[1].key))
    exact = [(amount, p) for amount, p in amounts if amount >= short > 0]
    if exact:
        yield min(exact, key=lambda pair: _order(*pair))[1]
        return
    for amount, holder in amounts:
        if short <= 0:
            return
        if amount > 0:
            short -= amount
            yield holder


def _order(amount: int, pod: Pod) -> tuple[bool, int, int, tuple[str, str]]:
    return not pod.status.terminating, amount, pod.priority, pod.key


def _alternatives(held: list[tuple[int, Pod]], ending: Iterable[Pod]) -> tuple[Pod, ...]:
    """All pods that hold as much as each that would have to end, if there are more of them."""
    needed = {pod.key for pod in ending}
    amounts = {amount for amount, pod in held if pod.key in needed}
    if len(amounts) != 1:
        return ()
    same = sorted((pod for amount, pod in held if amount in amounts), key=lambda p: p.key)
    return tuple(same) if len(same) > len(needed) else ()


def _amounts(node: NodeView, resource: str) -> list[tuple[int, Pod]]:
    """How much of a resource (none: of room) each pod of a node has."""
    pairs = zip(node.pods, node.amounts, strict=True)
    return [(amounts.get(resource, 0) if resource else 1, pod) for pod, amounts in pairs]
