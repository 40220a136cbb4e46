"""No device is given out under two uses, whatever configuration, kubelet and agent go through."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tonnage.decide.node.advertise import advertise, uses_of
from tonnage.decide.node.allocate import allocate
from tonnage.decide.node.ledger import (
    UNSEEN_S,
    Census,
    Claim,
    Entry,
    Evidence,
    Ledger,
    gather,
    holds_of,
    record,
    settle,
)
from tonnage.decide.node.share import share
from tonnage.model.devices import Device, Inventory
from tonnage.model.names import GPU, ResourceName
from tonnage.model.sharing import Allocation, Hold, PluginConfig, SharedResource

SHARED = ResourceName("nvidia.com/gpu.shared")
CONFIGS = (
    PluginConfig(),
    PluginConfig((SharedResource(GPU, SHARED, 2),)),
    PluginConfig((SharedResource(GPU, SHARED, 3, ("0",)),)),
    PluginConfig((SharedResource(GPU, GPU, 2),)),
)
INVENTORY = Inventory((Device("GPU-0", 0, "x", 1), Device("GPU-1", 1, "x", 1)))


def entry(**changes: object) -> Entry:
    values: dict[str, object] = {"resource": GPU, "id": "a", "order": 1, "since": 0.0}
    return Entry(**{**values, **changes})  # type: ignore[arg-type]


HELD = Hold(GPU, ("a",), "ml", "train", "main")


def test_an_entry_is_over_once_seen_and_then_gone() -> None:
    ledger: Ledger = (entry(),)
    ledger = settle(ledger, Evidence((HELD,), 2, final=True, shown=(HELD,)), now=1)
    assert ledger == (entry(seen=True),)
    assert settle(ledger, Evidence((), 3, final=True), now=2) == ()


def test_an_entry_never_seen_is_kept_for_a_bounded_time() -> None:
    empty = Evidence((), 2, final=True)
    assert settle((entry(),), empty, now=UNSEEN_S) == (entry(),)
    assert settle((entry(),), empty, now=UNSEEN_S + 1) == ()


TRAIN = Claim("ml", "train", GPU, 1)


@pytest.mark.parametrize(
    ("census", "shown", "kept"),
    [
        pytest.param(Census(1, ()), (), False, id="no living pod asks for it"),
        pytest.param(Census(0, ()), (), True, id="asked before the answer"),
        pytest.param(Census(1, (TRAIN,)), (), True, id="a pod without its device"),
        pytest.param(Census(1, (TRAIN,)), (replace(HELD, ids=("b",)),), False, id="a pod that has its own"),
        pytest.param(Census(1, (replace(TRAIN, count=2),)), (replace(HELD, ids=("b",)),), True, id="half"),
        pytest.param(Census(1, (replace(TRAIN, count=None),)), (HELD,), True, id="an init container's"),
        pytest.param(Census(1, (replace(TRAIN, resource="x"),)), (), False, id="asks for something else"),
    ],
)
def test_an_entry_that_no_living_pod_can_be_waiting_for_is_over(
    census: Census, shown: tuple[Hold, ...], kept: bool
) -> None:
    evidence = Evidence(shown, 2, final=True, shown=shown)
    left = settle((entry(id="c"),), evidence, now=1, census=census)
    assert bool(left) is kept


def test_a_question_asked_before_the_answer_says_nothing() -> None:
    assert settle((entry(order=2, seen=True),), Evidence((), 1, final=True), now=1e9) == (
        entry(order=2, seen=True),
    )


def test_silence_of_kubelet_frees_nothing() -> None:
    before = Evidence((HELD,), 1, final=True)
    silent = gather(before, None, (), order=2, settled=True)
    assert silent.holds == (HELD,)
    assert settle((entry(seen=True),), silent, now=1e9) == (entry(seen=True),)


def test_a_kubelet_that_just_started_frees_nothing_and_its_checkpoint_counts() -> None:
    other = Hold(GPU, ("b",), pod="uid")
    fresh = gather(Evidence((HELD,), 1, final=True), (), (other,), order=2, settled=False)
    assert fresh.holds == (HELD, other)
    assert not fresh.final


INIT = Hold(GPU, ("a",), "ml", "train", "load")


def test_what_only_the_checkpoint_has_for_a_living_pod_is_held() -> None:
    """kubelet lists no ordinary init containers."""
    evidence = gather(Evidence(), (), (INIT,), order=2, settled=True)
    assert (evidence.final, evidence.holds) == (True, (INIT,))
    ledger = settle((entry(),), evidence, now=1e9)
    assert ledger == (entry(seen=True),)
    over = gather(evidence, (), (), order=3, settled=True)
    assert (over.holds, settle(ledger, over, now=1e9)) == ((), ())


def test_a_checkpoint_that_cannot_be_read_frees_nothing() -> None:
    before = gather(Evidence(), (), (INIT,), order=1, settled=True)
    after = gather(before, (), None, order=2, settled=True)
    assert (after.final, after.holds) == (False, (INIT,))
    assert settle((entry(),), after, now=1e9) == (entry(seen=True),)


def test_kubelets_word_names_the_pod() -> None:
    assert holds_of(Evidence((HELD,), 1, final=True), (entry(),)) == (HELD,)
    assert holds_of(Evidence(), (entry(),)) == (Hold(GPU, ("a",)),)


class Node(RuleBasedStateMachine):
    """A kubelet that follows its own rules, and the agent's decisions against it."""

    def __init__(self) -> None:
        super().__init__()
        self.config = CONFIGS[0]
        self.running: dict[int, Hold] = {}  # what containers really have
        self.hidden: set[int] = set()  # those in init containers, which kubelet does not list
        self.ended: list[Hold] = []  # what kubelet's checkpoint still has for pods that are over
        self.shown = True  # whether kubelet has read its pods since it started
        self.pending: list[Hold] = []  # answered, not yet in kubelet's books
        self.evidence = Evidence()
        self.ledger: Ledger = ()
        self.order = 1
        self.now = 0.0
        self.pods = 0

    def holds(self) -> tuple[Hold, ...]:
        return holds_of(self.evidence, self.ledger)

    @rule(config=st.sampled_from(CONFIGS))
    def change_config(self, config: PluginConfig) -> None:
        self.config = config

    @rule(data=st.data())
    def admit_a_pod(self, data: st.DataObject) -> None:
        plan = share(INVENTORY, self.config)
        resource = data.draw(st.sampled_from(plan.resources))
        taken = {
            slot for hold in self.running.values() if hold.resource == resource.name for slot in hold.ids
        }
        healthy = {s.id for ad in advertise(plan, self.holds()) for s in ad.slots if s.healthy}
        stale = data.draw(st.booleans())  # kubelet may still act on an older list
        free = [s.id for s in resource.slots if s.id not in taken and (stale or s.id in healthy)]
        if not free:
            return
        asked = data.draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True))
        answer = allocate(resource, asked, self.holds())
        if isinstance(answer, Allocation):
            self.ledger = record(self.ledger, answer, order=self.order, now=self.now)
            self.pods += 1
            self.running[self.pods] = Hold(resource.name, answer.ids, "ns", str(self.pods), "c")
            if data.draw(st.booleans()):
                self.hidden.add(self.pods)
            self.ended.clear()  # kubelet writes its checkpoint anew

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end_a_pod(self, data: st.DataObject) -> None:
        self.ended.append(self.running.pop(data.draw(st.sampled_from(sorted(self.running)))))

    @rule(answers=st.booleans(), delayed=st.booleans(), readable=st.booleans(), over=st.booleans())
    def ask_kubelet(self, answers: bool, delayed: bool, readable: bool, over: bool = True) -> None:
        """`over`: whether it is known already which pods of the checkpoint ended."""
        order = self.order
        self.order += 1
        listed = tuple(hold for pod, hold in self.running.items() if pod not in self.hidden)
        shown = listed if self.shown else ()
        reserved = (*self.running.values(), *(() if over else self.ended))
        if delayed:  # an allocation is answered while the question is under way
            self._admit_first_free()
        self.evidence = gather(
            self.evidence,
            shown if answers else None,
            reserved if readable else None,
            order=order,
            settled=self.shown,
        )
        self.ledger = settle(self.ledger, self.evidence, now=self.now)

    def _admit_first_free(self) -> None:
        plan = share(INVENTORY, self.config)
        for resource in plan.resources:
            taken = {s for hold in self.running.values() if hold.resource == resource.name for s in hold.ids}
            for slot in resource.slots:
                answer = allocate(resource, [slot.id], self.holds()) if slot.id not in taken else None
                if isinstance(answer, Allocation):
                    self.ledger = record(self.ledger, answer, order=self.order, now=self.now)
                    self.pods += 1
                    self.running[self.pods] = Hold(resource.name, answer.ids, "ns", str(self.pods), "c")
                    return

    @rule()
    def kubelet_restarts(self) -> None:
        self.shown = False

    @rule()
    def kubelet_has_read_its_pods(self) -> None:
        self.shown = True

    @rule()
    def agent_restarts(self) -> None:
        self.evidence, self.order = Evidence(), 1
        self.ledger = tuple(Entry(e.resource, e.id, 0, self.now, e.seen) for e in self.ledger)
        self.ask_kubelet(answers=False, delayed=False, readable=False)

    @rule(seconds=st.sampled_from([1.0, UNSEEN_S * 2]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        if seconds > UNSEEN_S and self.shown:
            self.ask_kubelet(answers=True, delayed=False, readable=True)

    @invariant()
    def one_use_for_each_device(self) -> None:
        for uuid, uses in uses_of(self.running.values()).items():
            assert len(uses) == 1, (uuid, uses)

    @invariant()
    def one_holder_for_an_exclusive_device(self) -> None:
        exclusive = [s for hold in self.running.values() for s in hold.ids if "::" not in s]
        assert len(exclusive) == len(set(exclusive))

    @invariant()
    def what_was_released_becomes_free(self) -> None:
        if not self.running and self.shown:
            evidence = gather(self.evidence, (), (), order=self.order, settled=True)
            left = settle(self.ledger, evidence, now=self.now + UNSEEN_S * 3)
            assert holds_of(evidence, left) == ()


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
