"""All pods that wait, by what they wait for: asked once for pods that are alike."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.cluster_view import Ground, ground_of
from tonnage.diagnose.explain.bound.scheduled_pods import explain_placed
from tonnage.diagnose.explain.explain import explain_waiting_pod
from tonnage.diagnose.leading_reason import leading_code
from tonnage.diagnose.simulate.outcomes import Waiting
from tonnage.diagnose.simulate.pod_shapes import group_of
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Pod, Snapshot
from tonnage.model.verdict import Explanation, Subject, Verdict

MOST_ASKED: Final = 128
"""Groups of alike pods that are explained, those of most pods first."""


@dataclass(frozen=True, slots=True)
class PendingPods:
    """How many pods are pending, and the causes, that of most pods first."""

    count: int
    causes: tuple[Waiting, ...]

    @property
    def good(self) -> bool:
        """Whether nothing is in the way of any."""
        return all(cause.verdict.good for cause in self.causes)

    def to_json(self) -> JsonObject:
        """As `-o json` has it; a cause has the keys that `simulate` gives it."""
        return {"pending": self.count, "causes": [cause.to_json() for cause in self.causes]}


def pending_pods(snapshot: Snapshot, *, namespace: str = "", version: str = "") -> PendingPods:
    """The pods of the cluster, or of one namespace, that are Pending, whether or not they have a node.

    Raises ValueError when `version` (or, when empty, the snapshot's own) is no Kubernetes version.
    """
    pods = [
        pod
        for pod in snapshot.pods
        if pod.status.phase in ("Pending", "") and not pod.finished and namespace in ("", pod.namespace)
    ]
    ground = ground_of(snapshot, version=version)
    groups: dict[Hashable, list[Pod]] = {}
    for pod in pods:
        groups.setdefault(_group(pod, ground), []).append(pod)
    ordered = sorted(groups.values(), key=len, reverse=True)
    causes: dict[tuple[str, str, Verdict, str, str], list[str]] = {}
    for members in ordered[:MOST_ASKED]:
        explanation = _explained(members[0], ground)
        causes.setdefault(_cause(explanation, members[0]), []).extend(map(_name, members))
    rest = [_name(pod) for members in ordered[MOST_ASKED:] for pod in members]
    if rest:
        message = f"only the {MOST_ASKED} largest groups of alike pods are explained"
        causes["", "", Verdict.UNKNOWN, message, "ask for one of them: tonnage explain pod NAME"] = rest
    by_size = sorted(causes.items(), key=lambda entry: (-len(entry[1]), entry[1][0]))
    return PendingPods(len(pods), tuple(Waiting(*key, tuple(sorted(names))) for key, names in by_size))


def pending_lines(pending: PendingPods, *, whole: bool = False) -> Iterator[str]:
    """The same as text; `whole`: every pod by name."""
    if not pending.count:
        yield "no pod is pending"
        return
    causes = "one cause" if len(pending.causes) == 1 else f"{len(pending.causes)} causes"
    pods = "1 pod is" if pending.count == 1 else f"{pending.count:,} pods are"
    yield f"{pods} pending, for {causes}"
    for cause in pending.causes:
        yield ""
        yield from cause.lines(whole=whole)


def _group(pod: Pod, ground: Ground) -> Hashable:
    """What pods have alike that are answered alike; a pod with a node by its own status."""
    status = pod.status
    if pod.node_name:
        waits = tuple((wait.reason, _nameless(wait.message, pod.name)) for wait in status.waiting)
        return pod.node_name, status.reason, waits, *(() if waits else pod.key)
    group = group_of(pod, shunned=ground.view.has_anti_affinity)
    own = pod.key if pod.volumes or pod.claims or status.nominated_node else ()
    return group, pod.unmodelled, own


def _explained(pod: Pod, ground: Ground) -> Explanation:
    if pod.node_name:
        return explain_placed(pod, Subject("Pod", pod.namespace, pod.name), ground.view.snapshot)
    return explain_waiting_pod(ground, pod)


def _cause(explanation: Explanation, pod: Pod) -> tuple[str, str, Verdict, str, str]:
    """Code, layer, verdict, message and remedy. Of a pod that nothing ails, that its turn has yet to come."""
    remedy = next((remedy.action for remedy in explanation.remedies), "")
    if explanation.verdict.good:
        message = f"it starts on {pod.node_name}" if pod.node_name else explanation.message
        return "", "", explanation.verdict, message, ""
    code, layer = leading_code(explanation)
    message = _nameless(explanation.message, pod.name)
    return code, layer, explanation.verdict, message, remedy


def _nameless(message: str, name: str) -> str:
    """The message without a pod's name, so that pods of one cause have one message.

    A name that is a word as well stays: it may stand for something else.

    >>> _nameless("kubelet refused web-7x", "web-7x"), _nameless("no node takes it", "node")
    ('kubelet refused it', 'no node takes it')
    """
    if name.isalpha():
        return message
    return re.sub(rf"(?<![\w.-]){re.escape(name)}(?![\w-]|\.\w)", "it", message)


def _name(pod: Pod) -> str:
    return f"{pod.namespace}/{pod.name}"
