"""A screen as lines of at most so many columns: what runs where, the busiest first if one sorts by that."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from tonnage.diagnose.doctor.finding import counted
from tonnage.diagnose.top.columns import COLUMNS, Row, UsageColumn, View, busy_of, matches, row_key
from tonnage.diagnose.top.screen_state import ScreenState
from tonnage.diagnose.top.usage import FleetUsage
from tonnage.model.printable import printable_line

_GAP: Final = "  "
_TREND: Final = "TREND"
_TREND_COLUMNS: Final = 12
_BARS: Final = "▁▂▃▄▅▆▇█"
_PLAIN_BARS: Final = "_.-=+*#@"
_CUT: Final = "…"
_NARROWEST: Final = 8
_KEYS: Final = "1 nodes  2 devices  3 pods  s sort  r reverse  / filter  ? help  q quit"
HELP: Final = (
    "1 2 3, Tab    nodes, devices, pods",
    "s, S, < >     sort by the next or the previous column",
    "r             turn the order around",
    "/             filter: type, Enter keeps it, Esc clears it",
    "up down j k   scroll; PageUp, PageDown, Home",
    "Space, p      pause, and go on",
    "+ -           a longer or a shorter interval",
    "? h           this help; any key closes it",
    "q, Ctrl-C     quit",
)
Trends = Mapping[str, Collection[float]]
"""Per cent at the last readings by `row_key`, the oldest first."""


def rows_of(usage: FleetUsage, state: ScreenState) -> list[Row]:
    """The rows of the view that pass the filter, in order. What nobody tells comes last."""
    views: Mapping[View, Sequence[Row]] = {
        View.NODES: usage.nodes,
        View.DEVICES: usage.devices,
        View.PODS: usage.pods,
    }
    rows = [row for row in views[state.view] if matches(row, state.filter)]
    column = next(column for column in COLUMNS[state.view] if column.head == state.sort_head)
    if column.number is None:
        return sorted(rows, key=lambda row: str(column.text(row)), reverse=state.upwards and bool(state.sort))
    number = column.number
    numbered = [row for row in rows if number(row) is not None]
    numbered.sort(key=lambda row: number(row) or 0.0, reverse=not state.upwards)
    return [*numbered, *(row for row in rows if number(row) is None)]


def screen(
    usage: FleetUsage,
    state: ScreenState,
    notes: Sequence[str],
    size: tuple[int, int],
    trends: Trends,
    *,
    plain: bool = False,
) -> list[str]:
    """The whole screen of `size` (columns, lines); `plain`: of ASCII alone."""
    width, height = size
    if state.help:
        return [cut(text, width, plain=plain) for text in ("tonnage top: keys", "", *HELP)][:height]
    head = [summary(usage, state, width), *notes]
    foot = [f"/{state.filter}_" if state.typing else _KEYS]
    rows = rows_of(usage, state)
    room = max(1, height - len(head) - len(foot) - 1)
    offset = min(state.offset, max(0, len(rows) - room))
    shown = rows[offset : offset + room]
    table = table_lines(shown, state, width, trends, plain=plain)
    if not rows:
        table = ["nothing to show" + (f' for the filter "{state.filter}"' if state.filter else "")]
    lines = [*head, *table]
    lines += [""] * max(0, height - len(lines) - len(foot))
    return [cut(text, width, plain=plain) for text in (*lines, *foot)][:height]


def summary(usage: FleetUsage, state: ScreenState, width: int | None) -> str:
    """The fleet in a line, and how it is shown; without what rows are sorted by where that is too wide."""
    nodes, devices = usage.nodes, usage.devices
    busy = [row.reading.utilization for row in devices if row.reading.utilization is not None]
    power = [node.power_w for node in nodes if node.power_w is not None]
    parts = [f"{state.view} sorted by {state.sort_head.lower()}"]
    parts += [f"{counted(len(devices), 'device')} on {counted(len(nodes), 'node')}"]
    parts += [f"{sum(busy) / len(busy):.0f}% busy"] if busy else []
    parts += [f"{sum(power):.0f} W"] if power else []
    parts += [f"filter {state.filter}"] if state.filter and not state.typing else []
    parts += ["paused"] if state.paused else []
    line = ", ".join(parts)
    return line if width is None or len(line) <= width else ", ".join(parts[1:])


def table_lines(
    rows: Sequence[Row], state: ScreenState, width: int | None, trends: Trends, *, plain: bool = False
) -> list[str]:
    """Heads and rows; columns that do not fit are left out, the least important first."""
    columns = [*COLUMNS[state.view]]
    if trends:
        columns.insert(len(columns) - 1, _trend_column(trends, plain=plain))
    cells = {column.head: [printable_line(column.text(row)) for row in rows] for column in columns}
    widths = {head: max([len(head), *map(len, texts)]) for head, texts in cells.items()}
    if width is not None:
        columns = _fitting(columns, widths, width)
        _narrow(columns, widths, width)
    lines = [_line([column.head for column in columns], columns, widths, plain=plain)]
    for number in range(len(rows)):
        texts = [cells[column.head][number] for column in columns]
        lines.append(_line(texts, columns, widths, plain=plain))
    return lines


def _trend_column(trends: Trends, *, plain: bool) -> UsageColumn[Any]:
    return UsageColumn(_TREND, lambda row: sparkline(trends.get(row_key(row), ()), plain=plain), busy_of, 8)


def sparkline(percents: Collection[float], *, plain: bool = False) -> str:
    """The last readings as bars, the newest at the right.

    >>> sparkline([0, 50, 100]), sparkline([0, 50, 100], plain=True)
    ('▁▄█', '_=@')
    """
    bars = _PLAIN_BARS if plain else _BARS
    last = [*percents][-_TREND_COLUMNS:]
    return "".join(
        bars[min(len(bars) - 1, int(max(0.0, percent) / 100 * (len(bars) - 1)))] for percent in last
    )


def cut(text: str, width: int, *, plain: bool = False) -> str:
    """The text in at most so many columns, and printable.

    >>> cut("a100-0", 4), cut("a\\x1b[2J", 20)
    ('a10…', 'a\\\\x1b[2J')
    """
    shown = printable_line(text)
    return shown if len(shown) <= width else f"{shown[: width - 1]}{'~' if plain else _CUT}"


def _needed(columns: Sequence[UsageColumn[Any]], widths: Mapping[str, int]) -> int:
    return sum(widths[column.head] for column in columns) + len(_GAP) * (len(columns) - 1)


def _fitting(
    columns: list[UsageColumn[Any]], widths: Mapping[str, int], width: int
) -> list[UsageColumn[Any]]:
    """Without the columns for which there is no room, long texts as short as may be."""
    least = {column.head: _least(column, widths[column.head]) for column in columns}
    while _needed(columns, least) > width and max(column.drop for column in columns):
        last = max(columns, key=lambda column: column.drop)
        columns = [column for column in columns if column is not last]
    return columns


def _least(column: UsageColumn[Any], whole: int) -> int:
    """Numbers are shown whole, texts as far as there is room."""
    return whole if column.number is not None else min(whole, max(_NARROWEST, len(column.head)))


def _narrow(columns: Sequence[UsageColumn[Any]], widths: dict[str, int], width: int) -> None:
    """Take from the widest text until the columns fit."""
    while _needed(columns, widths) > width:
        texts = [c for c in columns if widths[c.head] > _least(c, widths[c.head])]
        if not texts:
            return
        widest = max(texts, key=lambda column: widths[column.head])
        widths[widest.head] -= 1


def _line(
    texts: Sequence[str], columns: Sequence[UsageColumn[Any]], widths: Mapping[str, int], *, plain: bool
) -> str:
    cells = [
        cut(text, widths[column.head], plain=plain).rjust(widths[column.head])
        if column.number is not None and column.head != _TREND
        else cut(text, widths[column.head], plain=plain).ljust(widths[column.head])
        for text, column in zip(texts, columns, strict=True)
    ]
    return _GAP.join(cells).rstrip()
