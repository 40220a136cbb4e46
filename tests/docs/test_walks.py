"""What the walks through the code name is in the code."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[2] / "docs/explanation/walks-through-the-code.md"
_NAMES = sorted(set(re.findall(r"`((?:\w+\.){2,}\w+)`", _PAGE.read_text())))
_STEPS = re.findall(r"^\| (\d+) \| `", _PAGE.read_text(), re.MULTILINE)


def test_each_walk_has_at_most_fifteen_steps() -> None:
    assert _STEPS.count("1") == 5
    assert max(map(int, _STEPS)) <= 15


@pytest.mark.parametrize("name", _NAMES)
def test_what_a_walk_names_is_in_the_code(name: str) -> None:
    assert pkgutil.resolve_name(f"tonnage.{name}")
