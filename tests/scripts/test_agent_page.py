"""The table of the agent's speed is written by one command: it finds every figure, and the page's marks."""

from __future__ import annotations

import pytest

from benchmarks.agent_page import BEGIN, END, PAGE, ROWS, table

MEASURED = {
    figure.format(side) + (f" (wanted: {row.wanted})" if side == row.side else ""): [1.234, 0.5, 0.0449]
    for row in ROWS
    for figure in row.figures
    for side in ((row.side, "Python floor") if row.floor else (row.side,))
}
"""Under the names that `benchmarks.agent` gives: what is wanted stands behind."""


def test_each_row_shows_median_least_and_most_of_both_sides() -> None:
    lines = table(MEASURED).splitlines()
    assert len(lines) == 2 + len(ROWS)
    figure = "0.5 ms (0.04 to 1.2)"
    wanted = "twice the floor; three times its p50"
    both = f"{figure}; {figure}; 0.5 (0.04 to 1.2)"
    assert lines[5] == f"| Allocate, 8 GPUs: p50; p99; p99 by p50 | {both} | {both} | {wanted} |"
    assert lines[3] == f"| the first start on a node | {figure} |  |  |"


def test_a_figure_that_is_not_measured_is_an_error() -> None:
    with pytest.raises(KeyError, match="Allocate, 8 GPUs, "):
        table({name: values for name, values in MEASURED.items() if not name.startswith("Allocate, 8 GPUs,")})


def test_the_page_has_one_place_for_it() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert (text.count(BEGIN), text.count(END)) == (1, 1)
    assert text.partition(BEGIN)[2].partition(END)[0].startswith("| what | agent | floor | wanted |\n")
