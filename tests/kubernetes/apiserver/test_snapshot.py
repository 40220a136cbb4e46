"""A snapshot of a genuine control plane: the same answers as live, and honest where RBAC hides something."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tonnage.cli.locations.binaries import chosen_minor
from tonnage.cli.locations.kubectl import nearest_kubectl
from tonnage.cli.locations.state import StateFolder

pytestmark = pytest.mark.kubernetes

PATIENCE_S = 60.0
PODS = 1200
SMALL = "name: small\ngroups: [{name: t4, nodes: 1, gpu: {model: T4}}, {name: cpu, nodes: 1}]\n"
TOKEN = "s3cr3t-of-the-job"
WAITING = f"""\
apiVersion: v1
kind: Pod
metadata: {{name: train, annotations: {{note: {TOKEN}}}}}
spec:
  containers:
  - name: c
    image: busybox
    command: [run, --token={TOKEN}]
    env: [{{name: TOKEN, value: {TOKEN}}}]
    resources: {{limits: {{nvidia.com/gpu: 2}}}}
"""
RIGHTS = """\
apiVersion: v1
kind: ServiceAccount
metadata: {name: reader, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [nodes, pods], verbs: [list]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: reader, namespace: default}]
"""


class Cluster:
    """A genuine control plane with two pretended nodes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.state = folder, folder / "state"
        (folder / "run").mkdir()
        (folder / "small.yaml").write_text(SMALL)
        self.environment = {
            **os.environ,
            "TONNAGE_STATE": str(self.state),
            "XDG_RUNTIME_DIR": str(folder / "run"),
            "KUBECONFIG": str(self.state / "kubeconfig"),
        }

    def tonnage(self, *arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        more = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
        command = [sys.executable, "-m", "tonnage", *arguments, *more]
        return subprocess.run(
            command, capture_output=True, text=True, env=self.environment, check=False, timeout=600
        )

    def kubectl(self, *arguments: str, manifest: str = "") -> str:
        command = [str(nearest_kubectl(chosen_minor(os.environ))), *arguments]
        return subprocess.run(
            command,
            input=manifest,
            capture_output=True,
            text=True,
            env=self.environment,
            check=True,
            timeout=600,
        ).stdout

    def explained(self, *where: str) -> dict[str, Any]:
        answer = self.tonnage("explain", "pod", "train", "-o", "json", *where)
        found: dict[str, Any] = json.loads(answer.stdout)
        return found


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        found = Cluster(Path(folder))
        up = ("up", "--engine", "kubernetes", "--scenario", f"{folder}/small.yaml", "--detach")
        started = found.tonnage(*up)
        assert started.returncode == 0, started.stderr
        try:
            yield found
        finally:
            owner = StateFolder(found.state).owner()
            if found.tonnage("down").returncode and owner:
                with suppress(ProcessLookupError):
                    os.kill(owner, signal.SIGKILL)


def test_a_pending_pod_is_explained_out_of_the_file_as_it_is_live(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", manifest=WAITING)
    file = cluster.folder / "c.jsonl.gz"
    deadline = time.monotonic() + PATIENCE_S
    while True:
        before = cluster.explained()
        taken = cluster.tonnage("snapshot", "-o", str(file))
        assert (taken.returncode, TOKEN in taken.stdout) == (0, False), taken.stderr
        if before["upstream_message"] and before == cluster.explained():
            break
        assert time.monotonic() < deadline, before
    assert cluster.explained("--snapshot", str(file)) == before
    assert before["verdict"] == "NEVER"
    plain = cluster.tonnage("snapshot").stdout
    assert '"name":"train"' in plain
    assert TOKEN not in plain


def test_pseudonyms_change_no_answer(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", manifest=WAITING)

    def told(*where: str) -> tuple[Any, ...]:
        pending = json.loads(cluster.tonnage("explain", "--all-pending", "-o", "json", *where).stdout)
        rows = json.loads(cluster.tonnage("status", "-o", "json", *where).stdout)["items"]
        links = json.loads(cluster.tonnage("topo", "-o", "json", *where).stdout)
        causes = [(cause["code"], cause["verdict"], cause["pods"]) for cause in pending["causes"]]
        amounts = [(row["resource"], row["mode"], row["capacity"], row["allocated"]) for row in rows]
        return pending["pending"], causes, amounts, len(links["items"]), len(links["unknown"])

    plain, redacted = cluster.folder / "plain.jsonl.gz", cluster.folder / "redacted.jsonl.gz"
    deadline = time.monotonic() + PATIENCE_S
    while True:
        before = told()
        for file, level in ((plain, "values"), (redacted, "names")):
            taken = cluster.tonnage("snapshot", "--file", str(file), "--redact", level)
            assert taken.returncode == 0, taken.stderr
        if before[0] and before == told() == told("--snapshot", str(plain)):  # else it changed meanwhile
            break
        assert time.monotonic() < deadline, before
    assert told("--snapshot", str(redacted)) == told("--snapshot", str(plain))
    assert b"train" not in gzip.decompress(redacted.read_bytes())


def test_a_kind_that_rbac_hides_is_missing_and_the_answer_unknown(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", manifest=RIGHTS)
    token = cluster.kubectl("create", "token", "reader").strip()
    config = json.loads(cluster.kubectl("config", "view", "--raw", "-o", "json"))
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    own, file = cluster.folder / "own", cluster.folder / "own.jsonl"
    own.write_text(json.dumps(config))
    deadline = time.monotonic() + PATIENCE_S
    while (taken := cluster.tonnage("snapshot", "-o", str(file), kubeconfig=own)).returncode == 3:
        assert time.monotonic() < deadline, taken.stderr
    assert taken.returncode == 1, taken.stderr
    assert "resourcequotas" in taken.stderr
    assert "is forbidden" not in taken.stderr, "no refusal is printed as it came"
    header = json.loads(file.read_text().split("\n")[0])
    assert {"ResourceQuota", "Namespace"} <= {absence["kind"] for absence in header["missing"]}
    manifest = cluster.folder / "one.yaml"
    manifest.write_text(WAITING.replace("nvidia.com/gpu: 2", "cpu: 100m"))
    answer = cluster.tonnage("explain", "-f", str(manifest), "--snapshot", str(file), "-o", "json")
    found = json.loads(answer.stdout)
    assert found["verdict"] == "UNKNOWN"
    assert "ResourceQuota" in [reason["facts"].get("kind") for reason in found["reasons"]]


def test_more_pods_than_a_page_come_as_one_consistent_list(cluster: Cluster) -> None:
    one = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "default"},
        "spec": {"schedulerName": "nobody", "containers": [{"name": "c", "image": "busybox"}]},
    }
    items = [{**one, "metadata": {"name": f"many-{n}", "namespace": "default"}} for n in range(PODS)]
    cluster.kubectl(
        "create", "-f", "-", manifest=json.dumps({"kind": "List", "apiVersion": "v1", "items": items})
    )
    plain = cluster.tonnage("snapshot").stdout.splitlines()
    footer = json.loads(plain[-1])
    assert footer["objects"]["Pod"]["consistent"] is True
    assert footer["objects"]["Pod"]["objects"] >= PODS
    assert len([line for line in plain if '"name":"many-' in line]) == PODS
