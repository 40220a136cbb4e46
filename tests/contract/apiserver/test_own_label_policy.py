"""The chart's admission policies: which labels, layouts and pauses an agent may write to its own Node."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from support.agent_policy_server import (
    CLUSTER_KINDS,
    MERGE,
    NODE_OF_THE_TOKEN,
    PATIENCE_S,
    Server,
    path_of,
)
from support.helm import NAMESPACE, Helm, Manifest
from support.nodefeatures import node_feature_crd
from tonnage.decide.node.labels.gpu import gpu_labels
from tonnage.decide.node.labels.machine import machine_labels
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.node.machine import Cpu, Machine, PciDevice
from tonnage.model.node.plugin_settings import MigStrategy
from tonnage.wire.kinds import CUSTOM_RESOURCE, NODE_FEATURE

OWNED = "tonnage.dev/labels"


@pytest.fixture(scope="module")
def labelling(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """What the patch of a node's labels is refused with, for an agent that may write some."""
    helm = Helm(4, tmp_path_factory.mktemp("helm"))
    yield from _writing(server, helm, "labelling", "features: {publish: direct}")


@pytest.fixture(scope="module", params=["none", "direct"])
def dividing(
    request: pytest.FixtureRequest, server: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., str]]:
    """The same for one that divides its GPUs, whether or not it publishes labels."""
    helm, publish = Helm(4, tmp_path_factory.mktemp("helm")), request.param
    values = f"features: {{publish: {publish}}}\nmigManager: {{enabled: true}}"
    yield from _writing(server, helm, f"dividing-{publish}", values)


@pytest.fixture(scope="module")
def pausing(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., str]]:
    """The same for one that may also cordon its node and pause operands there."""
    values = "migManager: {enabled: true, evictPods: true, cordon: true, pauseOperands: true}"
    yield from _writing(server, Helm(4, tmp_path_factory.mktemp("helm")), "pausing", values)


def _writing(server: Server, helm: Helm, name: str, values: str) -> Iterator[Callable[..., str]]:
    """What the patch of a Node's metadata is refused with, for an agent of that name and chart."""
    rendered = helm.rendered(f"fullnameOverride: {name}\nserviceAccount: {{name: {name}}}\n{values}")
    made = [(path_of(found), found) for found in rendered if found["kind"] in CLUSTER_KINDS]
    for path, found in made:
        assert server.send("POST", path, found) == ""

    def patch(
        *, of: str = "mine", kind: str = MERGE, spec: Manifest | None = None, **metadata: Manifest
    ) -> str:
        who = {"Impersonate-User": f"system:serviceaccount:{NAMESPACE}:{name}", NODE_OF_THE_TOKEN: "mine"}
        body: Manifest = {"metadata": metadata} | ({"spec": spec} if spec else {})
        return server.send("PATCH", f"/api/v1/nodes/{of}", body, kind, **who)

    until = time.monotonic() + PATIENCE_S
    while not patch(labels={"a": str(time.monotonic())}):  # what stands already is no change to refuse
        assert time.monotonic() < until
    assert server.send("PATCH", "/api/v1/nodes/mine", {"metadata": {"labels": {"a": "b"}}}, MERGE) == ""
    yield patch
    for path, found in made:
        server.send("DELETE", f"{path}/{found['metadata']['name']}")


def test_the_labels_that_it_publishes(labelling: Callable[..., str]) -> None:
    mig = MigDevice("MIG-0", 0, "1g.5gb", 1, 0, 4864)
    device = Device("GPU-0", 0, "NVIDIA A100", 40960, "8.0", mig_enabled=True, migs=(mig,), clique="a.1")
    config = PluginConfig(mig_strategy=MigStrategy.MIXED)
    vgpu = bytes(0x34) + b"\x40" + bytes(11) + b"\x09\0\x20VF\0\x16" + b"460.16".ljust(10, b"\0") + b"r460"
    machine = Machine(
        "R750",
        "6.8.0-51",
        {"ID": "ubuntu", "VERSION_ID": "24.04"},
        Cpu("GenuineIntel", 6, 143),
        (PciDevice("0000:17:00.0", "030200", "10de", "20b0", vgpu.ljust(256, b"\0")),),
    )
    inventory = Inventory((device,), "550.163.01", "12.4")
    plan = share(inventory, config)
    started = datetime(2026, 1, 1, tzinfo=UTC)
    mixed = gpu_labels(inventory, config, plan, machine, started=started)
    config = replace(config, mig_strategy=MigStrategy.SINGLE)
    labels = mixed | gpu_labels(inventory, config, share(inventory, config), machine)
    labels |= machine_labels(machine)
    assert "nvidia.com/vgpu.host-driver-branch" in labels
    assert labelling(labels=labels, annotations={OWNED: ",".join(labels)}) == ""
    assert labelling(labels=dict.fromkeys(labels), annotations={OWNED: None}) == "", "and takes them away"


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"nvidia.com/device-plugin.config": "mine"}},
        {"labels": {"nvidia.com/mig.config": "all-1g.5gb"}},
        {"labels": {"nvidia.com/gpu.deploy.driver": "false"}},
        {"labels": {"node-role.kubernetes.io/control-plane": ""}},
        {"labels": {"a": None}},
        {"labels": {"a": "c"}},
        {"labels": {"not.nvidia.com/gpu.count": "1"}},
        {"annotations": {"a": "b"}},
        {"finalizers": ["a.b/c"]},
    ],
    ids=lambda metadata: str(metadata)[:60],
)
def test_no_other_label_and_annotation(labelling: Callable[..., str], metadata: dict[str, Any]) -> None:
    assert "its own conditions and labels of a node and nothing else" in labelling(**metadata)


