"""What a policy's drivers come to, before and after it is applied."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tonnage.cli.operator.drivers import show_nvidia_drivers, show_outlook
from tonnage.decide.cluster.operate.drivers.daemon_set import group_digest
from tonnage.decide.cluster.operate.drivers.groups import assignment
from tonnage.decide.cluster.operate.drivers.rollout import DriverCluster
from tonnage.decide.cluster.operate.plugin_configs import ConfigCopy
from tonnage.decide.cluster.operate.policy_status import PolicyJudgement
from tonnage.diagnose.operated import OperatedView
from tonnage.diagnose.operated_drivers import DriverOutlook, driver_outlook, with_driver_problem
from tonnage.model.drivers.daemon_set import StandingDaemonSet
from tonnage.model.drivers.node import DEPLOY_DRIVER, GROUP_LABEL, DriverNode, DriverPod, HostSystem
from tonnage.model.drivers.policy import DriverOwner, DriverOwnerKind, DriverPolicy, ImageFields
from tonnage.model.gpu_policy import GpuPolicy, PolicyState
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.reasons.cluster.drivers import DriverPolicyRefused

NAME = "nvidia-driver-daemonset-ubuntu22.04"
HOST = HostSystem("ubuntu", "22.04", driver_owner="container", nouveau_bound=0)
OWNER = DriverOwner(DriverOwnerKind.CLUSTER_POLICY, "p", "u")


def policy(version: str) -> DriverPolicy:
    return DriverPolicy(OWNER, image=ImageFields("nvcr.io/nvidia", "driver", version))


def node(name: str, host: HostSystem = HOST, group: str = "") -> DriverNode:
    labels = {DEPLOY_DRIVER: "true", **({GROUP_LABEL: group} if group else {})}
    return DriverNode(name, labels=labels, host=host)


def cluster(version: str, *running: str) -> DriverCluster:
    """Nodes a, b and c; `running` are versions of the drivers of the first ones."""
    pods, digest = {}, ""
    for name, old in zip("abc", running, strict=False):
        group = assignment([policy(old)], [node(name)]).groups[name]
        digest = group_digest(group)
        pods[name] = DriverPod("ns", f"d-{name}", "u", name, NAME, digest, ready=True)
    standing = {NAME: StandingDaemonSet(NAME, "u", digest, owner="ClusterPolicy u")} if pods else {}
    nodes = [node(name, group=NAME if name in pods else "") for name in "abc"]
    return DriverCluster([policy(version)], nodes, pods, standing, namespace="ns")


@pytest.mark.parametrize(
    ("seen", "change", "installs", "upgrades"),
    [
        pytest.param(cluster("2"), "new", "abc", "", id="no driver so far"),
        pytest.param(cluster("2", "1", "1"), "changed", "c", "ab", id="another version, and a new node"),
        pytest.param(cluster("2", "2", "2", "2"), "", "", "", id="all as it is"),
    ],
)
def test_a_group_says_which_nodes_get_a_driver_and_which_another(
    seen: DriverCluster, change: str, installs: str, upgrades: str
) -> None:
    [group] = driver_outlook(seen).groups
    assert group.image == "nvcr.io/nvidia/driver:2-ubuntu22.04"
    assert (group.change, group.installs, group.upgrades) == (change, tuple(installs), tuple(upgrades))
    assert group.nodes == ("a", "b", "c")


def test_nodes_that_something_stands_against_are_named_and_in_no_group() -> None:
    bound = node("b", replace(HOST, nouveau_bound=1))
    unknown = node("c", HostSystem())
    outlook = driver_outlook(DriverCluster([policy("2")], [node("a"), bound, unknown]))
    [group] = outlook.groups
    assert group.nodes == ("a",)
    assert [(problem.node, problem.condition) for problem in outlook.problems] == [
        ("b", "NouveauBound"),
        ("c", "SystemUnknown"),
    ]
    assert json.dumps(outlook.to_json())


def test_a_policy_that_is_not_followed_says_why_and_daemon_sets_without_nodes_go() -> None:
    snapshot = cluster("2", "1")
    refused = replace(policy("2"), problem="spec.driver: x")
    outlook = driver_outlook(replace(snapshot, policies=[refused], nodes=[]))
    [conflict] = outlook.conflicts
    assert isinstance(conflict, DriverPolicyRefused)
    assert (outlook.groups, conflict.message, outlook.unused) == ((), "spec.driver: x", (NAME,))


def test_the_outlook_in_lines(capsys: pytest.CaptureFixture[str]) -> None:
    show_outlook(driver_outlook(cluster("2", "1", "2")))
    assert capsys.readouterr().out.splitlines() == [
        "",
        "Drivers:",
        f"  DaemonSet {NAME} (ClusterPolicy p): nvcr.io/nvidia/driver:2-ubuntu22.04",
        "    install on c",
        "    upgrade on a",
        "    stays on b",
    ]


def test_where_no_controller_installs_drivers_nothing_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    show_outlook(None)
    assert capsys.readouterr().out == ""
    show_outlook(DriverOutlook())
    assert capsys.readouterr().out == "\nDrivers: no node would get a driver container\n"


def test_every_nvidiadriver_is_shown_with_what_its_conditions_say(
    capsys: pytest.CaptureFixture[str],
) -> None:
    upgrade = "0 of 1 nodes run the driver that is asked for\na: waits for you"
    conditions: list[JsonValue] = [
        {"type": "Ready", "message": upgrade},
        {"type": "tonnage.dev/DriverPreflight", "message": "a: nouveau"},
        {"type": "tonnage.dev/DriverUpgrade", "message": upgrade},
    ]
    unused: list[JsonValue] = [{"type": "Ready", "message": "no ClusterPolicy sets it"}]
    statuses: dict[str, JsonObject] = {
        "pool": {"state": "notReady", "conditions": conditions},
        "off": {"state": "disabled", "conditions": unused},
        "new": {},
    }
    show_nvidia_drivers(statuses)
    assert capsys.readouterr().out.splitlines() == [
        "",
        "NVIDIADriver new: no controller has looked at it",
        "",
        "NVIDIADriver off: disabled, no ClusterPolicy sets it",
        "",
        "NVIDIADriver pool: notReady",
        "  Before a driver is rolled out: a: nouveau",
        "  Drivers: 0 of 1 nodes run the driver that is asked for",
        "    a: waits for you",
    ]


@pytest.mark.parametrize(
    ("version", "state"), [("1", PolicyState.READY), ("", PolicyState.NOT_READY)], ids=["a tag", "none"]
)
def test_a_policy_whose_drivers_cannot_follow_it_is_not_ready(version: str, state: PolicyState) -> None:
    view = OperatedView(GpuPolicy("p"), PolicyJudgement(PolicyState.READY), (), (), ConfigCopy())
    judgement = with_driver_problem(view, driver_outlook(cluster(version))).judgement
    assert judgement.state is state
    assert judgement.message.startswith("spec.driver.version: ") is not bool(version)
