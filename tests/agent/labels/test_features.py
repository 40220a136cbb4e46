"""Labels are published, kept so, and go with the hardware: never with the driver or the agent."""

from __future__ import annotations

import asyncio
import io
import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.agent_context import context_of
from support.api_stores import new_store
from support.dying_loops import KilledError, killed_at
from support.nodefeatures import node_feature_crd
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.features_file import FeatureLines
from tonnage.agent.board import NodeBoard
from tonnage.agent.labels.features import NodeFeatures
from tonnage.agent.labels.sinks import FeatureFile, LabelSink, NodeFeatureObject, NodeLabels
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.loop.effects import ActionPorts
from tonnage.loop.performer import Performer
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import ApiError, ClusterError, ConfigError, HardwareError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.names import AGENTS_LABELS
from tonnage.model.node.machine import Machine, PciDevice
from tonnage.model.node.plugin_settings import FeatureSettings
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire.kinds import CUSTOM_RESOURCE, NODE, NODE_FEATURE, POD

PATIENCE_S = 60.0
T4 = Inventory((Device("GPU-0", 0, "Tesla T4", 15360, "7.5"),))
A100 = Inventory((Device("GPU-1", 0, "NVIDIA A100-SXM4-40GB", 40960, "8.0"),))
PRODUCT, PRESENT = "nvidia.com/gpu.product", "nvidia.com/gpu.present"
BUS = (PciDevice("0000:17:00.0", "030200", "10de", "1eb8"),)


class Told:
    """What the other loops know, for NodeFeatures to follow."""

    def __init__(self, settings: FeatureSettings | None = None) -> None:
        self.inventory: Inventory | None = T4
        self.error = ""
        self.machine = Machine(kernel="6.1.0", pci=BUS)
        self.current: ConfigInForce | None = None
        self.settle(settings or FeatureSettings(timestamp=False))

    def settle(self, settings: FeatureSettings) -> None:
        self.current = ConfigInForce(PluginConfig(features=settings), ConfigChoice("", "built-in"))

    async def read(self, _file: str) -> Machine:
        return self.machine


class Shown:
    """A sink that keeps what it is given; `refusals` are raised first."""

    def __init__(self, *refusals: ClusterError) -> None:
        self.refusals = list(refusals)
        self.history: list[Mapping[str, str]] = []
        self.asked = asyncio.Event()

    async def show(self, labels: Mapping[str, str]) -> None:
        self.asked.set()
        if self.refusals:
            raise self.refusals.pop(0)
        self.history.append(dict(labels))

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                self.asked.clear()
                await self.asked.wait()


@asynccontextmanager
async def publishing(
    told: Told, sink_for: Callable[[FeatureSettings], LabelSink], clock: Any, folder: Path
) -> AsyncIterator[Callable[[], None]]:
    context = context_of("node-1", None, clock, FolderCheckpoints(folder))
    board = NodeBoard.blank(clock)
    task = asyncio.create_task(NodeFeatures(context, board, told, sink_for).run())

    def publish() -> None:
        board.devices_error.publish(told.error)
        board.inventory.publish(told.inventory)
        board.configuration.publish(told.current)

    publish()
    try:
        yield publish
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_changes_is_published_anew(clock: Any, tmp_path: Path) -> None:
    told, sink = Told(), Shown()
    async with publishing(told, lambda _: sink, clock, tmp_path) as publish:
        await sink.until(lambda: sink.history)
        told.inventory = A100
        publish()
        await sink.until(lambda: sink.history[-1][PRODUCT] == "NVIDIA-A100-SXM4-40GB")
    assert "feature.node.kubernetes.io/kernel-version.full" not in sink.history[-1], "feature discovery's own"


async def test_nothing_is_said_before_devices_and_configuration_are_known(clock: Any, tmp_path: Path) -> None:
    told, sink = Told(), Shown()
    told.inventory, known = None, told.inventory
    async with publishing(told, lambda _: sink, clock, tmp_path) as publish:
        await clock.sleep(5)
        assert sink.history == []
        told.inventory = known
        publish()
        await sink.until(lambda: sink.history)


