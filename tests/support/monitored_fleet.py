"""A fleet of the twin whose GPUs are shared in every way, with a genuine Prometheus beside it."""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from support.deadlines import join
from support.prometheus import (
    PATIENCE_S,
    Prometheus,
    free_port,
    running_alertmanager,
    running_prometheus,
    serving_tonnage,
)
from tonnage.cli.locations.folders import runtime_folder
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.cli.locations.state import RUNTIME
from tonnage.diagnose.monitoring.rules import rules_file
from tonnage.diagnose.monitoring.scraping import ScrapeOptions, scrape_config

SCENARIO: Final = """
name: monitored
groups:
- {name: whole, nodes: 1, gpu: {model: H100-80, count: 4}}
- {name: mig, nodes: 1, gpu: {model: A100-80, count: 2, mig: [3g.40gb, 3g.40gb]}, config: mixed}
- {name: sliced, nodes: 1, gpu: {model: T4, count: 2}, config: sliced}
- {name: mps, nodes: 1, gpu: {model: L40S, count: 1}, config: mps}
configs:
  default: {version: v1}
  mixed: {version: v1, flags: {migStrategy: mixed}}
  sliced:
    version: v1
    sharing:
      timeSlicing: {renameByDefault: true, resources: [{name: nvidia.com/gpu, replicas: 4}]}
  mps:
    version: v1
    flags: {mpsRoot: /run/nvidia/mps}
    sharing:
      mps:
        renameByDefault: true
        resources: [{name: nvidia.com/gpu, replicas: 8}]
"""
_COUNTERS: Final = "etc/tonnage/counters.csv"
AGENT_NODE: Final = "whole-0"
"""Whose agent serves its own page."""
QUOTA: Final = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "gpus"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "30"}},
}


def pod(name: str, resource: str, count: int = 1, node: str = "", load: str = "") -> dict[str, Any]:
    """A pod that holds so many of a resource and sleeps; its GPUs read as if it did the `load`."""
    container = {
        "name": "main",
        "image": "busybox:1.37",
        "command": ["sleep", "infinity"],
        "resources": {"limits": {resource: str(count)}},
    }
    chosen = {"nodeSelector": {"kubernetes.io/hostname": node}} if node else {}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 0, **chosen}
    marks = {"annotations": {"tonnage.dev/pretended-load": load}} if load else {}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **marks}, "spec": spec}


PODS: Final = (
    pod("training-a", "nvidia.com/gpu", 2, load="training"),
    pod("training-b", "nvidia.com/gpu", 1),
    pod("service", "nvidia.com/mig-3g.40gb"),
    pod("notebook-1", "nvidia.com/gpu.shared", node="sliced-0"),
    pod("notebook-2", "nvidia.com/gpu.shared", node="sliced-0"),
    pod("client", "nvidia.com/gpu.shared", node="mps-0"),
    pod("waits", "nvidia.com/gpu", 4),
    pod("refused", "nvidia.com/gpu", 16),
)
RUNNING: Final = ("training-a", "training-b", "service", "notebook-1", "notebook-2", "client")


@dataclass
class MonitoredFleet:
    """The cluster, its Prometheus, and what Alertmanager has sent."""

    folder: Path
    prometheus: Prometheus
    notices: list[dict[str, Any]] = field(default_factory=list)

    def tonnage(self, *words: str) -> str:
        """What a command prints; the test fails when it fails."""
        return run_program([sys.executable, "-m", "tonnage", *words], self.environment)

    def kubectl(self, *words: str, given: object = None) -> str:
        """What kubectl prints, with an object on its standard input."""
        program = [str(kubectl_binary("1.35")), *words]
        return run_program(program, self.environment, json.dumps(given) if given is not None else "")

    @property
    def environment(self) -> dict[str, str]:
        return environment_of(self.folder)


