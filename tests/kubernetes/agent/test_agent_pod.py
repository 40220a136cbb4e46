"""The agent as the pod that the chart makes: least privileged, registered at a real kubelet, in accord."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.helm import NAMESPACE
from support.installed_agent import GPU, InstalledAgent, gpu_pod
from tonnage.wire.kubelet.methods import POD_RESOURCES_LIST

pytestmark = [pytest.mark.kubernetes, pytest.mark.node, pytest.mark.usefixtures("tidy")]

SHARED = f"{GPU}.shared"


def shared(replicas: int, *, renamed: bool = True, single: bool = True) -> str:
    """A configuration in which every GPU is shared."""
    block = {
        "renameByDefault": renamed,
        "failRequestsGreaterThanOne": single,
        "resources": [{"name": GPU, "replicas": replicas}],
    }
    return json.dumps({"version": "v1", "sharing": {"timeSlicing": block}})


def kubelet_says(cluster: GenuineCluster) -> dict[tuple[str, str], set[str]]:
    """The ids that each (namespace, pod) has, by kubelet's pod resources API."""
    method = POD_RESOURCES_LIST
    socket = cluster.node.root.at("/var/lib/kubelet/pod-resources/kubelet.sock")
    with grpc.insecure_channel(f"unix:{socket}", (("grpc.default_authority", "localhost"),)) as channel:
        ask = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        listed = ask(method.request(), timeout=30)
    held: dict[tuple[str, str], set[str]] = {}
    for pod in listed.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                held.setdefault((pod.namespace, pod.name), set()).update(devices.device_ids)
    return held


def kubelet_remembers(cluster: GenuineCluster) -> list[dict[str, Any]]:
    """The entries of kubelet's checkpoint."""
    file = cluster.node.root.at("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint")
    return json.loads(file.read_text())["Data"]["PodDeviceEntries"] or []


def started(cluster: GenuineCluster, *names: str) -> None:
    for name in names:
        cluster.kubectl("wait", f"pod/{name}", "--for=condition=Ready", "--timeout=180s")


