"""A what-if as text: a table with a column an alternative, then what waits, moves and is stranded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from tonnage.decide.kubernetes.requests import written_amount
from tonnage.diagnose.simulate.outcomes import MOST_NAMED, ResourceFigures, SimulatedCluster, WhatIf
from tonnage.model.name_lists import listed

_MOST_LINES = 12
_MOST_PODS = 4


def rows_of(answer: WhatIf) -> list[list[str]]:
    """The table: a head, then a row a figure; before first, then each alternative."""
    outcomes = (answer.before, *answer.alternatives)
    counts = [outcome.counts for outcome in outcomes]
    rows = [["", *(outcome.name for outcome in outcomes)]]
    rows.append(["nodes", *(str(outcome.nodes) for outcome in outcomes)])
    with_pods = answer.before.pods_seen
    rows.append(["pods with a node", *(str(outcome.placed) if with_pods else "-" for outcome in outcomes)])
    rows.append(["pods pending", *(str(count["pending"]) if with_pods else "-" for count in counts)])
    for title, key in (("pods UNKNOWN", "unknown"), ("pods displaced", "displaced"),
                      ("  of them pending", "displaced-waiting"), ("pods lost", "lost")):  # fmt: skip
        if any(count[key] for count in counts):
            rows.append([title, *(str(count[key]) for count in counts)])
    names = sorted({figure.name for outcome in outcomes for figure in outcome.resources}, key=_device_last)
    for name in names:
        figures = [outcome.resource(name) for outcome in outcomes]
        if any(figure is not None and (figure.capacity or figure.allocated) for figure in figures):
            rows += _resource_rows(name, figures, with_pods=with_pods)
    return rows


def paragraphs_of(answer: WhatIf, *, whole: bool = False) -> list[str]:
    """Lines for each alternative under its name; the cluster before only where pods wait there.

    `whole`: every reason, and every pod by name.
    """
    lines: list[str] = []
    for outcome in (answer.before, *answer.alternatives):
        body = [
            *_waiting(outcome, whole=whole),
            *_unknown(outcome, whole=whole),
            *_displaced(outcome),
            *_stranded(outcome),
        ]
        body += [f"note: {note}" for note in outcome.notes if outcome is not answer.before or not lines]
        if outcome is answer.before and not outcome.waiting and not outcome.unknown:
            continue
        title = f"{outcome.name}: {', '.join(outcome.changes)}" if outcome.changes else outcome.name
        lines += ["", title, *(f"  {line}" for line in body or ["nothing waits"])]
    return lines


def _device_last(name: str) -> tuple[bool, str]:
    return "/" in name, name


def _resource_rows(
    name: str, figures: list[ResourceFigures | None], *, with_pods: bool
) -> Iterator[list[str]]:
    """`with_pods`: it is known what pods hold."""

    def row(title: str, *values: str) -> list[str]:
        return [title, *values]

    yield row(name, *(_amount(figure, figure.allocatable if figure else 0) for figure in figures))
    if any(figure is not None and figure.devices is not None for figure in figures):
        noun = "MIG devices" if "/mig-" in name else "GPUs"
        yield row(f"  {noun} behind", *(_devices(figure) for figure in figures))
    if not with_pods:
        yield from ([title, *("-" for _ in figures)] for title in ("  allocated", "  free"))
        return
    yield row("  allocated", *(_amount(figure, figure.allocated if figure else 0) for figure in figures))
    yield row("  free", *(_amount(figure, figure.free if figure else 0) for figure in figures))
    if any(figure is not None and figure.cordoned for figure in figures):
        yield row(
            "  free, cordoned", *(_amount(figure, figure.cordoned if figure else 0) for figure in figures)
        )
    if "/" in name:
        yield row("  stranded", *(_measure_text(figure, "stranded") for figure in figures))
        yield row("  fragmented", *(_measure_text(figure, "fragmented") for figure in figures))


def _amount(figure: ResourceFigures | None, amount: int) -> str:
    return "0" if figure is None else written_amount(figure.name, amount)


def _devices(figure: ResourceFigures | None) -> str:
    """What the replicas are of; as many as there are where none are shared."""
    if figure is None:
        return "0"
    return str(figure.capacity if figure.devices is None else figure.devices)


def _measure_text(figure: ResourceFigures | None, measure: str) -> str:
    """A figure that hangs on who asks for the resource; `-` where nobody does."""
    if figure is None or figure.fragmented_percent is None:
        return "-"
    return str(figure.stranded_amount) if measure == "stranded" else f"{figure.fragmented_percent:.1f} %"


def _waiting(outcome: SimulatedCluster, *, whole: bool) -> Iterator[str]:
    most = len(outcome.waiting) if whole else _MOST_LINES
    for group in outcome.waiting[:most]:
        yield from group.lines(whole=whole)
    if len(outcome.waiting) > most:
        yield f"{len(outcome.waiting) - most} more reasons: -v"


def _unknown(outcome: SimulatedCluster, *, whole: bool) -> Iterator[str]:
    most = len(outcome.unknown) if whole else _MOST_LINES
    for text, names in [*outcome.unknown.items()][:most]:
        yield f"{_pods(len(names))} UNKNOWN: {text}"
        yield f"  {listed(names, len(names) if whole else _MOST_PODS)}"


def _displaced(outcome: SimulatedCluster) -> Iterator[str]:
    by_cause: dict[str, list[str]] = {}
    counts: Counter[str] = Counter()
    for fate in outcome.of(displaced=True):
        cause = fate.candidate.cause.value if fate.candidate.cause is not None else ""
        counts[cause] += 1
        if len(by_cause.setdefault(cause, [])) < MOST_NAMED:
            where = fate.node or ("lost" if fate.lost else "UNKNOWN" if fate.unknown else "waits")
            by_cause[cause].append(f"{fate.name} ({fate.candidate.node} -> {where})")
    for cause, names in by_cause.items():
        more = counts[cause] - len(names)
        yield f"{_pods(counts[cause])} {cause}: {', '.join(names)}{f' and {more} more' if more else ''}"
    lost = [fate.name for fate in outcome.fates if fate.lost]
    if lost:
        shown = listed(lost, _MOST_PODS)
        yield f"{_pods(len(lost))} would be lost, because no controller recreates them: {shown}"


def _stranded(outcome: SimulatedCluster) -> Iterator[str]:
    for figures in outcome.resources:
        for part in figures.stranded or ():
            yield f"{part.amount} {figures.name} stranded by {part.cause} on {listed(part.nodes, 4)}"
        if figures.split is not None and figures.split.amount:
            part = figures.split
            free = f"{part.amount} {figures.name} free, too few together for any pod"
            yield f"{free}, on {listed(part.nodes, 4)}"


def _pods(count: int) -> str:
    return f"{count} pod{'' if count == 1 else 's'}"