@contextmanager
def twin_of(scenario: str) -> Iterator[Path]:
    """The folder of `environment_of` a cluster that runs."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as path:
        folder = Path(path)
        (folder / "scenario.yaml").write_text(scenario)
        environment, program = environment_of(folder), [sys.executable, "-m", "tonnage"]
        run_program([*program, "up", "--detach", "--scenario", str(folder / "scenario.yaml")], environment)
        try:
            yield folder
        finally:
            run_program([*program, "down"], environment)


@contextmanager
def monitored_fleet() -> Iterator[MonitoredFleet]:
    """All pods run but one that waits; Prometheus reads every second, alerts fire without a pause."""
    with ExitStack() as stack:
        folder = stack.enter_context(twin_of(SCENARIO))
        environment = environment_of(folder)
        sources = {
            name: stack.enter_context(serving_tonnage(["metrics", *words], folder, environment))
            for name, words in {
                "targets": ["targets"],
                "cluster": ["cluster", "--interval", "5"],
            }.items()
        }
        config: Any = scrape_config(ScrapeOptions(targets_url=f"http://{sources['targets']}/", interval_s=1))
        config["global"] = {"evaluation_interval": "1s"}
        config["scrape_configs"].append(
            {
                "job_name": "tonnage-cluster",
                "honor_labels": True,
                "scrape_interval": "1s",
                "static_configs": [{"targets": [sources["cluster"]]}],
            }
        )
        notices: list[dict[str, Any]] = []
        hook = stack.enter_context(_webhook(notices))
        manager = stack.enter_context(running_alertmanager(folder, hook))
        config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [manager]}]}]}
        agent = f"127.0.0.1:{free_port()}"
        config["scrape_configs"].append(
            {
                "job_name": "tonnage-agent",
                "scrape_interval": "1s",
                "static_configs": [{"targets": [agent], "labels": {"node": AGENT_NODE}}],
            }
        )
        prometheus = stack.enter_context(running_prometheus(folder, config, rules=_rules_at_once()))
        fleet = MonitoredFleet(folder, prometheus, notices)
        _serve_own_page(fleet, agent)
        fleet.kubectl("create", "namespace", "ml")
        PODS[-1]["spec"]["nodeName"] = "whole-0"  # past the scheduler, so that kubelet refuses it
        for body in (QUOTA, *PODS):
            fleet.kubectl("create", "-n", "ml", "-f", "-", given=body)
        pods = [f"pod/{name}" for name in RUNNING]
        fleet.kubectl("wait", "-n", "ml", *pods, "--for=condition=Ready", "--timeout=60s")
        yield fleet


def _serve_own_page(fleet: MonitoredFleet, address: str) -> None:
    """Replace one agent by one that serves its own page, which agents of the twin do at loopback alone.

    It has the counters that our alerts read beside the default ones, and one that the documents ask for.
    """
    agent = ("-n", "tonnage-system", "daemonset", "tonnage-agent")
    arguments = json.loads(fleet.kubectl("get", *agent, "-o", "json"))
    place = "/spec/template/spec/containers/0/args"
    words = arguments["spec"]["template"]["spec"]["containers"][0]["args"]
    served = [*words, f"--metrics-address={address}", f"--collectors=/{_COUNTERS}", "--collect-interval=1000"]
    place_on_node = root_of(fleet.folder, AGENT_NODE) / _COUNTERS
    place_on_node.parent.mkdir(parents=True, exist_ok=True)
    shipped = (Path(__file__).parents[2] / "deploy/monitoring/counters.csv").read_text()
    place_on_node.write_text(f"{shipped}DCGM_FI_DEV_PCIE_TX_THROUGHPUT, gauge, PCIe TX throughput (KB/s)\n")
    patch = [
        {"op": "replace", "path": "/spec/updateStrategy", "value": {"type": "OnDelete"}},
        {"op": "replace", "path": place, "value": served},
    ]
    fleet.kubectl("patch", *agent, "--type=json", "-p", json.dumps(patch))
    here = ("--field-selector", f"spec.nodeName={AGENT_NODE}", "-l", "app.kubernetes.io/part-of=tonnage")
    fleet.kubectl("delete", "-n", "tonnage-system", "pods", *here, "--wait=true")
    deadline = time.monotonic() + PATIENCE_S
    while not _answers(f"http://{address}/healthz"):
        assert time.monotonic() < deadline, fleet.kubectl("get", *agent, "-o", "yaml")
        time.sleep(0.1)


def root_of(folder: Path, node: str) -> Path:
    """The folder that is `/` to the agent of a node of the twin whose environment is of this folder."""
    state = folder / "state"
    named = state / RUNTIME
    runtime = (
        Path(named.read_text())
        if named.exists()
        else runtime_folder(environment_of(folder), state.absolute(), os.getuid())
    )
    return next(
        file.parents[1] for file in runtime.glob("*/etc/hostname") if file.read_text().strip() == node
    )


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5):
            return True
    except OSError:
        return False


def environment_of(folder: Path) -> dict[str, str]:
    """Of a person who has this cluster alone."""
    return {
        **os.environ,
        "TONNAGE_STATE": str(folder / "state"),
        "KUBECONFIG": str(folder / "state" / "kubeconfig"),
        "GOGC": "off",
    }


def _rules_at_once() -> Any:
    """The rules, whose alerts wait for nothing."""
    rules: Any = rules_file()
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule.pop("for", None)
    return rules


@contextmanager
def _webhook(notices: list[dict[str, Any]]) -> Iterator[str]:
    """A server that keeps what is posted to it; its address."""

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            notices.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/"
        finally:
            server.shutdown()
            join(thread)


def run_program(command: Sequence[str], environment: dict[str, str], given: str = "") -> str:
    ended = subprocess.run(
        command, env=environment, input=given, capture_output=True, text=True, timeout=120, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout
