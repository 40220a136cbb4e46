"""Why pods wait on a changed cluster: asked once for pods that ask alike, in the codes of `explain`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import Final

from tonnage.diagnose.cluster_view import Ground
from tonnage.diagnose.explain.explain import explain_waiting_pod
from tonnage.diagnose.leading_reason import leading_code
from tonnage.diagnose.remedies.edits_by_reason import uncordon
from tonnage.diagnose.simulate.changed_cluster import WaitingPod
from tonnage.diagnose.simulate.outcomes import Waiting
from tonnage.diagnose.simulate.pod_shapes import group_of
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Verdict

MOST_ASKED: Final = 32
"""Groups of pods whose reason is worked out, those of most pods first."""


def reasons_of(
    candidates: Iterable[WaitingPod], ground: Ground, closed: Iterable[str]
) -> tuple[tuple[Waiting, ...], dict[str, str]]:
    """Pods that wait by their reason, most first; and the code by pod (`namespace/name`).

    `closed`: nodes that the alternative itself closes, which no remedy opens again.
    """
    opening = tuple(uncordon(ground.view.nodes[name]).action for name in closed if name in ground.view.nodes)
    groups: dict[Hashable, list[WaitingPod]] = {}
    for candidate in candidates:
        groups.setdefault(group_of(candidate.pod, shunned=ground.view.has_anti_affinity), []).append(
            candidate
        )
    by_key: dict[tuple[str, str, Verdict, str, str], list[str]] = {}
    ordered = sorted(groups.values(), key=len, reverse=True)
    for members in ordered[:MOST_ASKED]:
        by_key.setdefault(_reason(members[0], ground, opening), []).extend(map(_name, members))
    rest = [_name(candidate) for members in ordered[MOST_ASKED:] for candidate in members]
    if rest:
        remedy = "ask for one of them: tonnage explain"
        key = ("", "", Verdict.UNKNOWN, f"only the {MOST_ASKED} largest groups are explained", remedy)
        by_key[key] = rest
    waiting = tuple(
        Waiting(*key, tuple(sorted(pods)))
        for key, pods in sorted(by_key.items(), key=lambda candidate: -len(candidate[1]))
    )
    return waiting, {name: candidate.code for candidate in waiting for name in candidate.pods}


def refusals_of(refused: Iterable[tuple[WaitingPod, Reason]]) -> tuple[Waiting, ...]:
    """Pods that never come to be, by what the API server says."""
    by_key: dict[tuple[str, str, Verdict, str, str], list[str]] = {}
    for candidate, reason in refused:
        verdict = Verdict.NEVER if reason.lasting else Verdict.NOT_NOW
        key = reason.code, reason.layer.value, verdict, reason.message, reason.remedy
        by_key.setdefault(key, []).append(_name(candidate))
    return tuple(Waiting(*key, tuple(pods)) for key, pods in by_key.items())


def _reason(
    candidate: WaitingPod, ground: Ground, opening: tuple[str, ...]
) -> tuple[str, str, Verdict, str, str]:
    """Code, layer, verdict, message and remedy. That nothing could be preempted was found out before."""
    explanation = explain_waiting_pod(ground, replace(candidate.pod, may_preempt=False))
    code, layer = leading_code(explanation)
    actions = (remedy.action for remedy in explanation.remedies)
    remedy = next((action for action in actions if not any(part in action for part in opening)), "")
    return code, layer, explanation.verdict, explanation.message, remedy


def _name(candidate: WaitingPod) -> str:
    return f"{candidate.pod.namespace}/{candidate.pod.name}"
