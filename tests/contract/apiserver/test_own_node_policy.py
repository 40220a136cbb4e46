"""The chart's admission policies, on a genuine API server and on the twin's: what an agent may write."""

from __future__ import annotations

import base64
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

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

PATIENCE_S = 60.0
ACCOUNT = f"system:serviceaccount:{NAMESPACE}:tonnage-agent"
NODE_OF_THE_TOKEN = "Impersonate-Extra-authentication.kubernetes.io%2Fnode-name"
MERGE, STRATEGIC = "application/merge-patch+json", "application/strategic-merge-patch+json"
CLUSTER_KINDS = (
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ClusterRole",
    "ClusterRoleBinding",
)
STATUS = {"capacity": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}


class Server:
    """The API server as its administrator, who may speak for anybody, reaches it."""

    def __init__(self, kubeconfig: Path) -> None:
        document: Any = yaml.safe_load(kubeconfig.read_text())
        cluster = document["clusters"][0]["cluster"]
        self._url = cluster["server"]
        self._token = document["users"][0]["user"]["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._tls = ssl.create_default_context(cadata=authority)

    def send(
        self,
        method: str,
        path: str,
        body: Manifest | None = None,
        kind: str = "application/json",
        **more: str,
    ) -> str:
        """What the request is refused with; empty when it is not."""
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": kind, **more}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=30):
                return ""
        except urllib.error.HTTPError as error:
            return str(json.loads(error.read())["message"])

    def as_agent(self, node: str, patch: Manifest, *, of: str = "mine", kind: str = STRATEGIC) -> str:
        """What an agent's patch of a node's status is refused with; `node` is the one in its token."""
        who = {"Impersonate-User": ACCOUNT} | ({NODE_OF_THE_TOKEN: node} if node else {})
        return self.send("PATCH", f"/api/v1/nodes/{of}/status", patch, kind, **who)


def conditions(*kinds: str) -> Manifest:
    return {
        "status": {"conditions": [{"type": kind, "status": "True", "reason": "Because"} for kind in kinds]}
    }


def _path(found: Mapping[str, Any]) -> str:
    plural = {"ValidatingAdmissionPolicy": "validatingadmissionpolicies"}.get(
        found["kind"], f"{found['kind'].lower()}s"
    )
    return f"/apis/{found['apiVersion']}/{plural}"


@pytest.fixture(scope="module")
def server(api_kubeconfig: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """With two nodes, the chart's cluster roles and its policies, once they count."""
    server = Server(api_kubeconfig)
    helm = Helm(4, tmp_path_factory.mktemp("helm"))
    made = [(_path(found), found) for found in helm.rendered() if found["kind"] in CLUSTER_KINDS]
    for name in ("mine", "other"):
        node = {"metadata": {"name": name}, "status": STATUS}
        made.append(("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", **node}))
    for path, found in made:
        assert server.send("POST", path, found) == ""
    until = time.monotonic() + PATIENCE_S
    while not server.as_agent(
        "mine", conditions("GPUsHealthy"), of="other"
    ):  # a policy counts after a moment
        assert time.monotonic() < until
    yield server
    for path, found in made:
        server.send("DELETE", f"{path}/{found['metadata']['name']}")


def test_its_own_conditions_of_its_own_node(server: Server) -> None:
    assert server.as_agent("mine", conditions("GPUsHealthy", "GPUConfigApplied", "MPSReady")) == ""
    assert server.as_agent("mine", conditions("GPUsHealthy")) == "", "again, with others beside"


def test_no_other_node_and_none_without_a_name(server: Server) -> None:
    assert "the agent on node mine may write conditions of that node alone" in server.as_agent(
        "mine", conditions("GPUsHealthy"), of="other"
    )
    assert "does not say on which node" in server.as_agent("", conditions("GPUsHealthy"))


@pytest.mark.parametrize(
    "patch",
    [
        conditions("Ready"),
        {"status": {"capacity": {"nvidia.com/gpu": "64"}}},
        {"status": {"allocatable": {"cpu": "400"}}},
        {"status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}},
        {"status": {"volumesInUse": ["a"]}},
        {"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}},
        {"metadata": {"annotations": {"a": "b"}}},
        {"metadata": {"finalizers": ["a.b/c"]}},
    ],
    ids=lambda patch: str(patch)[:60],
)
def test_nothing_else_of_its_node(server: Server, patch: Manifest) -> None:
    assert "may write its own conditions of a node and nothing else" in server.as_agent("mine", patch)


def test_no_condition_of_others_is_taken_away(server: Server) -> None:
    only = conditions("GPUsHealthy")
    refusal = server.as_agent("mine", only, kind=MERGE)  # a merge replaces the list
    assert "may write its own conditions of a node and nothing else" in refusal


def event(about: str = "mine", **changes: Any) -> Manifest:
    """One as the agent on node `mine` writes it, but for the changes; None takes a field away."""
    whole: Manifest = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{about}.1", "namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": about, "uid": about},
        "type": "Warning",
        "reason": "DevicePluginConfigRefused",
        "message": "kept",
        "source": {"component": "tonnage-agent", "host": "mine"},
        "reportingComponent": "tonnage-agent",
        "reportingInstance": "mine",
        "count": 1,
    }
    return {key: value for key, value in (whole | changes).items() if value is not None}


EVENTS = "/api/v1/namespaces/default/events"
AGENT_OF_MINE = {"Impersonate-User": ACCOUNT, NODE_OF_THE_TOKEN: "mine"}


@pytest.fixture(scope="module")
def events(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The path of Events, once agents may write there and the policy counts."""
    server.send("POST", "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", **DEFAULT})
    made = []
    for found in Helm(4, tmp_path_factory.mktemp("helm")).rendered():
        if found["kind"] in ("Role", "RoleBinding") and found["metadata"]["namespace"] == "default":
            group, plural = _path(found).rsplit("/", 1)
            made.append((f"{group}/namespaces/default/{plural}", found))
    for path, found in made:
        assert server.send("POST", path, found) == ""
    until = time.monotonic() + PATIENCE_S
    while "about that node" not in server.send("POST", EVENTS, event("other"), **AGENT_OF_MINE):
        server.send("DELETE", f"{EVENTS}/other.1")
        assert time.monotonic() < until
    yield EVENTS
    for path, found in made:
        server.send("DELETE", f"{path}/{found['metadata']['name']}")


DEFAULT: Manifest = {"metadata": {"name": "default"}}


def test_events_about_its_own_node(server: Server, events: str) -> None:
    assert server.send("POST", events, event(), **AGENT_OF_MINE) == ""
    again: Manifest = {"count": 2, "lastTimestamp": "2026-01-01T00:00:00Z"}
    assert server.send("PATCH", f"{events}/mine.1", again, MERGE, **AGENT_OF_MINE) == ""
    combined = event(
        metadata={"name": "mine.2", "namespace": "default"}, reportingComponent=None, reportingInstance=None
    )
    assert server.send("POST", events, combined, **AGENT_OF_MINE) == "", "as client-go combines many"


@pytest.mark.parametrize(
    "changes",
    [
        {"about": "other"},
        {"involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "mine", "namespace": "default"}},
        {"involvedObject": {"apiVersion": "v1", "kind": "Secret", "name": "mine", "namespace": "default"}},
        {"involvedObject": {}},
        {"related": {"apiVersion": "v1", "kind": "Node", "name": "other"}},
        {"source": {"component": "kubelet", "host": "mine"}},
        {"source": {"component": "tonnage-agent", "host": "other"}},
        {"source": None},
        {"reportingComponent": "default-scheduler"},
        {"reportingInstance": "other"},
    ],
    ids=lambda changes: str(changes)[:70],
)
def test_no_event_about_anything_else_or_in_the_name_of_others(
    server: Server, events: str, changes: dict[str, Any]
) -> None:
    body = event(**changes)
    body["metadata"] = {"name": "forged.1", "namespace": "default"}
    refusal = server.send("POST", events, body, **AGENT_OF_MINE)
    assert "the agent on node mine may write Events about that node alone, in its own name" in refusal


def test_no_event_of_others_is_made_one_of_its_own(server: Server, events: str) -> None:
    others = event(
        "other", metadata={"name": "kubelet.1", "namespace": "default"}, source={"component": "kubelet"}
    )
    others |= {"reportingComponent": "kubelet", "reportingInstance": "other"}
    assert server.send("POST", events, others) == ""
    for patch in ({"message": "all is well"}, {key: event()[key] for key in ("involvedObject", "source")}):
        refused = server.send("PATCH", f"{events}/kubelet.1", patch, MERGE, **AGENT_OF_MINE)
        assert "may write Events about that node alone" in refused
    assert server.send("PATCH", f"{events}/kubelet.1", {"message": "seen"}, MERGE) == "", "others are let be"


def test_no_event_by_a_token_of_no_node(server: Server, events: str) -> None:
    body = event(metadata={"name": "nodeless.1", "namespace": "default"})
    who = {"Impersonate-User": ACCOUNT}
    assert "does not say on which node" in server.send("POST", events, body, **who)


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
    made = [(_path(found), found) for found in rendered if found["kind"] in CLUSTER_KINDS]
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
            path = _path(found)
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