async def test_labels_are_shown_again_at_the_configured_interval(clock: Any, tmp_path: Path) -> None:
    told, sink = Told(FeatureSettings(interval_s=2.0)), Shown()
    async with publishing(told, lambda _: sink, clock, tmp_path):
        await sink.until(lambda: len(sink.history) == 3)
    stamps = {labels["nvidia.com/gfd.timestamp"] for labels in sink.history}
    assert len(stamps) == 1, "of the start, not of the turn"


@pytest.mark.parametrize("settings", [FeatureSettings(oneshot=True), FeatureSettings(interval_s=None)])
async def test_once_is_once_until_the_configuration_is_another(
    settings: FeatureSettings, clock: Any, tmp_path: Path
) -> None:
    told, sink = Told(settings), Shown()
    async with publishing(told, lambda _: sink, clock, tmp_path) as publish:
        await sink.until(lambda: sink.history)
        told.inventory = A100
        publish()
        await clock.sleep(5)
        assert len(sink.history) == 1
        told.settle(FeatureSettings(timestamp=False))
        publish()
        await sink.until(lambda: len(sink.history) == 2)


async def test_what_is_refused_is_tried_again(clock: Any, tmp_path: Path) -> None:
    told, sink = Told(), Shown(ClusterError(), ApiError(409, "Conflict", "changed"))
    async with publishing(told, lambda _: sink, clock, tmp_path):
        await sink.until(lambda: sink.history)


async def test_a_driver_that_is_away_takes_no_label_with_it(clock: Any, tmp_path: Path) -> None:
    told, sink = Told(FeatureSettings(timestamp=False, interval_s=1.0)), Shown()
    async with publishing(told, lambda _: sink, clock, tmp_path) as publish:
        await sink.until(lambda: sink.history)
        told.inventory, told.error = Inventory(), "NVML: no driver"
        publish()
        await clock.sleep(6)
        assert all(PRODUCT in labels for labels in sink.history)
        told.machine = Machine(pci=())
        await sink.until(lambda: not sink.history[-1])


@pytest.fixture
async def api() -> KubernetesApi:
    api = ApiServer(SystemClock(), store=new_store()).local()
    metadata: JsonObject = {"name": "node-1", "labels": {PRESENT: "true", "a": "b"}}
    await api.create(NODE, {"metadata": metadata})
    return api


def node_labels(api: KubernetesApi, node: str = "node-1") -> NodeLabels:
    return NodeLabels(api, node, Performer(ActionPorts(api=api)))


def node_feature(api: KubernetesApi, *, pod: str = "") -> NodeFeatureObject:
    return NodeFeatureObject(api, "node-1", "default", Performer(ActionPorts(api=api)), pod=pod)


def lines(folder: Path, stream: io.StringIO, file: str = "") -> FeatureFile:
    return FeatureFile(Performer(ActionPorts(labels=FeatureLines(folder, stream))), file)


async def test_a_node_has_the_labels_and_loses_those_that_are_stale(api: KubernetesApi) -> None:
    sink = node_labels(api)
    await sink.show({PRESENT: "true", PRODUCT: "T4", "nvidia.com/gpu.count": "1"})
    meta = (await api.get(NODE, "node-1")).metadata
    assert meta.labels.items() >= {"a": "b", PRODUCT: "T4", "nvidia.com/gpu.count": "1"}.items()
    assert meta.annotations[AGENTS_LABELS] == f"nvidia.com/gpu.count,{PRODUCT}"
    await sink.show({PRESENT: "true", PRODUCT: "A100"})
    meta = (await api.get(NODE, "node-1")).metadata
    assert (meta.labels[PRODUCT], "nvidia.com/gpu.count" in meta.labels) == ("A100", False)
    await node_labels(api).show({})
    meta = (await api.get(NODE, "node-1")).metadata
    assert {key for key in meta.labels if "kubernetes.io" not in key} == {PRESENT, "a"}, (
        "what it did not write"
    )
    assert AGENTS_LABELS not in meta.annotations


