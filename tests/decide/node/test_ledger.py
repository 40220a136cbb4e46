"""No device is given out under two uses, whatever configuration, kubelet and agent go through."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.ledger_rows import noted
from tonnage.decide.node.advertise import advertise
from tonnage.decide.node.allocate import allocate
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.ledger import (
    UNSEEN_S,
    Census,
    Claim,
    Evidence,
    IdOwner,
    Ledger,
    LedgerEntry,
    Living,
    gather,
    holds_of,
    settle,
    unconfirmed,
)
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import Allocation, Hold, PlannedResource, PluginConfig, SharedResource
from tonnage.model.names import GPU, ResourceName

SHARED = ResourceName("nvidia.com/gpu.shared")
CONFIGS = (
    PluginConfig(),
    PluginConfig((SharedResource(GPU, SHARED, 2),)),
    PluginConfig((SharedResource(GPU, SHARED, 3, ("0",)),)),
    PluginConfig((SharedResource(GPU, GPU, 2),)),
)
INVENTORY = Inventory((Device("GPU-0", 0, "x", 1), Device("GPU-1", 1, "x", 1)))


def entry(**changes: object) -> LedgerEntry:
    values: dict[str, object] = {"resource": GPU, "id": "a", "order": 1, "since": 0.0}
    return LedgerEntry(**{**values, **changes})  # type: ignore[arg-type]


HELD = Hold(GPU, ("a",), "ml", "train", "main")
OWNER = IdOwner("", "", "ml", "train", ("main",))


def test_an_entry_is_over_once_seen_and_then_gone() -> None:
    ledger: Ledger = (entry(),)
    ledger = settle(ledger, Evidence((HELD,), 2, final=True, shown=(HELD,)), now=1)
    assert ledger == (entry(listed=True, owner=OWNER),)
    assert settle(ledger, Evidence((), 3, final=True), now=2) == ()


def test_an_entry_never_seen_is_kept_for_a_bounded_time() -> None:
    empty = Evidence((), 2, final=True)
    assert settle((entry(),), empty, now=UNSEEN_S) == (entry(),)
    assert settle((entry(),), empty, now=UNSEEN_S + 1) == ()


TRAIN = Claim("ml", "train", "main", GPU, 1)


@pytest.mark.parametrize(
    ("census", "shown", "kept"),
    [
        pytest.param(Census(1, ()), (), False, id="no living pod asks for it"),
        pytest.param(Census(0, ()), (), True, id="asked before the answer"),
        pytest.param(Census(1, (TRAIN,)), (), True, id="a pod without its device"),
        pytest.param(Census(1, (TRAIN,)), (replace(HELD, ids=("b",)),), False, id="a pod that has its own"),
        pytest.param(Census(1, (replace(TRAIN, count=2),)), (replace(HELD, ids=("b",)),), True, id="half"),
        pytest.param(
            Census(1, (TRAIN, replace(TRAIN, container="load"))), (HELD,), True, id="another container's"
        ),
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
    assert settle((entry(order=2, listed=True),), Evidence((), 1, final=True), now=1e9) == (
        entry(order=2, listed=True),
    )


def test_silence_of_kubelet_frees_nothing() -> None:
    before = Evidence((HELD,), 1, final=True)
    silent = gather(before, None, (), order=2, settled=True)
    assert silent.holds == (HELD,)
    assert settle((entry(listed=True),), silent, now=1e9) == (entry(listed=True),)


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
    assert ledger == (entry(listed=True, owner=replace(OWNER, containers=("load",))),)
    over = gather(evidence, (), (), order=3, settled=True)
    assert (over.holds, settle(ledger, over, now=1e9)) == ((), ())


def test_a_checkpoint_that_cannot_be_read_frees_nothing() -> None:
    before = gather(Evidence(), (), (INIT,), order=1, settled=True)
    after = gather(before, (), None, order=2, settled=True)
    assert (after.final, after.holds) == (False, (INIT,))
    assert settle((entry(),), after, now=1e9) == (
        entry(listed=True, owner=replace(OWNER, containers=("load",))),
    )


def test_kubelets_word_names_the_pod() -> None:
    assert holds_of(Evidence((HELD,), 1, final=True), (entry(),)) == (HELD,)
    assert holds_of(Evidence(), (entry(),)) == (Hold(GPU, ("a",)),)


KNOWN = entry(listed=True, owner=IdOwner("kubelet-1", "uid", "ml", "train", ("main",)))
LISTED = frozenset({("ml", "train")})
ALIVE = Living({"uid": ("ml", "train")})
OTHER = Hold(GPU, ("b",), "ml", "train", "main")


@pytest.mark.parametrize(
    ("evidence", "living", "forgotten"),
    [
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2", pods=LISTED), ALIVE, True, id="its pod lives"
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2", pods=LISTED), None, True, id="kubelet lists it"
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2"), ALIVE, True, id="kubelet is late to read them"
        ),
        pytest.param(Evidence((), 2, kubelet="kubelet-2"), ALIVE, True, id="kubelet has not read its pods"),
        pytest.param(Evidence((), 2, kubelet="kubelet-2"), None, True, id="nobody knows which pods live"),
        pytest.param(
            Evidence((), 2, kubelet="kubelet-2"), Living(), False, id="its pod is over, kubelet says nothing"
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2", pods=LISTED),
            Living(),
            False,
            id="another of that name",
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2"), None, False, id="kubelet says that it is over"
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-1", pods=LISTED), ALIVE, False, id="the same kubelet"
        ),
        pytest.param(
            Evidence((OTHER,), 2, True, (OTHER,), kubelet="kubelet-2", pods=LISTED),
            ALIVE,
            False,
            id="its container was started again with another",
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2", pods=LISTED),
            replace(ALIVE, idle=frozenset({("uid", "main")})),
            False,
            id="its container does not run",
        ),
    ],
)
def test_a_new_kubelet_that_does_not_know_a_holder_has_forgotten_it(
    evidence: Evidence, living: Living | None, forgotten: bool
) -> None:
    ledger = settle((KNOWN,), evidence, now=1e9, living=living)
    held = Hold(GPU, ("a",), "ml", "train", "main", forgotten=True)
    assert (held in holds_of(evidence, ledger)) is forgotten


def test_what_was_forgotten_stays_so_while_nobody_can_say_which_kubelet_answers() -> None:
    forgotten = replace(KNOWN, forgotten=True)
    assert settle((forgotten,), Evidence((), 2), now=1e9) == (forgotten,)


def test_what_was_forgotten_is_so_no_longer_once_its_pod_is_over_though_kubelet_says_nothing() -> None:
    forgotten = replace(KNOWN, forgotten=True)
    ledger = settle((forgotten,), Evidence((), 2, kubelet="kubelet-2"), now=1, living=Living())
    assert ledger == (KNOWN,)


def test_a_kubelet_that_remembers_is_the_one_to_know_from_then_on() -> None:
    evidence = Evidence((HELD,), 2, True, (HELD,), kubelet="kubelet-2", pods=LISTED)
    assert unconfirmed((KNOWN,), "kubelet-2") == {(GPU, "a")}
    assert unconfirmed((KNOWN,), "kubelet-2", Living()) == frozenset()
    ledger = settle((KNOWN,), evidence, now=1, living=ALIVE)
    assert ledger == (replace(KNOWN, owner=replace(KNOWN.owner, kubelet="kubelet-2")),)
    assert unconfirmed(ledger, "kubelet-2") == frozenset()


UNSHOWN = entry(id="b", owner=IdOwner("kubelet-1"))
SERVE = Claim("ml", "serve", "main", GPU, 1)
BOOKS_LOST = Evidence((), 2, True, kubelet="kubelet-2", pods=LISTED | {("ml", "serve")})


@pytest.mark.parametrize(
    ("claims", "kept", "pod"),
    [
        pytest.param((TRAIN, SERVE), True, "serve", id="one that lacks it"),
        pytest.param((SERVE, replace(SERVE, pod="other")), True, "", id="two that lack it"),
        pytest.param((replace(SERVE, count=2),), True, "", id="one that lacks more"),
        pytest.param((TRAIN,), False, "", id="nobody: the other has its own, which kubelet forgot"),
        pytest.param((), False, "", id="nobody at all"),
    ],
)
def test_what_only_an_earlier_kubelet_got_is_held_while_a_living_pod_may_have_it(
    claims: tuple[Claim, ...], kept: bool, pod: str
) -> None:
    """However long: that kubelet may have started the container, and ended before anybody saw its books."""
    living = Living({"uid": ("ml", "train"), "uid-2": ("ml", "serve")})
    ledger = settle((KNOWN, UNSHOWN), BOOKS_LOST, now=1e9, census=Census(2, claims), living=living)
    held = Hold(GPU, ("b",), "ml" if pod else "", pod, forgotten=True)
    assert (held in holds_of(BOOKS_LOST, ledger)) is kept
    assert len(ledger) == 1 + kept


def test_that_a_kubelet_lost_its_books_stays_known_when_who_told_it_has_ended() -> None:
    census = Census(2, (SERVE,))
    living = Living({"uid-2": ("ml", "serve")})
    ledger = settle((KNOWN, UNSHOWN), BOOKS_LOST, now=1, census=census, living=ALIVE)
    (left,) = settle(ledger, BOOKS_LOST, now=2, census=census, living=living)
    assert (left.id, left.forgotten) == ("b", True)


def test_what_only_an_earlier_kubelet_got_may_be_given_again_where_this_one_has_its_books() -> None:
    mine = Hold(GPU, ("a",), "ml", "train", "main")
    evidence = Evidence((mine,), 2, True, (mine,), kubelet="kubelet-2", pods=LISTED)
    ledger = settle((KNOWN, UNSHOWN), evidence, now=1e9, census=Census(2, (SERVE,)), living=ALIVE)
    assert [one.forgotten for one in ledger] == [False, False]
    assert unconfirmed(ledger, "kubelet-2") == {(GPU, "b")}  # others first


def test_a_container_keeps_what_kubelet_asks_anew_for_an_init_container_before_it() -> None:
    known = replace(KNOWN, owner=replace(KNOWN.owner, containers=("load", "main")))
    anew = Hold(GPU, ("b",), "ml", "train", "load")
    evidence = Evidence((anew,), 2, True, reserved=(anew,), kubelet="kubelet-2", pods=LISTED)
    living = replace(ALIVE, idle=frozenset({("uid", "load")}))
    assert settle((known,), evidence, now=1, living=living) == (replace(known, forgotten=True),)
    started = replace(anew, container="main")
    evidence = replace(evidence, holds=(anew, started), shown=(started,))
    assert settle((known,), evidence, now=1, living=living) == ()


class Node(RuleBasedStateMachine):
    """A kubelet that follows its own rules, and the agent's decisions against it."""

    def __init__(self) -> None:
        super().__init__()
        self.config = CONFIGS[0]
        self.running: dict[int, Hold] = {}  # what containers really have
        self.lost: set[int] = set()  # those that kubelet does not know of any more
        self.down: set[int] = set()  # whose container ended and is to start again
        self.kubelet = 1
        self.hidden: set[int] = set()  # those in init containers, which kubelet does not list
        self.first: dict[int, Hold] = {}  # what kubelet has for an init container before a container
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

    def _choice_of_kubelet(self, data: st.DataObject, resource: PlannedResource) -> list[str]:
        """Ids that kubelet takes for free; those that we doubt come last, as we ask for."""
        books = [*(hold for pod, hold in self.running.items() if pod not in self.lost), *self.first.values()]
        known = {slot for hold in books for slot in hold.ids}
        healthy = {
            s.id
            for ad in advertise(share(INVENTORY, self.config), self.holds())
            for s in ad.slots
            if s.healthy
        }
        stale = data.draw(st.booleans())  # kubelet may still act on an older list
        doubtful = {slot for _, slot in unconfirmed(self.ledger, str(self.kubelet))}
        free = [s.id for s in resource.slots if s.id not in known and (stale or s.id in healthy)]
        preferred = [slot for slot in free if slot not in doubtful]
        return preferred or free

    def _ask_for(self, data: st.DataObject, resource: PlannedResource, asked: list[str]) -> Hold | None:
        """What the agent answers, after a look at kubelet where it must."""
        if {(resource.name, slot) for slot in asked} & unconfirmed(self.ledger, str(self.kubelet)):
            self.ask_kubelet(
                answers=data.draw(st.booleans()), delayed=False, readable=data.draw(st.booleans())
            )
        answer = allocate(resource, asked, DeviceHolds.of(self.holds()))
        if not isinstance(answer, Allocation):
            return None
        self.ledger = noted(self.ledger, answer, order=self.order, now=self.now, kubelet=str(self.kubelet))
        self.ended.clear()  # kubelet writes its checkpoint anew
        return Hold(resource.name, answer.ids, "ns", str(self.pods), "c")

    @rule(data=st.data())
    def admit_a_pod(self, data: st.DataObject) -> None:
        resource = data.draw(st.sampled_from(share(INVENTORY, self.config).resources))
        free = self._choice_of_kubelet(data, resource)
        taken = sum(len(hold.ids) for hold in self.running.values() if hold.resource == resource.name)
        taken += sum(len(self.first[pod].ids) for pod in self.first.keys() & self.lost)
        room = min(2, len(free), len(resource.slots) - taken)  # kubelet and the scheduler count all pods
        if room < 1:
            return
        asked = data.draw(st.lists(st.sampled_from(free), min_size=1, max_size=room, unique=True))
        if given := self._ask_for(data, resource, asked):
            self.pods += 1
            self.running[self.pods] = replace(given, pod=str(self.pods))
            kind = data.draw(st.sampled_from(["plain", "in an init container", "after one"]))
            if kind == "in an init container":
                self.hidden.add(self.pods)
            elif kind == "after one":
                self.first[self.pods] = replace(self.running[self.pods], container="init")

    @precondition(lambda self: self.lost & self.first.keys())
    @rule(data=st.data())
    def kubelet_asks_anew_for_an_init_container_that_is_over(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(sorted(self.lost & self.first.keys())))
        resource = share(INVENTORY, self.config).resource(self.first[pod].resource)
        if self.first[pod].ids or resource is None or not (free := self._choice_of_kubelet(data, resource)):
            return
        if given := self._ask_for(data, resource, free[:1]):
            self.first[pod] = replace(given, pod=str(pod), container="init")

    @precondition(lambda self: self.lost)
    @rule(data=st.data())
    def a_forgotten_container_ends(self, data: st.DataObject) -> None:
        self.down.add(data.draw(st.sampled_from(sorted(self.lost))))

    @precondition(lambda self: self.down & self.lost)
    @rule(data=st.data())
    def it_starts_again(self, data: st.DataObject) -> None:
        """kubelet asks for it as if it had never had anything; it runs when there is an answer."""
        pod = data.draw(st.sampled_from(sorted(self.down & self.lost)))
        resource = share(INVENTORY, self.config).resource(self.running[pod].resource)
        asked = self._choice_of_kubelet(data, resource)[: len(self.running[pod].ids)] if resource else []
        enough = resource is not None and len(asked) == len(self.running[pod].ids)
        if resource and enough and (given := self._ask_for(data, resource, asked)):
            self.running[pod] = replace(given, pod=str(pod))
            self.first.pop(pod, None)
            self.lost.discard(pod)
            self.down.discard(pod)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def end_a_pod(self, data: st.DataObject) -> None:
        pod = data.draw(st.sampled_from(sorted(self.running)))
        over = self.running.pop(pod)
        self.first.pop(pod, None)
        if pod not in self.lost:
            self.ended.append(over)
        self.lost.discard(pod)
        self.down.discard(pod)

    @rule(
        answers=st.booleans(),
        delayed=st.booleans(),
        readable=st.booleans(),
        over=st.booleans(),
        late=st.booleans(),
    )
    def ask_kubelet(
        self, answers: bool, delayed: bool, readable: bool, over: bool = True, late: bool = False
    ) -> None:
        """`over`: whether it is known which pods live; `late`: kubelet takes very long to read them."""
        order = self.order
        self.order += 1
        known = {pod: hold for pod, hold in self.running.items() if pod not in self.lost}
        listed = tuple(hold for pod, hold in known.items() if pod not in self.hidden)
        shown = listed if self.shown else ()
        first = tuple(self.first[pod] for pod in self.first if self.first[pod].ids)
        reserved = (*known.values(), *first, *(() if over else self.ended))
        if delayed:  # an allocation is answered while the question is under way
            self._admit_first_free()
        self.evidence = gather(
            self.evidence,
            shown if answers else None,
            reserved if readable else None,
            order=order,
            settled=self.shown or (late and over),
        )
        pods = frozenset(("ns", str(pod)) for pod in self.running)
        self.evidence = replace(
            self.evidence,
            kubelet=str(self.kubelet),
            pods=pods if answers and self.shown else frozenset(),
        )
        living = Living(
            {f"uid-{name}": (space, name) for space, name in pods},
            frozenset(
                {*((f"uid-{pod}", "c") for pod in self.down), *((f"uid-{pod}", "init") for pod in self.first)}
            ),
        )
        self.ledger = settle(
            self.ledger,
            self.evidence,
            now=self.now,
            census=self._census(order) if over else Census(),
            living=living if over else None,
        )

    def _census(self, order: int) -> Census:
        """What each container asks for that is not over."""
        return Census(
            order,
            tuple(
                Claim("ns", str(pod), "c", hold.resource, len(hold.ids))
                for pod, hold in self.running.items()
                if pod not in self.down
            ),
        )

    def _admit_first_free(self) -> None:
        plan = share(INVENTORY, self.config)
        for resource in plan.resources:
            taken = {s for hold in self.running.values() if hold.resource == resource.name for s in hold.ids}
            for slot in resource.slots:
                answer = (
                    allocate(resource, [slot.id], DeviceHolds.of(self.holds()))
                    if slot.id not in taken
                    else None
                )
                if isinstance(answer, Allocation):
                    self.ledger = noted(
                        self.ledger, answer, order=self.order, now=self.now, kubelet=str(self.kubelet)
                    )
                    self.pods += 1
                    self.running[self.pods] = Hold(resource.name, answer.ids, "ns", str(self.pods), "c")
                    return

    @rule()
    def kubelet_restarts(self) -> None:
        self.shown = False
        self.kubelet += 1

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def kubelet_restarts_without_its_checkpoint(self, data: st.DataObject) -> None:
        """Also in the moment after an answer; then others that it had shown tell that it lost its books."""
        self.shown = True
        self.ask_kubelet(answers=True, delayed=False, readable=True)
        others = bool(self.running.keys() - self.lost - self.down)
        if others and data.draw(st.booleans()):
            self.admit_a_pod(data)
        self.lost = set(self.running)
        self.first = {pod: replace(hold, ids=()) for pod, hold in self.first.items()}
        self.ended.clear()
        self.kubelet_restarts()
        self.ask_kubelet(answers=False, delayed=False, readable=True)

    @rule()
    def kubelet_has_read_its_pods(self) -> None:
        self.shown = True

    @rule()
    def agent_restarts(self) -> None:
        self.evidence, self.order = Evidence(), 1
        self.ledger = tuple(replace(e, order=0, since=self.now) for e in self.ledger)
        self.ask_kubelet(answers=False, delayed=False, readable=False)

    @rule(seconds=st.sampled_from([1.0, UNSEEN_S * 2]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        if seconds > UNSEEN_S and self.shown:
            self.ask_kubelet(answers=True, delayed=False, readable=True)

    @invariant()
    def one_use_for_each_device(self) -> None:
        running = [hold for pod, hold in self.running.items() if pod not in self.down]
        for uuid, uses in DeviceHolds.of(running).uses().items():
            assert len(uses) == 1, (uuid, uses)

    @invariant()
    def one_holder_for_an_exclusive_device(self) -> None:
        running = [hold for pod, hold in self.running.items() if pod not in self.down]
        exclusive = [s for hold in running for s in hold.ids if "::" not in s]
        assert len(exclusive) == len(set(exclusive))

    @invariant()
    def what_was_released_becomes_free(self) -> None:
        if not self.running and self.shown:
            evidence = gather(self.evidence, (), (), order=self.order, settled=True)
            evidence = replace(evidence, kubelet=str(self.kubelet))
            census = Census(self.order)
            left = settle(self.ledger, evidence, now=self.now + UNSEEN_S * 3, census=census)
            assert holds_of(evidence, left) == ()


TestNode = Node.TestCase
TestNode.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
