"""The page of limits says what the code holds to."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tonnage.adapters.snapshots.limit import SizeLimit
from tonnage.adapters.snapshots.load import LONGEST_LINE
from tonnage.documents.trace import MAX_ROWS
from tonnage.documents.yaml import bounds
from tonnage.documents.yaml.reader import MAX_BYTES
from tonnage.documents.yaml.syntax import MAX_DEPTH
from tonnage.model.json import MOST_DEPTH

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/limits.md").read_text(encoding="utf-8")
LIMIT = SizeLimit()


@pytest.mark.parametrize(
    ("row", "limit"),
    [
        ("size of the text", f"{MAX_BYTES >> 20} MiB"),
        ("size of all keys and values", f"{bounds.MAX_EXPANDED >> 20} MiB"),
        ("values, counted the same way", f"{bounds.MAX_VALUES:,}"),
        ("the same in configuration that an agent reads", f"{bounds.AGENT_VALUES:,}"),
        ("levels of nesting", f"{MAX_DEPTH}"),
        ("documents in one text", f"{bounds.MAX_DOCUMENTS:,}"),
        ("a snapshot, unpacked", f"{LIMIT.size >> 30} GiB"),
        ("a List or a trace, unpacked", f"{LIMIT.whole_size >> 20} MiB"),
        ("blocks of memory", f"{LIMIT.blocks:,}"),
        ("objects of one List", f"{LIMIT.items:,}"),
        ("JSON that is no List", f"{LIMIT.whole_size >> 23} MiB"),
        ("values of such JSON", f"{LIMIT.values:,}"),
    ],
)
def test_each_row_has_the_number_of_the_code(row: str, limit: str) -> None:
    found = re.search(rf"^\| {re.escape(row)}[^|]*\| ([^|]+) \|", PAGE, re.MULTILINE)
    assert found is not None
    assert found[1] == limit


def test_the_rest_is_told_too() -> None:
    assert f"a line of a snapshot has {LONGEST_LINE >> 20} MiB" in PAGE
    assert f"JSON {MOST_DEPTH} levels" in PAGE
    assert MAX_ROWS == 1_000_000
    assert "a million rows" in PAGE
