"""Nodes change hands beside a stand-in for NVIDIA's operator that rewrites what it finds changed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from controller.test_rights import Recorder
from support.nvidia_operator import (
    AGENT,
    AGENTS,
    LABELS,
    OPERATOR,
    SETS,
    KilledError,
    OperatedFleet,
    WriteCounter,
)
from tonnage.cli.operator.adopt import _placed, _show_ends, _show_plan
from tonnage.cli.operator.finish import finish_adoption
from tonnage.cli.operator.handover import Direction, Handover, HandoverOptions, NodeEnd
from tonnage.model.adoption import NOTE, note_from
from tonnage.model.errors import ClusterError, ConfigError
from tonnage.wire.kinds import DAEMON_SET, DEPLOYMENT, NODE, POD

ROLE = Path(__file__).parents[3] / "docs/how-to/adopt-role.yaml"
ADOPTED, PLUGIN = "tonnage.dev/adopted", "nvidia.com/gpu.deploy.device-plugin"
Ends = dict[str, tuple[NodeEnd, str]]


@pytest.fixture
async def fleet() -> AsyncIterator[OperatedFleet]:
    fleet = OperatedFleet()
    yield fleet
    await fleet.close()
    assert fleet.wrong == []


class Command:
    """A command under way, and what it has said."""

    def __init__(
        self, fleet: OperatedFleet, direction: Direction, *, api: Any = None, **options: Any
    ) -> None:
        self.fleet = fleet
        self.lines: list[str] = []
        handover = Handover(api or fleet.api, fleet.clock, HandoverOptions(**options), self._say)
        self.task = asyncio.create_task(handover.run(direction))

    def _say(self, node: str, words: str) -> None:
        self.lines.append(f"{node}: {words}")

    async def end(self) -> Ends:
        for _ in range(2000):
            if self.task.done():
                return self.task.result()
            await self.fleet.clock.advance(1)
        raise AssertionError(f"still under way: {self.lines}")

    async def stop_after(self, rounds: int) -> None:
        """As Ctrl-C does."""
        for _ in range(rounds):
            await self.fleet.clock.advance(1)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


async def test_nodes_are_adopted_one_after_another_and_released_as_they_were(fleet: OperatedFleet) -> None:
    await fleet.install("a", "b", "c")
    users: Any = {"spec": {"unschedulable": True}}
    await fleet.api.patch(NODE, "c", users)
    before = {name: (n.metadata.labels, n.metadata.annotations) for name, n in (await fleet.nodes()).items()}
    ends = await Command(fleet, Direction.ADOPT).end()
    assert {end for end, _ in ends.values()} == {NodeEnd.DONE}
    nodes = await fleet.nodes()
    assert {n.metadata.labels[ADOPTED] for n in nodes.values()} == {"true"}
    assert [name for name, n in nodes.items() if n.spec.unschedulable] == ["c"], "a user's cordon stays"
    assert fleet.most_cordoned == 2, "one node at a time, beside the user's"
    assert await fleet.plugins() == []
    assert await fleet.replicas() == 0
    there = {s.metadata.name for s in (await fleet.api.list(DAEMON_SET, namespace=OPERATOR)).items}
    assert there == set(SETS.values()), "they are the way back"

    ends = await Command(fleet, Direction.RELEASE).end()
    assert {end for end, _ in ends.values()} == {NodeEnd.DONE}
    nodes = await fleet.nodes()
    assert {name: (n.metadata.labels, n.metadata.annotations) for name, n in nodes.items()} == before
    assert [name for name, n in nodes.items() if n.spec.unschedulable] == ["c"]
    assert await fleet.plugins() == ["a", "b", "c"]
    assert await fleet.replicas() == 1
    operator = await fleet.api.get(DEPLOYMENT, "gpu-operator", OPERATOR)
    assert operator.metadata.annotations == {}


@pytest.mark.parametrize("rounds", [3, 8])
async def test_a_command_that_was_stopped_goes_on_where_it_was(fleet: OperatedFleet, rounds: int) -> None:
    await fleet.install("a", "b")
    await Command(fleet, Direction.ADOPT).stop_after(rounds)
    ends = await Command(fleet, Direction.ADOPT).end()
    assert {end for end, _ in ends.values()} == {NodeEnd.DONE}
    await Command(fleet, Direction.RELEASE).stop_after(rounds)
    await Command(fleet, Direction.RELEASE).end()
    nodes = await fleet.nodes()
    assert [n.metadata.labels for n in nodes.values()] == [LABELS, LABELS]
    assert not any(n.metadata.annotations or n.spec.unschedulable for n in nodes.values())
    assert await fleet.replicas() == 1


WRITES = {Direction.ADOPT: 3, Direction.RELEASE: 4}
"""Of each command for one node: the operator's Deployment, and the Node otherwise."""


