"""`explain -f` and `lint` refuse what the API server refuses, in its words, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.recorded_creations import Creation, creations
from tonnage.cli.explain.file import explain_files, read_together
from tonnage.cli.lint.lint_context import read_pod, shapes
from tonnage.cli.main import run
from tonnage.decide.kubernetes.api.creation import answer_to_create
from tonnage.diagnose.lint.lint import LintContext, LintReport, lint
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.layer import Layer
from tonnage.model.reasons.lint.manifests import FieldUnknown, ObjectUnreadable
from tonnage.model.reasons.pod.admission import ObjectRefused
from tonnage.model.severity import Severity
from tonnage.model.verdict import Explanation, Verdict

CREATIONS = creations()
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "c", "image": "x"}]},
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD["spec"]}
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "d"},
    "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
OF_SERVER = (ObjectRefused, ObjectUnreadable)


REFUSED = [one for one in CREATIONS if one.said and "strict decoding error" not in one.said]
"""But for those with fields that the kind has not, of which `explain` tells as it reads the file."""


def explained(file: Path, cluster: Snapshot, namespace: str, version: str) -> tuple[Explanation, ...]:
    return explain_files(read_together((str(file),), recursive=False), cluster, namespace, version)


def linted(text: str, namespace: str = "lab") -> LintReport:
    given = LintContext(shapes(), read_pod, namespace=namespace, server=answer_to_create)
    return lint([Sheet("f.yaml", text)], given)


def changed(obj: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(obj))
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    inner: Any = copy
    for step in steps:
        inner = inner[step]
    inner[last] = value
    return copy


@pytest.mark.sampled("recorded creations, linted")
@pytest.mark.parametrize("creation", CREATIONS, ids=str)
def test_lint_refuses_what_a_genuine_server_refuses_and_nothing_else(creation: Creation) -> None:
    found = linted(json.dumps(creation.body), creation.namespace).findings
    if creation.said:
        assert any(one.severity is Severity.ERROR for one in found)
    elif not any(
        isinstance(one.reason, FieldUnknown) for one in found
    ):  # the recorded requests are not strict
        assert not [one for one in found if isinstance(one.reason, OF_SERVER)]


@pytest.mark.sampled("recorded creations, explained")
@pytest.mark.parametrize("creation", REFUSED, ids=str)
def test_explain_refuses_in_the_words_of_a_genuine_server(creation: Creation, tmp_path: Path) -> None:
    file = tmp_path / "f.yaml"
    file.write_text(json.dumps(creation.body))
    found = explained(file, Snapshot(), creation.namespace, "")
    assert [one.verdict for one in found] == [Verdict.NEVER]
    assert found[0].layer is Layer.ADMISSION
    assert found[0].upstream_message == creation.said


CONTAINER = POD["spec"]["containers"][0]
MOUNTS = "spec.template.spec.containers.0.volumeMounts"
FAULTY = [
    ("a name with capitals", changed(POD, "metadata.name", "Train_1"), "metadata.name: Invalid value"),
    ("no name", changed(POD, "metadata", {}), "metadata.name: Required value: name or generateName is"),
    ("a namespace with dots", changed(POD, "metadata.namespace", "a.b"), "metadata.namespace: Invalid"),
    ("a label with blanks", changed(POD, "metadata.labels", {"a b": "c"}), "metadata.labels: Invalid value"),
    ("no image", changed(POD, "spec.containers", [{"name": "c"}]), "containers[0].image: Required value"),
    ("two containers of a name", changed(POD, "spec.containers", [CONTAINER] * 2), 'Duplicate value: "c"'),
    ("a policy that is none", changed(POD, "spec.restartPolicy", "Perhaps"), 'Unsupported value: "Perhaps"'),
    ("a text for a number", changed(POD, "spec.priority", "high"), "cannot unmarshal string into Go struct"),
    ("a list for a mapping", changed(POD, "spec", []), "cannot unmarshal array into Go"),
    ("a host's name with capitals", changed(POD, "spec.hostname", "A_"), "spec.hostname: Invalid value"),
    ("a template's labels", changed(DEPLOYMENT, "spec.template.metadata", {}), "`selector` does not match"),
    ("a mount of nothing", changed(DEPLOYMENT, MOUNTS, [{"name": "v", "mountPath": "/v"}]), 'Not found: "v"'),
]


@pytest.mark.parametrize(("manifest", "words"), [row[1:] for row in FAULTY], ids=[row[0] for row in FAULTY])
def test_a_faulty_manifest_is_refused_by_both(
    manifest: dict[str, Any], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(manifest))
    (tmp_path / "c.json").write_text(json.dumps(NODE))
    asked = ["explain", "-f", str(tmp_path / "f.yaml"), "--snapshot", str(tmp_path / "c.json"), "-o", "json"]
    assert run(asked, "tonnage") == 1
    explained = json.loads(capsys.readouterr().out)
    assert (explained["verdict"], explained["layer"]) == ("NEVER", "admission")
    assert words in explained["upstream_message"]
    assert run(["lint", str(tmp_path / "f.yaml")], "tonnage") == (1 if "image" not in words else 0)


def test_one_broken_object_does_not_hide_the_others(tmp_path: Path) -> None:
    broken, service = changed(POD, "spec.containers", "x"), {"apiVersion": "v1", "kind": "Service"}
    file = tmp_path / "f.yaml"
    file.write_text(
        yaml.safe_dump_all([broken, DEPLOYMENT, {**service, "metadata": {"name": "S"}, "spec": {}}])
    )
    found = explained(file, Snapshot(), "lab", "")
    assert [str(one.subject) for one in found] == ["Pod lab/p", "Service lab/S", "Deployment lab/d"]
    assert [one.upstream_message[:20] for one in found[:2]] == [
        'Pod in version "v1" ',
        'Service "S" is inval',
    ]
    assert "refuses" not in found[2].message


def test_an_object_of_the_whole_cluster_has_no_namespace(tmp_path: Path) -> None:
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(changed(NODE, "metadata.name", "N")))
    [found] = explained(tmp_path / "f.yaml", Snapshot(), "lab", "")
    assert str(found.subject) == "Node N"


NOT_JUDGED = {
    "a patch with its directive": changed(POD, "spec.containers", [{"name": "c", "$patch": "delete"}]),
    "a pod that is only outlined": changed(POD, "spec.containers", [{"name": "c"}]),
    "a workload without a pod": changed(DEPLOYMENT, "spec", {"replicas": 3}),
    "a name that is filled in later": changed(POD, "metadata.name", "${NAME}"),
    "a number that is filled in later": changed(DEPLOYMENT, "spec.replicas", "${REPLICAS}"),
    "a kind of somebody else": {"apiVersion": "a.b/v1", "kind": "C", "metadata": {"name": "a"}, "spec": 5},
    "a program's configuration": {"apiVersion": "a.b/v1", "kind": "C", "metadata": {"labels": {"a": "x y"}}},
}


@pytest.mark.parametrize("manifest", NOT_JUDGED.values(), ids=NOT_JUDGED)
def test_lint_says_nothing_of_what_is_no_whole_object(manifest: dict[str, Any]) -> None:
    assert linted(json.dumps(manifest)).findings == ()


def test_lint_says_each_thing_once_and_by_the_rule_that_helps_more() -> None:
    limits = {"limits": {"nvidia.com/gpu": 0.5}}
    pod = changed(POD, "spec.containers", [{"name": "c", "image": "x", "resources": limits}] * 2)
    codes = [one.code for one in linted(yaml.safe_dump(changed(pod, "metadata.name", "P"))).findings]
    assert sorted(codes) == [
        "object-refused",
        "pod-field-invalid",
        "resource-not-integer",
        "resource-not-integer",
    ]


def test_a_warning_of_the_server_stands_at_its_line() -> None:
    pod = changed(POD, "spec.nodeSelector", {"beta.kubernetes.io/os": "linux"})
    [found] = linted(yaml.safe_dump(pod)).findings
    assert (found.code, found.severity) == ("api-warning", Severity.WARNING)
    assert yaml.safe_dump(pod).splitlines()[found.place.line - 1].strip() == "beta.kubernetes.io/os: linux"
    assert found.reason.message.endswith('deprecated since v1.14; use "kubernetes.io/os" instead')


def test_an_image_without_the_rules_says_so_and_judges_by_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tonnage.decide.kubernetes.api.creation", None)
    (tmp_path / "f.yaml").write_text(yaml.safe_dump(changed(POD, "metadata.namespace", "a.b")))
    (tmp_path / "c.json").write_text(json.dumps(NODE))
    file, cluster = str(tmp_path / "f.yaml"), str(tmp_path / "c.json")
    assert run(["lint", file], "tonnage") == 0
    assert run(["explain", "-f", file, "--snapshot", cluster, "-o", "json"], "tonnage") == 1
    said = capsys.readouterr()
    assert '"layer": "admission"' not in said.out
    assert said.err.count("not checked against the API server's own rules") == 2


@pytest.mark.parametrize(
    ("body", "unknown", "later"),
    [
        (
            {**DEPLOYMENT, "spec": {"template": TEMPLATE, "replica": 2, "minReadySeconds": -1}},
            "spec.replica",
            ["spec.minReadySeconds"],
        ),
        (
            {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": {"typ": "x"}},
            "spec.typ",
            ["spec.ports"],
        ),
    ],
    ids=["a Deployment", "a Service"],
)
def test_an_unknown_field_does_not_hide_what_else_the_server_refuses(
    body: dict[str, Any], unknown: str, later: list[str]
) -> None:
    answer = answer_to_create(body, "lab")
    assert answer is not None
    assert f'unknown field "{unknown}"' in answer.message
    assert not answer.faults
    assert set(later) <= {fault.field for fault in answer.later}
    report = linted(yaml.safe_dump(body))
    refused = [f.reason.field for f in report.findings if isinstance(f.reason, ObjectRefused)]
    assert {fault.field for fault in answer.later} <= set(refused)
