"""The documentation of reason codes and the codes themselves are the same set."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tonnage.diagnose.doctor.finding import DoctorCode, Layer
from tonnage.diagnose.lint.codes import FACTS
from tonnage.diagnose.lint.finding import LintCode
from tonnage.model.catalog.messages import messages
from tonnage.model.symptoms import Symptom
from tonnage.model.verdict import Code

_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "reason-codes.md"


def test_every_code_is_documented_and_no_other() -> None:
    of_pods, of_nodes, of_manifests = re.split(r"\n## Findings of `tonnage \w+`\n", _PAGE.read_text())
    of_pods, of_words = of_pods.split("\n## What components say in their own words\n")
    parts = (of_pods, Code), (of_words, Symptom), (of_nodes, DoctorCode), (of_manifests, LintCode)
    for text, codes in parts:
        documented = re.findall(r"^\| `([a-z0-9-]+)` \|", text, re.MULTILINE)
        assert sorted(documented) == sorted(code.value for code in codes)


def test_the_layers_of_a_node_are_documented_in_their_order() -> None:
    of_nodes = _PAGE.read_text().partition("\n## Findings of `tonnage doctor`\n")[2]
    assert re.findall(r"`([a-z-]+)`", of_nodes.partition(". An error")[0])[-len(Layer) :] == list(Layer)


def test_severity_and_layer_of_lint_codes_are_documented() -> None:
    text = _PAGE.read_text()
    for code, facts in FACTS.items():
        assert f"| `{code.value}` | {facts.severity.value}, {facts.layer.value} |" in text


@pytest.mark.parametrize("codes", [Code, DoctorCode, LintCode])
def test_every_code_is_used(codes: type[Code] | type[DoctorCode] | type[LintCode]) -> None:
    source = Path(__file__).parents[2] / "src" / "tonnage"
    text = "\n".join(
        path.read_text()
        for room in ("decide", "diagnose")
        for path in (source / room).rglob("*.py")
        if path.name != "codes.py"
    )
    said = {message.code for message in messages()}
    unused = [c.name for c in codes if f"{codes.__name__}.{c.name}" not in text and c not in said]
    assert unused == []


def test_every_symptom_is_one_of_the_catalogue_and_documented_in_its_words() -> None:
    assert {message.code for message in messages()} >= set(Symptom)
    page = _PAGE.read_text()
    for message in messages():
        if isinstance(message.code, Symptom):
            row = next(line for line in page.splitlines() if line.startswith(f"| `{message.code}` |"))
            assert row.split(" | ")[1] == message.layer
