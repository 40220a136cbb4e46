"""Lint beside a snapshot or a cluster: what is there, and what was not looked at."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from tonnage.adapters.kubernetes.existence import is_there
from tonnage.cli.main import run
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonValue

GOOD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: [{name: c, image: x}]\n"


def linted(*arguments: str) -> int:
    return run(["lint", *arguments], "tonnage")


def test_a_snapshot_answers_for_its_kinds_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A List of nodes and pods does not say which priority classes there are."""
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": 8}},
    }
    known = {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": "high"},
        "value": 1,
    }
    (tmp_path / "pod.yaml").write_text(GOOD.replace("spec:", "spec:\n  priorityClassName: hihg"))
    found = []
    for items in ([node], [node, known]):
        (tmp_path / "c.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        linted(str(tmp_path / "pod.yaml"), "--snapshot", str(tmp_path / "c.json"), "-o", "json")
        answer = json.loads(capsys.readouterr().out)
        found.append([one["code"] for one in answer["findings"] if one["code"] == "priority-class-unknown"])
    assert found == [[], ["priority-class-unknown"]]


HEADER = {
    "apiVersion": "tonnage.dev/v1alpha1", "kind": "Snapshot", "format": 1, "serverVersion": "v1.35.8",
    "takenAt": "2026-01-02T03:04:05Z", "redact": "values", "program": "tonnage 1",
    "kinds": ["v1/Node", "v1/Pod", "v1/PersistentVolumeClaim", "scheduling.k8s.io/v1/PriorityClass"],
}  # fmt: skip


NAMING = GOOD.replace(
    "spec:",
    "spec:\n  priorityClassName: hihg\n  serviceAccountName: robot\n"
    "  volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]",
)


@pytest.mark.parametrize(
    ("header", "codes"),
    [
        pytest.param({}, ["priority-class-unknown", "volume-claim-unknown"], id="of the kinds that it names"),
        pytest.param({"redact": "names"}, [], id="not where names are pseudonyms"),
        pytest.param({"namespace": "other"}, ["priority-class-unknown"], id="not of namespaces left out"),
    ],
)
def test_what_a_snapshot_did_not_look_at_is_not_missing(
    header: dict[str, str], codes: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    footer = {"apiVersion": "tonnage.dev/v1alpha1", "kind": "SnapshotEnd", "objects": {}}
    lines = [json.dumps(line) for line in ({**HEADER, **header}, footer)]
    (tmp_path / "c.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "pod.yaml").write_text(NAMING)
    linted(str(tmp_path / "pod.yaml"), "--snapshot", str(tmp_path / "c.jsonl"), "-o", "json")
    answer = json.loads(capsys.readouterr().out)
    assert [one["code"] for one in answer["findings"]] == codes


class Answering:
    """The part of a client that asks for what is named."""

    def __init__(self, answers: dict[str, JsonValue | int]) -> None:
        self.answers = answers

    async def get_raw(self, path: str) -> JsonValue:
        answer = self.answers.get(path, 404)
        if isinstance(answer, int):
            raise ApiError(answer, "Refused", "no")
        return answer


@pytest.mark.parametrize(
    ("name", "there"),
    [
        pytest.param(("ServiceAccount", "ml", "robot"), True, id="it is there"),
        pytest.param(("ServiceAccount", "ml", "other"), False, id="it is not"),
        pytest.param(("ConfigMap", "ml", "settings"), None, id="one may not ask"),
        pytest.param(("ConfigMap", "", "anywhere"), True, id="in some namespace"),
        pytest.param(("ConfigMap", "", "nowhere"), False, id="in none"),
        pytest.param(("PriorityClass", "", "../../secrets/x"), False, id="a name that is a path"),
    ],
)
def test_a_cluster_is_asked_for_what_is_named(name: tuple[str, str, str], there: bool | None) -> None:
    selected = "/api/v1/configmaps?limit=1&fieldSelector=metadata.name%3D"
    api = Answering(
        {
            "/api/v1/namespaces/ml/serviceaccounts/robot": {},
            "/api/v1/namespaces/ml/configmaps/settings": 403,
            f"{selected}anywhere": {"items": [{}]},
            f"{selected}nowhere": {"items": []},
            "/api/v1/secrets/x": {},
        }
    )
    assert asyncio.run(is_there(api, name, asyncio.Semaphore(1))) is there
