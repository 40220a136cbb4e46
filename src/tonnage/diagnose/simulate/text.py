"""A what-if as text: a table with a column an alternative, then what waits, moves and is stranded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tonnage.decide.kubernetes.requests import written_amount
from tonnage.diagnose.simulate.outcomes import MOST_NAMED, Outcome, ResourceFigures, WhatIf
from tonnage.model.name_lists import listed

_MOST_LINES = 12


def rows_of(answer: WhatIf) -> list[list[str]]:
    """The table: a head, then a row a figure; before first, then each alternative."""
    outcomes = (answer.before, *answer.alternatives)
    counts = [outcome.counts for outcome in outcomes]
    rows = [["", *(outcome.name for outcome in outcomes)]]
    rows.append(["nodes", *(str(outcome.nodes) for outcome in outcomes)])
    rows.append(["pods with a node", *(str(outcome.placed) for outcome in outcomes)])
    rows.append(["pods pending", *(str(count["pending"]) for count in counts)])
    for told, key in (("pods not known", "unknown"), ("pods displaced", "displaced"),
                      ("  of them pending", "displaced-waiting"), ("pods lost", "lost")):  # fmt: skip
        if any(count[key] for count in counts):
            rows.append([told, *(str(count[key]) for count in counts)])
    names = sorted({one.name for outcome in outcomes for one in outcome.resources}, key=_device_last)
    for name in names:
        found = [outcome.resource(name) for outcome in outcomes]
        if any(one is not None and (one.capacity or one.allocated) for one in found):
            rows += _resource_rows(name, found)
    return rows


def paragraphs_of(answer: WhatIf) -> list[str]:
    """Lines for each alternative under its name; the cluster before only where pods wait there."""
    lines: list[str] = []
    for outcome in (answer.before, *answer.alternatives):
        body = [*_waiting(outcome), *_unknown(outcome), *_displaced(outcome), *_stranded(outcome)]
        body += [f"note: {note}" for note in outcome.notes if outcome is not answer.before or not lines]
        if outcome is answer.before and not outcome.waiting and not outcome.unknown:
            continue
        title = f"{outcome.name}: {', '.join(outcome.changes)}" if outcome.changes else outcome.name
        lines += ["", title, *(f"  {line}" for line in body or ["nothing waits"])]
    return lines


def _device_last(name: str) -> tuple[bool, str]:
    return "/" in name, name


def _resource_rows(name: str, found: list[ResourceFigures | None]) -> Iterator[list[str]]:
    def row(told: str, *values: str) -> list[str]:
        return [told, *values]

    yield row(name, *(_amount(one, one.allocatable if one else 0) for one in found))
    yield row("  allocated", *(_amount(one, one.allocated if one else 0) for one in found))
    yield row("  free", *(_amount(one, one.free if one else 0) for one in found))
    if any(one is not None and one.cordoned for one in found):
        yield row("  free, cordoned", *(_amount(one, one.cordoned if one else 0) for one in found))
    if "/" in name:
        yield row("  stranded", *(_asked(one, "stranded") for one in found))
        yield row("  fragmented", *(_asked(one, "fragmented") for one in found))


def _amount(one: ResourceFigures | None, amount: int) -> str:
    return "0" if one is None else written_amount(one.name, amount)


def _asked(one: ResourceFigures | None, what: str) -> str:
    """A figure that hangs on who asks for the resource; `-` where nobody does."""
    if one is None or one.fragmented_percent is None:
        return "-"
    return str(one.stranded_amount) if what == "stranded" else f"{one.fragmented_percent:.1f} %"


def _waiting(outcome: Outcome) -> Iterator[str]:
    for one in outcome.waiting[:_MOST_LINES]:
        layer = f"[{one.layer}] " if one.layer else ""
        code = f"  ({one.code})" if one.code else ""
        yield f"{_pods(len(one.pods))} wait{'s' if len(one.pods) == 1 else ''}: {layer}{one.message}{code}"
        yield f"  {listed(one.pods, 4)}"
        if one.remedy:
            yield f"  -> {one.remedy}"
    if len(outcome.waiting) > _MOST_LINES:
        yield f"{len(outcome.waiting) - _MOST_LINES} more reasons: -o json"


def _unknown(outcome: Outcome) -> Iterator[str]:
    for what, names in [*outcome.unknown.items()][:_MOST_LINES]:
        yield f"{_pods(len(names))} UNKNOWN: {what}"
        yield f"  {listed(names, 4)}"


def _displaced(outcome: Outcome) -> Iterator[str]:
    by_cause: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for fate in outcome.of(displaced=True):
        cause = fate.candidate.cause.value if fate.candidate.cause is not None else ""
        counts[cause] += 1
        if len(by_cause.setdefault(cause, [])) < MOST_NAMED:
            where = fate.node or ("lost" if fate.lost else "UNKNOWN" if fate.unknown else "waits")
            by_cause[cause].append(f"{fate.name} ({fate.candidate.node} -> {where})")
    for cause, told in by_cause.items():
        more = counts[cause] - len(told)
        yield f"{_pods(counts[cause])} {cause}: {', '.join(told)}{f' and {more} more' if more else ''}"
    lost = [fate.name for fate in outcome.fates if fate.lost]
    if lost:
        yield f"{_pods(len(lost))} would be lost, as no controller makes them anew: {listed(lost, 4)}"


def _stranded(outcome: Outcome) -> Iterator[str]:
    for figures in outcome.resources:
        for one in figures.stranded or ():
            yield f"{one.amount} {figures.name} stranded by {one.cause} on {listed(one.nodes, 4)}"
        if figures.split is not None and figures.split.amount:
            one = figures.split
            yield f"{one.amount} {figures.name} free, too few together for any pod, on {listed(one.nodes, 4)}"


def _pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"
