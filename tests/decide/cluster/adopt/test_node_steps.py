"""The steps of a node that changes hands; what may never happen, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.cluster.adopt.node_steps import (
    AdoptionStep,
    AwaitNode,
    ChangeNode,
    NodeAtRest,
    RefuseNode,
    next_adoption,
    next_release,
)
from tonnage.model.adoption import (
    NOTE,
    PAUSED,
    AdoptionFacts,
    AdoptionNote,
    AgentPod,
    note_from,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GPU, ADOPTED = "nvidia.com/gpu", "tonnage.dev/adopted"
PLUGIN, FEATURES = "nvidia.com/gpu.deploy.device-plugin", "nvidia.com/gpu.deploy.gpu-feature-discovery"
BEFORE = {PLUGIN: "true", FEATURES: "true", "nvidia.com/gpu.deploy.dcgm": "true"}
AGENT = AgentPod(ready=True, waits=True, parts=frozenset({"device-plugin", "gpu-feature-discovery"}))
DEVICES = frozenset((GPU, f"GPU-{number}") for number in range(4))
OTHERS = DEVICES - {(GPU, "GPU-0")} | {(GPU, "GPU-9")}
UNCOMPARED = "names and counts alone were compared, since the UUIDs of NVIDIA's plugin were not noted"
UNKNOWN = "Tonnage's agent has not reported which devices of NVIDIA's plugin kubelet has"
DIFFERENCE = (
    "NVIDIA's plugin alone offers GPU-0 as nvidia.com/gpu; "
    "Tonnage's agent alone offers GPU-9 as nvidia.com/gpu"
)
FRESH = AdoptionFacts(
    *("a", "7", BEFORE, ""),
    cordoned=False,
    moment=NOW,
    allocatable={GPU: 4},
    agent=AGENT,
    report_devices=4,
    offers=DEVICES,
    listed=DEVICES,
    plugin_pods=("p",),
    plugin_ready=True,
)
UUIDS = {GPU: ("GPU-0", "GPU-1", "GPU-2", "GPU-3")}
NOTED = AdoptionNote({PLUGIN: "true", FEATURES: "true"}, {GPU: 4}, cordoned=True, devices=UUIDS)
LEFT = replace(
    FRESH,
    labels={**BEFORE, PLUGIN: PAUSED, FEATURES: PAUSED, ADOPTED: "true"},
    note=NOTED.to_text(),
    cordoned=True,
    plugin_pods=(),
    plugin_ready=False,
    listed=frozenset(),
)
"""Without any plugin, which the Node does not show yet."""
WITHDRAWN = {key: value for key, value in LEFT.labels.items() if key != ADOPTED}
TAKEN_OVER = replace(LEFT, served={GPU: 4}, listed=DEVICES)
PROVEN = replace(TAKEN_OVER, note=replace(NOTED, proven=True, cordoned=False).to_text(), cordoned=False)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(
            *(FRESH, "cordon, and have Tonnage's agent take the place of NVIDIA's pods"),
            id="everything stands ready",
        ),
        pytest.param(TAKEN_OVER, "devices are as before: finish", id="our devices equal NVIDIA's"),
        pytest.param(
            replace(TAKEN_OVER, labels={**TAKEN_OVER.labels, PLUGIN: "true"}),
            "take NVIDIA's pods off again",
            id="somebody rewrote the label",
        ),
        pytest.param(
            replace(TAKEN_OVER, offers=OTHERS, listed=OTHERS, note=replace(NOTED, devices={}).to_text()),
            f"{UNCOMPARED}: finish",
            id="UUIDs were not noted",
        ),
    ],
)
def test_adoption_changes_the_node(facts: AdoptionFacts, words: str) -> None:
    step = next_adoption(facts)
    assert isinstance(step, ChangeNode)
    assert step.why == words


def test_the_first_write_notes_what_it_changes() -> None:
    step = next_adoption(FRESH)
    assert isinstance(step, ChangeNode)
    assert step.patch == {
        "metadata": {
            "resourceVersion": "7",
            "labels": {PLUGIN: PAUSED, FEATURES: PAUSED, ADOPTED: "true"},
            "annotations": {NOTE: NOTED.to_text()},
        },
        "spec": {"unschedulable": True},
    }
    assert note_from(NOTED.to_text()) == NOTED


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(replace(FRESH, agent=None), "Tonnage's agent is not ready", id="no agent"),
        pytest.param(
            replace(FRESH, report_devices=None), "Tonnage's agent has not reported", id="no fresh report"
        ),
        pytest.param(
            replace(FRESH, plugin_ready=False), "NVIDIA's device plugin is not ready", id="their plugin"
        ),
        pytest.param(
            replace(FRESH, allocatable={GPU: 0}), "NVIDIA's device plugin offers no device", id="no device"
        ),
        pytest.param(replace(LEFT, plugin_pods=("p", "q")), "NVIDIA's pods end: p, q", id="their pods end"),
        pytest.param(LEFT, "Tonnage's agent does not offer the devices yet", id="NVIDIA's plugin has left"),
        pytest.param(
            *(
                replace(TAKEN_OVER, listed=frozenset()),
                "kubelet does not have the devices of Tonnage's agent yet",
            ),
            id="the Node shows what was before",
        ),
        pytest.param(
            replace(TAKEN_OVER, served={GPU: 8}),
            "Tonnage's agent offers nvidia.com/gpu: 8, where NVIDIA's plugin offered nvidia.com/gpu: 4",
            id="another sharing",
        ),
        pytest.param(
            replace(TAKEN_OVER, allocatable={GPU: 0}),
            "the node offers nothing, where NVIDIA's plugin offered nvidia.com/gpu: 4",
            id="kubelet wrote its Node in between",
        ),
        pytest.param(
            replace(FRESH, served={GPU: 4}),
            "Tonnage's agent has not withdrawn its devices yet",
            id="an old report",
        ),
        pytest.param(replace(FRESH, listed=frozenset()), UNKNOWN, id="kubelet is silent"),
        pytest.param(
            *(replace(FRESH, listed=frozenset({("nvidia.com/mig-1g.10gb", "MIG-1")})), UNKNOWN),
            id="kubelet has told of what is not offered",
        ),
        pytest.param(replace(FRESH, offers=OTHERS), DIFFERENCE, id="other devices, before anything changes"),
        pytest.param(replace(TAKEN_OVER, offers=OTHERS), DIFFERENCE, id="other devices in the same number"),
    ],
)
def test_adoption_waits(facts: AdoptionFacts, words: str) -> None:
    step = next_adoption(facts)
    assert isinstance(step, AwaitNode)
    assert step.why == words
    assert step.begun == bool(facts.note)


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        pytest.param(
            replace(FRESH, agent=replace(AGENT, waits=False)),
            "does not wait there",
            id="an agent that serves",
        ),
        pytest.param(replace(FRESH, report_devices=0), "sees no device", id="no driver for us"),
        pytest.param(replace(FRESH, labels={}), "lacks the label", id="a plugin of nobody's operator"),
        pytest.param(replace(FRESH, note="{"), "cannot be read", id="a broken note"),
    ],
)
def test_adoption_refuses_before_it_changes_anything(facts: AdoptionFacts, words: str) -> None:
    step = next_adoption(facts)
    assert isinstance(step, RefuseNode)
    assert words in step.reason.message
    assert step.reason.subject == f"Node {facts.node}"


@pytest.mark.parametrize(
    ("facts", "patch"),
    [
        pytest.param(
            PROVEN,
            {
                "labels": {ADOPTED: None},
                "annotations": {NOTE: replace(NOTED, withdrawn=NOW).to_text()},
            },
            id="ours withdraws first",
        ),
        pytest.param(
            replace(LEFT, labels=WITHDRAWN, allocatable={}),
            {"labels": dict(NOTED.labels)},
            id="then theirs come back",
        ),
        pytest.param(
            replace(FRESH, note=NOTED.to_text(), cordoned=True), {"annotations": {NOTE: None}}, id="the end"
        ),
    ],
)
def test_a_release_goes_the_same_way_back(facts: AdoptionFacts, patch: dict[str, Any]) -> None:
    step = next_release(facts)
    assert isinstance(step, ChangeNode)
    assert step.patch["metadata"] == {"resourceVersion": "7", **patch}


def test_a_node_says_once_it_rests_what_was_compared() -> None:
    assert next_adoption(PROVEN) == NodeAtRest("Tonnage's agent offers the devices")
    uncompared = replace(PROVEN, note=replace(NOTED, proven=True, devices={}).to_text())
    assert next_adoption(uncompared) == NodeAtRest(f"Tonnage's agent offers the devices; {UNCOMPARED}")


def test_a_note_that_would_be_too_long_goes_without_devices() -> None:
    many = {GPU: tuple(f"GPU-{number:036}" for number in range(200))}
    assert note_from(replace(NOTED, devices=many).to_text()) == replace(NOTED, devices={})


def test_agent_and_kubelet_have_time_to_notice_a_release() -> None:
    asked = replace(LEFT, labels=WITHDRAWN, allocatable={}, note=replace(NOTED, withdrawn=NOW).to_text())
    later = replace(asked, moment=NOW + timedelta(seconds=15))
    for decide in (next_release, next_adoption):
        assert decide(asked) == AwaitNode("Tonnage's agent withdraws the devices", begun=True)
        assert isinstance(decide(later), ChangeNode)


@dataclass
class Node:
    """A node with two plugins that come and go as its labels say, and a kubelet that notices late."""

    labels: dict[str, str] = field(default_factory=lambda: dict(BEFORE))
    annotations: dict[str, str] = field(default_factory=dict)
    cordoned: bool = False
    theirs: bool = True
    """Whether NVIDIA's pod is there, and serves."""
    ours: bool = False
    allocatable: int = 4
    now: datetime = NOW
    listed: bool = True
    served: bool = False
    """What the agent has reported last."""

    def facts(self) -> AdoptionFacts:
        return replace(
            FRESH,
            labels=dict(self.labels),
            note=self.annotations.get(NOTE, ""),
            cordoned=self.cordoned,
            moment=self.now,
            allocatable={GPU: self.allocatable},
            listed=DEVICES if self.listed else frozenset(),
            served={GPU: 4} if self.served else {},
            plugin_pods=("p",) if self.theirs else (),
            plugin_ready=self.theirs,
        )

    def write(self, patch: Any) -> None:
        for key, value in patch["metadata"].get("labels", {}).items():
            self.labels.update({key: value}) if value is not None else self.labels.pop(key, None)
        for key, value in patch["metadata"].get("annotations", {}).items():
            self.annotations.update({key: value}) if value is not None else self.annotations.pop(key, None)
        if "spec" in patch:
            self.cordoned = bool(patch["spec"]["unschedulable"])

    def take_step(self, decide: Callable[[AdoptionFacts], AdoptionStep]) -> None:
        step = decide(self.facts())
        if isinstance(step, ChangeNode):
            self.write(step.patch)

    def daemon_set(self) -> None:
        self.theirs = self.labels[PLUGIN] == "true"
        self.check()

    def agent(self) -> None:
        """It registers where no other plugin is."""
        self.ours = self.labels.get(ADOPTED) == "true" and (self.ours or not self.theirs)
        self.check()

    def report(self) -> None:
        self.listed, self.served = self.theirs or self.ours, self.ours

    def kubelet(self) -> None:
        self.allocatable = 4 if self.theirs or self.ours else 0

    def pass_time(self) -> None:
        """So much that agent and kubelet have noticed."""
        self.agent()
        self.kubelet()
        self.report()
        self.now += timedelta(seconds=15)

    def check(self) -> None:
        assert not (self.theirs and self.ours), "two plugins serve one resource"
        if not (self.theirs or self.ours):
            assert self.cordoned, "pods may be bound to a node without a plugin"

    def settle(self, decide: Callable[[AdoptionFacts], AdoptionStep]) -> None:
        for _ in range(20):
            self.take_step(decide)
            self.daemon_set()
            self.pass_time()
        assert isinstance(decide(self.facts()), NodeAtRest)


@given(st.lists(st.sampled_from("arDAKRT"), max_size=40), st.booleans())
def test_whoever_stops_whenever_devices_have_one_plugin_and_release_restores_all(
    events: list[str], users_cordon: bool
) -> None:
    """`a`, `r`: a step of adopt or release, by commands that may crash after it; others come by themselves.

    DaemonSets, agent and kubelet act on each change sooner or later, in any order.
    """
    node = Node(cordoned=users_cordon)
    happen: dict[str, Callable[[], None]] = {
        "a": lambda: node.take_step(next_adoption),
        "r": lambda: node.take_step(next_release),
        "D": node.daemon_set,
        "A": node.agent,
        "K": node.kubelet,
        "R": node.report,
        "T": node.pass_time,
    }
    for event in events:
        happen[event]()
    node.settle(next_adoption)
    assert (node.theirs, node.ours, node.cordoned) == (False, True, users_cordon)
    node.settle(next_release)
    assert (node.theirs, node.ours, node.cordoned) == (True, False, users_cordon)
    assert node.labels == BEFORE
    assert not node.annotations
