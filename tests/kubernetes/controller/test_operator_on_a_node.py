"""A ClusterPolicy on a genuine node, installed as the how-to says; the labs of the operator run there.

A lab names the nodes of its fleet; here one node is all of them. What a lab needs several nodes for is on
pretended ones, in tests/kubernetes/engine; a file beside this has a node that joins.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.installed_agent import DRIVER_ROOT, GPU
from support.operated_node import DOCUMENTS, OperatedNode, operated_node
from support.page_shell import ROOT

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

SITE: Final = {
    "nvidiaDriverRoot": DRIVER_ROOT,
    "claims": {"enabled": True},
    "features": {"publish": "direct"},
    "migManager": {"enabled": True},
}
IN_ONE: Final = {
    "t4-0": NODE_NAME,
    "a100-0": NODE_NAME,
    f"node/{NODE_NAME}\\nnode/{NODE_NAME}": f"node/{NODE_NAME}",
    "all 2 GPU nodes": "all 1 GPU nodes",
    "equals: true true": 'equals: "true"',
    'equals: "2"': 'equals: "1"',
}
"""What the fleet of a lab is on a cluster of one node with one GPU."""
HERE: Final = "On a cluster"


@pytest.fixture(scope="module")
def operated(cluster: GenuineCluster, agent_version: str) -> Iterator[OperatedNode]:
    """Nothing is installed yet."""
    labs = ROOT / "labs"
    files = (
        labs / "operator-install" / "cluster-policy.yaml",
        labs / "time-slicing-by-policy" / "time-slicing-config.yaml",
    )
    with operated_node(cluster, agent_version, site=SITE, files=files) as operated:
        yield operated


@pytest.fixture(scope="module")
def installed(operated: OperatedNode) -> OperatedNode:
    """The release of the page's first block."""
    operated.shell.follow(HERE)
    try:
        until(lambda: operated.cluster.allocatable(GPU) == 1, 90)
    except AssertionError as error:
        error.add_note(operated.account())
        raise
    return operated


def test_what_a_policy_comes_to_is_asked_before_it_is_applied(installed: OperatedNode) -> None:
    said = installed.shell.follow(HERE, 1)
    assert said.count("ClusterPolicy cluster-policy: ready, all 1 GPU nodes are ready") == 2
    installed.cluster.kubectl("delete", "clusterpolicy", "cluster-policy")


@pytest.mark.parametrize("name", ["operator-install", "time-slicing-by-policy"])
def test_a_lab_of_the_operator_passes_on_a_genuine_node(
    name: str, installed: OperatedNode, tmp_path: Path
) -> None:
    """OPR-1, OPR-2, OPR-4, SHR-1."""
    # What the policy before left is gone, and what it switched is back.
    until(lambda: installed.cluster.kubectl("get", "pods", "-n", "gpu-operator", "-o", "name") == "")
    until(lambda: installed.cluster.allocatable(GPU) == 1)
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
    failed = [step for step in steps if not step["passed"] and not step["skipped"]]
    assert not failed, json.dumps(failed, indent=1) + installed.account()
    assert (ended.returncode, report["passed"]) == (0, True)


def test_the_documents_policy_is_refused_and_applied_corrected(installed: OperatedNode) -> None:
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


def test_a_release_that_ends_leaves_no_label_of_its_own(installed: OperatedNode) -> None:
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
    elsewhere = ["With a values file of NVIDIA's chart", "Uninstall"]  # test_values and test_node_joins
    assert installed.shell.left() == elsewhere
