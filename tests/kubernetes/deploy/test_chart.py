"""The chart on a genuine cluster: a release's life with both Helms, and what its privileges really are."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts.find_helm import MAJORS, Major
from scripts.render_chart import BASE
from support.audit import AuditLog
from support.driver_root import Driver
from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.helm import CHART, IMAGE, NAMESPACE, RELEASE, Helm
from support.installed_agent import (
    ACCOUNT,
    AGENT,
    DRIVER_ROOT,
    GPU,
    TWO_GPUS,
    InstalledAgent,
    installed_agent,
)
from support.rights import granted, needed
from tonnage.adapters.kubernetes.client import connect
from tonnage.documents.node.gpu_status import GROUP, PLURAL
from tonnage.model.catalog.nvidia_kinds import DEFINITIONS
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import NODE_GPU_STATUS

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

CRD = f"{PLURAL}.{GROUP}"
INSTALL_PAGE = CHART.parents[2] / "docs" / "how-to" / "install.md"
KEPT = {"crds": {"keep": True}}


@pytest.fixture(scope="module", autouse=True)
def _no_definition_is_left(cluster: GenuineCluster) -> Iterator[None]:
    """Releases here find the definition that the one before kept; afterwards it goes."""
    yield
    nvidias = [f"{plural}.nvidia.com" for plural in DEFINITIONS]
    cluster.kubectl("delete", "crd", CRD, *nvidias, "--ignore-not-found")


def image_of(agent: InstalledAgent) -> str:
    return str(agent.pod()["spec"]["containers"][0]["image"]).rpartition(":")[2]


@pytest.mark.parametrize("helm", MAJORS, ids=["helm 3", "helm 4"])
def test_install_upgrade_rollback_uninstall(
    cluster: GenuineCluster, agent_version: str, next_version: str, helm: Major
) -> None:
    with installed_agent(cluster, agent_version, helm=helm, values=KEPT) as agent:
        until(lambda: agent.status().get("healthyCount") == 2)
        agent.upgrade(next_version, KEPT)
        assert image_of(agent) == next_version
        until(lambda: cluster.allocatable(GPU) == 2)
        agent.rollback()
        assert image_of(agent) == agent_version
        until(lambda: cluster.allocatable(GPU) == 2)
        history = json.loads(agent.helm.run("history", RELEASE, "--namespace", NAMESPACE, "--output", "json"))
        assert [entry["status"] for entry in history] == ["superseded", "superseded", "deployed"]
    ours = ("-A", "-l", "app.kubernetes.io/part-of=tonnage")
    for kind in ("daemonset", "clusterrole", "role", "rolebinding", "validatingadmissionpolicy"):
        assert cluster.get(kind, *ours) == {}
    until(lambda: cluster.allocatable(GPU) == 0)
    node = cluster.get("node", NODE_NAME)["metadata"]
    assert not [key for key in (*node["labels"], *node["annotations"]) if key.startswith("tonnage.dev/")]
    assert "finalizers" not in node
    report = cluster.get("nodegpustatus", NODE_NAME)
    assert report["status"]["deviceCount"] == 2, "reports outlive the release"


def test_helm_4_takes_over_a_release_of_helm_3(
    cluster: GenuineCluster, agent_version: str, next_version: str, tmp_path: Path
) -> None:
    with installed_agent(cluster, agent_version, helm=3, values=KEPT) as agent:
        newer = InstalledAgent(cluster, Helm(4, tmp_path, cluster.kubeconfig), agent.driver)
        newer.upgrade(next_version, KEPT)
        assert image_of(newer) == next_version


def test_the_report_says_which_kubelet_and_runtime_the_node_has(
    cluster: GenuineCluster, agent_version: str
) -> None:
    values = {**KEPT, "kubeletConfig": "/etc/kubernetes/kubelet.json"}
    with installed_agent(cluster, agent_version, values=values) as agent:
        until(lambda: agent.status().get("kubelet", {}).get("sources") == ["/var/lib/kubelet/config.yaml"])
        until(lambda: agent.status()["runtime"]["name"] == "containerd")
        runtime, kubelet = agent.status()["runtime"], agent.status()["kubelet"]
    info = cluster.get("node", NODE_NAME)["status"]["nodeInfo"]
    assert runtime["version"] == info["containerRuntimeVersion"].removeprefix("containerd://").removeprefix(
        "v"
    )
    assert kubelet["version"] == info["kubeletVersion"].removeprefix("v")
    assert (runtime["cdi"], "by default" in runtime["cdiReason"]) == ("unknown", True)
    for field, manager in (("cpuManagerPolicy", "cpu"), ("memoryManagerPolicy", "memory")):
        noted = cluster.node.root.at(f"/var/lib/kubelet/{manager}_manager_state").read_text()
        assert kubelet[field] == json.loads(noted)["policyName"]
    assert (kubelet["topologyManagerPolicy"], kubelet["reason"]) == ("none", "")


def test_an_upgrade_brings_the_definition_along(
    cluster: GenuineCluster, agent: InstalledAgent, agent_version: str, tmp_path: Path
) -> None:
    older = tmp_path / "older"
    shutil.copytree(CHART, older)
    file = older / "files" / "crds" / f"{CRD}.yaml"
    file.write_text(file.read_text().replace("- ngs\n", "- before\n"))

    def short_names() -> list[str]:
        return list(cluster.get("crd", CRD)["spec"]["names"]["shortNames"])

    agent.helm.run("upgrade", RELEASE, older, "--namespace", NAMESPACE, "--reuse-values")
    assert short_names() == ["before"]
    agent.upgrade(agent_version)
    assert short_names() == ["ngs"]


def test_helm_4_overrules_another_hand_only_when_told(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    where = ("--namespace", NAMESPACE, "--reuse-values")
    cluster.kubectl("label", "crd", CRD, "app.kubernetes.io/version=theirs", "--overwrite")
    assert "--force-conflicts" in INSTALL_PAGE.read_text()
    refused = agent.helm.attempt("upgrade", RELEASE, CHART, *where)
    assert 'conflict with "kubectl-label"' in refused.stderr
    agent.helm.run("upgrade", RELEASE, CHART, *where, "--force-conflicts")


def status_of_the_container(agent: InstalledAgent) -> dict[str, str]:
    """/proc/self/status of a process that is started in the agent's container."""
    name = agent.pod()["metadata"]["name"]
    read = "print(open('/proc/self/status').read())"
    text = agent.cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", read)
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def test_the_agent_is_root_without_a_single_capability(agent: InstalledAgent) -> None:
    status = status_of_the_container(agent)
    assert status["Uid"].split() == ["0"] * 4
    for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[field], 16) == 0, field
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