@pytest.mark.parametrize(
    ("direction", "write"),
    [
        pytest.param(direction, write, id=f"{direction.value} is killed after write {write}")
        for direction, count in WRITES.items()
        for write in range(1, count + 1)
    ],
)
@pytest.mark.parametrize("then", Direction, ids=lambda direction: f"then {direction.value}")
async def test_a_command_killed_at_a_write_goes_on_or_back(
    fleet: OperatedFleet, direction: Direction, then: Direction, write: int
) -> None:
    await fleet.install("a")
    before = (await fleet.nodes())["a"].metadata
    if direction is Direction.RELEASE:
        await Command(fleet, Direction.ADOPT).end()
    api = WriteCounter(fleet.api)
    api.left = write
    with pytest.raises(KilledError):
        await Command(fleet, direction, api=api).end()
    await fleet.clock.advance(20)  # the operator rewrites what it may
    ends = await Command(fleet, then).end()
    assert {end for end, _ in ends.values()} <= {NodeEnd.DONE}
    node, adopted = (await fleet.nodes())["a"], then is Direction.ADOPT
    assert not node.spec.unschedulable
    assert (node.metadata.labels.get(ADOPTED) == "true") is adopted
    assert await fleet.plugins() == ([] if adopted else ["a"])
    assert await fleet.replicas() == (0 if adopted else 1)
    if not adopted:
        assert (node.metadata.labels, node.metadata.annotations) == (before.labels, before.annotations)


async def _finish(fleet: OperatedFleet, *nodes: str) -> Ends:
    task = asyncio.create_task(
        finish_adoption(
            Handover(fleet.api, fleet.clock, HandoverOptions(nodes=nodes), lambda *_: None),
            *(fleet.api, fleet.clock, 30.0, lambda *_: None),
        )
    )
    for _ in range(60):
        if task.done():
            break
        await fleet.clock.advance(1)
    return await task


async def test_an_adoption_is_finished_once_nvidias_operator_is_uninstalled(fleet: OperatedFleet) -> None:
    await fleet.install("a", "b")
    await Command(fleet, Direction.ADOPT).end()
    with pytest.raises(ConfigError, match="still installed"):
        await _finish(fleet)
    await fleet.uninstall()
    ends = await _finish(fleet)
    assert {end for end, _ in ends.values()} == {NodeEnd.REFUSED}, "agents that wait would withdraw"
    assert all("adoption.enabled=false" in why for _, why in ends.values())
    await fleet.upgrade_agents()
    ends = await _finish(fleet)
    assert {name: end for name, (end, _) in ends.items()} == {"a": NodeEnd.DONE, "b": NodeEnd.DONE}
    for node in (await fleet.nodes()).values():
        assert node.metadata.labels == {"nvidia.com/gpu.deploy.dcgm": "true"}, "what was not ours stays"
        assert not node.metadata.annotations
    assert await _finish(fleet) == {}, "nothing is left"


async def test_a_node_that_is_done_is_not_refused_while_another_is_waited_for(fleet: OperatedFleet) -> None:
    await fleet.install("a", "b")
    await Command(fleet, Direction.ADOPT).end()
    await fleet.uninstall()
    await fleet.upgrade_agents()
    starting: Any = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await fleet.api.patch(POD, "tonnage-agent-b", starting, namespace=AGENTS, subresource="status")
    ends = await _finish(fleet, "a", "b")
    assert ends == {
        "a": (NodeEnd.DONE, "stays with Tonnage's agent"),
        "b": (NodeEnd.WAITS, "Tonnage's agent is not ready"),
    }


async def test_a_node_whose_devices_differ_goes_back_and_no_other_begins(fleet: OperatedFleet) -> None:
    await fleet.install("a", "b")
    fleet.ours = {"a": 8}
    command = Command(fleet, Direction.ADOPT, patience_s=30.0)
    ends = await command.end()
    assert ends["a"] == (
        NodeEnd.RETURNED,
        "Tonnage's agent offers nvidia.com/gpu: 8, where NVIDIA's plugin offered nvidia.com/gpu: 4",
    )
    assert ends["b"] == (NodeEnd.WAITS, "not begun, since another node went back")
    nodes = await fleet.nodes()
    assert [n.metadata.labels for n in nodes.values()] == [LABELS, LABELS]
    assert await fleet.plugins() == ["a", "b"]
    await Command(fleet, Direction.RELEASE).end()
    assert await fleet.replicas() == 1


