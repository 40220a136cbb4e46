"""The glossary names what is in the code, and nothing that was."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

_PAGE = Path(__file__).parents[2] / "docs/reference/glossary.md"
_NAMES = re.findall(r"\| `([a-z_.]+(?:\.[A-Z]\w+)?)` \|$", _PAGE.read_text(), re.MULTILINE)


def test_every_row_names_something() -> None:
    rows = [line for line in _PAGE.read_text().splitlines() if re.match(r"\| (?!word|-)", line)]
    assert len(rows) == len(_NAMES) > 30


@pytest.mark.parametrize("name", _NAMES)
def test_what_the_glossary_names_is_in_the_code(name: str) -> None:
    module, _, attribute = name.rpartition(".") if name.rpartition(".")[2][:1].isupper() else (name, "", "")
    imported = importlib.import_module(f"tonnage.{module}")
    assert not attribute or hasattr(imported, attribute)
