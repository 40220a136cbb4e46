"""MPS under a real kubelet: the chart's pod with what MPS takes, real mounts, a pretended control program."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.helm import NAMESPACE
from support.installed_agent import AGENT, GPU, InstalledAgent, gpu_pod, installed_agent
from support.nvml.changes import compute_modes
from tonnage.twin import mps_control

pytestmark = [pytest.mark.kubernetes, pytest.mark.node, pytest.mark.usefixtures("tidy")]

SHARED = "nvidia.com/gpu.shared"
ROOT = "/run/nvidia/mps"
PROGRAMS = "/opt/mps"
"""On the node; the NVIDIA runtime would put the driver's program into the agent's container."""
CHANGES = "/var/lib/tonnage/nvml"
FOUR = json.dumps(
    {
        "version": "v1",
        "sharing": {
            "mps": {"renameByDefault": True, "resources": [{"name": "gpu", "replicas": 4, "devices": ["0"]}]}
        },
    }
)
_SCRIPT = """\
#!/usr/bin/python3 -IS
import runpy, sys
program = sys.argv[0].rpartition("/")[0] + "/mps_control.py"
sys.argv = [program, program + ".fault", *sys.argv[1:]]
runpy.run_path(program, run_name="__main__")
"""


@pytest.fixture(scope="module")
def agent(cluster: GenuineCluster, agent_version: str) -> Iterator[InstalledAgent]:
    """With two GPUs, and a control program where its container looks for one."""
    folder = cluster.node.root.at(PROGRAMS)
    folder.mkdir(parents=True)
    shutil.copy(mps_control.__file__, folder / "mps_control.py")
    program = folder / mps_control.NAME
    program.write_text(_SCRIPT)
    program.chmod(0o755)
    with installed_agent(cluster, agent_version, values={"mps": {"root": ROOT}}) as agent:
        # The driver's folder is read-only in the agent's container: what the library changes goes elsewhere.
        agent.driver.file.with_name(f"{agent.driver.file.name}.mig").symlink_to(f"{CHANGES}.mig")
        before = agent.pod()["metadata"]["uid"]
        cluster.kubectl("patch", "daemonset", AGENT, "-n", NAMESPACE, "-p", json.dumps(_with_program()))
        until(lambda: _replaced(agent, before))
        yield agent
    shutil.rmtree(folder)


def _with_program() -> Any:
    mount = {"name": "programs", "mountPath": "/usr/local/nvidia/bin", "readOnly": True}
    volume = {"name": "programs", "hostPath": {"path": PROGRAMS}}
    return {
        "spec": {
            "template": {
                "spec": {"containers": [{"name": "agent", "volumeMounts": [mount]}], "volumes": [volume]}
            }
        }
    }


def _replaced(agent: InstalledAgent, before: str) -> bool:
    """Whether another pod of the agent is there, and ready."""
    try:
        pod = agent.pod()
    except ValueError:
        return False
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
    return pod["metadata"]["uid"] != before and conditions.get("Ready") == "True"


def daemon(agent: InstalledAgent) -> Any:
    """What the status says of it."""
    found = {each["name"]: each for each in agent.status()["resources"]}
    return found.get(SHARED, {}).get("mps", {})


def modes(agent: InstalledAgent) -> list[int]:
    return compute_modes(agent.cluster.node.root.at(CHANGES), 2)


def pid(cluster: GenuineCluster) -> str:
    """Of the daemon, as the node counts."""
    file = Path(f"/proc/{cluster.node.pid('kubelet')}/root{ROOT}", SHARED, "pipe", f"{mps_control.NAME}.pid")
    return file.read_text().strip()


def conditions(cluster: GenuineCluster) -> list[str]:
    """What the node's condition of MPS says."""
    given = cluster.get("node", NODE_NAME)["status"]["conditions"]
    return [each["status"] for each in given if each["type"] == "MPSReady"]


def listens(cluster: GenuineCluster, pod: str) -> bool:
    """Whether a container that has run all the time sees a daemon's socket."""
    seen = "test -S $CUDA_MPS_PIPE_DIRECTORY/control && echo yes || echo no"
    return cluster.inside(pod, "sh", "-c", seen).strip() == "yes"


def test_shr_4_clients_share_a_daemon_and_memory_that_outlast_its_death(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    assert agent.configure(FOUR) == ""
    try:
        until(lambda: [cluster.allocatable(name) for name in (GPU, SHARED)] == [1, 4])
    except AssertionError as error:
        error.add_note(f"{daemon(agent)}\n{agent.log(check=False)}")
        raise
    assert modes(agent) == [3, 0]
    cluster.apply(gpu_pod("one", resource=SHARED), gpu_pod("other", resource=SHARED))
    for pod in ("one", "other"):
        cluster.kubectl("wait", f"pod/{pod}", "--for=condition=Ready", "--timeout=180s")
        assert listens(cluster, pod)
        assert (
            cluster.inside(pod, "sh", "-c", "echo $CUDA_MPS_PIPE_DIRECTORY").strip() == f"/mps/{SHARED}/pipe"
        )
    cluster.inside("one", "sh", "-c", "echo hello > /dev/shm/mps.shm")
    assert cluster.inside("other", "cat", "/dev/shm/mps.shm").strip() == "hello"
    assert cluster.inside("other", "stat", "-f", "-c", "%T", "/dev/shm").strip() == "tmpfs"
    assert cluster.inside("other", "stat", "-c", "%a", "/dev/shm").strip() == "1777"

    first = pid(cluster)
    cluster.node.run("kill", "-9", first)
    until(lambda: bool(daemon(agent).get("restarts")) and daemon(agent)["ready"] and pid(cluster) != first)
    assert listens(cluster, "one"), "the folder is the one that it has mounted"

    uid = agent.pod()["metadata"]["uid"]
    cluster.kubectl("delete", "pod", "-n", NAMESPACE, agent.pod()["metadata"]["name"])
    until(lambda: _replaced(agent, uid))
    until(lambda: daemon(agent).get("ready") is True and cluster.allocatable(SHARED) == 4)
    assert listens(cluster, "one")
    assert cluster.inside("other", "cat", "/dev/shm/mps.shm").strip() == "hello", "mounted once"
    assert modes(agent) == [3, 0]
    until(lambda: conditions(cluster) == ["True"])

    assert agent.configure() == ""
    until(lambda: cluster.allocatable(GPU) == 1)
    assert listens(cluster, "one"), "a client keeps its daemon whatever is configured"
    cluster.kubectl("delete", "pods", "one", "other", "--now")
    until(lambda: cluster.allocatable(GPU) == 2 and modes(agent) == [0, 0])
