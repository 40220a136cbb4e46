"""Upgrades of drivers: every transition is one of the table; what may never happen, from any crash point."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.cluster.operate.drivers.node_upgrade import LeavingPod, NodeStep, UpgradingNode
from tonnage.decide.cluster.operate.drivers.states import (
    OUR_CORDON,
    PAUSED,
    REQUESTED,
    STATE_LABEL,
    TARGET,
    TRANSITIONS,
    USERS_CORDON,
    UpgradeState,
)
from tonnage.decide.cluster.operate.drivers.upgrade import left_paused, most_unavailable, upgrade_steps
from tonnage.model.drivers.node import GROUP_LABEL, DriverNode, DriverPod
from tonnage.model.drivers.policy import DrainLimits, UpgradePolicy

NOW = datetime(2026, 1, 1, tzinfo=UTC)
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
S = UpgradeState


@dataclass
class Machine:
    """A node that a test can do things to; `cordoned_by` is who has cordoned it last."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    cordoned_by: str = ""
    digest: str = "old"
    ready: bool = True
    restarts: int = 0
    bad: frozenset[str] = frozenset()
    """Drivers that never start here."""
    unfit: frozenset[str] = frozenset()
    """Drivers that start here, and whose validation never passes."""
    validated: str = "old"
    """The driver whose validation has passed last."""
    users: int = 0
    down: bool = False
    """Whether kubelet is away, which nobody asked for."""

    @property
    def unavailable(self) -> bool:
        return bool(self.cordoned_by) or self.down

    def member(self, digest: str) -> UpgradingNode:
        node = DriverNode(
            self.name,
            labels={**self.labels, GROUP_LABEL: "g"},
            annotations=dict(self.annotations),
            unschedulable=bool(self.cordoned_by),
            ready=not self.down,
            waits="" if self.validated == self.digest else "its GPUs are not validated yet",
        )
        pod = DriverPod(
            "ns", f"driver-{self.name}", "u", self.name, "g", self.digest, self.ready, self.restarts
        )
        leaving: tuple[LeavingPod, ...] = ()
        if self.labels.get(STATE_LABEL) == S.POD_DELETION:
            leaving = tuple(LeavingPod("ns", f"user-{number}") for number in range(self.users))
        return UpgradingNode(node, digest, "g", pod, leaving=leaving)

    def apply(self, step: NodeStep, digest: str, writes: int = 3) -> None:
        """The writes of a step, of which the first ones alone are done: Node, evictions, driver's pod."""
        if writes > 0:
            self._change(step)
        if writes > 1 and step.evict:
            self.users = 0
        if writes > 2 and step.restart is not None:
            self.digest, self.ready, self.restarts = digest, False, 0
            self.labels[PLUGIN] = PAUSED

    def _change(self, step: NodeStep) -> None:
        """The one patch of the Node."""
        if step.to is S.UNCORDON or step.cordon is False:
            assert self.validated == self.digest, "its driver is not validated"
        if step.to is not None:
            before = S(self.labels.get(STATE_LABEL, ""))
            assert step.to in TRANSITIONS[before], f"{before} to {step.to}"
            self.labels[STATE_LABEL] = step.to
        for key, value in step.annotations.items():
            if value is None:
                self.annotations.pop(key, None)
            else:
                self.annotations[key] = value
        if step.cordon is True and not self.cordoned_by:
            self.cordoned_by = "us"
        if step.cordon is False:
            assert self.cordoned_by != "user", "a user's cordon is lifted"
            self.cordoned_by = ""

    def run(self) -> None:
        """Let its driver pod try to start, and one that has started be validated."""
        if self.down:
            return
        if self.ready and self.digest not in self.unfit:
            self.validated = self.digest
        elif not self.ready and self.digest in self.bad:
            self.restarts += 1
        else:
            self.ready = True


@dataclass
class Fleet:
    machines: list[Machine]
    policy: UpgradePolicy
    digest: str = "new"
    now: datetime = NOW

    def look(self, most_writes: int | None = None) -> bool:
        """One turn of the controller, which may be killed after so many writes; whether anything changed.

        Each node has three: its Node's, those of pods that leave, and the driver's pod.
        """
        members = [machine.member(self.digest) for machine in self.machines]
        steps = {step.node: step for step in upgrade_steps(members, self.policy, self.now)}
        changed = False
        for number, machine in enumerate(self.machines):
            left = 3 if most_writes is None else most_writes - 3 * number
            if left <= 0:
                break
            step = steps[machine.name]
            paused = left_paused(members[number])
            writes = bool(
                step.to or step.annotations or step.cordon is not None or step.evict or step.restart
            )
            machine.apply(step, self.digest, left)
            if paused is not None and not writes:
                for label in paused.labels:
                    machine.labels[label] = "true"
            changed = changed or writes or paused is not None
        return changed

    def turn(self, most_writes: int | None = None) -> None:
        self.look(most_writes)
        for machine in self.machines:
            machine.run()
        self.now += timedelta(seconds=5)


