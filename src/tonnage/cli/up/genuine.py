"""The fleet on a genuine control plane: real API server, controllers and scheduler; the twin's kubelets."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final, cast

from tonnage.adapters.certificates import Authority
from tonnage.adapters.control_plane import LOOPBACK, SERVICE_ADDRESS, ControlPlane, ControlPlaneFolder
from tonnage.adapters.kubernetes.client import connect
from tonnage.cli.locations.state import private_folder
from tonnage.cli.up.options import Serving
from tonnage.cli.up.programs import node_programs
from tonnage.documents.scenario import Scenario
from tonnage.model.errors import ClusterError, Problem
from tonnage.model.kubernetes.feature_gates import FeatureGates
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import Endpoint
from tonnage.twin.fleet import Loops, TwinNodes
from tonnage.twin.platform import platform_objects

_NODES_A_CLIENT: Final = 50
"""Each kubelet keeps a watch open; a client holds 200 connections."""
_AUDIT_POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [{"level": "Metadata"}],
    "omitStages": ["RequestReceived"],
}
_USERS: Final = {
    "admin": ("admin", "system:masters"),
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
}
"""Who a token of `tokens.csv` is: user and group. Roles for the two loops are there from the start."""


class GenuineCluster:
    """First `serve`, then `populate`.

    `folder` is for what the processes need and say; `runtime_dir` for the nodes' sockets: keep it short.
    """

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        *,
        folder: Path,
        runtime_dir: Path,
        binaries: Path,
        serving: Serving = Serving(),  # noqa: B008 - frozen
    ) -> None:
        self._audit_log = serving.audit_log
        self._gates = FeatureGates(chosen=scenario.with_gates(serving.gates).gates)
        self._scenario = scenario
        self._clock = clock
        self._runtime_dir = runtime_dir
        self._authority = Authority.generate(clock.now())
        self._folder = ControlPlaneFolder(folder)
        self._plane = ControlPlane(binaries, self._folder, os.environ, port=serving.port or 0)
        self._loops = Loops()
        self._fleet: TwinNodes | None = None
        self._clients = AsyncExitStack()
        self._api: KubernetesApi | None = None

    @property
    def api(self) -> KubernetesApi:
        """Once the cluster is populated."""
        assert self._api is not None
        return self._api

    async def serve(self, *flags: str) -> Endpoint:
        """Start etcd and the API server, which gets `flags` too; there are no nodes yet.

        Raises:
            ClusterError: a process ended.
        """
        tokens = write_credentials(self._folder, self._authority, self._plane.url)
        await self._plane.serve(*self._audit_flags(), *self._gates.server_flags, *flags)
        return Endpoint(self._plane.url, self._authority.certificate_pem, tokens["admin"])

    def _audit_flags(self) -> list[str]:
        if self._audit_log is None:
            return []
        policy = self._folder.path / "audit-policy.json"
        _write(policy, json.dumps(_AUDIT_POLICY).encode())
        flags = [f"--audit-policy-file={policy}", f"--audit-log-path={self._audit_log}"]
        return [*flags, "--audit-log-maxsize=64", "--audit-log-maxbackup=3"]

    async def populate(self, kubeconfig: Path) -> None:
        """Start the loops and the kubelets, which say the server's version, and install the agents."""
        self._plane.run_loops(*self._gates.flags)
        clients = [
            await self._clients.enter_async_context(connect(kubeconfig, program="tonnage-twin"))
            for _ in range(1 + (self._scenario.nodes - 1) // _NODES_A_CLIENT)
        ]
        self._api = clients[0]
        version = cast("dict[str, str]", await clients[0].get_raw("/version"))["gitVersion"]
        self._fleet = TwinNodes(
            self._scenario,
            self._clock,
            lambda number: clients[number // _NODES_A_CLIENT],
            runtime_dir=self._runtime_dir,
            programs=node_programs(kubeconfig),
            kubelet_version=version,
        )
        await self._fleet.start(self._authority, self._loops)
        objects = platform_objects(
            self._scenario.config_texts,
            kubeconfig,
            controller=self._scenario.controller,
            drivers=self._scenario.drivers,
        )
        for kind, namespace, body in objects:
            typed = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
            await self.api.create(kind, typed, namespace=namespace)

    def check(self) -> None:
        """Nothing while all processes run.

        Raises:
            ClusterError: one has ended.
        """
        self._plane.check()

    async def stop(self) -> None:
        """End loops, containers, clients and processes, in this order; the log of one that failed stays."""
        failed = self._failed_log()
        await self._loops.stop()
        if self._fleet is not None:
            await self._fleet.stop()
        await self._clients.aclose()
        await self._plane.stop()
        if not failed:
            shutil.rmtree(self._folder.path, ignore_errors=True)
            return
        for entry in self._folder.path.iterdir():
            if entry.is_dir():
                shutil.rmtree(entry)
            elif str(entry) != failed:
                entry.unlink()

    def _failed_log(self) -> str:
        try:
            self.check()
        except ClusterError as error:
            problem: Problem = error.problems[0]
            return problem.where
        return ""


def write_credentials(
    folder: ControlPlaneFolder, authority: Authority, url: str, *, nodes: Sequence[str] = ()
) -> Mapping[str, str]:
    """Write what `ControlPlaneFolder` lists; the token of each user, by the name of its kubeconfig.

    Each of `nodes` is a user too, with a node's own rights; the kubeconfig has the node's name.
    """
    private_folder(folder.path)
    _write(folder.certificate("ca"), authority.certificate_pem)
    _write(folder.key("ca"), authority.key_pem)  # the controller manager signs with it
    kubernetes = ["kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost"]
    for name, pair in {
        "apiserver": authority.issue(
            "apiserver", hosts=[LOOPBACK, SERVICE_ADDRESS, *kubernetes], server=True
        ),
        "etcd": authority.issue("etcd", hosts=[LOOPBACK, "localhost"], client=True, server=True),
        "kubelet-client": authority.issue("kubelet-client", organizations=["system:masters"], client=True),
        "service-accounts": authority.issue("service-accounts"),
    }.items():
        _write(folder.certificate(name), pair.certificate_pem)
        _write(folder.key(name), pair.key_pem)
    users = {**_USERS, **{name: (f"system:node:{name}", "system:nodes") for name in nodes}}
    tokens = {name: secrets.token_urlsafe(32) for name in users}
    rows = (f'{tokens[name]},{user},{user},"{group}"\n' for name, (user, group) in users.items())
    _write(folder.tokens, "".join(rows).encode())
    for name, token in tokens.items():
        if name != "admin":
            text = kubeconfig_text(Endpoint(url, authority.certificate_pem, token))
            _write(folder.kubeconfig(name), text.encode())
    return tokens


def _write(path: Path, content: bytes) -> None:
    """Readable by its owner alone; nobody reads it before it is whole, so it need not be replaced at once."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
