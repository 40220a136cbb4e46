"""A ClusterPolicy on a genuine node, installed as the how-to says; the labs of the operator run there.

A lab names the nodes of its fleet; here one node is all of them. Two kinds of labs are not for it: node-joins
reads the PCI bus of the machine, which has no GPU, and driver-preflight and driver-upgrade want NVIDIA's
driver containers, which build kernel modules. tests/kubernetes/engine has them on pretended nodes.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from support.driver_root import Driver
from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.helm import IMAGE
from support.installed_agent import DRIVER_ROOT, GPU, make_device_nodes
from support.nvml.state import DriverState, FakeGpu
from support.page_shell import ROOT, PageShell
from tonnage.documents.node.gpu_status import GROUP, PLURAL
from tonnage.model.catalog.nvidia_kinds import DEFINITIONS

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

STATE: Final = DriverState((FakeGpu(0, "A100-40"),))
PUBLISHED: Final = "registry.example.com/platform/tonnage"
"""What the page calls the image."""
SITE: Final = {
    "nvidiaDriverRoot": DRIVER_ROOT,
    "claims": {"enabled": True},
    "features": {"publish": "direct"},
    "migManager": {"enabled": True},
}
DOCUMENTS: Final = ROOT / "tests" / "data" / "documents"
IN_ONE: Final = {
    "t4-0": NODE_NAME,
    "a100-0": NODE_NAME,
    f"node/{NODE_NAME}\\nnode/{NODE_NAME}": f"node/{NODE_NAME}",
    "all 2 GPU nodes": "all 1 GPU nodes",
    "equals: true true": 'equals: "true"',
    'equals: "2"': 'equals: "1"',
}
"""What the fleet of a lab is on a cluster of one node with one GPU."""
PCI: Final = "feature.node.kubernetes.io/pci-10de.present"
"""As node feature discovery says it: the bus of this machine has no GPU to be seen."""
PAGE: Final = "install-with-clusterpolicy"
HERE: Final = "On a cluster"


class Operated:
    """The cluster, and somebody who types what the page says."""

    def __init__(self, cluster: GenuineCluster, shell: PageShell) -> None:
        self.cluster = cluster
        self.shell = shell

    def policy(self) -> Any:
        return self.cluster.get("clusterpolicy", "cluster-policy").get("status", {})

    def until_condition(self, kind: str, words: str) -> None:
        """Wait until a condition of the policy says so."""

        def says() -> bool:
            return any(
                c["type"] == kind and words in c["message"] for c in self.policy().get("conditions", [])
            )

        until(says)

    def marks(self) -> dict[str, str]:
        """What programs of Tonnage's have written on the node."""
        metadata = self.cluster.get("node", NODE_NAME)["metadata"]
        found = {**metadata["labels"], **metadata.get("annotations", {})}
        ours = ("nvidia.com/", "tonnage.dev/", "feature.node.kubernetes.io/")
        given = {"nvidia.com/gpu.present", PCI}
        return {key: value for key, value in found.items() if key.startswith(ours) and key not in given}

    def account(self) -> str:
        """How its pods are, for whoever asks why something is not as it should be."""
        asked = (
            "get pods -A -o wide",
            "describe pods -n tonnage-system",
            "logs -n tonnage-system daemonset/tonnage-agent --tail=60",
            "logs -n tonnage-system deployment/tonnage-controller --tail=30",
        )
        return "\n".join(self.cluster.kubectl(*line.split(), check=False) for line in asked)

    def forget_definitions(self) -> None:
        """They outlive their release, whose name and namespace they have."""
        names = [f"{PLURAL}.{GROUP}", *(f"{plural}.nvidia.com" for plural in DEFINITIONS)]
        self.cluster.kubectl("delete", "crd", *names, "--ignore-not-found")

    def uninstall(self, namespace: str) -> None:
        """Take the release off; its last Job ends before Helm does."""
        self.shell.type(f"helm uninstall tonnage --namespace {namespace} --wait --timeout 240s")


