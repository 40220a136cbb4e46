"""Explanations as text for a tired engineer: the answer first, then why, node by node, then what to do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.diagnose.wording import shared_sentence
from tonnage.model.name_lists import MOST_NAMED, listed, shown_of
from tonnage.model.reasons.pod.admission import FieldReason
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation, NodeClass, PodGroup, Remedy, Verdict

_HEADLINES = {
    Verdict.ENDED: "it has completed",
    Verdict.RUNNING: "it has a place and runs",
    Verdict.FITS: "it has a place",
    Verdict.NOT_NOW: "something must end, be freed or be repaired first",
    Verdict.NEVER: "the manifest or the cluster must be changed",
    Verdict.UNKNOWN: "Tonnage lacks something that it needs for an answer",
}
_MOST_SCORES: Final = 20


def explanation_lines(explanation: Explanation, *, whole: bool = False) -> list[str]:
    """The answer, nodes with the same reasons together; `whole`: every node and every score by name."""
    most = sum(len(node_class.members) for node_class in explanation.classes) if whole else MOST_NAMED
    lines = [*_head(explanation)]
    placed = explanation.placement.node is not None
    for title, section in (
        ("Pods", _pods(explanation.pods, here=explanation.subject.kind == "Node")),
        ("Why", _reasons(explanation.reasons)),
        ("Nodes", () if placed else _nodes(explanation.classes, explanation.subject.namespace, most)),
        ("Scores", _scores(explanation, whole=whole) if placed and not explanation.pods else ()),
        ("What to do", _remedies(explanation.remedies)),
        ("In Kubernetes' words", explanation.upstream_message.splitlines()),
    ):
        rows = list(section)
        if rows:
            lines += ["", f"{title}:", *(f"  {line}" for line in rows)]
    return lines


def _head(explanation: Explanation) -> Iterator[str]:
    layer = f" (layer: {explanation.layer})" if explanation.layer else ""
    verdict = explanation.verdict
    room = explanation.subject.kind == "Node" and verdict is Verdict.FITS
    yield f"{explanation.subject}: {verdict}, {'it has room' if room else _HEADLINES[verdict]}{layer}"
    yield f"  {explanation.message}"
    if explanation.needs:
        yield f"  needs {', '.join(f'{n} {name}' for name, n in explanation.needs.items())}"


def _pods(groups: tuple[PodGroup, ...], *, here: bool) -> Iterator[str]:
    """Pods of a workload, or of the node that is asked about (`here`), the worst first."""
    where = "on this node" if here else "each on its node"
    for group in groups:
        explanation = group.explanation
        placed = bool(explanation.phase) and explanation.placement.node is not None
        alike = group.count == 1 or not explanation.verdict.good or not placed
        same = explanation.phase.upper() == explanation.verdict
        text = explanation.message if alike else where if same else f"{explanation.phase}, {where}"
        names = shown_of([*group.names[:MOST_NAMED]], group.count)
        yield f"{names}: {explanation.verdict}, {text}"


def _reasons(reasons: Iterable[Reason]) -> Iterator[str]:
    for reason in reasons:
        field = reason.field if isinstance(reason, FieldReason) else None
        where = f"  at {field}" if field is not None and field not in reason.message else ""
        yield f"[{reason.layer}] {reason.message}{where}  ({reason.code})"


def _nodes(classes: tuple[NodeClass, ...], namespace: str, most: int) -> Iterator[str]:
    """Groups of nodes that are refused alike, the most hopeful first, of those the smallest."""
    groups: dict[tuple[Verdict, tuple[tuple[str, bool], ...]], list[NodeClass]] = {}
    for node_class in classes:
        phrases = tuple((reason.phrase, reason.hidden) for reason in node_class.first.reasons)
        groups.setdefault((node_class.first.verdict, phrases), []).append(node_class)
    rows = [
        (verdict, sorted(name for node_class in group for name in node_class.members), group)
        for (verdict, _), group in groups.items()
    ]
    most_hopeful_first = list(Verdict)
    rows.sort(key=lambda row: (most_hopeful_first.index(row[0]), len(row[1]), row[1][0]))
    for verdict, names, group in rows:
        yield f"{listed(names, most)}: {verdict}"
        for number, reason in enumerate(group[0].first.reasons):
            behind = "also " if reason.hidden else ""
            yield f"  - {behind}{shared_sentence(group, number, namespace)}"


def _scores(explanation: Explanation, *, whole: bool) -> Iterator[str]:
    """Nodes with equal scores together, the best first; of many rows the first."""
    names_by_scores: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for name, scores in sorted(explanation.placement.scores.items()):
        names_by_scores.setdefault(tuple(scores.items()), []).append(name)
    rows = [(dict(scores), names) for scores, names in names_by_scores.items()]
    rows.sort(key=lambda row: -row[0]["total"])
    most = len(rows) if whole else _MOST_SCORES
    for by_plugin, names in rows[:most]:
        plugins = ", ".join(f"{plugin} {value}" for plugin, value in by_plugin.items() if plugin != "total")
        yield f"{listed(names, len(names) if whole else MOST_NAMED)}: {by_plugin['total']}  ({plugins})"
    more = sum(len(names) for _, names in rows[most:])
    if more:
        yield f"and {more} more node{'s' if more > 1 else ''}"


def _remedies(remedies: tuple[Remedy, ...]) -> Iterator[str]:
    for number, remedy in enumerate(remedies, 1):
        yield f"{number}. {remedy.action}"
        if remedy.effect:
            yield f"   -> {remedy.effect}"
        if remedy.patch:
            yield f"   patch: {json.dumps(remedy.patch, separators=(', ', ': '))}"
