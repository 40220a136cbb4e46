"""The ledger under anything that kubelet, pods and agents do, in any order: no device is given twice."""

from __future__ import annotations

from dataclasses import replace

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
    Ledger,
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
TestNode.settings = settings(stateful_step_count=40)
