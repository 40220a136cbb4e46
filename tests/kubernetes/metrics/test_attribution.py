"""Which pod a process is of, on a genuine node: the chart's exporter beside containers of a real runtime."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.genuine_cluster import GenuineCluster
from support.genuine_node import until
from support.helm import NAMESPACE
from support.installed_agent import GPU, InstalledAgent, gpu_pod, installed_agent
from support.nvml.state import FakeProcess, FakeUse

pytestmark = [pytest.mark.kubernetes, pytest.mark.node, pytest.mark.usefixtures("tidy")]

EXPORTER = "tonnage-exporter"
SHARED = f"{GPU}.shared"
FOUR = json.dumps(
    {
        "version": "v1",
        "sharing": {"timeSlicing": {"renameByDefault": True, "resources": [{"name": GPU, "replicas": 4}]}},
    }
)
VALUES = {
    "exporter": {"enabled": True, "processes": True, "interval": 1000, "kubernetesVirtualGPUs": True},
    "config": {"map": {}},
    "clusterMetrics": {"enabled": True, "interval": 5},
}


@pytest.fixture(scope="module")
def agent(cluster: GenuineCluster, agent_version: str) -> Iterator[InstalledAgent]:
    with installed_agent(cluster, agent_version, values=VALUES) as agent:
        yield agent


def exporter(cluster: GenuineCluster) -> Any:
    """Its pod, whole."""
    (pod,) = cluster.get("pods", "-n", NAMESPACE, "-l", f"app.kubernetes.io/name={EXPORTER}")["items"]
    return pod


def page(cluster: GenuineCluster) -> str:
    name = exporter(cluster)["metadata"]["name"]
    return cluster.kubectl("get", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:9400/proxy/metrics")


def by_pod(text: str, family: str) -> dict[str, tuple[float, str]]:
    """Values and how sure they are, by pod and container."""
    return {
        f"{sample.labels['pod']}/{sample.labels['container']}": (sample.value, sample.labels["attribution"])
        for metric in text_string_to_metric_families(text)
        for sample in metric.samples
        if sample.name == f"tonnage_pod_gpu_{family}"
    }


def first_process(cluster: GenuineCluster, pod: str, container: str) -> int:
    """The number that the runtime has for a container, as the node counts."""
    status = cluster.get("pod", pod)["status"]["containerStatuses"]
    (identity,) = (row["containerID"].partition("//")[2] for row in status if row["name"] == container)
    tasks = cluster.node.ctr("tasks", "ls").stdout.decode()
    (number,) = re.findall(rf"^{identity}\s+(\d+)\s", tasks, re.MULTILINE)
    return int(number)


def child_of(cluster: GenuineCluster, pid: int) -> int:
    """A process that the first one of a container has begun."""
    done = cluster.node.run("cat", f"/proc/{pid}/task/{pid}/children")
    return int(done.stdout.split()[0])


def test_shr_7_processes_in_real_containers_are_their_pods(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    """A first process, a child of another, one of two containers, an idle pod, and one of no pod."""
    assert agent.configure(FOUR) == ""
    until(lambda: cluster.allocatable(SHARED) == 8)
    cluster.apply(
        gpu_pod("one", resource=SHARED),
        gpu_pod("two", 1, 1, resource=SHARED),
        gpu_pod("idle", resource=SHARED),
        gpu_pod("last", 1, resource=SHARED),
    )
    for name in ("one", "two", "idle", "last"):
        cluster.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=180s")
    devices = {pod: by_pod_uuid(cluster, pod) for pod in ("one", "two", "idle", "last")}
    pids = {
        "one/main": first_process(cluster, "one", "main"),
        "two/main": child_of(cluster, first_process(cluster, "two", "main")),
        "two/main-1": first_process(cluster, "two", "main-1"),
    }
    slots = {uuid: slot for slot, uuid in enumerate(agent.uuids)}
    processes, uses = [], []
    for number, (who, pid) in enumerate(pids.items(), 1):
        pod, container = who.split("/")
        slot = slots[devices[pod][container]]
        processes.append(FakeProcess(slot, pid, 100 * number))
        uses.append(FakeUse(slot, pid, 10 * number, 1 << 60))
    kubelet = cluster.node.run("sh", "-c", "echo $PPID").stdout.split()[0]
    processes.append(FakeProcess(0, int(kubelet) or 1, 50))
    agent.driver.become(
        replace(
            agent.driver.state,
            gpus=tuple(
                replace(gpu, facts={"memory-used-mib": 4000, "gpu-utilization": 90})
                for gpu in agent.driver.state.gpus
            ),
            processes=tuple(processes),
            uses=tuple(uses),
        )
    )
    expected = {"one/main": 100.0, "two/main": 200.0, "two/main-1": 300.0, "idle/main": 0.0, "last/main": 0.0}
    alone = {who for who in expected if shares_with_nobody(who, devices)}

    def measured() -> dict[str, float]:
        return {
            who: value / (1 << 20)
            for who, (value, certainty) in by_pod(page(cluster), "memory_bytes").items()
            if certainty == "process"
        }

    shared = {who: value for who, value in expected.items() if who not in alone}
    assert len(shared) >= 4, devices
    until(lambda: measured() == shared)
    text = page(cluster)
    assert "attribution is even" not in text
    assert "DCGM_FI_DEV_FB_USED{" in text
    ratios = by_pod(text, "compute_ratio")
    assert sum(value for value, _ in ratios.values()) <= 2

    cluster.kubectl("delete", "pod", "one")
    until(lambda: "one/main" not in by_pod(page(cluster), "seconds_total"))


def by_pod_uuid(cluster: GenuineCluster, pod: str) -> dict[str, str]:
    """The GPU of each container."""
    names = [row["name"] for row in cluster.get("pod", pod)["spec"]["containers"]]
    look = ("sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES")
    return {name: cluster.inside(pod, *look, container=name).strip() for name in names}


def shares_with_nobody(who: str, devices: dict[str, dict[str, str]]) -> bool:
    pod, container = who.split("/")
    own = devices[pod][container]
    return [uuid for of_pod in devices.values() for uuid in of_pod.values()].count(own) == 1


def test_its_pod_sees_the_nodes_processes_and_has_no_capability(cluster: GenuineCluster) -> None:
    """As the kernel says, not the manifest."""
    name = exporter(cluster)["metadata"]["name"]
    look = "import os; print(open('/proc/self/status').read()); print(*os.listdir('/proc'))"
    said = cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", look)
    facts = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
    assert {facts[f"Cap{which}"] for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
    assert len(re.findall(r"\b\d+\b", said.splitlines()[-1])) > 5


def test_the_agents_pod_sees_its_own_processes_alone(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    name = agent.pod()["metadata"]["name"]
    look = "import os; print(*(pid for pid in os.listdir('/proc') if pid.isdecimal()))"
    said = cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", look)
    assert len(said.split()) <= 5


def test_top_reads_the_exporters_pods_through_the_api_server(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    """What a report has not: readings, and no age, since they are of now."""

    def shown() -> dict[str, Any]:
        done = cluster.tonnage("top", "--once", "-o", "json")
        assert done.returncode == 0, done.stderr
        return {row["reading"]["uuid"]: row for row in json.loads(done.stdout)["devices"]}

    until(lambda: all(row["age_s"] is None for row in shown().values()))
    rows = shown()
    assert rows.keys() == {*agent.uuids}
    assert all(row["reading"]["temperature_c"] for row in rows.values())


def test_the_metrics_of_the_cluster_are_served_by_a_pod_of_the_chart(cluster: GenuineCluster) -> None:
    """With the image's own files, and the rights of its account."""
    of_pod = "app.kubernetes.io/name=tonnage-cluster-metrics"

    def text() -> str:
        (pod,) = cluster.get("pods", "-n", NAMESPACE, "-l", of_pod)["items"]
        place = f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}:9411/proxy/metrics"
        return cluster.kubectl("get", "--raw", place)

    cluster.apply(gpu_pod("waits", 64))
    until(lambda: 'tonnage_cluster_pending_pods{code="resource-too-large",layer="scheduler"' in text())
    # One that starts before its network does fails to read and reads again; what it may not read, it says.
    log = cluster.kubectl("logs", "-n", NAMESPACE, "-l", of_pod, "--tail=-1")
    assert "forbidden" not in log, log