@pytest.fixture(scope="module")
def operated(cluster: GenuineCluster, agent_version: str) -> Iterator[Operated]:
    """A node with a driver of one GPU and the image by the page's name; nothing is installed yet."""
    root = cluster.node.root
    image = f"{PUBLISHED}:{agent_version}"
    cluster.node.ctr("images", "tag", "--force", f"{IMAGE}:{agent_version}", image)
    cluster.kubectl("label", "node", NODE_NAME, f"{PCI}=true")
    driver = Driver(root.at(DRIVER_ROOT), STATE)
    nodes = make_device_nodes((root.at("/dev"), driver.root / "dev"), STATE)
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        shell = PageShell(PAGE, Path(folder), cluster.kubeconfig, values=json.dumps(SITE))
        shutil.copy(ROOT / "labs" / "operator-install" / "cluster-policy.yaml", folder)
        shutil.copy(DOCUMENTS / "operator-values.yaml", Path(folder) / "gpu-operator-values.yaml")
        shutil.copy(ROOT / "labs" / "time-slicing-by-policy" / "time-slicing-config.yaml", folder)
        try:
            yield Operated(cluster, shell)
        finally:
            Operated(cluster, shell).forget_definitions()
            for namespace in ("tonnage-system", "gpu-operator"):
                cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found")
            cluster.kubectl("label", "node", NODE_NAME, f"{PCI}-")
            cluster.node.ctr("images", "rm", image)
            for path in (*nodes, root.at("/var/lib/tonnage"), driver.root):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def installed(operated: Operated) -> Iterator[Operated]:
    """The release of the page's first block."""
    operated.shell.follow(HERE)
    try:
        until(lambda: operated.cluster.allocatable(GPU) == 1, 90)
    except AssertionError as error:
        error.add_note(operated.account())
        raise
    yield operated
    operated.shell.type("helm uninstall tonnage --namespace tonnage-system --ignore-not-found --no-hooks")


def test_what_a_policy_comes_to_is_asked_before_it_is_applied(installed: Operated) -> None:
    said = installed.shell.follow(HERE, 1)
    assert said.count("ClusterPolicy cluster-policy: ready, all 1 GPU nodes are ready") == 2
    installed.cluster.kubectl("delete", "clusterpolicy", "cluster-policy")


@pytest.mark.parametrize("name", ["operator-install", "time-slicing-by-policy"])
def test_a_lab_of_the_operator_passes_on_a_genuine_node(
    name: str, installed: Operated, tmp_path: Path
) -> None:
    """OPR-1, OPR-2, OPR-4, SHR-1."""
    lab = tmp_path / name
    shutil.copytree(ROOT / "labs" / name, lab)
    text = (lab / "lab.yaml").read_text()
    for word, meaning in IN_ONE.items():
        text = text.replace(word, meaning)
    (lab / "lab.yaml").write_text(text)
    ended = installed.cluster.tonnage("lab", "run", str(lab), "-o", "json", "--yes")
    assert ended.stdout, ended.stderr
    report = json.loads(ended.stdout)
    steps = (*report["steps"], *report["cleanup"])
    assert [step for step in steps if not step["passed"] and not step["skipped"]] == []
    assert (ended.returncode, report["passed"]) == (0, True)


def test_the_documents_policy_is_refused_and_applied_corrected(installed: Operated) -> None:
    """As kubectl applies it; `lint --fix` adds what the definition wants."""
    shell, cluster = installed.shell, installed.cluster
    shutil.copy(DOCUMENTS / "provisioning-cluster-policy.yaml", shell.folder / "documents.yaml")
    with pytest.raises(AssertionError, match=r"spec\.(daemonsets|dcgm|nodeStatusExporter): Required value"):
        shell.type("kubectl apply --validate=false -f documents.yaml")
    shell.type("tonnage lint --fix documents.yaml || true; kubectl apply --validate=warn -f documents.yaml")
    installed.until_condition("Error", "ConfigMap gpu-operator/device-plugin-config does not exist")
    sharing = {
        "default": "version: v1\nsharing: {timeSlicing: {resources: [{name: nvidia.com/gpu, replicas: 4}]}}"
    }
    metadata = {"name": "device-plugin-config", "namespace": "gpu-operator"}
    cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": sharing})
    installed.until_condition("Ready", "all 1 GPU nodes are ready")
    until(lambda: cluster.allocatable(GPU) == 4)
    assert "Without effect here" in shell.type("tonnage operator status")
    validation = shell.follow("Validation", words={"NODE": NODE_NAME})
    until(
        lambda: (
            '"outcome":"passed","stage":"workload"' in shell.follow("Validation", words={"NODE": NODE_NAME})
        )
    )
    assert "driver" in validation


def test_a_release_that_ends_leaves_no_label_of_its_own(installed: Operated) -> None:
    """The policy stands still, as one that is applied by hand does, and so does what users wrote."""
    cluster = installed.cluster
    dcgm = "nvidia.com/gpu.deploy.dcgm"
    cluster.kubectl("label", "node", NODE_NAME, f"{dcgm}=false", "--overwrite")
    until(lambda: len(installed.marks()) > 10)
    installed.uninstall("tonnage-system")
    assert installed.marks() == {dcgm: "false"}
    for namespace in ("tonnage-system", "gpu-operator"):
        until(lambda at=namespace: not cluster.get("daemonsets,jobs,pods", "-n", at).get("items"))  # type: ignore[misc]
    assert [policy["metadata"]["name"] for policy in cluster.get("clusterpolicies")["items"]] == [
        "cluster-policy"
    ]
    cluster.kubectl("label", "node", NODE_NAME, f"{dcgm}-")
    installed.forget_definitions()
