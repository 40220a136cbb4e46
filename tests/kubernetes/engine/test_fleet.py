"""A hundred nodes with GPUs on a genuine control plane: one process for all kubelets and agents."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from support.genuine_node import until
from tonnage.adapters.child_process import ChildProcess
from tonnage.cli.locations.binaries import CONTROL_PLANE, chosen_minor
from tonnage.cli.locations.kubectl import nearest_kubectl
from tonnage.model.errors import ClusterError

pytestmark = pytest.mark.kubernetes

NODES: Final = 100
GPUS: Final = 2
GPU: Final = "nvidia.com/gpu"
FLEET: Final = f"name: fleet\ngroups: [{{name: t4, nodes: 1, gpu: {{model: T4, count: {GPUS}}}}}]\n"
PATIENCE_S: Final = 240.0
ENDING_S: Final = 180.0
POD: Final = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "one"},
    "spec": {
        "containers": [
            {
                "name": "main",
                "image": "busybox:1.37",
                "command": ["sleep", "infinity"],
                "resources": {"limits": {GPU: 1}},
            }
        ]
    },
}


@dataclass(frozen=True, slots=True)
class Up:
    """`tonnage up` in the foreground; its state and its nodes' sockets lie below `folder`."""

    process: ChildProcess
    folder: Path

    @property
    def state(self) -> Path:
        return self.folder / "state"

    def kubectl(self, *arguments: str, standard_input: str = "") -> str:
        """Its standard output; raises CalledProcessError when it fails."""
        command = [
            str(nearest_kubectl(chosen_minor(os.environ))),
            "--kubeconfig",
            str(self.state / "kubeconfig"),
            *arguments,
        ]
        return subprocess.run(
            command, input=standard_input, capture_output=True, text=True, check=True, timeout=600
        ).stdout

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def said(self, words: str) -> bool:
        """Whether its output has them; raises ClusterError when it has ended."""
        self.process.check()
        return words in self.process.log.read_text()

    def programs(self) -> Mapping[int, str]:
        """Every process that runs for it, by number: those whose command line names the folder."""
        found = {}
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                words = (entry / "cmdline").read_bytes().decode().split("\0") if entry.name.isdigit() else []
                if any(str(self.folder) in word for word in words) and "kubectl" not in Path(words[0]).name:
                    found[int(entry.name)] = Path(words[0]).name
        return found

    def end(self) -> None:
        """SIGTERM; SIGKILL when that takes too long."""
        asyncio.run(self.process.end(ENDING_S))


@pytest.fixture
def up() -> Iterator[Up]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as name:
        folder = Path(name)
        (folder / "r").mkdir()  # a socket below it has a long path already
        (folder / "fleet.yaml").write_text(FLEET)
        asked = ["--scenario", str(folder / "fleet.yaml"), "--nodes", str(NODES)]
        process = ChildProcess(
            Path(sys.executable),
            ["-m", "tonnage", "up", "--engine", "kubernetes", *asked],
            log=folder / "up.log",
            environment={
                **os.environ,
                "TONNAGE_STATE": str(folder / "state"),
                "XDG_RUNTIME_DIR": str(folder / "r"),
            },
        )
        up = Up(process, folder)
        try:
            yield up
        finally:
            up.end()
            until(lambda: not up.programs())


def test_a_fleet_of_a_hundred_nodes(up: Up, record_property: Callable[[str, object], None]) -> None:
    """All Ready, all GPUs offered, each told of by its own agent; a pod gets one; SIGTERM ends all of it."""
    start = time.monotonic()
    until(lambda: up.said("export KUBECONFIG="), PATIENCE_S)
    figures = {"all_ready_s": time.monotonic() - start}
    nodes = up.get("nodes")["items"]
    assert len(nodes) == NODES
    assert {_ready(node) for node in nodes} == {"True"}
    assert {node["status"]["allocatable"][GPU] for node in nodes} == {str(GPUS)}

    names = {node["metadata"]["name"] for node in nodes}
    until(
        lambda: {name for name, devices in _published(up).items() if len(devices) == GPUS} == names,
        PATIENCE_S,
    )
    uuids = [uuid for devices in _published(up).values() for uuid in devices]
    assert len(set(uuids)) == NODES * GPUS
    figures["all_published_s"] = time.monotonic() - start
    assert sorted(up.programs().values()) == sorted([Path(sys.executable).name, *CONTROL_PLANE])

    until(lambda: up.get("serviceaccounts")["items"] != [])
    up.kubectl("apply", "-f", "-", standard_input=json.dumps(POD))
    up.kubectl("wait", "pod/one", "--for=condition=Ready", "--timeout=90s")
    node = up.get("pod", "one")["spec"]["nodeName"]
    seen = up.kubectl("exec", "one", "--", "nvidia-smi", "--query-gpu=gpu_uuid", "--format=csv,noheader")
    (held,) = seen.split()
    until(lambda: _published(up)[node][held] == ["default/one"])
    taken = [holders for devices in _published(up).values() for holders in devices.values() if holders]
    assert taken == [["default/one"]]

    start = time.monotonic()
    up.end()
    figures["ended_s"] = time.monotonic() - start
    with pytest.raises(ClusterError, match="exit status 0"):
        up.process.check()
    assert up.programs() == {}
    assert not up.state.exists()
    assert list((up.folder / "r").iterdir()) == []
    rounded = {name: round(value, 1) for name, value in figures.items()}
    record_property("fleet", rounded)
    print(json.dumps({"fleet": NODES, **rounded}))


def _ready(node: Mapping[str, Any]) -> str:
    (ready,) = [one for one in node["status"]["conditions"] if one["type"] == "Ready"]
    return str(ready["status"])


def _published(up: Up) -> Mapping[str, Mapping[str, list[str]]]:
    """By the NodeGPUStatus of each node: who holds each GPU, by its uuid."""
    return {
        item["metadata"]["name"]: {
            device["uuid"]: [f"{one['namespace']}/{one['pod']}" for one in device.get("holders", ())]
            for device in item.get("status", {}).get("devices", ())
        }
        for item in up.get("nodegpustatuses")["items"]
    }
