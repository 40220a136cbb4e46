"""The agent installed on a genuine node as a person does it: image, chart, and a driver with GPUs for it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scripts.find_helm import Major
from support.driver_root import Driver
from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.helm import CHART, NAMESPACE, RELEASE, Helm
from support.images import BUSYBOX
from support.nvml.state import DriverState, FakeGpu
from tonnage.model.names import CONFIG_LABEL

AGENT: Final = "tonnage-agent"
ACCOUNT: Final = f"system:serviceaccount:{NAMESPACE}:{AGENT}"
CONFIG_MAP: Final = "device-plugin-config"
DRIVER_ROOT: Final = "/opt/nvidia/driver"
"""On the node. Not below /run, which is made anew whenever the node boots."""
GPU: Final = "nvidia.com/gpu"
MAJOR: Final = 195
"""Of NVIDIA's device nodes. Nothing answers there: who may open one is told ENXIO, who may not EPERM."""
CONTROL: Final[Mapping[str, tuple[int, int]]] = {
    "nvidiactl": (MAJOR, 255),
    "nvidia-modeset": (MAJOR, 254),
    "nvidia-uvm": (510, 0),
    "nvidia-uvm-tools": (510, 1),
}
"""Device nodes that every container with a GPU needs, by name."""
TWO_GPUS: Final = DriverState((FakeGpu(0, "A100-40"), FakeGpu(1, "A100-40")))
_STAY: Final = "trap exit TERM; sleep 2147483647 & wait"
_PATIENCE: Final = "90s"


@dataclass(frozen=True, slots=True)
class InstalledAgent:
    """A release of the chart. `driver` is what the agent sees, to be changed at any time."""

    cluster: GenuineCluster
    helm: Helm
    driver: Driver
    chart: Path = CHART

    @property
    def uuids(self) -> tuple[str, ...]:
        """Of the GPUs, in the driver's order."""
        return tuple(gpu.identity for gpu in self.driver.state.gpus)

    def upgrade(
        self, version: str, values: Mapping[str, object] | None = None, *, patience: str = _PATIENCE
    ) -> None:
        """Install, or upgrade to, the image of that version, and wait until the agent is ready.

        Raises AssertionError with what Helm said, and as a note what the agent did, when it does not get so.
        """
        image = {"tag": version, "pullPolicy": "Never"}
        given = {"nvidiaDriverRoot": DRIVER_ROOT, "crds": {"keep": False}, "image": image, **(values or {})}
        where = ("--namespace", NAMESPACE, "--create-namespace")
        waiting = ("--wait", "--timeout", patience)
        try:
            self.helm.run(
                "upgrade", "--install", RELEASE, self.chart, *where, *waiting, values=json.dumps(given)
            )
        except AssertionError as error:
            error.add_note(self.log(check=False))
            raise

    def rollback(self) -> None:
        """Back to the revision before, and wait until its agent is ready."""
        self.helm.run("rollback", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", _PATIENCE)

    def configure(self, text: str = "") -> str:
        """Have the node run this device-plugin configuration, or whole GPUs; why it does not, empty when so.

        It is a key of the ConfigMap, named after its text, which the node's label chooses.
        """
        key = hashlib.sha256(text.encode()).hexdigest()[:8] if text else ""
        metadata = {"name": CONFIG_MAP, "namespace": NAMESPACE}
        data = {key: text} if key else {}
        self.cluster.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
        choice = f"{CONFIG_LABEL}={key}" if key else f"{CONFIG_LABEL}-"
        self.cluster.kubectl("label", "node", NODE_NAME, "--overwrite", choice)
        found: dict[str, Any] = {}  # what the status says of the configuration, once the agent has written it

        def is_settled() -> bool:
            found.update({"key": None, "error": ""} | self.status().get("config", {}))
            return found["key"] == key or f"[{key}]" in found["error"]

        until(is_settled)
        return str(found["error"])

    def pod(self) -> Any:
        """The agent's pod, whole; ValueError unless just one is there that is not ending."""
        pods = self.cluster.get("pods", "-n", NAMESPACE, "-l", f"app.kubernetes.io/name={AGENT}")["items"]
        (pod,) = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        return pod

    def log(self, *, check: bool = True) -> str:
        """What the agent has said since its container started; without `check` maybe nothing."""
        return self.cluster.kubectl("logs", "-n", NAMESPACE, f"daemonset/{AGENT}", check=check)

    def status(self) -> Any:
        """The `status` of the node's NodeGPUStatus; empty when there is none."""
        return self.cluster.get("nodegpustatus", NODE_NAME).get("status", {})

    def holders(self) -> dict[tuple[str, str], set[str]]:
        """By that status: the ids that each (namespace, pod) has."""
        held: dict[tuple[str, str], set[str]] = {}
        for device in self.status()["devices"]:
            for holder in device["holders"]:
                held.setdefault((holder["namespace"], holder["pod"]), set()).update(holder["ids"])
        return held


@contextmanager
def installed_agent(
    cluster: GenuineCluster,
    version: str,
    *,
    state: DriverState = TWO_GPUS,
    values: Mapping[str, object] | None = None,
    helm: Major = 4,
    chart: Path = CHART,
) -> Iterator[InstalledAgent]:
    """The agent from the chart and an image that the node has: GPUs can be asked for, the status is there.

    `values` take the place of whole keys of the chart's. Afterwards all is as before, but for kubelet's
    memory of resources: it goes on saying 0 of them for a while.
    """
    root = cluster.node.root
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as home:
        driver = Driver(root.at(DRIVER_ROOT), state)
        agent = InstalledAgent(cluster, Helm(helm, Path(home), cluster.kubeconfig), driver, chart)
        nodes = make_device_nodes((root.at("/dev"), driver.root / "dev"), state)
        try:
            agent.upgrade(version, values)
            until(lambda: cluster.allocatable(GPU) == len(state.gpus) and bool(agent.status()))
            yield agent
        finally:
            agent.helm.attempt(
                "uninstall", RELEASE, "--namespace", NAMESPACE, "--wait", "--timeout", _PATIENCE
            )
            cluster.kubectl("delete", "namespace", NAMESPACE, "--ignore-not-found")
            cluster.kubectl("label", "node", NODE_NAME, f"{CONFIG_LABEL}-")  # of a test that failed
            for path in (*nodes, root.at("/var/lib/tonnage"), driver.root):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def gpu_pod(name: str, *counts: int, resource: str = GPU) -> Any:
    """A pod of namespace default that stays, one container for each of `counts`: it asks for so many.

    They are named after their place, the first `main`; without any count one container asks for one.
    """
    image = {"image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", _STAY]}
    names = ["main", *(f"main-{number}" for number in range(1, len(counts)))]
    containers = [
        {"name": container, **image, "resources": {"limits": {resource: count} if count else {}}}
        for container, count in zip(names, counts or (1,), strict=True)
    ]
    spec = {"containers": containers, "terminationGracePeriodSeconds": 1}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def make_device_nodes(folders: Iterable[Path], state: DriverState) -> list[Path]:
    """Device nodes as the driver makes them: those of the GPUs and those for all; the paths."""
    numbers = {f"nvidia{gpu.minor_number}": (MAJOR, gpu.minor_number) for gpu in state.gpus}
    made = []
    for folder in folders:
        for name, number in {**numbers, **CONTROL}.items():
            make_node(folder / name, number)
            made.append(folder / name)
    return made


def make_node(path: Path, number: tuple[int, int]) -> None:
    """A device node of that major and minor number, for everybody."""
    path.unlink(missing_ok=True)
    os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(*number))
    path.chmod(0o666)  # the mask of this process counts above