STATE, REASON = "nvidia.com/mig.config.state", "nvidia.com/mig.config.state.reason"


def test_the_state_of_its_mig_layout(dividing: Callable[..., str]) -> None:
    assert dividing(labels={STATE: "failed"}, annotations={REASON: "a reset is needed"}) == ""
    assert dividing(labels={STATE: "success"}, annotations={REASON: None}) == ""


@pytest.mark.parametrize(
    "metadata",
    [
        {"labels": {"nvidia.com/mig.config": "all-1g.5gb"}},
        {"labels": {"nvidia.com/mig.config.stated": "x"}},
        {"labels": {"node-role.kubernetes.io/control-plane": ""}},
        {"annotations": {"nvidia.com/mig.config": "x"}},
    ],
    ids=lambda metadata: str(metadata)[:60],
)
def test_nothing_that_asks_for_a_layout(dividing: Callable[..., str], metadata: dict[str, Any]) -> None:
    assert "its own conditions and labels of a node and nothing else" in dividing(**metadata)


PAUSED_BY_IT, DCGM = "tonnage.dev/mig-paused", "nvidia.com/gpu.deploy.dcgm"


def test_what_it_pauses_and_gives_back(pausing: Callable[..., str]) -> None:
    paused = {"labels": {DCGM: "paused-for-mig-change"}, "annotations": {PAUSED_BY_IT: "{}"}}
    assert pausing(spec={"unschedulable": True}, **paused) == ""
    restored: dict[str, Any] = {"labels": {DCGM: "true"}, "annotations": {PAUSED_BY_IT: None}}
    assert pausing(spec={"unschedulable": None}, **restored) == ""


@pytest.mark.parametrize(
    "patch",
    [
        {"spec": {"unschedulable": True}},
        {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}, "annotations": {PAUSED_BY_IT: "{}"}},
        {"labels": {"nvidia.com/gpu.deploy.driver": "false"}},
        {"annotations": {"tonnage.dev/mig": "x"}},
    ],
    ids=["a cordon without saying so", "taints", "the driver", "other annotations"],
)
def test_nothing_else_is_paused(pausing: Callable[..., str], patch: dict[str, Any]) -> None:
    assert "its own conditions and labels of a node and nothing else" in pausing(**patch)


def test_who_only_divides_cordons_nothing(dividing: Callable[..., str]) -> None:
    said: dict[str, Any] = {"annotations": {PAUSED_BY_IT: "{}"}}
    assert "nothing else" in dividing(spec={"unschedulable": True}, **said)
    assert "nothing else" in dividing(labels={DCGM: "paused-for-mig-change"}, **said)


def test_no_label_of_another_node(labelling: Callable[..., str]) -> None:
    assert "of that node alone" in labelling(of="other", labels={"nvidia.com/gpu.count": "1"})


def test_the_node_feature_of_its_own_node_alone(
    server: Server, tmp_path_factory: pytest.TempPathFactory
) -> None:
    values = (
        "fullnameOverride: featuring\nserviceAccount: {name: featuring}\nfeatures: {publish: nodefeature}"
    )
    everything = Helm(4, tmp_path_factory.mktemp("helm")).rendered(values)
    rendered = [one for one in everything if not one["metadata"]["name"].endswith("-device-annotations")]
    kinds = (*CLUSTER_KINDS, "Role", "RoleBinding")
    crd: Manifest = {"apiVersion": CUSTOM_RESOURCE.api_version, "kind": CUSTOM_RESOURCE.kind}
    assert server.send("POST", CUSTOM_RESOURCE.path(), {**crd, **node_feature_crd()}) == ""
    namespace: Manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    server.send("POST", "/api/v1/namespaces", namespace)
    for found in rendered:
        if found["kind"] in kinds and found["metadata"].get("namespace") in (None, NAMESPACE):
            path = path_of(found)
            if found["kind"] in ("Role", "RoleBinding"):
                group, plural = path.rsplit("/", 1)
                path = f"{group}/namespaces/{NAMESPACE}/{plural}"
            assert server.send("POST", path, found) == ""

    def create(of: str, said: str | None = None) -> str:
        name = f"nvidia-features-for-{of}"
        labels = {"nfd.node.kubernetes.io/node-name": said or of}
        body: Manifest = {"apiVersion": NODE_FEATURE.api_version, "kind": NODE_FEATURE.kind}
        body |= {"metadata": {"name": name, "labels": labels}, "spec": {"labels": {}}}
        account = f"system:serviceaccount:{NAMESPACE}:featuring"
        who = {"Impersonate-User": account, NODE_OF_THE_TOKEN: "mine"}
        return server.send("POST", NODE_FEATURE.path(NAMESPACE), body, **who)

    until, number = time.monotonic() + PATIENCE_S, 0
    while "of that node alone" not in create(f"other-{number}"):
        number += 1
        assert time.monotonic() < until
    assert "of that node alone" in create("mine", said="other"), "the label decides whose labels they become"
    assert create("mine") == ""
