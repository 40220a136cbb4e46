"""Doctor on a genuine node: it agrees with kubelet, containerd and the agent, and says when that is gone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.helm import NAMESPACE
from support.installed_agent import AGENT, GPU, InstalledAgent, gpu_pod
from tonnage.cli.main import run

pytestmark = [pytest.mark.kubernetes, pytest.mark.node, pytest.mark.usefixtures("tidy")]

NOWHERE = {"spec": {"template": {"spec": {"nodeSelector": {"tonnage.dev/nowhere": "true"}}}}}


class Doctor:
    """Looks at the node through its first process; the GPUs are as the pretended driver has them."""

    def __init__(self, cluster: GenuineCluster, agent: InstalledAgent, folder: Path) -> None:
        devices = [{"uuid": uuid, "model": "A100-40"} for uuid in agent.uuids]
        (folder / "hardware.yaml").write_text(yaml.safe_dump({"devices": devices}))
        self._words = [
            *("doctor", "-o", "json", "--node-name", NODE_NAME, "--kubeconfig", str(cluster.kubeconfig)),
            *("--root", f"/proc/{cluster.node.pid('containerd')}/root"),
            *("--devices", f"scenario:{folder}/hardware.yaml"),
        ]

    def __call__(self, capsys: pytest.CaptureFixture[str]) -> Any:
        """What it says, and its exit status under `status`."""
        capsys.readouterr()
        status = run(self._words, "tonnage")
        return {**json.loads(capsys.readouterr().out), "status": status}


@pytest.fixture
def doctor(cluster: GenuineCluster, agent: InstalledAgent, tmp_path: Path) -> Doctor:
    return Doctor(cluster, agent, tmp_path)


def layer(report: Any, name: str) -> Any:
    return next(each for each in report["layers"] if each["layer"] == name)


def test_run_2_a_container_that_nothing_brought_its_gpu_into(
    cluster: GenuineCluster, doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    """A variable alone, on a node without NVIDIA's runtime."""
    cluster.apply(gpu_pod("busy"))
    cluster.kubectl("wait", "pod/busy", "--for=condition=Ready", "--timeout=180s")
    findings = doctor(capsys)["findings"]
    assert [(found["code"], found["layer"]) for found in findings] == [
        ("container-without-gpu", "workload")
    ], findings
    assert findings[0]["what"].startswith("default/busy (main) was given /dev/nvidia")


def test_a_node_in_order_is_healthy_with_a_container_that_has_a_gpu(
    cluster: GenuineCluster, agent: InstalledAgent, doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    assert agent.configure("version: v1\nflags: {plugin: {passDeviceSpecs: true}}\n") == ""
    cluster.apply(gpu_pod("busy"))
    cluster.kubectl("wait", "pod/busy", "--for=condition=Ready", "--timeout=180s")
    report = doctor(capsys)
    assert (report["findings"], report["status"]) == ([], 0)
    assert layer(report, "runtime")["summary"].startswith("containerd 2.2")
    assert layer(report, "kubelet")["summary"] == "registration open, 1 plugin socket"
    assert layer(report, "plugin")["summary"].startswith(f"agent runs, {GPU}: 2, config ")
    assert layer(report, "workload")["summary"] == "1 container with GPUs"


def test_kub_5_a_kubelet_that_was_restarted_finds_its_plugin_again(
    cluster: GenuineCluster, agent: InstalledAgent, doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster.node.restart("kubelet")
    until(lambda: bool(agent.status()) and doctor(capsys)["status"] == 0)
    until(lambda: cluster.allocatable(GPU) == len(agent.uuids))


def test_without_the_agent_it_says_that_no_plugin_runs(
    cluster: GenuineCluster, agent: InstalledAgent, doctor: Doctor, capsys: pytest.CaptureFixture[str]
) -> None:
    name = agent.pod()["metadata"]["name"]
    daemon_set = (f"daemonset/{AGENT}", "-n", NAMESPACE)
    cluster.kubectl("patch", *daemon_set, "-p", json.dumps(NOWHERE))
    try:
        cluster.kubectl("wait", f"pod/{name}", "-n", NAMESPACE, "--for=delete", "--timeout=180s")
        report = doctor(capsys)
    finally:
        cluster.kubectl("rollout", "undo", *daemon_set)
        cluster.kubectl("rollout", "status", *daemon_set, "--timeout=90s")
    assert (report["first"], report["status"]) == ("plugin", 1)
    assert report["findings"][0]["code"] == "agent-not-running"
    until(lambda: cluster.allocatable(GPU) == len(agent.uuids))


def test_in_the_agents_own_pod_it_says_what_it_cannot_see(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    """No API server is asked: what the agent's account asks for is held against its role elsewhere."""
    program = (
        "import os, sys; os.environ.pop('KUBERNETES_SERVICE_HOST')\n"
        "from tonnage.cli.main import run\n"
        "print('status', run(['doctor', '-o', 'json'], 'tonnage'), file=sys.stderr)"
    )
    name = agent.pod()["metadata"]["name"]
    report = json.loads(cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", program))
    assert [finding["code"] for finding in report["findings"]] == ["no-gpu-found"]
    assert layer(report, "plugin")["summary"].startswith(f"agent runs, {GPU}: 2, config ")
    assert "--root" in layer(report, "runtime")["because"]
