"""What the twin's kubelets hear from device plugins, and its API server from webhooks and bearers."""

from __future__ import annotations

import asyncio
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

from google.protobuf.message import DecodeError

from support.kubelet_side import FastClock
from tonnage.decide.kubernetes.api.patches.json_patches import json_patch
from tonnage.decide.kubernetes.kubelet.topology_manager import NumaTopology
from tonnage.model.errors import ApiError
from tonnage.twin.apiserver.authentication.account_tokens import TokenKey, unsigned_claims
from tonnage.twin.apiserver.webhooks.client import _refused, _trusting
from tonnage.twin.apiserver.webhooks.review import V1, V1BETA1, CallError, read_answer
from tonnage.twin.kubelet.claims.claim_cache import decode_claims, encode_claims
from tonnage.twin.kubelet.claims.device_health import DeviceHealth
from tonnage.twin.kubelet.claims.drivers import Drivers
from tonnage.twin.kubelet.claims.manager import ClaimManager
from tonnage.twin.kubelet.containers.runtime_port import StartError
from tonnage.twin.kubelet.containers.starter import ContainerStarter
from tonnage.twin.kubelet.devices.checkpoint import CheckpointEntry
from tonnage.twin.kubelet.devices.manager import DeviceManager
from tonnage.twin.kubelet.devices.plugins import PluginEndpoint
from tonnage.twin.kubelet.devices.registration import _refusal
from tonnage.twin.kubelet.node_disk import LocalDisk
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire
from tonnage.wire.kubelet import methods
from tonnage.wire.kubelet.claim_methods import GET_INFO, health_method
from tonnage.wire.objects import ObjectMeta, Pod

Target = Callable[[bytes], None]
HEALTH: Final = "v1.DRAResourceHealth"
_POD: Final = Pod(metadata=ObjectMeta(name="p", namespace="d", uid="u"))


@contextmanager
def plugin_messages() -> Iterator[Target]:
    """A registration, a list of devices and an answer to Allocate, which the bytes are taken for in turn."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder, asyncio.Runner() as runner:
        node = cast("Any", SimpleNamespace(paths=NodePaths(Path(folder))))

        def target(data: bytes) -> None:
            with suppress(DecodeError):
                _refusal(methods.REGISTER.request.FromString(data))
            with suppress(DecodeError):
                answer = GET_INFO.response.FromString(data)
                drivers = Drivers(node.paths, _nobody_waits)
                drivers._driver(answer, Path(folder) / "x.sock", (0, 0))
            with suppress(DecodeError):
                reports = health_method(HEALTH).response.FromString(data)
                DeviceHealth(FastClock(), lambda: None)._note("d", reports.devices)
            with suppress(ValueError):
                claims = decode_claims(data)
                assert decode_claims(encode_claims(claims)) == claims
            with suppress(DecodeError):
                runner.run(_listed(node.paths, methods.LIST_AND_WATCH.response.FromString(data)))
            with suppress(DecodeError, StartError):
                runner.run(_injected(node, data))

        yield target


async def _nobody_waits(_driver: str) -> None: ...


def _manager(paths: NodePaths) -> DeviceManager:
    return DeviceManager(paths, LocalDisk(), FastClock(), NumaTopology(2), lambda: None)


async def _listed(paths: NodePaths, answer: wire.ListAndWatchResponse) -> None:
    manager = _manager(paths)
    plugin = cast("PluginEndpoint", SimpleNamespace(resource="example.com/gpu", wants_pre_start=False))
    await manager.resources.plugin_connected(plugin)
    await manager.resources.devices_listed(plugin, list(answer.devices))
    for capacity, allocatable in manager.resources.capacity_and_allocatable().values():
        assert 0 <= allocatable <= capacity


async def _injected(node: Any, data: bytes) -> None:
    manager = _manager(node.paths)
    manager._entries["u", "c", "example.com/gpu"] = CheckpointEntry(
        "u", "c", "example.com/gpu", {-1: ("0",)}, data
    )
    nobody = cast("Any", None)
    claims = ClaimManager("n", nobody, FastClock(), node.paths, LocalDisk())
    await ContainerStarter(node, nobody, nobody, nobody, (manager, claims), nobody)._injection(_POD, "c")


def webhook_answers(data: bytes) -> None:
    """An AdmissionReview, its patch, and an answer that is no success."""
    for version in (V1, V1BETA1):
        with suppress(CallError, ApiError):
            answer = read_answer(data, "u", version, mutating=True)
            json_patch({"metadata": {"name": "n"}, "a": [1]}, list(answer.patch))
    for code in (404, 500):
        _refused(code, "text/plain", data)


def trust_bundles(data: bytes) -> None:
    with suppress(CallError):
        _trusting(b64encode(data).decode())


@contextmanager
def bearer_tokens() -> Iterator[Target]:
    key = TokenKey()

    def target(data: bytes) -> None:
        text = data.decode("latin-1")
        unsigned_claims(text)
        assert key.claims(text) is None

    yield target
