"""The documentation of reason codes and the codes themselves are the same set."""

from __future__ import annotations

import re
from pathlib import Path

from tonnage.model.verdict import Code

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "reason-codes.md"


def test_every_code_is_documented_and_no_other() -> None:
    documented = re.findall(r"^\| `([a-z-]+)` \|", _PAGE.read_text(), re.MULTILINE)
    assert sorted(documented) == sorted(code.value for code in Code)


def test_every_code_is_used() -> None:
    source = Path(__file__).parents[2] / "src" / "tonnage"
    text = "\n".join(
        path.read_text() for room in ("decide", "diagnose") for path in (source / room).rglob("*.py")
    )
    assert [code.name for code in Code if f"Code.{code.name}" not in text] == []
