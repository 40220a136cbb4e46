"""A genuine node with a pretended driver, on which somebody installs the controller as a page says."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.driver_root import Driver
from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.helm import IMAGE
from support.installed_agent import DRIVER_ROOT, make_device_nodes
from support.nvml.state import DriverState, FakeGpu
from support.page_shell import ROOT, PageShell
from tonnage.documents.node.gpu_status import GROUP, PLURAL
from tonnage.model.catalog.nvidia_kinds import DEFINITIONS

PAGE: Final = "install-with-clusterpolicy"
DOCUMENTS: Final = ROOT / "tests" / "data" / "documents"
PCI: Final = "feature.node.kubernetes.io/pci-10de.present"
"""As node feature discovery says it: the bus of this machine has no GPU to be seen."""
NAMESPACES: Final = ("tonnage-system", "gpu-operator")
_PUBLISHED: Final = "registry.example.com/platform/tonnage"
"""What the page calls the image."""
_WITHOUT_RUNTIME: Final = {"deviceListStrategy": "cdi-cri"}
"""No runtime of NVIDIA's is there that would look at NVIDIA_VISIBLE_DEVICES."""
ITS_GPU: Final = FakeGpu(0, "A100-40")
_STATE: Final = DriverState((ITS_GPU,))
_OURS: Final = ("nvidia.com/", "tonnage.dev/", "feature.node.kubernetes.io/")


class OperatedNode:
    """The cluster, and somebody who types what the page says."""

    def __init__(self, cluster: GenuineCluster, shell: PageShell, driver: Driver) -> None:
        self.cluster = cluster
        self.shell = shell
        self.driver = driver

    def policy(self) -> Any:
        return self.cluster.get("clusterpolicy", "cluster-policy").get("status", {})

    def condition(self, kind: str) -> str:
        """The message of a condition of the policy; empty where it has none."""
        conditions = self.policy().get("conditions", [])
        return "".join(str(c["message"]) for c in conditions if c["type"] == kind)

    def until_condition(self, kind: str, words: str) -> None:
        """Wait until a condition of the policy says so."""
        until(lambda: words in self.condition(kind))

    def node_metadata(self) -> Any:
        return self.cluster.get("node", NODE_NAME)["metadata"]

    def passed(self) -> list[str]:
        """The stages of validation that the node has passed."""
        status = self.cluster.get("nodegpustatus", NODE_NAME).get("status", {})
        stages = status.get("validation", {}).get("stages", [])
        return [stage["stage"] for stage in stages if stage["outcome"] == "passed"]

    def marks(self) -> dict[str, str]:
        """What programs of Tonnage's have written on the node."""
        metadata = self.node_metadata()
        found = {**metadata["labels"], **metadata.get("annotations", {})}
        given = {"nvidia.com/gpu.present", PCI}
        return {key: value for key, value in found.items() if key.startswith(_OURS) and key not in given}

    def account(self) -> str:
        """How its pods are, for whoever asks why something is not as it should be."""
        asked = [
            "get pods -A -o wide",
            *(f"describe pods -n {namespace}" for namespace in NAMESPACES),
            *(f"logs -n {at} daemonset/tonnage-agent --tail=60" for at in NAMESPACES),
            *(f"logs -n {at} deployment/tonnage-controller --tail=30" for at in NAMESPACES),
        ]
        return "\n".join(self.cluster.kubectl(*line.split(), check=False) for line in asked)

    def forget_definitions(self) -> None:
        """They outlive their release, whose name and namespace they have."""
        names = [f"{PLURAL}.{GROUP}", *(f"{plural}.nvidia.com" for plural in DEFINITIONS)]
        self.cluster.kubectl("delete", "crd", *names, "--ignore-not-found")

    def uninstall(self, namespace: str) -> None:
        """Take the release off; its last Job ends before Helm does."""
        self.shell.type(f"helm uninstall tonnage --namespace {namespace} --wait --timeout 240s")


@contextmanager
def operated_node(
    cluster: GenuineCluster, version: str, *, site: Mapping[str, object], files: Iterable[Path] = ()
) -> Iterator[OperatedNode]:
    """A node with a driver of one GPU and the image by the page's name; nothing is installed yet.

    `site` are values that Helm gets with every release, `files` lie in the folder in which somebody types.
    Afterwards nothing of a release is left.
    """
    root = cluster.node.root
    image = f"{_PUBLISHED}:{version}"
    cluster.node.ctr("images", "tag", "--force", f"{IMAGE}:{version}", image)
    cluster.kubectl("label", "node", NODE_NAME, f"{PCI}=true")
    driver = Driver(root.at(DRIVER_ROOT), _STATE)
    nodes = make_device_nodes((root.at("/dev"), driver.root / "dev"), _STATE)
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        values = json.dumps({**_WITHOUT_RUNTIME, **site})
        shell = PageShell(PAGE, Path(folder), cluster.kubeconfig, values=values)
        for file in files:
            shutil.copy(file, folder)
        operated = OperatedNode(cluster, shell, driver)
        try:
            yield operated
        except AssertionError as error:
            error.add_note(operated.account())
            raise
        finally:
            for namespace in NAMESPACES:  # of a test that failed
                where = f"--namespace {namespace} --ignore-not-found --wait --timeout 240s"
                shell.type(f"helm uninstall tonnage {where}", ends=range(256))
            operated.forget_definitions()
            for namespace in NAMESPACES:
                cluster.kubectl("delete", "namespace", namespace, "--ignore-not-found")
            cluster.kubectl("label", "node", NODE_NAME, f"{PCI}-")
            cluster.node.ctr("images", "rm", image)
            for path in (*nodes, root.at("/var/lib/tonnage"), driver.root):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
