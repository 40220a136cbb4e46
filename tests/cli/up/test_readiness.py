"""How far a starting fleet has come."""

from __future__ import annotations

import base64

import pytest
import yaml

from tonnage.cli.up.readiness import readiness
from tonnage.documents.scenario import Scenario, parse_scenario
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import Endpoint
from tonnage.wire.objects import Condition, Node, NodeGPUStatus, NodeStatus, ObjectMeta


@pytest.fixture
def scenario() -> Scenario:
    text = "name: x\ngroups: [{name: t4, nodes: 2, gpu: {model: T4}}, {name: cpu, nodes: 1}]"
    return parse_scenario(text, source="x")


def node(name: str, *, ready: str = "True", **allocatable: str) -> Node:
    offered = {"cpu": "4", **{key.replace("__", "/").replace("_", "."): n for key, n in allocatable.items()}}
    status = NodeStatus(conditions=[Condition(type="Ready", status=ready)], allocatable=dict(offered))
    return Node(metadata=ObjectMeta(name=name), status=status)


@pytest.mark.parametrize(
    ("nodes", "reporters", "text", "complete"),
    [
        pytest.param(
            [], "", "0/3 nodes Ready, 0/2 advertise GPUs, 0/2 agents have reported", False, id="nothing yet"
        ),
        pytest.param(
            [node("t4-0"), node("t4-1", ready="False"), node("cpu-0")],
            "t4-1",
            "2/3 nodes Ready, 0/2 advertise GPUs, 1/2 agents have reported",
            False,
            id="some nodes",
        ),
        pytest.param(
            [node("t4-0", nvidia_com__gpu="1"), node("t4-1", nvidia_com__gpu="0"), node("cpu-0")],
            "t4-0 t4-1",
            "3/3 nodes Ready, 1/2 advertise GPUs, 2/2 agents have reported",
            False,
            id="a plugin that offers nothing",
        ),
        pytest.param(
            [
                node("t4-0", nvidia_com__gpu_shared="4"),
                node("t4-1", nvidia_com__gpu="1"),
                node("cpu-0"),
                node("x"),
            ],
            "t4-0 t4-1 x",
            "3/3 nodes Ready, 2/2 advertise GPUs, 2/2 agents have reported",
            True,
            id="everything, and a node that somebody added",
        ),
        pytest.param(
            [node("t4-0", nvidia_com__gpu="1"), node("t4-1", nvidia_com__gpu="1"), node("cpu-0")],
            "t4-1",
            "3/3 nodes Ready, 2/2 advertise GPUs, 1/2 agents have reported",
            False,
            id="devices, before an agent's report",
        ),
    ],
)
def test_readiness_counts_the_scenario(
    scenario: Scenario, nodes: list[Node], reporters: str, text: str, complete: bool
) -> None:
    reports = [NodeGPUStatus(metadata=ObjectMeta(name=name)) for name in reporters.split()]
    now = readiness(scenario, nodes, reports)
    assert (str(now), now.complete) == (text, complete)


def test_nodes_without_an_agent_are_waited_for_without_a_report(scenario: Scenario) -> None:
    light = scenario.with_light(2)
    nodes = [node(name, nvidia_com__gpu="8") for group in light.groups for name in group.node_names]
    reports = [NodeGPUStatus(metadata=ObjectMeta(name=f"t4-{number}")) for number in range(2)]
    now = readiness(light, nodes, reports)
    assert (now.complete, now.agents, now.ready) == (True, 2, 5)


def test_the_kubeconfig_has_what_kubectl_needs() -> None:
    read = yaml.safe_load(kubeconfig_text(Endpoint("https://127.0.0.1:1", b"PEM", "secret: #")))
    assert read["users"][0]["user"] == {"token": "secret: #"}
    assert base64.b64decode(read["clusters"][0]["cluster"]["certificate-authority-data"]) == b"PEM"
    assert read["current-context"] == read["contexts"][0]["name"]
