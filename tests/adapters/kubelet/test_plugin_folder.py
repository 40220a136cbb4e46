"""Sockets in kubelet's folder: opened, replaced, lost, withdrawn, and refused with a reason."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from tonnage.adapters.kubelet.device_holders import KubeletFiles
from tonnage.adapters.kubelet.plugin_folder import PluginFolder, socket_name
from tonnage.model.devices.sharing import Advertisement, DeviceSlot, Hold, Injection
from tonnage.model.errors import ClusterError, HardwareError
from tonnage.model.names import GPU, ResourceName
from tonnage.wire.kubelet import deviceplugin_v1beta1_pb2 as wire

ONE = Advertisement(GPU, (DeviceSlot("a", "a", numa_node=1),))


class Service:
    """Gives nothing."""

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[Injection, ...]:
        return tuple(Injection() for _ in requests)

    async def prefer(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        return ()


@pytest.fixture
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_socket_names_differ_by_vendor_and_resource() -> None:
    names = ["nvidia.com/gpu", "nvidia.com/gpu.shared", "a.io/gpu"]
    assert [socket_name(ResourceName(n)) for n in names] == [
        "nvidia-gpu.sock",
        "nvidia-gpu.shared.sock",
        "a.io-gpu.sock",
    ]


async def test_a_server_that_replaces_another_keeps_its_socket(folder: Path) -> None:
    sockets = PluginFolder(folder, folder / "kubelet.sock")
    for _ in range(3):
        await sockets.serve(ONE, Service())
        assert sockets.present(GPU)
    (folder / "nvidia-gpu.sock").unlink()
    assert not sockets.present(GPU)
    await sockets.serve(ONE, Service())
    assert sockets.present(GPU)
    await sockets.close()
    assert names(folder) == []


async def test_a_socket_of_somebody_else_is_left_alone(folder: Path) -> None:
    ours, theirs = (
        PluginFolder(folder, folder / "kubelet.sock"),
        PluginFolder(folder, folder / "kubelet.sock"),
    )
    await ours.serve(ONE, Service())
    await theirs.serve(ONE, Service())
    assert not ours.present(GPU)
    await ours.close()
    assert theirs.present(GPU)
    await theirs.close()


async def test_a_withdrawn_resource_says_an_empty_list_first(folder: Path) -> None:
    sockets = PluginFolder(folder, folder / "kubelet.sock")
    await sockets.serve(ONE, Service())
    async with grpc.aio.insecure_channel(f"unix:{folder}/nvidia-gpu.sock") as channel:
        stream = channel.unary_stream(
            "/v1beta1.DevicePlugin/ListAndWatch",
            request_serializer=wire.Empty.SerializeToString,
            response_deserializer=wire.ListAndWatchResponse.FromString,
        )(wire.Empty())
        first: Any = await stream.read()
        assert [(d.ID, d.health, [n.ID for n in d.topology.nodes]) for d in first.devices] == [
            ("a", "Healthy", [1])
        ]
        withdrawn = asyncio.create_task(sockets.withdraw(GPU))
        last: Any = await stream.read()
        assert list(last.devices) == []
        assert await stream.read() is grpc.aio.EOF
        await withdrawn
    assert names(folder) == []


async def test_too_long_a_path_is_refused_with_the_limit(folder: Path) -> None:
    with pytest.raises(HardwareError, match="at most 107 bytes"):
        await PluginFolder(folder / ("x" * 100), None).serve(ONE, Service())


async def test_a_folder_that_is_none_is_a_hardware_error(folder: Path) -> None:
    (folder / "file").touch()
    with pytest.raises(HardwareError, match="cannot be opened as a socket"):
        await PluginFolder(folder / "file", None).serve(ONE, Service())


async def test_without_kubelet_registration_is_a_cluster_error(folder: Path) -> None:
    sockets = PluginFolder(folder, folder / "kubelet.sock")
    assert sockets.kubelet() == ""
    with pytest.raises(ClusterError, match="kubelet did not register"):
        await sockets.register(GPU)


async def test_without_kubelet_holds_come_from_its_checkpoint(folder: Path) -> None:
    kubelet = KubeletFiles(folder)
    with pytest.raises(ClusterError, match="is missing"):
        await kubelet.shown()
    assert await kubelet.checkpoint() == ()
    file = folder / "device-plugins" / "kubelet_internal_checkpoint"
    file.parent.mkdir()
    common = {"PodUID": "u", "ContainerName": "c", "ResourceName": "r"}
    entries = [{**common, "DeviceIDs": ids} for ids in ({"-1": ["a"], "0": ["b"]}, ["d"])]
    file.write_text(json.dumps({"Data": {"PodDeviceEntries": entries}}))
    holds = await kubelet.checkpoint()
    assert holds == (Hold("r", ("a", "b"), "", "u", "c"), Hold("r", ("d",), "", "u", "c"))
    await kubelet.close()


HALF = {"PodUID": "\ud800", "ContainerName": "c", "ResourceName": "r", "DeviceIDs": ["a"]}
SENSELESS = ["", "{}", "[]", '{"Data": {"PodDeviceEntries": [{}]}}', "[" * 100_000]


@pytest.mark.parametrize("text", [*SENSELESS, json.dumps({"Data": {"PodDeviceEntries": [HALF]}})])
async def test_a_senseless_checkpoint_is_a_hardware_error(folder: Path, text: str) -> None:
    file = folder / "device-plugins" / "kubelet_internal_checkpoint"
    file.parent.mkdir()
    file.write_text(text)
    with pytest.raises(HardwareError, match="is malformed"):
        await KubeletFiles(folder).checkpoint()


async def test_without_a_kubelet_the_sockets_are_there_and_nobody_is_told(folder: Path) -> None:
    sockets = PluginFolder(folder, None)
    await sockets.serve(ONE, Service())
    assert sockets.kubelet() == sockets.kubelet() != ""
    await sockets.register(ONE.resource)
    assert sockets.present(ONE.resource)
    await sockets.close()
