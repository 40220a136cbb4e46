"""Repairs: what they change and leave, and that a second run finds nothing to do. Covers DRA-2, DRA-3."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tonnage.cli.lint.lint_context import given_for
from tonnage.cli.options import Common
from tonnage.diagnose.lint.lint import LintContext, lint
from tonnage.diagnose.lint.repair import repaired_texts
from tonnage.diagnose.lint.sheet import Sheet

FOLDER = Path(__file__).parent
BEFORE = sorted(FOLDER.glob("fix/*.before.yaml"))
ODD: st.SearchStrategy[object] = st.sampled_from(
    [None, True, 0, -1, 1.5, "", "x", "0.5", "1e9999", 10**30, [], {}, [None], [{}], {"a": None}, {"name": 5},
     "\x85 ü 😀", "- a: b\n c", {"spec": {"containers": [{"name": 1}]}}]
)  # fmt: skip


@cache
def documents() -> list[Any]:
    paths = [path for path in sorted(FOLDER.glob("*/*.yaml")) if path.name != "cluster.yaml"]
    return [document for path in paths for document in yaml.load_all(path.read_text(), yaml.CSafeLoader)]


@cache
def offline() -> LintContext:
    return asyncio.run(given_for(Common(), []))


def repaired(text: str) -> str:
    sheet = Sheet("f.yaml", text)
    return repaired_texts([sheet], offline()).sheets.get("f.yaml", sheet).text


@pytest.mark.parametrize("path", BEFORE, ids=lambda path: path.name.partition(".")[0])
def test_exactly_what_is_certain_is_repaired(path: Path) -> None:
    after = path.with_name(path.name.replace("before", "after")).read_text()
    assert repaired(path.read_text()) == after
    assert repaired(after) == after


def test_a_file_with_other_line_ends_and_a_byte_order_mark_is_repaired_in_place() -> None:
    lines = "apiVersion: v1", "kind: Pod # ü 😀", "metadata: {name: p}", "spec: {nodeSelector: {a: 1}}", ""
    text = "\ufeff" + "\r\n".join(lines)
    assert repaired(text) == text.replace("a: 1", 'a: "1"')


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\n"
            "spec: {hard: {limits.nvidia.com/gpu: 4, nvidia.com/gpu: 8}}\n",
            id="of a quota",
        ),
        pytest.param(
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {Containers: [], containers: []}\n",
            id="one is right already",
        ),
    ],
)
def test_two_entries_never_come_to_one_key_and_the_rest_is_repaired(text: str) -> None:
    other = "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeSelector: {a: 1}}\n"
    assert repaired(text) == text
    assert repaired(text + other) == text + other.replace("a: 1", 'a: "1"')


def test_a_repair_in_json_stays_json() -> None:
    text = (
        '{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"},\n'
        ' "spec": {"devices": {"requests": [\n  {"deviceClassName": "x", "name": "gpu", "count": 2}\n]}}}'
    )
    (request,) = yaml.load(repaired(text), yaml.CSafeLoader)["spec"]["devices"]["requests"]
    assert request == {"name": "gpu", "exactly": {"deviceClassName": "x", "count": 2}}
    assert '"exactly": {"deviceClassName": "x", "count": 2}' in repaired(text)


def test_a_comment_in_braces_is_worth_more_than_a_repair() -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\n"
        "spec: {devices: {requests: [{name: gpu, # ours\n deviceClassName: x}]}}\n"
    )
    assert repaired(text) == text


def test_a_merged_entry_is_not_moved_away_from_its_anchor() -> None:
    text = (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: c}\nspec:\n  devices:\n"
        "    requests:\n    - &one {name: a, exactly: {deviceClassName: x}}\n"
        "    - {<<: *one, name: b, count: 2}\n"
    )
    assert repaired(text) == text


@given(st.data())
def test_any_value_anywhere_is_met_calmly_and_repairs_settle(data: st.DataObject) -> None:
    document = yaml.load(yaml.safe_dump(data.draw(st.sampled_from(documents()))), yaml.CSafeLoader)
    spots: list[tuple[Any, Any]] = []

    def collect(value: Any) -> None:
        if isinstance(value, dict | list):
            for key in [*value] if isinstance(value, dict) else range(len(value)):
                spots.append((value, key))
                collect(value[key])

    collect(document)
    if spots:
        holder, key = data.draw(st.sampled_from(spots))
        holder[key] = data.draw(ODD)
    flow = data.draw(st.sampled_from([None, True, False]))
    text = yaml.safe_dump(document, default_flow_style=flow, sort_keys=False, allow_unicode=True)
    before = lint([Sheet("f.yaml", text)], offline())
    after = repaired(text)
    assert repaired(after) == after
    if not before.unreadable:
        assert not lint([Sheet("f.yaml", after)], offline()).unreadable
        lines = len(text.splitlines())
        assert all(
            1 <= finding.place.line <= lines and finding.place.column >= 1 for finding in before.findings
        )
