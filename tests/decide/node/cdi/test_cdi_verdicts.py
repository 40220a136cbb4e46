"""What is said of files that should be CDI specs, before a runtime sees them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tonnage.decide.node.cdi.runtime_verdicts import spec_verdicts
from tonnage.model.devices.cdi import SpecFile
from tonnage.model.errors import Problem

GOOD: Any = {
    "cdiVersion": "0.5.0",
    "kind": "nvidia.com/gpu",
    "devices": [{"name": "0", "containerEdits": {"env": ["A=b"]}}],
}


def file(path: str, content: object = GOOD, **said: Any) -> SpecFile:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return SpecFile(path, path.rpartition("/")[0], text, **said)


def said_of(*files: SpecFile) -> dict[str, list[str]]:
    return {
        verdict.path: [str(problem.what) for problem in verdict.problems] for verdict in spec_verdicts(files)
    }


@pytest.mark.parametrize(
    ("path", "content", "what"),
    [
        ("/a/b.json", GOOD, []),
        ("/a/b.yaml", json.dumps(GOOD).encode() + b"\n---\nother: 1\n", []),
        ("/a/b.yml", GOOD, ["the name of a CDI spec ends in .json or .yaml"]),
        ("/a/b.yaml", b"", ["failed to parse CDI Spec, no Spec data"]),
        ("/a/b.json", b"{", ["failed to parse CDI Spec: the text is not valid YAML"]),
        ("/a/b.json", b"[" * 100_000, ["failed to parse CDI Spec: the text is not valid YAML"]),
        ("/a/b.json", {**GOOD, "devices": []}, ["invalid spec, no devices"]),
        ("/a/b.json", b"[]", ["no object"]),
    ],
    ids=[
        "a good one",
        "of two documents the first",
        "an ending that runtimes overlook",
        "nothing in it",
        "broken",
        "deep",
        "no devices",
        "no object",
    ],
)
def test_a_file_by_itself(path: str, content: object, what: list[str]) -> None:
    assert said_of(file(path, content)) == {path: what}


def test_of_two_documents_the_second_is_told_with_its_place() -> None:
    (verdict,) = spec_verdicts(
        [file("/a/b.yaml", b"---\n" + json.dumps(GOOD).encode() + b"\n---\nkind: x\n")]
    )
    assert [(remark.what, remark.where) for remark in verdict.remarks] == [
        ("more than one document", "/a/b.yaml:4:1")
    ]


def test_specs_of_one_folder_clash_and_those_of_another_do_not() -> None:
    words = said_of(file("/etc/a.json"), file("/etc/b.json"), file("/run/a.json"), file("/etc/c.json", b"{"))
    twice = 'conflicting device "nvidia.com/gpu=0" (specs'
    assert {path: [what[: len(twice)] for what in told] for path, told in words.items()} == {
        "/etc/a.json": [twice],
        "/etc/b.json": [twice],
        "/run/a.json": [],
        "/etc/c.json": ["failed to parse CDI Spec: the text is not valid YAML"[: len(twice)]],
    }


def test_what_cannot_be_read_counts_as_such_only_if_it_was_named() -> None:
    gone = Problem("no such file", "/a/b.json")
    named, found = (SpecFile("/a/b.json", "/a", problems=(gone,), named=named) for named in (True, False))
    assert [verdict.unreadable for verdict in spec_verdicts([named, found])] == [True, False]
    (crowd,) = spec_verdicts([SpecFile("/a", "/a", left_out=7)])
    assert crowd.problems[0].why.startswith("7 of them")


def test_a_large_file_is_told_without_lines_when_they_cannot_be_told() -> None:
    large = {**GOOD, "cdiVersion": "7", "annotations": {"a": "x" * (5 << 20)}}
    (verdict,) = spec_verdicts([file("/a/b.json", large)])
    assert [problem.where for problem in verdict.problems] == ["/a/b.json cdiVersion"]


@pytest.mark.parametrize(
    ("version", "why"),
    [
        ("0.5.0", []),
        ("0.6.0", ["podman 4.3.1 refuses 0.6.0; 0.5.0 suffices"]),
        ("1.0.0", ["podman 4.3.1 and containerd 1.7.24 refuse 1.0.0; 0.5.0 suffices"]),
        ("9.9.9", []),
    ],
)
def test_a_version_that_is_not_needed_is_told_where_runtimes_refuse_it(version: str, why: list[str]) -> None:
    (verdict,) = spec_verdicts([file("/a/b.json", GOOD | {"cdiVersion": version})])
    assert [remark.why for remark in verdict.remarks] == why


def test_a_version_that_is_needed_is_not_blamed() -> None:
    needed = GOOD | {"cdiVersion": "0.7.0", "containerEdits": {"additionalGids": [5]}}
    assert [verdict.remarks for verdict in spec_verdicts([file("/a/b.json", needed)])] == [()]


def test_a_link_out_of_the_folders_is_told_whatever_it_leads_to() -> None:
    for content in (GOOD, b"", b"{", {"x": 1}):
        (verdict,) = spec_verdicts([file("/a/b.json", content, leads_to="/etc/shadow")])
        assert [remark.why for remark in verdict.remarks] == ["it leads to /etc/shadow"]
