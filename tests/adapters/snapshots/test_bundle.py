"""The bundle of a bug report: what is in it, what never is, and what is named where it could not be read."""

from __future__ import annotations

import io
import json
import tarfile
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from tonnage.adapters.kubernetes.http import HttpKubernetes
from tonnage.adapters.snapshots import bundle
from tonnage.adapters.snapshots.bundle import BundleOrder, gather, without_secrets
from tonnage.adapters.snapshots.redact import Level, Redactor
from tonnage.model.errors import ApiError
from tonnage.ports.kubernetes import Listing
from tonnage.wire.objects import Pod

SECRET = "hunter2-and-more"
CUSTOMER = "acme"
POLICY = {
    "metadata": {"name": "cluster-policy", "annotations": {"note": SECRET}},
    "spec": {
        "driver": {
            "enabled": True, "version": "550.1", "repository": f"me:{SECRET}@registry.{CUSTOMER}.example.com",
            "env": [{"name": "PROXY", "value": SECRET}], "args": [SECRET],
        },
        "devicePlugin": {"config": {"name": f"{CUSTOMER}-sharing", "default": "any"}},
        "toolkit": {"installDir": f"/opt/{CUSTOMER}"},
        "daemonsets": {"labels": {f"{CUSTOMER}.example.com/team": CUSTOMER}},
    },
    "status": {
        "state": "notReady",
        "conditions": [{"type": "Ready", "status": "False", "message": f"waits for node {CUSTOMER}-gpu-1"}],
    },
}  # fmt: skip
STATUS = {"name": "c", "ready": False, "restartCount": 2}
POD = {
    "metadata": {"name": f"{CUSTOMER}-driver", "namespace": "gpu-operator"},
    "spec": {"containers": [{"name": "c", "command": [SECRET], "env": [{"name": "A", "value": SECRET}]}]},
    "status": {"phase": "Running", "containerStatuses": [STATUS]},
}
LOG = f"""token={SECRET}
Authorization: Bearer {SECRET}
{{"password": "{SECRET}"}}
pull https://me:{SECRET}@registry.example.com/v2/
-----BEGIN PRIVATE KEY-----
{SECRET}
-----END PRIVATE KEY-----
Xid 79 on GPU-1
"""
EVENT = {
    "metadata": {"name": "e", "namespace": "gpu-operator"},
    "reason": "Failed",
    "message": f"pod {CUSTOMER}-driver failed",
    "involvedObject": {"kind": "Pod", "name": f"{CUSTOMER}-driver"},
}
OBJECTS: dict[str, list[Any]] = {"clusterpolicies": [POLICY], "pods": [POD], "events": [EVENT]}


class _Api:
    """A server with few objects, of which some may not be read."""

    server_ahead_s = 0.0

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.pods: list[Any] = [POD]
        self.log = LOG
        self.asked: list[str] = []

    async def get_raw(self, path: str) -> object:
        plural = path.partition("?")[0].rpartition("/")[2]
        if plural in self.refused:
            raise ApiError(403, "Forbidden", f"{plural} is forbidden")
        return {"metadata": {}, "items": OBJECTS.get(plural, []), "gitVersion": "v1.35.8"}

    async def list(self, _kind: object, **options: str) -> Listing[Pod]:
        if "pods" in self.refused:
            raise ApiError(403, "Forbidden", "pods is forbidden")
        own = self.pods if options["namespace"] == "gpu-operator" else []
        return Listing([msgspec.convert(pod, Pod) for pod in own], "1")

    async def get_text(self, path: str, _most_bytes: int) -> str:
        self.asked.append(path)
        if "pods/log" in self.refused:
            raise ApiError(403, "Forbidden", "pods/log is forbidden")
        return self.log


async def gathered(api: _Api, level: Level = Level.VALUES) -> dict[str, str]:
    """The texts of the archive by their paths."""
    order = BundleOrder(
        level, datetime(2026, 1, 2, tzinfo=UTC), "tonnage 1", "gpu-operator", "tonnage-system"
    )
    archive = io.BytesIO()
    redactor = Redactor(level, b"key")
    await gather(cast(HttpKubernetes, api), order, redactor, archive, lambda *_: None)
    archive.seek(0)
    with tarfile.open(fileobj=archive) as tar:
        return {
            member.name: content.read().decode()
            for member in tar.getmembers()
            if (content := tar.extractfile(member)) is not None
        }


