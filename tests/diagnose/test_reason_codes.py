"""The documentation of reason codes and the codes themselves are the same set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tonnage.diagnose.doctor.finding import DoctorCode, Layer
from tonnage.model.verdict import Code

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "reason-codes.md"


def test_every_code_is_documented_and_no_other() -> None:
    of_pods, of_nodes = _PAGE.read_text().split("\n## Findings of `tonnage doctor`\n")
    for text, codes in ((of_pods, Code), (of_nodes, DoctorCode)):
        documented = re.findall(r"^\| `([a-z0-9-]+)` \|", text, re.MULTILINE)
        assert sorted(documented) == sorted(code.value for code in codes)


def test_the_layers_of_a_node_are_documented_in_their_order() -> None:
    of_nodes = _PAGE.read_text().partition("\n## Findings of `tonnage doctor`\n")[2]
    assert re.findall(r"`([a-z-]+)`", of_nodes.partition(". An error")[0])[-len(Layer) :] == list(Layer)


@pytest.mark.parametrize("codes", [Code, DoctorCode])
def test_every_code_is_used(codes: type[Code] | type[DoctorCode]) -> None:
    source = Path(__file__).parents[2] / "src" / "tonnage"
    text = "\n".join(
        path.read_text() for room in ("decide", "diagnose") for path in (source / room).rglob("*.py")
    )
    assert [code.name for code in codes if f"{codes.__name__}.{code.name}" not in text] == []
