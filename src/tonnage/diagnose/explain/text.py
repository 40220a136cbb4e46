"""Explanations as text for a tired engineer: the answer first, then why, node by node, then what to do."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.diagnose.wording import told_together
from tonnage.model.name_lists import listed
from tonnage.model.reasons.admission import FieldReason
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation, NodeClass, PodGroup, Remedy, Verdict

_HEADLINES = {
    Verdict.FITS: "it has a place",
    Verdict.NOT_NOW: "something must end, be freed or be repaired first",
    Verdict.NEVER: "the manifest or the cluster must be changed",
    Verdict.UNKNOWN: "something is missing for an answer",
}
_MOST_SCORES: Final = 20


def explanation_lines(explanation: Explanation) -> list[str]:
    """The whole answer, nodes with the same reasons together."""
    lines = [*_head(explanation)]
    for title, part in (
        ("Pods", _pods(explanation.pods)),
        ("Why", _reasons(explanation.reasons)),
        (
            "Nodes",
            _nodes(explanation.classes, explanation.subject.namespace) if not _placed(explanation) else (),
        ),
        ("Scores", _scores(explanation) if _placed(explanation) else ()),
        ("What to do", _remedies(explanation.remedies)),
        (
            "In Kubernetes' words",
            explanation.upstream_message.splitlines(),
        ),
    ):
        rows = list(part)
        if rows:
            lines += ["", f"{title}:", *(f"  {line}" for line in rows)]
    return lines


def _placed(explanation: Explanation) -> bool:
    return explanation.placement.node is not None


def _head(explanation: Explanation) -> Iterator[str]:
    layer = f" (layer: {explanation.layer})" if explanation.layer else ""
    yield f"{explanation.subject}: {explanation.verdict}, {_HEADLINES[explanation.verdict]}{layer}"
    yield f"  {explanation.message}"
    if explanation.needs:
        yield f"  needs {', '.join(f'{n} {name}' for name, n in explanation.needs.items())}"


def _pods(groups: tuple[PodGroup, ...]) -> Iterator[str]:
    """A workload's pods, the worst first."""
    for group in groups:
        explanation = group.explanation
        alike = len(group.names) == 1 or explanation.verdict is not Verdict.FITS
        text = explanation.message if alike else f"{explanation.phase}, each on its node"
        yield f"{listed(group.names)}: {explanation.verdict}, {text}"


def _reasons(reasons: Iterable[Reason]) -> Iterator[str]:
    for reason in reasons:
        field = reason.field if isinstance(reason, FieldReason) else None
        where = f"  at {field}" if field is not None and field not in reason.message else ""
        yield f"[{reason.layer}] {reason.message}{where}  ({reason.code})"


def _nodes(classes: tuple[NodeClass, ...], namespace: str) -> Iterator[str]:
    """Groups of nodes that are refused alike, the most hopeful first, of those the smallest."""
    groups: dict[tuple[Verdict, tuple[tuple[str, bool], ...]], list[NodeClass]] = {}
    for node_class in classes:
        alike = tuple((reason.phrase, reason.hidden) for reason in node_class.first.reasons)
        groups.setdefault((node_class.first.verdict, alike), []).append(node_class)
    hopes = list(Verdict)
    named = [
        (hopes.index(verdict), sorted(name for node_class in group for name in node_class.members), group)
        for (verdict, _), group in groups.items()
    ]
    for hope, names, group in sorted(
        named, key=lambda group_row: (group_row[0], len(group_row[1]), group_row[1][0])
    ):
        yield f"{listed(names)}: {hopes[hope]}"
        for number, reason in enumerate(group[0].first.reasons):
            behind = "also " if reason.hidden else ""
            yield f"  - {behind}{told_together(group, number, namespace)}"


def _scores(explanation: Explanation) -> Iterator[str]:
    """Nodes with equal scores together, the best first; of many rows the first."""
    alike: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for name, scores in sorted(explanation.placement.scores.items()):
        alike.setdefault(tuple(scores.items()), []).append(name)
    rows = sorted(((dict(row), names) for row, names in alike.items()), key=lambda entry: -entry[0]["total"])
    for row, names in rows[:_MOST_SCORES]:
        plugins = ", ".join(f"{plugin} {value}" for plugin, value in row.items() if plugin != "total")
        yield f"{listed(names)}: {row['total']}  ({plugins})"
    more = sum(len(names) for _, names in rows[_MOST_SCORES:])
    if more:
        yield f"and {more} more node{'s' if more > 1 else ''}"


def _remedies(remedies: tuple[Remedy, ...]) -> Iterator[str]:
    for number, remedy in enumerate(remedies, 1):
        yield f"{number}. {remedy.action}"
        if remedy.effect:
            yield f"   -> {remedy.effect}"
        if remedy.patch:
            yield f"   patch: {json.dumps(remedy.patch, separators=(', ', ': '))}"