async def test_it_holds_objects_events_and_logs_with_an_index() -> None:
    files = await gathered(_Api())
    index = json.loads(files["index.json"])
    assert {file["path"]: file["bytes"] for file in index["files"]} == {
        path: len(text.encode()) for path, text in files.items() if path != "index.json"
    }
    assert index["missing"] == []
    policy = next(
        json.loads(row) for row in files["cluster.jsonl"].splitlines() if "ClusterPolicy" in row[:70]
    )
    assert policy["spec"]["driver"]["version"] == "550.1"
    assert policy["spec"]["driver"]["env"] == [{"name": "PROXY"}]
    assert policy["status"]["conditions"][0]["message"] == f"waits for node {CUSTOMER}-gpu-1"
    assert f"pod {CUSTOMER}-driver failed" in files["operator-namespace.jsonl"]
    assert "Xid 79 on GPU-1" in files[f"logs/gpu-operator/{CUSTOMER}-driver/c.log"]
    assert f"logs/gpu-operator/{CUSTOMER}-driver/c.previous.log" in files, "it was restarted"


@pytest.mark.parametrize("level", Level)
async def test_no_secret_is_in_it(level: Level) -> None:
    files = await gathered(_Api(), level)
    assert not [path for path, text in files.items() if SECRET in text]


async def test_no_name_is_in_it_where_names_are_replaced() -> None:
    files = await gathered(_Api(), Level.NAMES)
    assert not [path for path, text in files.items() if CUSTOMER in path + text]
    assert "logs" in json.loads(files["index.json"])["leftOut"]


@pytest.mark.parametrize("refused", ["clusterpolicies", "nodes", "pods", "pods/log", "events"])
async def test_what_may_not_be_read_is_named_and_the_rest_gathered(refused: str) -> None:
    api = _Api()
    api.refused = {refused}
    files = await gathered(api)
    index = json.loads(files["index.json"])
    assert {absence["reason"] for absence in index["missing"]} == {"Forbidden"}
    assert {"cluster.jsonl", "operator-namespace.jsonl", "agents-namespace.jsonl"} <= set(files)


async def test_logs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "MOST_PODS", 2)
    api = _Api()
    ready = {"phase": "Running", "containerStatuses": [{"name": "c", "ready": True}]}
    api.pods = [
        {**POD, "metadata": {"name": f"p{number}", "namespace": "gpu-operator"}, "status": ready}
        for number in range(3)
    ]
    api.pods.append(POD)
    files = await gathered(api)
    folders = {path.split("/")[2] for path in files if path.startswith("logs/")}
    assert folders == {f"{CUSTOMER}-driver", "p0"}, "those that are not ready come first"
    assert json.loads(files["index.json"])["missing"][0]["subject"] == "logs of 2 pods"
    assert all("tailLines=500&limitBytes=262144" in path for path in api.asked)


async def test_a_name_that_no_server_gives_becomes_no_path() -> None:
    api = _Api()
    api.pods = [{**POD, "metadata": {"name": "../../etc", "namespace": "gpu-operator"}}]
    assert not [path for path in await gathered(api) if ".." in path]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f'msg="sent {{\\"password\\":\\"{SECRET}\\"}}"', id="JSON within JSON"),
        pytest.param(f'password="correct {SECRET} horse"', id="a value of several words"),
        pytest.param(f'"auths":{{"registry.example.com":{{"auth":"{SECRET}"}}}}', id="a pull secret"),
        pytest.param(f"privateKey: {SECRET}", id="a private key of one line"),
        pytest.param(f"{SECRET}\n-----END PRIVATE KEY-----\n", id="a private key whose beginning is cut off"),
        pytest.param(f"exec login --token {SECRET}", id="the value of a flag"),
    ],
)
def test_a_secret_of_a_log_is_taken_out(text: str) -> None:
    assert SECRET not in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "node gpu-1 is ready",
        "https://registry.example.com/v2/",
        "basic checks passed",
        "run with --token-ttl 5m",
    ],
)
def test_plain_words_stay(text: str) -> None:
    assert without_secrets(text).startswith(text[:12])