@pytest.mark.parametrize(
    ("theirs", "end", "why"),
    [
        pytest.param(["GPU-1"], NodeEnd.DONE, "Tonnage's agent offers the devices", id="the same"),
        pytest.param(
            *(["GPU-2"], NodeEnd.WAITS),
            "NVIDIA's plugin alone offers GPU-2 as nvidia.com/gpu; "
            "Tonnage's agent alone offers GPU-1 as nvidia.com/gpu",
            id="others, so that nothing is changed",
        ),
        pytest.param(
            *([], NodeEnd.WAITS),
            "Tonnage's agent has not reported which devices of NVIDIA's plugin kubelet has",
            id="not known",
        ),
    ],
)
async def test_the_devices_of_both_plugins_are_compared(
    fleet: OperatedFleet, theirs: list[str], end: NodeEnd, why: str
) -> None:
    fleet.theirs = {"a": theirs}
    await fleet.install("a")
    ends = await Command(fleet, Direction.ADOPT, patience_s=30.0).end()
    assert ends == {"a": (end, why)}
    labels = (await fleet.nodes())["a"].metadata.labels
    assert (labels == LABELS) is (end is NodeEnd.WAITS)


async def test_an_agent_that_does_not_wait_is_refused_before_anything_changes(fleet: OperatedFleet) -> None:
    await fleet.install("a", agent={**AGENT, "args": []})
    ends = await Command(fleet, Direction.ADOPT).end()
    end, why = ends["a"]
    assert end is NodeEnd.REFUSED
    assert "adoption.enabled=true" in why
    assert await fleet.replicas() == 1
    assert (await fleet.nodes())["a"].metadata.labels == LABELS


async def test_an_operator_that_somebody_scales_up_again_stops_it(fleet: OperatedFleet) -> None:
    await fleet.install("a", "b")
    command = Command(fleet, Direction.ADOPT)
    while await fleet.replicas():
        await fleet.clock.advance(1)
    argo: Any = {
        "metadata": {"labels": {"argocd.argoproj.io/instance": "gpu"}},
        "spec": {"replicas": 1},
    }
    await fleet.api.patch(DEPLOYMENT, "gpu-operator", argo, namespace=OPERATOR)
    with pytest.raises(ClusterError, match="started again") as stopped:
        await command.end()
    assert "Argo CD" in str(stopped.value.problems[0].why)


async def test_nodes_that_are_named_are_taken_alone(fleet: OperatedFleet) -> None:
    await fleet.install("a", "b")
    ends = await Command(fleet, Direction.ADOPT, nodes=("b",)).end()
    assert ends.keys() == {"b"}
    assert await fleet.plugins() == ["a"]
    with pytest.raises(ConfigError, match="no node c"):
        await Command(fleet, Direction.RELEASE, nodes=("c",)).end()


async def test_the_operator_stays_at_0_while_a_node_is_not_back(fleet: OperatedFleet) -> None:
    await fleet.install("a", "b")
    await Command(fleet, Direction.ADOPT).end()
    fleet.broken = {"a"}
    ends = await Command(fleet, Direction.RELEASE, patience_s=30.0).end()
    assert ends["a"] == (NodeEnd.WAITS, "NVIDIA's device plugin is not ready")
    assert ends["b"][0] is NodeEnd.DONE
    assert await fleet.replicas() == 0
    fleet.broken = set()
    await Command(fleet, Direction.RELEASE).end()
    assert await fleet.plugins() == ["a", "b"]
    assert await fleet.replicas() == 1


async def test_without_nvidias_daemon_set_nobody_can_take_a_node_back(fleet: OperatedFleet) -> None:
    await fleet.install("a")
    await Command(fleet, Direction.ADOPT).end()
    await fleet.api.delete(DAEMON_SET, SETS["device-plugin"], namespace=OPERATOR)
    with pytest.raises(ConfigError, match="no DaemonSet"):
        await Command(fleet, Direction.RELEASE).end()
    assert (await fleet.nodes())["a"].metadata.labels[PLUGIN] == "paused-for-tonnage"