async def test_killed_around_any_write_of_labels_the_next_agent_owns_what_it_should() -> None:
    fuse, killed = 0, True
    while killed:
        api = ApiServer(SystemClock(), store=new_store()).local()
        await api.create(NODE, {"metadata": {"name": "node-1", "labels": {PRESENT: "true", "a": "b"}}})
        await node_labels(api).show({PRESENT: "true", PRODUCT: "T4", "nvidia.com/gpu.count": "1"})
        killed = False
        try:
            performer = killed_at(fuse, ActionPorts(api=api))
            await NodeLabels(api, "node-1", performer).show({PRESENT: "true", PRODUCT: "A100"})
        except KilledError:
            killed = True
        await node_labels(api).show({PRESENT: "true", PRODUCT: "A100"})
        meta = (await api.get(NODE, "node-1")).metadata
        own = {key: text for key, text in meta.labels.items() if "kubernetes.io" not in key}
        assert own == {PRESENT: "true", "a": "b", PRODUCT: "A100"}
        assert meta.annotations[AGENTS_LABELS] == PRODUCT
        fuse += 1
    assert fuse == 3, "killed before and after its one patch"


async def test_what_somebody_else_wrote_into_its_labels_is_put_right(api: KubernetesApi) -> None:
    sink = node_labels(api)
    await sink.show({PRODUCT: "T4"})
    await api.patch(NODE, "node-1", {"metadata": {"labels": {PRODUCT: "wrong", "b": "c"}}})
    await sink.show({PRODUCT: "T4"})
    labels = (await api.get(NODE, "node-1")).metadata.labels
    assert (labels[PRODUCT], labels["b"]) == ("T4", "c")


async def test_what_is_so_already_is_not_written(api: KubernetesApi) -> None:
    sink = node_labels(api)
    await sink.show({PRODUCT: "T4"})
    before = (await api.get(NODE, "node-1")).metadata.resource_version
    await sink.show({PRODUCT: "T4"})
    assert (await api.get(NODE, "node-1")).metadata.resource_version == before


async def test_a_node_that_is_not_there_is_an_error(api: KubernetesApi) -> None:
    with pytest.raises(ApiError, match="node-2"):
        await node_labels(api, "node-2").show({PRODUCT: "T4"})


async def test_a_node_feature_is_made_changed_and_emptied(api: KubernetesApi) -> None:
    sink = node_feature(api)
    await api.create(CUSTOM_RESOURCE, node_feature_crd())
    await sink.show({})
    assert not (await api.list(NODE_FEATURE)).items, "without anything to say there is none"
    for labels in ({PRODUCT: "T4", PRESENT: "true"}, {PRODUCT: "A100"}, {PRODUCT: "A100"}, {}):
        await sink.show(labels)
        found = await api.get(NODE_FEATURE, "nvidia-features-for-node-1", "default")
        assert found.spec.get("labels", {}) == labels
        assert found.metadata.labels == {"nfd.node.kubernetes.io/node-name": "node-1"}


@pytest.mark.parametrize(
    ("owned_by", "owner"),
    [
        pytest.param([{"kind": "DaemonSet", "name": "gfd", "controller": True}], "DaemonSet", id="DaemonSet"),
        pytest.param([{"kind": "ReplicaSet", "name": "x"}], "Pod", id="nothing that controls it"),
        pytest.param([], "Pod", id="nothing"),
    ],
)
async def test_a_node_feature_goes_with_what_owns_the_agents_pod(
    api: KubernetesApi, owned_by: list[JsonObject], owner: str
) -> None:
    await api.create(CUSTOM_RESOURCE, node_feature_crd())
    await node_feature(api).show({PRODUCT: "T4"})
    owners: list[JsonValue] = [{"apiVersion": "apps/v1", "uid": "u-1", **one} for one in owned_by]
    pod: JsonObject = {"metadata": {"name": "gfd-1", "ownerReferences": owners}}
    pod["spec"] = {"containers": [{"name": "c", "image": "busybox:1.37"}]}
    uid = (await api.create(POD, pod, namespace="default")).metadata.uid
    sink = node_feature(api, pod="gfd-1")
    for _ in range(2):
        await sink.show({PRODUCT: "T4"})
        found = await api.get(NODE_FEATURE, "nvidia-features-for-node-1", "default")
        (reference,) = found.metadata.owner_references
        assert (reference.kind, reference.uid) == (owner, "u-1" if owner == "DaemonSet" else uid)


