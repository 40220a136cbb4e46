"""The agent of a genuine node as a process of the machine: easier to kill at any moment than a pod."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME
from support.helm import Helm
from tonnage.adapters.child_process import ChildProcess
from tonnage.model.errors import ClusterError
from tonnage.twin.platform import SYSTEM_NAMESPACE

CHART: Final = Path(__file__).resolve().parents[2] / "deploy/helm/tonnage"
ACCOUNT: Final = "tonnage-agent"
USER: Final = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{ACCOUNT}"
_LEFT_OUT: Final = ("DaemonSet", "NetworkPolicy")
_GRACE_S: Final = 90.0
_SETTINGS: Final = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV")


class AgentProcess:
    """`tonnage node` with pretended devices and the service account, rights and kinds of the chart.

    It sees the node's kubelet through the node's folder on the machine, and the API server at `url`.
    """

    def __init__(
        self, cluster: GenuineCluster, folder: Path, *, devices: Sequence[str], config: str, url: str
    ) -> None:
        """`devices` are uuids; `config` is the text of the device-plugin configuration."""
        self._folder = folder
        self._cluster = cluster
        self._hardware, self._config = folder / "hardware.yaml", folder / "config.yaml"
        self._kubeconfig = folder / "agent.kubeconfig"
        self._hardware.write_text(
            json.dumps({"devices": [{"uuid": uuid, "model": "T4"} for uuid in devices]})
        )
        self._config.write_text(config)
        self._processes: list[ChildProcess] = []
        self._starts = 0
        self._installed: list[dict[str, Any]] = []
        self._install(url)

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        """Start it; a predecessor may still be running, then it waits for its end."""
        self._starts += 1
        self._processes.append(
            ChildProcess(
                Path(sys.executable),
                [
                    *("-m", "tonnage", "node", "--node-name", NODE_NAME),
                    *("--root", str(self._cluster.node.root.path), "--devices", f"scenario:{self._hardware}"),
                    *("--config", str(self._config), "--kubeconfig", str(self._kubeconfig)),
                ],
                log=self._folder / f"agent-{self._starts}.log",
                environment={
                    **{name: os.environ[name] for name in _SETTINGS if name in os.environ},
                    **(environment or {}),
                },
            )
        )

    def kill(self) -> None:
        """SIGKILL to the oldest that runs, and wait until it is gone."""
        process = self._processes.pop(0)
        os.kill(process.pid, signal.SIGKILL)
        asyncio.run(process.end(_GRACE_S))

    def send(self, number: int) -> None:
        """A signal to the newest."""
        os.kill(self.pid, number)

    def stop(self) -> None:
        """SIGTERM to the oldest that runs, and wait until it is gone; it must say that all is well."""
        process = self._processes.pop(0)
        asyncio.run(process.end(_GRACE_S))
        with pytest.raises(ClusterError, match="exit status 0"):
            process.check()

    def check(self) -> None:
        """Raises ClusterError with the last words when one that should run has ended."""
        for process in self._processes:
            process.check()

    @property
    def log(self) -> str:
        """What the newest has said."""
        return (self._folder / f"agent-{self._starts}.log").read_text()

    @property
    def pid(self) -> int:
        """Of the newest."""
        return self._processes[-1].pid

    def close(self) -> None:
        """End what runs, and take away what `start` needed."""
        while self._processes:
            self.kill()
        for file in self._cluster.node.root.at("/var/lib/tonnage").iterdir():
            file.unlink()
        for part in self._installed:
            self._cluster.kubectl("delete", "--ignore-not-found", "-f", "-", standard_input=json.dumps(part))

    def _install(self, url: str) -> None:
        """What the chart would, but for the DaemonSet; and a kubeconfig with a token of the account.

        The token says on which node it is used, as that of a pod does.
        """
        text = Helm(4, self._folder).run("template", "tonnage", CHART, "--namespace", SYSTEM_NAMESPACE)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}}
        rest = [one for one in yaml.load_all(text, yaml.CSafeLoader) if one and one["kind"] not in _LEFT_OUT]
        self._installed = [namespace, *rest]
        self._cluster.apply(*self._installed)
        bound = ("--bound-object-kind=Node", f"--bound-object-name={NODE_NAME}", "--duration=2h")
        token = self._cluster.kubectl("create", "token", ACCOUNT, "-n", SYSTEM_NAMESPACE, *bound)
        document = json.loads(self._cluster.kubeconfig.read_text())
        document["clusters"][0]["cluster"]["server"] = url
        document["users"][0]["user"] = {"token": token.strip()}
        self._kubeconfig.write_text(json.dumps(document))
