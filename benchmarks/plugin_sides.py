"""The device plugins that are measured side by side, each a process with a node and a kubelet of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from benchmarks.cluster import cluster
from benchmarks.plugin_kubelet import Asking, Kubelet
from support.driver_root import LIBRARIES, STATE_FILE, make_driver_root
from support.nvml.state import DriverState, FakeMig, Rule, h100_node
from tonnage.cli.locations.kubectl import kubectl_binary

OTHER = "TONNAGE_BENCH_PLUGIN"
"""A program to measure beside ours: NVIDIA's nvidia-device-plugin, or what has its variables and folders."""
TONNAGE = str(Path(sys.executable).with_name("tonnage"))
_LEFT_OUT = Path(__file__).with_name("left_out")
"""Packages of developers that libraries load where they are there; an image has none of them."""
DEAD_CLUSTER = """apiVersion: v1
kind: Config
current-context: dead
contexts: [{name: dead, context: {cluster: dead, user: nobody}}]
clusters: [{name: dead, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: nobody, user: {}}]
"""


@dataclass(frozen=True, slots=True)
class Node:
    """A node's folder with a pretended driver, a configuration and a kubelet. `ids` is what is offered."""

    root: Path
    kubelet: Kubelet
    ids: tuple[str, ...]
    state: DriverState

    @property
    def driver(self) -> Path:
        return self.root / "driver"

    def rule(self, *rules: Rule) -> None:
        """From now on the driver obeys these, and no others."""
        replace(self.state, rules=rules).write(self.driver / LIBRARIES / STATE_FILE)

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"


Start = Callable[[Node], "subprocess.Popen[bytes]"]
"""Starts a plugin that registers at the node's kubelet."""


@dataclass(slots=True)
class Running:
    """A plugin at work, and how long its start took until kubelet heard of it."""

    name: str
    node: Node
    process: subprocess.Popen[bytes]
    asking: Asking
    start_ms: float

    def processor_s(self) -> float:
        """Seconds of processor time so far of the threads that live, to the nanosecond."""
        threads = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(each.read_text().split()[0]) for each in threads) / 1e9

    def resident_mb(self) -> float:
        for line in Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) / 1024
        raise ValueError("no VmRSS")


def sides() -> dict[str, Start]:
    """What there is to measure, by name; a line says what is not there."""
    found: dict[str, Start] = {"tonnage": tonnage, "Python floor": floor}
    if not os.environ.get(OTHER):
        print(f"left out: another plugin beside ours (${OTHER} names its program)", file=sys.stderr)
    elif os.geteuid() != 0:
        print(f"left out: the plugin in ${OTHER} (it needs root, for a folder of its own)", file=sys.stderr)
    else:
        found[Path(os.environ[OTHER]).name] = other
    return found


@contextmanager
def made_node(gpus: int, replicas: int = 1, parts: int = 0) -> Iterator[Node]:
    """A node whose kubelet runs. `parts`: every GPU is divided into so many of its smallest MIG devices."""
    root = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    try:
        metrics = {(gpu, metric): 50.0 for gpu in range(gpus) for metric in (1, 5, 10, 20, 21)}
        nvlinks = {(gpu, field): 1e6 for gpu in range(gpus) for field in (138, 139)}
        state = replace(h100_node(gpus), metrics=metrics, fields=nvlinks)
        migs = tuple(FakeMig("1g", start, gi=start + 7) for start in range(parts))
        if parts:
            state = replace(
                state, gpus=tuple(replace(gpu, mig_enabled=True, migs=migs) for gpu in state.gpus)
            )
        make_driver_root(root / "driver", state)
        uuids = [gpu.identity for gpu in state.gpus]
        shared = f"resources: [{{name: nvidia.com/gpu, replicas: {replicas}}}]"
        text = "version: v1\n" + ("flags: {migStrategy: mixed}\n" if parts else "")
        text += f"sharing: {{timeSlicing: {{{shared}}}}}\n" if replicas > 1 else ""
        if parts:
            uuids = [gpu.mig_uuid(mig) for gpu in state.gpus for mig in gpu.migs]
        ids = [f"{uuid}::{number}" for uuid in uuids for number in range(replicas)] if replicas > 1 else uuids
        node = Node(root, Kubelet(root / "var/lib/kubelet"), tuple(ids), state)
        node.config.write_text(text)
        (root / "ids").write_text("\n".join(ids))
        (root / "kubeconfig").write_text(DEAD_CLUSTER)
        node.kubelet.start()
        yield node
        node.kubelet.stop()
    finally:
        shutil.rmtree(root)


