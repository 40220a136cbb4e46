"""The page on what plugin users suffer: each row names a test that is there, or a decision."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PAGE: Final = ROOT / "docs/explanation/what-plugin-users-suffer.md"
_TEST: Final = re.compile(r"`(?P<file>tests/[\w/]+\.py)::(?P<name>test_\w+)`")
_DECISION: Final = re.compile(r"\]\(\.\./decisions/(?P<page>\d{4}-[\w-]+\.md)\)")
_NUMBER: Final = re.compile(r"#\d+")


@dataclass(frozen=True)
class Row:
    """One row of a table of the page."""

    name: str
    threads: str
    proof: str

    @property
    def tests(self) -> list[tuple[str, str]]:
        return [(found["file"], found["name"]) for found in _TEST.finditer(self.proof)]

    @property
    def decisions(self) -> list[str]:
        return _DECISION.findall(self.proof)


def rows(heading: str) -> list[list[str]]:
    """The cells of the rows of the table under a heading."""
    section = PAGE.read_text(encoding="utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


PAINS: Final = [Row(cells[0], cells[2], cells[4]) for cells in rows("Pains")]
DEFECTS: Final = [Row(cells[0], cells[1], cells[2]) for cells in rows("Defects")]


@cache
def descriptions(file: str) -> dict[str, str]:
    """What each test function of a file says of itself, by name."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, functions)}


def test_all_pains_are_there() -> None:
    assert [row.name for row in PAINS] == [str(number) for number in range(1, 23)]
    assert all(_NUMBER.search(row.threads) or "PR#" in row.threads for row in PAINS)
    assert len(DEFECTS) > 20


@pytest.mark.parametrize("row", [*PAINS, *DEFECTS], ids=lambda row: row.name[:60])
def test_a_row_names_tests_or_decisions_that_are_there(row: Row) -> None:
    missing = [
        f"{file}::{name}"
        for file, name in row.tests
        if not (ROOT / file).is_file() or name not in descriptions(file)
    ]
    missing += [page for page in row.decisions if not (ROOT / "docs/decisions" / page).is_file()]
    assert missing == []
    assert row.tests or row.decisions
    assert row.proof == " ".join(row.proof.split()), "a proof is tests and links alone"
    left = _TEST.sub("", re.sub(r"\[decision\]\([^)]*\)", "", row.proof))
    assert not left.strip(), "a test that is not written as one is not looked for"


@pytest.mark.parametrize("row", DEFECTS, ids=lambda row: row.name[:60])
def test_a_defect_is_named_by_its_tests(row: Row) -> None:
    described = " ".join(descriptions(file).get(name, "") for file, name in row.tests)
    assert row.tests
    assert set(_NUMBER.findall(row.threads)) <= set(_NUMBER.findall(described))