def test_it_writes_nothing_but_its_folders(agent: InstalledAgent) -> None:
    name = agent.pod()["metadata"]["name"]
    script = """
import os
def writable(folder):
    try:
        open(folder + '/.probe', 'x').close()
    except OSError as error:
        return os.strerror(error.errno)
    os.unlink(folder + '/.probe')
    return 'yes'
for folder in ('/', '/tmp', '/usr', '/driver-root', '/var/lib/kubelet/pod-resources',
               '/var/lib/kubelet/device-plugins', '/var/lib/tonnage'):
    if os.path.isdir(folder):
        print(folder, writable(folder), sep=': ')
"""
    said = agent.cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", script)
    told = dict(line.split(": ") for line in said.splitlines())
    assert {folder for folder, answer in told.items() if answer == "yes"} == {
        "/var/lib/kubelet/device-plugins",
        "/var/lib/tonnage",
    }
    assert set(told.values()) == {"yes", "Read-only file system"}


def test_privileged_reaches_the_devices_of_the_host(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    seen = "import os; print(os.path.exists('/dev/nvidiactl'))"

    def devices() -> str:
        name = agent.pod()["metadata"]["name"]
        return cluster.kubectl("exec", "-n", NAMESPACE, name, "--", "python3", "-c", seen).strip()

    assert devices() == "False"
    version = image_of(agent)
    agent.upgrade(version, {"access": "privileged"})
    assert devices() == "True"
    until(lambda: cluster.allocatable(GPU) == 2)
    agent.upgrade(version)


@pytest.mark.parametrize(
    ("verb", "resource", "namespace", "answer"),
    [
        ("list", "pods", "default", "yes"),
        ("get", "pods", "default", "no"),
        ("delete", "pods", "default", "no"),
        ("list", "secrets", NAMESPACE, "no"),
        ("list", "configmaps", NAMESPACE, "no"),
        ("list", "configmaps/device-plugin-config", NAMESPACE, "yes"),
        ("list", "configmaps/device-plugin-config", "default", "no"),
        ("create", "events", "default", "yes"),
        ("create", "events", NAMESPACE, "no"),
        ("patch", "nodes", "", "no"),
        ("patch", f"{PLURAL}.{GROUP}", "", "no"),
        ("delete", f"{PLURAL}.{GROUP}", "", "no"),
    ],
)
def test_what_the_account_may(
    agent: InstalledAgent, verb: str, resource: str, namespace: str, answer: str
) -> None:
    where = ("-n", namespace) if namespace else ()
    question = ("auth", "can-i", verb, resource, f"--as={ACCOUNT}", *where)
    assert agent.cluster.kubectl(*question, check=False).split()[-1] == answer


def test_what_is_granted_is_what_is_used(cluster: GenuineCluster, agent: InstalledAgent) -> None:
    """By the server's audit log; and the agent counts what the log says."""
    cluster.kubectl("delete", "nodegpustatus", NODE_NAME)  # made again with the next change
    for text, refusal in (("a: 1", True), ("version: v1", False)) * 2:  # repeated Events are counted
        agent.configure(text)
        until(lambda refusal=refusal: bool(agent.status().get("config", {}).get("error")) == refusal)  # type: ignore[misc]
    agent.configure()
    ours = ("-A", "-l", "app.kubernetes.io/part-of=tonnage")
    rights = granted(cluster.get("clusterrole,role,clusterrolebinding,rolebinding", *ours)["items"])
    requests = list(AuditLog(cluster.kubeconfig.parent).of_pod(agent.pod()["metadata"]["name"]))
    assert [request for request, code in requests if code == 403] == []
    assert needed((request for request, _ in requests), rights) == rights
    assert counted(agent) == {(request.verb, request.resource) for request, _ in requests}


def counted(agent: InstalledAgent) -> set[tuple[str, str]]:
    """Verb and resource of every request, by the agent's metrics."""
    name = agent.pod()["metadata"]["name"]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:9410/proxy/metrics"
    text = agent.cluster.kubectl("get", "--raw", path)
    rows = re.findall(r"^tonnage_agent_api_requests_total\{(.*)\} ", text, re.MULTILINE)
    labels = [dict(re.findall(r'(\w+)="([^"]*)"', row)) for row in rows]
    return {(row["verb"], row["resource"]) for row in labels}


def test_an_agent_writes_the_report_of_its_own_node_alone(
    cluster: GenuineCluster, agent: InstalledAgent, tmp_path: Path
) -> None:
    pod = agent.pod()["metadata"]["name"]
    bound = ("--bound-object-kind=Pod", f"--bound-object-name={pod}")
    mine, anyones = (
        kubeconfig_of_the_agent(cluster, tmp_path / name, *flags)
        for name, flags in (("bound", bound), ("unbound", ()))
    )
    cluster.apply({"apiVersion": f"{GROUP}/v1alpha1", "kind": "NodeGPUStatus", "metadata": {"name": "other"}})
    own_alone = f"the agent on node {NODE_NAME} may write the NodeGPUStatus of that node alone"
    until(lambda: own_alone in write(mine, "other", create=False))  # a policy counts after a moment
    assert own_alone in write(mine, "third", create=True)
    assert write(mine, "third", create=True).startswith("403 ")
    assert "does not say on which node" in write(anyones, NODE_NAME, create=False)
    assert write(mine, NODE_NAME, create=False) == ""
    cluster.kubectl("delete", "nodegpustatus", "other")


def kubeconfig_of_the_agent(cluster: GenuineCluster, file: Path, *flags: str) -> Path:
    """The administrator's, with a token of the agent's account."""
    token = cluster.kubectl("create", "token", AGENT, "-n", NAMESPACE, *flags).strip()
    document: Any = yaml.load(cluster.kubeconfig.read_text(), yaml.CSafeLoader)
    document["users"][0]["user"] = {"token": token}
    file.touch(mode=0o600)
    file.write_text(json.dumps(document))
    return file


def write(kubeconfig: Path, name: str, *, create: bool) -> str:
    """Create the report or patch its status; what the API server refuses it with, empty when it does not."""

    async def attempt() -> str:
        async with connect(kubeconfig) as api:
            try:
                if create:
                    await api.create(NODE_GPU_STATUS, {"metadata": {"name": name}})
                else:
                    empty: JsonObject = {"metadata": {"annotations": {"probe": "1"}}}
                    await api.patch(NODE_GPU_STATUS, name, empty, subresource="status")
            except ApiError as error:
                return f"{error.code} {error}"
        return ""

    return asyncio.run(attempt())


def test_kustomize_installs_the_same_without_helm(cluster: GenuineCluster, agent_version: str) -> None:
    """With what this node needs of it: an image that is there, a driver elsewhere."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        overlay = Path(folder)
        volume = {"name": "driver-root", "hostPath": {"path": DRIVER_ROOT}}
        mount = {"name": "driver-root", "mountPath": "/driver-root"}
        container = "/spec/template/spec/containers/0"
        patch = [
            {"op": "replace", "path": f"{container}/imagePullPolicy", "value": "Never"},
            {"op": "add", "path": f"{container}/args/-", "value": "--driver-root-ctr-path=/driver-root"},
            {"op": "add", "path": f"{container}/volumeMounts/-", "value": mount},
            {"op": "add", "path": "/spec/template/spec/volumes/-", "value": volume},
        ]
        kustomization = {
            "resources": [f"{'../' * len(overlay.parts)}{BASE.relative_to('/')}"],
            "images": [{"name": IMAGE, "newTag": agent_version}],
            "patches": [
                {"target": {"kind": "DaemonSet", "name": AGENT}, "patch": json.dumps(patch)},
            ],
        }
        (overlay / "kustomization.yaml").write_text(json.dumps(kustomization))
        driver = Driver(cluster.node.root.at(DRIVER_ROOT), TWO_GPUS)
        try:
            cluster.kubectl("apply", "-k", folder)
            cluster.kubectl("rollout", "status", "-n", NAMESPACE, f"daemonset/{AGENT}", "--timeout=90s")
            until(lambda: cluster.allocatable(GPU) == 2)
        finally:
            cluster.kubectl("delete", "-k", folder)
            shutil.rmtree(driver.root)
            shutil.rmtree(cluster.node.root.at("/var/lib/tonnage"))
    assert not cluster.get("crd", CRD)