def fleets() -> st.SearchStrategy[Fleet]:
    machine = st.builds(
        lambda *row: row,
        st.sampled_from([frozenset[str](), frozenset[str](), frozenset({"new"})]),
        st.sampled_from([frozenset[str](), frozenset[str](), frozenset({"new"})]),
        st.sampled_from(["", "", "", "user"]),
        st.integers(0, 2),
    )
    policy = st.builds(
        UpgradePolicy,
        max_parallel=st.integers(0, 4),
        max_unavailable=st.sampled_from([0, 1, 2, "25%", "100%", "x"]),
        drain=st.sampled_from([None, DrainLimits()]),
    )
    return st.builds(
        lambda rows, wanted: Fleet(
            [
                Machine(f"n{number}", bad=bad, unfit=unfit, cordoned_by=cordon, users=users)
                for number, (bad, unfit, cordon, users) in enumerate(rows)
            ],
            wanted,
        ),
        st.lists(machine, min_size=1, max_size=6),
        policy,
    )


CRASHES = st.lists(st.one_of(st.none(), st.integers(0, 18)), min_size=6, max_size=40)


@given(fleets(), CRASHES)
def test_never_more_nodes_are_missed_than_allowed(fleet: Fleet, crashes: list[int | None]) -> None:
    allowed = most_unavailable(fleet.policy, len(fleet.machines))
    before = sum(machine.unavailable for machine in fleet.machines)
    for most_writes in crashes:
        fleet.turn(most_writes)
        assert sum(machine.unavailable for machine in fleet.machines) <= max(allowed, before)


@given(
    fleets(),
    st.lists(
        st.tuples(st.integers(0, 5), st.booleans(), st.one_of(st.none(), st.integers(0, 18))),
        min_size=6,
        max_size=40,
    ),
)
def test_no_node_is_cordoned_where_too_many_are_missed(
    fleet: Fleet, events: list[tuple[int, bool, int | None]]
) -> None:
    """Nodes fall and rise by themselves; a slot that was given before may still be used."""
    allowed = most_unavailable(fleet.policy, len(fleet.machines))
    for number, down, most_writes in events:
        fleet.machines[number % len(fleet.machines)].down = down
        began = {machine.name for machine in fleet.machines if machine.labels.get(STATE_LABEL) == S.CORDON}
        missed = sum(machine.unavailable or machine.name in began for machine in fleet.machines)
        fleet.turn(most_writes)
        states = {machine.name: machine.labels.get(STATE_LABEL) for machine in fleet.machines}
        begin = [
            machine
            for machine in fleet.machines
            if states[machine.name] == S.CORDON and machine.name not in began and not machine.unavailable
        ]
        assert not begin or missed + len(begin) <= allowed


@given(fleets(), CRASHES)
def test_never_more_slots_are_taken_than_there_are(fleet: Fleet, crashes: list[int | None]) -> None:
    for most_writes in crashes:
        fleet.turn(most_writes)
        states = [machine.labels.get(STATE_LABEL, "") for machine in fleet.machines]
        resting = {"", S.DONE, S.FAILED, S.REQUIRED}
        under_way = sum(state not in resting for state in states)
        assert not fleet.policy.max_parallel or under_way <= fleet.policy.max_parallel


@given(
    fleets(),
    st.lists(
        st.tuples(
            st.integers(0, 5),
            st.sampled_from(["", "cordon", "lift", "lift and cordon"]),
            st.one_of(st.none(), st.integers(0, 18)),
        ),
        min_size=6,
        max_size=40,
    ),
)
def test_a_users_cordon_is_never_lifted(fleet: Fleet, events: list[tuple[int, str, int | None]]) -> None:
    """A user cordons and uncordons at any time; each change is seen before the next one."""
    for number, deed, most_writes in events:
        machine = fleet.machines[number % len(fleet.machines)]
        if "lift" in deed:
            machine.cordoned_by = ""
            fleet.look()
        if "cordon" in deed and not machine.cordoned_by:
            machine.cordoned_by = "user"
        fleet.look()  # Machine.apply refuses to lift a user's cordon
        fleet.turn(most_writes)