@contextmanager
def running(name: str, start: Start, node: Node) -> Iterator[Running]:
    """The plugin from its registration until it is killed. Ours knows from before what it is to run."""
    if start is tonnage:
        ran_before(node)
    began = time.perf_counter()
    process = start(node)
    try:
        at, socket = node.kubelet.registered()
        asking = Asking(socket)
        yield Running(name, node, process, asking, (at - began) * 1000)
        asking.close()
    finally:
        process.kill()
        process.wait()


def ran_before(node: Node) -> float:
    """Milliseconds that the first start on this node took; 0 if there was one already.

    Without one an agent whose API server is silent waits for it: nobody else knows what it is to run.
    """
    kept = node.root / "var/lib/tonnage/device-plugin-config"
    if kept.exists():
        return 0.0
    began = time.perf_counter()
    process = tonnage(node, "--standalone")
    try:
        at, _ = node.kubelet.registered()
        while not kept.exists():
            time.sleep(0.01)
    finally:
        process.terminate()
        process.wait()
    return (at - began) * 1000


def tonnage(node: Node, *flags: str) -> subprocess.Popen[bytes]:
    """Our agent over NVML, with metrics, and an API server that does not answer."""
    command = [sys.executable, "-m", "tonnage", "node", "--node-name", "bench", "--root", str(node.root)]
    command += ["--driver-root-ctr-path", str(node.driver), "--config", str(node.config)]
    command += ["--config-map", "tonnage-system/none", "--metrics-address", "127.0.0.1:0"]  # that file counts
    command += flags or ("--kubeconfig", str(node.root / "kubeconfig"))
    return _started(command, {**without_cluster(), "PYTHONPATH": str(_LEFT_OUT)})


@contextmanager
def beside_a_cluster(*flags: str) -> Iterator[Start]:
    """How our agent is started on a node of a twin's API server, which answers; nobody else lives on it."""
    with bench_node() as kubeconfig:
        yield lambda node: tonnage(node, "--kubeconfig", kubeconfig, *flags)


@contextmanager
def bench_node() -> Iterator[str]:
    """The kubeconfig of a twin with the Node that agents here are named after."""
    with cluster("twin", 1) as (_, _, environment):
        made = b'{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bench"}}'
        command = [str(kubectl_binary()), "create", "-f", "-"]
        while subprocess.run(
            command, env=environment, input=made, capture_output=True, check=False
        ).returncode:
            time.sleep(0.1)
        yield environment["KUBECONFIG"]


def floor(node: Node) -> subprocess.Popen[bytes]:
    folder = str(node.kubelet.plugins)
    return _started(
        [sys.executable, "-m", "benchmarks.plugin_floor", folder, str(node.root / "ids")], without_cluster()
    )


def other(node: Node) -> subprocess.Popen[bytes]:
    """NVIDIA's plugin knows its folder by heart: a mount namespace of its own has ours there."""
    script = 'mount --bind "$1" /var/lib && exec "$2"'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(node.root / "var/lib"), os.environ[OTHER]]
    told = {"CONFIG_FILE": str(node.config), "LD_LIBRARY_PATH": str(node.driver / LIBRARIES)}
    return _started(command, {**without_cluster(), **told, "BENCH_IDS": str(node.root / "ids")})


def _started(command: list[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def without_cluster() -> dict[str, str]:
    """The environment, with nothing in it that leads to a cluster or configures an agent."""
    return {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "TONNAGE"))}