async def test_a_dry_run_shows_the_next_steps_and_an_end_what_became_of_nodes(
    fleet: OperatedFleet, capsys: pytest.CaptureFixture[str]
) -> None:
    await fleet.install("a")
    view = await Handover(fleet.api, fleet.clock, HandoverOptions(), lambda *_: None).look()
    assert _show_plan(view, Direction.ADOPT, "text") == 0
    shown = capsys.readouterr().out
    assert "Deployment gpu-operator/gpu-operator: would be scaled to 0" in shown
    assert "cordon, and have Tonnage's agent take the place of NVIDIA's pods" in shown
    assert _show_plan(view, Direction.RELEASE, "json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["nodes"] == [{"node": "a", "next": "none", "why": "not adopted"}]
    ends = {"a": (NodeEnd.DONE, "x"), "b": (NodeEnd.RETURNED, "differs")}
    assert _show_ends(ends, "text", "none") == 1
    shown = capsys.readouterr().out
    assert "returned" in shown
    assert "1 of 2 nodes are done." in shown
    assert await fleet.replicas() == 1, "nothing was changed"


async def test_the_roles_of_the_how_to_grant_what_is_asked_and_no_more(fleet: OperatedFleet) -> None:
    await fleet.install("a")
    recorder: Any = Recorder(fleet.api)
    await _placed(recorder, HandoverOptions(), {"--agents-namespace": AGENTS})
    await Command(fleet, Direction.ADOPT, api=recorder).end()
    await Command(fleet, Direction.RELEASE, api=recorder).end()
    rules = [rule for role in yaml.safe_load_all(ROLE.read_text(encoding="utf-8")) for rule in role["rules"]]
    named = {
        (verb, group, resource)
        for rule in rules
        for verb in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert {(right.verb, right.group, right.resource) for right in recorder.rights} == named


async def _placed_in(fleet: OperatedFleet, named: str | None) -> str:
    options = {} if named is None else {"--operator-namespace": named}
    return (await _placed(cast(Any, fleet.api), HandoverOptions(), options)).operator_namespace


async def test_an_adoption_knows_where_nvidias_operator_was(fleet: OperatedFleet) -> None:
    await fleet.install("a", "b")
    assert await _placed_in(fleet, None) == OPERATOR, "the default, since nobody has noted another"
    with pytest.raises(ConfigError, match="namespace nothere does not exist"):
        await _placed_in(fleet, "nothere")
    await Command(fleet, Direction.ADOPT, nodes=("a",)).end()
    note = note_from((await fleet.nodes())["a"].metadata.annotations[NOTE])
    assert note is not None
    assert note.namespace == OPERATOR
    with pytest.raises(ConfigError, match=f"{AGENTS} is not where NVIDIA's operator was") as refused:
        await _placed_in(fleet, AGENTS)
    assert refused.value.problems[0].why == f"adopted were a from {OPERATOR}"
    assert refused.value.problems[0].remedy == "leave --operator-namespace out"


async def test_a_namespace_that_is_noted_may_be_gone_with_the_operator(fleet: OperatedFleet) -> None:
    await fleet.install("a")
    await Command(fleet, Direction.ADOPT).end()
    text = (await fleet.nodes())["a"].metadata.annotations[NOTE]
    elsewhere: Any = {"metadata": {"annotations": {NOTE: text.replace(OPERATOR, "nvidia")}}}
    await fleet.api.patch(NODE, "a", elsewhere)
    assert await _placed_in(fleet, None) == "nvidia"
    assert await _placed_in(fleet, "nvidia") == "nvidia"


async def test_a_node_of_another_operator_is_left_alone(fleet: OperatedFleet) -> None:
    await fleet.install("a", "b")
    await Command(fleet, Direction.ADOPT).end()
    text = (await fleet.nodes())["b"].metadata.annotations[NOTE]
    elsewhere: Any = {"metadata": {"annotations": {NOTE: text.replace(OPERATOR, "nvidia")}}}
    await fleet.api.patch(NODE, "b", elsewhere)
    with pytest.raises(ConfigError, match="several namespaces") as refused:
        await _placed_in(fleet, None)
    assert refused.value.problems[0].why == f"adopted were a from {OPERATOR}; b from nvidia"
    await fleet.uninstall()
    await fleet.upgrade_agents()
    assert (await _finish(fleet)).keys() == {"a"}
    assert (await fleet.nodes())["b"].metadata.labels[PLUGIN] == "paused-for-tonnage"


def test_nothing_to_finish_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert _show_ends({}, "text", "No node is adopted. There is nothing to finish.") == 0
    assert capsys.readouterr().out == "No node is adopted. There is nothing to finish.\n"