async def test_a_node_feature_of_a_pod_that_is_not_there_belongs_to_nobody(api: KubernetesApi) -> None:
    await api.create(CUSTOM_RESOURCE, node_feature_crd())
    await node_feature(api, pod="gone").show({PRODUCT: "T4"})
    found = await api.get(NODE_FEATURE, "nvidia-features-for-node-1", "default")
    assert found.metadata.owner_references == []


async def test_standard_output_gets_every_label_after_each_change(tmp_path: Path) -> None:
    """An `outputFile` that is empty."""
    stream = io.StringIO()
    sink = lines(tmp_path, stream)
    for labels in ({"b": "1", "a": "2"}, {"a": "2", "b": "1"}, {"a": "3"}):
        await sink.show(labels)
    assert stream.getvalue() == "a=2\nb=1\na=3\n"
    stream.close()
    with pytest.raises(HardwareError, match="cannot be written to standard output"):
        await sink.show({})


async def test_without_node_feature_discovery_there_is_an_error_to_tell(api: KubernetesApi) -> None:
    with pytest.raises(ClusterError):
        await node_feature(api).show({PRODUCT: "T4"})


async def test_a_file_is_replaced_and_removed_and_is_gone_from_its_former_place(
    clock: Any, tmp_path: Path
) -> None:
    told = Told(FeatureSettings(timestamp=False, output_file="/features.d/gfd"))
    performer = Performer(ActionPorts(labels=FeatureLines(tmp_path, io.StringIO())))
    files = lambda settings: FeatureFile(performer, settings.output_file)  # noqa: E731
    first, second = tmp_path / "features.d/gfd", tmp_path / "features.d/other"
    async with publishing(told, files, clock, tmp_path) as publish:
        await _until(first.exists, clock)
        text = first.read_text()
        assert f"{PRODUCT}=Tesla-T4\n" in text
        assert text.splitlines() == sorted(text.splitlines())
        assert first.stat().st_mode & 0o777 == 0o644
        told.settle(FeatureSettings(timestamp=False, output_file="/features.d/other"))
        publish()
        await _until(lambda: second.exists() and not first.exists(), clock)
    assert second.exists(), "the agent's end takes no label away"
    told.inventory = Inventory()
    async with publishing(told, files, clock, tmp_path):
        await _until(lambda: not second.exists(), clock)
    assert list(second.parent.iterdir()) == []


async def _until(holds: Callable[[], bool], clock: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():
            await clock.sleep(0.2)


async def test_the_whole_agent_labels_its_node(api: KubernetesApi) -> None:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    hardware = folder / "hardware.yaml"
    hardware.write_text("devices:\n- {uuid: GPU-0, model: T4}\n- {uuid: GPU-1, model: T4}\n")
    (folder / "proc/sys/kernel").mkdir(parents=True)
    (folder / "proc/sys/kernel/osrelease").write_text("6.8.0-51-generic\n")
    options = AgentOptions("node-1", f"scenario:{hardware}", folder, labels="direct")
    agent = asyncio.create_task(run_agent(options, api=api, clock=SystemClock()))

    async def labelled(count: str | None) -> bool:
        return (await api.get(NODE, "node-1")).metadata.labels.get("nvidia.com/gpu.count") == count

    try:
        await _until_or_ended(agent, lambda: labelled("2"))
        labels = (await api.get(NODE, "node-1")).metadata.labels
        assert labels[PRODUCT] == "Tesla-T4"
        assert labels["feature.node.kubernetes.io/kernel-version.major"] == "6"
        hardware.write_text("devices: []\n")
        await _until_or_ended(agent, lambda: labelled(None))
        labels = (await api.get(NODE, "node-1")).metadata.labels
        assert labels["feature.node.kubernetes.io/kernel-version.major"] == "6"
        assert labels[PRESENT] == "true", "it brought the agent here, and was not the agent's"
    finally:
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)
        shutil.rmtree(folder)


async def _until_or_ended(agent: asyncio.Task[None], holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await asyncio.wait((agent,), timeout=0.05)
            if agent.done():
                agent.result()


async def test_an_unknown_place_is_refused(tmp_path: Path) -> None:
    options = AgentOptions("node-1", "scenario:x", tmp_path, labels="nowhere")
    with pytest.raises(ConfigError, match="one of none, direct, nfd-file, nfd-object"):
        await run_agent(options, api=None, clock=SystemClock())