@given(fleets(), CRASHES, st.booleans())
def test_whatever_happened_it_ends_and_leaves_nothing_behind(
    fleet: Fleet, crashes: list[int | None], rolled_back: bool
) -> None:
    users = {machine.name for machine in fleet.machines if machine.cordoned_by}
    for most_writes in crashes:
        fleet.turn(most_writes)
    if rolled_back:
        fleet.digest = "old"
    for _ in range(250):
        fleet.turn()
    assert not fleet.look(), "it is still at work"
    for machine in fleet.machines:
        state = machine.labels.get(STATE_LABEL, "")
        assert state in {S.DONE, S.FAILED, S.REQUIRED}
        assert state != S.DONE or machine.digest == machine.validated == fleet.digest
        assert machine.name not in users or machine.cordoned_by == "user"
        if state != S.FAILED:
            assert machine.cordoned_by == ("user" if machine.name in users else "")
            assert OUR_CORDON not in machine.annotations
            assert USERS_CORDON not in machine.annotations
        if machine.ready:
            assert machine.labels.get(PLUGIN, "true") == "true", "a label stays paused"
        if rolled_back and fleet.policy.max_unavailable not in (0, "x"):
            assert state == S.DONE


def member(state: str = "", *, digest: str = "old", wanted: str = "new", **fields: object) -> UpgradingNode:
    labels = {STATE_LABEL: state} if state else {}
    annotations = fields.pop("annotations", {})
    node = DriverNode(
        str(fields.pop("name", "a")),
        labels={**labels, GROUP_LABEL: "g"},
        annotations=annotations if isinstance(annotations, dict) else {},
        unschedulable=bool(fields.pop("unschedulable", False)),
        waits=str(fields.pop("waits", "")),
    )
    pod = DriverPod("ns", "p", "u", node.name, "g", digest, bool(fields.pop("ready", True)))
    return replace(UpgradingNode(node, wanted, "g", pod), **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "policy", "words"),
    [
        pytest.param(
            [member(), member("wait-for-jobs-required", name="b", leaving=(LeavingPod("x", "y"),))],
            UpgradePolicy(jobs="job=long"),
            {"b": "for pods that match job=long: x/y"},
            id="jobs are waited for by name",
        ),
        pytest.param(
            [member("upgrade-required"), member("drain-required", name="b", unschedulable=True)],
            UpgradePolicy(max_unavailable="100%"),
            {"a": "for a slot (maxParallelUpgrades), which b has"},
            id="a slot is named with who has it",
        ),
        pytest.param(
            [member("upgrade-required"), member("upgrade-done", digest="new", name="b", unschedulable=True)],
            UpgradePolicy(max_unavailable=1),
            {"a": "for b: maxUnavailable allows 1 of 2"},
            id="nodes that are missed are named",
        ),
        pytest.param(
            [member()],
            UpgradePolicy(automatic=False),
            {"a": "for you: upgradePolicy.autoUpgrade is off; run: kubectl annotate node a nvidia.com/"},
            id="without autoUpgrade a user decides",
        ),
        pytest.param(
            [member("upgrade-required", held="for you: nouveau is bound; blacklist it")],
            UpgradePolicy(),
            {"a": "for you: nouveau is bound; blacklist it"},
            id="a preflight holds one node",
        ),
        pytest.param(
            [
                member("upgrade-failed", digest="new", ready=False, name="b", annotations={TARGET: "new"}),
                member("upgrade-required"),
            ],
            UpgradePolicy(max_parallel=5, max_unavailable="100%"),
            {"a": "for b: the driver has failed on b and runs nowhere yet; repair a node, or run:"},
            id="a version that fails everywhere is not tried on",
        ),
    ],
)
def test_every_wait_says_for_whom(
    seen: list[UpgradingNode], policy: UpgradePolicy, words: dict[str, str]
) -> None:
    waits = {step.node: step.waits for step in upgrade_steps(seen, policy, NOW)}
    for node, start in words.items():
        assert waits[node].startswith(start)


def test_a_state_of_somebody_elses_is_left_alone() -> None:
    [step] = upgrade_steps([member("resting")], UpgradePolicy(), NOW)
    assert "is of no state known" in step.waits
    assert step.patch("1") is None


@pytest.mark.parametrize("state", [s for s in S if s not in {S.NONE, S.MAINTENANCE, S.AFTER_MAINTENANCE}])
def test_a_node_that_nobody_wants_a_driver_on_is_released(state: UpgradeState) -> None:
    stray = member(state, wanted="", unschedulable=True, annotations={OUR_CORDON: "true"}, assigned=False)
    [step] = upgrade_steps([stray], UpgradePolicy(), NOW)
    assert step.to is (S.DONE if state is S.UNCORDON else S.UNCORDON)


@pytest.mark.parametrize("state", [S.NONE, S.REQUIRED, S.DONE])
def test_a_node_at_rest_that_nobody_wants_a_driver_on_keeps_nothing(state: UpgradeState) -> None:
    notes = {TARGET: "old", REQUESTED: "true", "team": "research"}
    [step] = upgrade_steps(
        [member(state, wanted="", annotations=notes, assigned=False)], UpgradePolicy(), NOW
    )
    assert step.patch("1") == {
        "metadata": {
            "resourceVersion": "1",
            "labels": {STATE_LABEL: None},
            "annotations": {TARGET: None, REQUESTED: None},
        }
    }
