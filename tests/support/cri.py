"""containerd asked as kubelet asks it, with no kubelet: pods and containers over CRI."""

from __future__ import annotations

import importlib
import itertools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import grpc

from support.genuine_node import GenuineNode, until
from support.images import BUSYBOX
from support.node_root import CONTAINERD_SOCKET

_LOGS: Final = "/var/log/cri"
_EXITED: Final = 2
_END: Final = "-- END"
_LIMIT_S: Final = 60


class RefusedError(Exception):
    """containerd does not create or start the container; the text is its own."""


class Cri:
    """One pod in the node's network, in which containers are made until `close`."""

    def __init__(self, node: GenuineNode) -> None:
        self._node = node
        self._channel = grpc.insecure_channel(f"unix:/proc/{node.pid('containerd')}/root{CONTAINERD_SOCKET}")
        self._numbers = itertools.count()
        api = _messages()
        namespaces = api.NamespaceOption(network=api.NODE, pid=api.CONTAINER)
        self._pod = api.PodSandboxConfig(
            metadata=api.PodSandboxMetadata(name="pod", uid="pod", namespace="default"),
            log_directory=_LOGS,
            linux=api.LinuxPodSandboxConfig(
                cgroup_parent=f"/{node.cgroup}",
                security_context=api.LinuxSandboxSecurityContext(namespace_options=namespaces),
            ),
        )
        request = api.RunPodSandboxRequest(config=self._pod)
        self._id = self._ask("RunPodSandbox", request, api.RunPodSandboxResponse).pod_sandbox_id

    def close(self) -> None:
        """Remove the pod and all its containers."""
        api = _messages()
        for method in ("StopPodSandbox", "RemovePodSandbox"):
            self._ask(method, api.PodSandboxRequest(pod_sandbox_id=self._id), api.Nothing)
        self._channel.close()

    def create(
        self, script: str, devices: Sequence[str] = (), annotations: Mapping[str, str] | None = None
    ) -> str:
        """A container's id, which `start` takes. Raises RefusedError."""
        api, number = _messages(), next(self._numbers)
        config = api.ContainerConfig(
            metadata=api.ContainerMetadata(name=f"c{number}"),
            image=api.ImageSpec(image=BUSYBOX),
            command=["sh", "-c", f"trap 'echo {_END}' EXIT; {script}"],
            annotations=dict(annotations or {}),
            log_path=f"{number}.log",
            CDI_devices=[api.CDIDevice(name=device) for device in devices],
        )
        request = api.CreateContainerRequest(pod_sandbox_id=self._id, config=config, sandbox_config=self._pod)
        made = self._ask(
            "CreateContainer", request, api.ContainerRequest
        )  # an id is all that it answers, too
        return f"{made.container_id}/{number}"

    def start(self, container: str) -> str:
        """What its script says until it ends. Raises RefusedError."""
        api, (identity, _, number) = _messages(), container.partition("/")
        request = api.ContainerRequest(container_id=identity)
        self._ask("StartContainer", request, api.Nothing)

        def is_over() -> bool:
            answer = self._ask("ContainerStatus", request, api.ContainerStatusResponse)
            return bool(answer.status.state == _EXITED)

        until(is_over)
        log = self._node.root.at(f"{_LOGS}/{number}.log")
        until(lambda: log.read_text().endswith(f" {_END}\n"))  # containerd may still write when it is over
        return "".join(f"{line.split(' ', 3)[3]}\n" for line in log.read_text().splitlines()[:-1])

    def _ask(self, method: str, request: Any, response: Any) -> Any:
        call = self._channel.unary_unary(
            f"/runtime.v1.RuntimeService/{method}", type(request).SerializeToString, response.FromString
        )
        try:
            return call(request, timeout=_LIMIT_S)
        except grpc.RpcError as error:
            said: Any = error  # what is raised is a call, too, which the types do not say
            raise RefusedError(said.details()) from None


@cache
def _messages() -> Any:
    """The messages of cri.proto, compiled now: only tests speak this protocol."""
    from grpc_tools import protoc

    here = Path(__file__).parent
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        assert protoc.main(["protoc", f"-I{here}", f"--python_out={folder}", "cri.proto"]) == 0
        sys.path.insert(0, folder)
        try:
            return importlib.import_module("cri_pb2")
        finally:
            sys.path.remove(folder)
