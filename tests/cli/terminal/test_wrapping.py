"""What a terminal of 60 columns shows: prose wraps, tables become paragraphs, commands stay whole."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.cli.main import run
from tonnage.cli.terminal.output import line, lines, styled
from tonnage.cli.terminal.wrapping import wrapped

LONG = "the node has taints that the pod does not tolerate, and no GPU of it is free at the moment"
WORDS = st.text("ab:[]-/", min_size=1, max_size=18)


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        pytest.param("short", ["short"], id="a line that fits stays"),
        pytest.param(
            f"  - {LONG}",
            [
                "  - the node has taints that the pod does not tolerate, and",
                "      no GPU of it is free at the moment",
            ],
            id="prose goes on behind a margin",
        ),
        pytest.param(
            f"driver    FAILS   {LONG}",
            [
                "driver    FAILS   the node has taints that the pod does not",
                "                  tolerate, and no GPU of it is free at the",
                "                  moment",
            ],
            id="the last column of a row goes on below itself",
        ),
        pytest.param(f"  remedy: kubectl {LONG}", None, id="a command stays one line to paste"),
        pytest.param(f"  $ tonnage {LONG}", None, id="a command behind a prompt stays too"),
        pytest.param(f"a   b   {'c' * 50}   {LONG}", None, id="columns without room for the last stay"),
        pytest.param("x" * 90, None, id="a word is never cut"),
    ],
)
def test_lines_of_sixty_columns(row: str, expected: list[str] | None) -> None:
    assert wrapped(row, 60).split("\n") == (expected or [row])


def test_colours_take_no_columns() -> None:
    shown = wrapped(lines([line(styled("error:", fg="red", bold=True), f" {LONG}")]), 60)
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert plain == wrapped(f"error: {LONG}", 60)


@given(st.lists(WORDS, min_size=1, max_size=30), st.integers(60, 120), st.sampled_from(["", "  ", "    - "]))
def test_no_word_is_lost_and_no_line_is_longer(words: list[str], width: int, indent: str) -> None:
    row = indent + " ".join(words)
    shown = wrapped(row, width)
    assert shown.split() == row.split()
    assert all(len(line) <= width for line in shown.split("\n"))


class Terminal(io.StringIO):
    """A stream of people, of 60 columns."""

    def isatty(self) -> bool:
        return True


GOLDEN = Path(__file__).parents[2] / "golden"
CLUSTER = GOLDEN / "clusters" / "contention.12.jsonl.gz"
LABS = Path(__file__).parents[3] / "labs"
QUESTIONS = [
    "explain --all-pending --snapshot {cluster}",
    "explain node a100-0 --snapshot {cluster}",
    "explain -f {labs}/pending-pod/train-as-submitted.yaml --snapshot {cluster}",
    "lint {labs}/pending-pod/train-as-submitted.yaml {golden}/bad/plugin.yaml -v",
    "status --snapshot {cluster}",
    "simulate --drain a100-0 --snapshot {cluster}",
    "doctor --root {golden} --devices none",
    "topo --snapshot {cluster}",
    "simulate --drain h100-0 --snapshot {cluster}",
]


@pytest.mark.parametrize("words", QUESTIONS)
def test_answers_and_errors_fit_a_terminal_and_are_whole_lines_in_a_pipe(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [
        word.replace("_", " ") for word in words.format(cluster=CLUSTER, golden=GOLDEN, labs=LABS).split()
    ]
    run(arguments, "tonnage")
    piped = "".join(capsys.readouterr())
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr("sys.stderr", terminal)
    run(arguments, "tonnage")
    rows = terminal.getvalue().replace("\r", "\n").split("\n")
    assert max(map(len, piped.split("\n"))) > 60
    assert [row for row in rows if len(row) > 60 and "systemctl status" not in row] == []