def test_it_registers_publishes_and_is_ready(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    status = cluster.get("node", NODE_NAME)["status"]
    assert (status["capacity"][GPU], status["allocatable"][GPU]) == ("2", "2")
    published = agent.status()
    assert [device["uuid"] for device in published["devices"]] == list(agent.uuids)
    assert {device["health"] for device in published["devices"]} == {"Healthy"}
    assert published["driverVersion"] == agent.driver.state.driver_version
    (container,) = agent.pod()["status"]["containerStatuses"]
    assert (container["ready"], container["restartCount"]) == (True, 0)
    assert {line.split()[1] for line in agent.log().splitlines()} == {"INFO"}


def test_it_has_no_privilege_at_all(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    """As the kernel says, not the manifest."""
    name = agent.pod()["metadata"]["name"]
    look = "import os; print(open('/proc/1/status').read()); print(*os.listdir('/dev'))"
    said = cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", look)
    facts = dict(line.split(":\t", 1) for line in said.splitlines() if ":\t" in line)
    assert {facts[f"Cap{which}"] for which in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
    assert "nvidia" not in said.splitlines()[-1]
    write = ["python3", "-c", "open('/tmp/file', 'w')"]
    with pytest.raises(AssertionError, match="Read-only file system"):
        cluster.kubectl("exec", "-n", NAMESPACE, name, "--", *write)


def test_all_accounts_agree_on_who_has_what(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    cluster.apply(gpu_pod("one"), gpu_pod("other"), gpu_pod("none", 0))
    started(cluster, "one", "other", "none")
    held = kubelet_says(cluster)
    assert set(held) == {("default", "one"), ("default", "other")}
    assert sorted(map(sorted, held.values())) == sorted([uuid] for uuid in agent.uuids)
    until(lambda: agent.holders() == held)
    (row,) = json.loads(cluster.tonnage("status", "-o", "json").stdout)["items"]
    assert {device["uuid"]: device["holders"] for device in row["devices"]} == {
        uuid: [f"{namespace}/{pod}"] for (namespace, pod), (uuid,) in held.items()
    }
    wide = cluster.tonnage("status", "-o", "wide")
    assert (wide.returncode, "default/one (1), default/other (1)" in wide.stdout) == (0, True), wide.stderr
    explained = cluster.tonnage("explain", "pod", "one")
    assert explained.returncode == 0
    assert next(iter(held["default", "one"])) in explained.stdout

    cluster.kubectl("delete", "pod", "one")
    until(
        lambda: agent.holders() == kubelet_says(cluster) == {("default", "other"): held["default", "other"]}
    )
    cluster.apply(gpu_pod("next"))
    started(cluster, "next")
    living = {cluster.get("pod", pod)["metadata"]["uid"] for pod in ("other", "next")}
    assert {entry["PodUID"] for entry in kubelet_remembers(cluster)} == living
    ledger = cluster.node.root.at("/var/lib/tonnage/allocations")
    until(lambda: all(f'"{uuid}","seen":true' in "".join(ledger.read_text().split()) for uuid in agent.uuids))
    cluster.kubectl("delete", "pod", "other", "next", "none")
    until(lambda: ledger.read_text().endswith("\n[]"))


def test_sharing_is_switched_without_a_restart(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    """SHR-2, SHR-3: what holds a GPU goes on holding it, and the agent's process goes on."""
    before = agent.pod()["metadata"]["uid"]
    cluster.apply(gpu_pod("whole"))
    started(cluster, "whole")
    (held,) = kubelet_says(cluster)["default", "whole"]
    assert agent.configure(shared(4)) == ""
    until(lambda: cluster.allocatable(SHARED) == 4 and cluster.allocatable(GPU) == 0)
    cluster.apply(*(gpu_pod(f"slice-{number}", resource=SHARED) for number in range(4)))
    started(cluster, *(f"slice-{number}" for number in range(4)))
    (free,) = {*agent.uuids} - {held}
    for number in range(4):
        assert cluster.inside(f"slice-{number}", "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES") == f"{free}\n"
    cluster.kubectl("delete", "pod", "whole")
    until(lambda: cluster.allocatable(SHARED) == 8)
    assert agent.configure(shared(8)) == ""
    until(lambda: cluster.allocatable(SHARED) == 16)
    refused = agent.configure(shared(1))
    assert "number of replicas must be >= 2, found 1" in refused
    assert cluster.allocatable(SHARED) == 16
    after = agent.pod()
    assert (after["metadata"]["uid"], after["status"]["containerStatuses"][0]["restartCount"]) == (before, 0)


def test_two_replicas_where_one_is_the_limit_fail_with_the_plugins_words(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    """KUB-4."""
    assert agent.configure(shared(4)) == ""
    until(lambda: cluster.allocatable(SHARED) == 8)
    cluster.apply(gpu_pod("greedy", 2, resource=SHARED))
    until(lambda: cluster.phase("greedy") == "Failed")
    status = cluster.get("pod", "greedy")["status"]
    assert status["reason"] == "UnexpectedAdmissionError"
    assert status["message"] == (
        "Pod was rejected: Allocate failed due to rpc error: code = Unknown desc = invalid allocation request"
        f' for "{SHARED}": invalid request: maximum request size for shared resources is 1; found 2,'
        " which is unexpected"
    )
    explained = cluster.tonnage("explain", "pod", "greedy", "-o", "json")
    verdict = json.loads(explained.stdout)
    assert (explained.returncode, verdict["verdict"], verdict["layer"]) == (1, "NEVER", "plugin")
    cluster.apply(gpu_pod("modest", resource=SHARED))
    started(cluster, "modest")


def test_a_lost_gpu_leaves_allocatable_and_its_pod_goes_on(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    """KUB-2. The scheduler counts the pod on the lost GPU against what is left, until the pod ends."""
    cluster.apply(gpu_pod("one"))
    started(cluster, "one")
    (held,) = kubelet_says(cluster)["default", "one"]
    slot = agent.uuids.index(held)
    try:
        agent.driver.lose(slot)
        until(lambda: cluster.allocatable(GPU) == 1)
        assert cluster.get("node", NODE_NAME)["status"]["capacity"][GPU] == "2"
        assert cluster.tonnage("status").returncode == 1
        cluster.apply(gpu_pod("other"))
        until(lambda: "Insufficient nvidia.com/gpu" in cluster.kubectl("describe", "pod", "other"))
        explained = cluster.tonnage("explain", "pod", "other")
        assert (explained.returncode, "wait for one on node to end" in explained.stdout) == (1, True)
        assert cluster.phase("one") == "Running"
        cluster.kubectl("delete", "pod", "one")
        started(cluster, "other")
        assert kubelet_says(cluster)["default", "other"] == {*agent.uuids} - {held}
    finally:
        agent.driver.recover(slot)
    until(lambda: cluster.allocatable(GPU) == 2)
