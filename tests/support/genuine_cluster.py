"""A genuine cluster of one genuine node, and the questions that tests ask of it."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from support.genuine_node import NODE_NAME, GenuineNode, until
from support.leftovers import cgroup_of
from support.node_root import make_node_root
from support.own_network import NODE_ADDRESS, is_own_network
from tonnage.adapters.certificates import Authority
from tonnage.adapters.control_plane import ControlPlane, ControlPlaneFolder
from tonnage.cli.locations.binaries import CONTROL_PLANE, NODE, chosen_minor, find_binaries
from tonnage.cli.locations.kubectl import nearest_kubectl
from tonnage.cli.up.genuine import write_credentials
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import Endpoint

_API_PORT: Final = 443
"""So the Service `kubernetes` needs no translation."""
_LIMIT_S: Final = 900.0
"""For a command: more than a whole lab takes."""


class GenuineCluster:
    """Control plane and node."""

    def __init__(self, plane: ControlPlane, node: GenuineNode, kubeconfig: Path) -> None:
        self.plane = plane
        self.node = node
        self.kubeconfig = kubeconfig

    def kubectl(self, *arguments: str, standard_input: str = "", check: bool = True) -> str:
        """Its standard output; AssertionError with what it said when it fails and `check`."""
        program = str(nearest_kubectl(chosen_minor(os.environ)))
        ended = subprocess.run(
            [program, "--kubeconfig", str(self.kubeconfig), *arguments],
            input=standard_input,
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )
        assert not check or ended.returncode == 0, ended.stderr
        return ended.stdout

    def get(self, *arguments: str) -> Any:
        """What `kubectl get … -o json` answers; an empty dict where there is none."""
        return json.loads(self.kubectl("get", *arguments, "--ignore-not-found", "-o", "json") or "{}")

    def apply(self, *objects: Mapping[str, object]) -> None:
        """Apply objects, in this order."""
        body = {"apiVersion": "v1", "kind": "List", "items": objects}
        self.kubectl("apply", "-f", "-", standard_input=json.dumps(body))

    def inside(self, pod: str, *command: str, container: str = "main") -> str:
        """What a command in a pod of namespace default prints; AssertionError when it fails."""
        return self.kubectl("exec", pod, "-c", container, "--", *command)

    def tonnage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command line of the checkout, asking this cluster."""
        return subprocess.run(
            [sys.executable, "-m", "tonnage", *arguments, "--kubeconfig", str(self.kubeconfig)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_LIMIT_S,
        )

    def phase(self, pod: str, namespace: str = "default") -> str:
        """Of a pod; empty when there is none."""
        return str(self.get("pod", pod, "-n", namespace).get("status", {}).get("phase", ""))

    def allocatable(self, resource: str) -> int:
        """Of the node; -1 when it has no such resource."""
        return int(self.get("node", NODE_NAME)["status"].get("allocatable", {}).get(resource, -1))

    def is_ready(self) -> bool:
        """Whether the node can take pods; raises ClusterError when a process has ended."""
        self.plane.check()
        self.node.check()
        node = self.get("node", NODE_NAME)
        conditions = {one["type"]: one["status"] for one in node.get("status", {}).get("conditions", [])}
        return conditions.get("Ready") == "True" and not node["spec"].get("taints")


@contextmanager
def genuine_cluster(
    folder: Path, *, images: Sequence[Path] = (), api_flags: Sequence[str] = ()
) -> Iterator[GenuineCluster]:
    """Everything, ready for pods; no process, mount or group of it is left afterwards.

    `folder` is one of `own_folder`; `api_flags` come last, so they win.
    """
    assert is_own_network(), "run `make test-kubernetes`, or scripts/test_kubernetes.py"
    binaries = find_binaries(os.environ, programs=(*CONTROL_PLANE, *NODE))
    files = ControlPlaneFolder(folder / "control-plane")
    authority = Authority.generate(datetime.now(UTC))
    plane = ControlPlane(binaries.folder, files, os.environ, port=_API_PORT)
    tokens = write_credentials(files, authority, plane.url, nodes=[NODE_NAME])
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(kubeconfig_text(Endpoint(plane.url, authority.certificate_pem, tokens["admin"])))
    cgroup = cgroup_of(folder)
    root = make_node_root(
        folder / "root",
        programs={name: binaries.path(name) for name in NODE},
        secrets=_secrets(files, authority),
        cgroup=cgroup,
    )
    node = GenuineNode(folder, root, cgroup)
    with ExitStack() as stack:
        stack.callback(lambda: asyncio.run(plane.stop()))
        asyncio.run(
            plane.serve(
                "--bind-address=0.0.0.0",  # the pods' way is the address of the Service
                f"--advertise-address={NODE_ADDRESS}",
                "--enable-admission-plugins=NodeRestriction",
                *api_flags,
            )
        )
        plane.run_loops()
        stack.callback(node.crash)
        node.boot()
        for image in images:
            node.import_image(image)
        cluster = GenuineCluster(plane, node, kubeconfig)
        until(cluster.is_ready)
        yield cluster


def _secrets(files: ControlPlaneFolder, authority: Authority) -> Mapping[str, bytes]:
    serving = authority.issue("kubelet", hosts=[NODE_ADDRESS, NODE_NAME], server=True)
    return {
        "ca.pem": authority.certificate_pem,
        "kubelet.pem": serving.certificate_pem,
        "kubelet.key": serving.key_pem,
        "kubeconfig": files.kubeconfig(NODE_NAME).read_bytes(),
    }
