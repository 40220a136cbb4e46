"""The documentation of reason codes and the codes themselves are the same set."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

from scripts.generate_reason_codes import files
from tonnage.model import reasons as families
from tonnage.model.catalog.messages import Message, messages
from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.pod.kubelet import NodeNotReady
from tonnage.model.reasons.pod.scheduling import TaintNotTolerated
from tonnage.model.reasons.reason import ManifestFault, ManifestReason, NodeFault, NodeReason, Reason
from tonnage.model.reasons.registry import aliases, manifest_reasons, node_reasons, reasons

_ROOT = Path(__file__).parents[2] / "src" / "tonnage"
_SOURCE = "\n".join(
    path.read_text()
    for room in ("decide", "diagnose", "documents", "model/mig")
    for path in (Path(__file__).parents[2] / "src" / "tonnage" / room).rglob("*.py")
    if path.name != "codes.py"
)
_NAMED = frozenset(
    re.findall(r"\w+", re.sub(r"^from .* import (\([^)]*\)|.*)$", "", _SOURCE, flags=re.MULTILINE))
)
_RECORDS = Path(__file__).parents[1] / "golden" / "records"
_SCHEMA = Path(__file__).parents[2] / "docs" / "reference" / "reason-facts.schema.json"
_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "reason-codes.md"


def test_every_code_is_documented_and_no_other() -> None:
    findings = _PAGE.read_text().partition("\n## Aliases\n")[0]
    of_pods, of_nodes, of_manifests = re.split(r"\n## Findings of `tonnage \w+`\n", findings)
    of_pods, of_words = of_pods.split("\n## What components say in their own words\n")
    others = (NodeFault, ManifestFault)
    own = [code for code, cls in reasons().items() if cls.advice and not issubclass(cls, others)]
    heard = [code for code, cls in reasons().items() if not cls.advice]
    parts = (
        (of_pods, own),
        (of_words, heard),
        (of_nodes, [cls.alias or cls.code for cls in node_reasons()]),
        (of_manifests, [cls.alias or cls.code for cls in manifest_reasons()]),
    )
    for text, codes in parts:
        documented = re.findall(r"^\| `([a-z0-9-]+)` \|", text, re.MULTILINE)
        assert sorted(documented) == sorted(map(str, codes))


def test_the_layers_of_a_node_are_documented_in_their_order() -> None:
    of_nodes = _PAGE.read_text().partition("\n## Findings of `tonnage doctor`\n")[2]
    assert re.findall(r"`([a-z-]+)`", of_nodes.partition(". An error")[0])[-len(NodeLayer) :] == list(
        NodeLayer
    )


def test_no_alias_is_a_code() -> None:
    assert not aliases().keys() & reasons().keys()


def test_the_aliases_are_documented_with_their_codes() -> None:
    page = _PAGE.read_text()
    assert all(f"| `{alias}` | `{cls.code}` |" in page for alias, cls in aliases().items())


@pytest.mark.parametrize("cls", node_reasons(), ids=lambda cls: cls.__name__)
def test_the_layer_of_a_reason_is_that_of_its_layer_on_a_node(cls: type[NodeReason]) -> None:
    assert cls.__dataclass_fields__["layer"].default is cls.node_layer.layer


@pytest.mark.parametrize("cls", manifest_reasons(), ids=lambda cls: cls.__name__)
def test_a_reason_of_lint_has_what_its_list_of_rules_says(cls: type[ManifestReason]) -> None:
    assert cls.rule.summary.endswith(".")
    assert cls.rule.source
    assert cls.usual_layer() in Layer


def test_every_reason_is_made_somewhere() -> None:
    codes = {message.code for message in messages()}
    unused = [
        cls.__name__ for code, cls in reasons().items() if code not in codes and cls.__name__ not in _NAMED
    ]
    assert unused == []


def test_no_two_reasons_share_a_code_or_a_name() -> None:
    modules = walk_packages(families.__path__, f"{families.__name__}.")
    classes = {cls for module in modules for cls in getattr(import_module(module.name), "REASONS", ())}
    assert len({cls.code for cls in classes}) == len({cls.__name__ for cls in classes}) == len(classes)
    assert classes == {*reasons().values()}


def test_page_and_schema_are_those_of_the_reasons() -> None:
    assert all(path.read_text() == text for path, text in files().items())


def test_every_message_of_the_catalogue_has_its_reason() -> None:
    assert {message.code for message in messages()} >= {
        code for code, cls in reasons().items() if not cls.advice
    }


@pytest.mark.parametrize("message", messages(), ids=lambda message: message.code)
def test_what_a_pattern_names_is_a_fact_of_its_reason(message: Message) -> None:
    named = {name: "x" for pattern in message.patterns for name in pattern.groupindex if name != "number"}
    assert message.symptom(named).facts == named


def _facts(value: object) -> Iterator[tuple[str, set[str]]]:
    """The code and the keys of the facts of each reason in an answer."""
    if isinstance(value, dict):
        if "facts" in value and "subject" in value:
            yield value["code"], set(value["facts"])
        yield from (fact for each in value.values() for fact in _facts(each))
    elif isinstance(value, list):
        yield from (fact for each in value for fact in _facts(each))


def test_recorded_facts_are_those_of_the_schema_of_their_code() -> None:
    schemas = json.loads(_SCHEMA.read_text())["$defs"]
    found = [
        fact
        for record in sorted(_RECORDS.rglob("*.txt"))
        for answer in re.findall(r"^\{\n {2}\"subject\".*?^\}$", record.read_text(), re.MULTILINE | re.DOTALL)
        for fact in _facts(json.loads(answer))
    ]
    assert len({code for code, _ in found}) > 20
    for code, keys in found:
        assert set(schemas[code].get("required", ())) <= keys <= set(schemas[code]["properties"]), code


def test_nothing_reads_a_fact_by_its_key() -> None:
    assert re.findall(r"\.facts(?:\.get\(|\[)", _SOURCE) == []


def _fact_tables() -> Iterator[tuple[str, str]]:
    """(class, field) of each field of a class that is a table of facts by name."""
    table = re.compile(r"\b(Mapping|dict)\[str|\bJsonObject\b")
    named = re.compile(r"^ +(facts|details|numbers|values):", re.MULTILINE)
    texts = (path.read_text() for path in _ROOT.rglob("*.py"))
    trees = (ast.parse(text) for text in texts if named.search(text))  # to read all takes seconds
    classes = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
    for owner in classes:
        for field in owner.body:
            if isinstance(field, ast.AnnAssign) and table.search(ast.unparse(field.annotation)):
                name = ast.unparse(field.target)
                if name in ("facts", "details", "numbers", "values"):
                    yield owner.name, name


def test_no_class_carries_facts_by_name_but_where_the_names_are_those_of_others() -> None:
    """Each of these keys stands in something that is written down for others, and nobody here asks for it."""
    assert {*_fact_tables()} == {
        ("DumpedReason", "facts"),  # the JSON of a dump, which its reason's class reads again
        ("_Part", "facts"),  # the JSON of a reason, copied from node to node
        ("Sample", "values"),  # of metrics.toml
        ("PublishedDevice", "numbers"),  # attributes that claims select by
    }


_TAINT = TaintNotTolerated(subject="Node a", message="tainted", key="gpu", value="", effect="NoSchedule")


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        pytest.param(replace(_TAINT), True, id="the same"),
        pytest.param(replace(_TAINT, effect="NoExecute"), False, id="another fact"),
        pytest.param(replace(_TAINT, hidden=True), False, id="hidden"),
        pytest.param(
            NodeNotReady(
                subject="Node a", message="tainted", key="gpu", value="", effect="NoSchedule",
                layer=_TAINT.layer, lasting=True,
            ),
            False,
            id="another code, all else the same",
        ),
    ],
)  # fmt: skip
def test_reasons_are_equal_when_code_and_all_fields_are(other: Reason, equal: bool) -> None:
    assert (other == _TAINT) is equal
