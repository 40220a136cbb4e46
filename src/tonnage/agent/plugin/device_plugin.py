"""The device plugin: what is advertised to kubelet, and what it gets when it asks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.cdi import CdiSpecs
from tonnage.agent.context import AgentContext
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.plugin.holders import Holders
from tonnage.agent.plugin.topologies import Topologies
from tonnage.decide.node.allocate import allocate, not_offered
from tonnage.decide.node.device_holds import DeviceHolds, Uses
from tonnage.decide.node.inject import inject
from tonnage.decide.node.offer import NodeOffer, offer_of, plan_of
from tonnage.decide.node.preference.prefer import prefer
from tonnage.decide.node.serve import (
    Publish,
    Register,
    RunningPluginServer,
    Serve,
    SocketStep,
    Withdraw,
    reconcile,
)
from tonnage.loop.ticks import next_beat
from tonnage.model.devices.sharing import (
    Advertisement,
    Allocation,
    Hold,
    Injection,
    NodePlan,
    PlannedResource,
)
from tonnage.model.errors import ClusterError, HardwareError
from tonnage.model.names import ResourceName
from tonnage.model.reasons.reason import Reason
from tonnage.ports.node import PluginSockets

_LOG: Final = logging.getLogger(__name__)
_PART: Final = "device-plugin"
_LOOK_S: Final = 0.2
"""Where nobody tells that sockets vanished or kubelet restarted."""
_BACK_OFF_S: Final = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


@dataclass(slots=True)
class _Standing:
    """One resource's server as we left it; `kubelet` is the one it is registered at, else empty."""

    advertised: Advertisement
    kubelet: str = ""


@dataclass(slots=True)
class _Trouble:
    """What went wrong with a resource last, and when to try again."""

    error: str
    failures: int
    retry_at: float
    kubelet: str


class DevicePlugin:
    """Makes the plugin sockets follow devices, configuration and holders, and publishes the offer.

    `specs` are asked before CDI devices are named; None: they are somebody else's matter.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        sockets: PluginSockets,
        ledger: HoldLedger,
        holders: Holders,
        specs: CdiSpecs | None,
    ) -> None:
        self._node = context.node
        self._clock = context.clock
        self._metrics = context.metrics
        self._started = context.started
        self._board = board
        self._sockets = sockets
        self._ledger = ledger
        self._holders = holders
        self._specs = specs
        self._topologies = Topologies(context.node)
        self._wake = asyncio.Event()
        self._stale = True
        self._off = False
        """Whether nothing was offered last, since this part is switched off."""
        self._restarted = ""
        """The pod that asked for it last."""
        self._used: tuple[NodePlan, tuple[Hold, ...], Uses] | None = None
        self._group: asyncio.TaskGroup | None = None
        self._standing: dict[ResourceName, _Standing] = {}
        self._trouble: dict[ResourceName, _Trouble] = {}
        for topic in (board.inventory, board.configuration, board.holds, board.mps, board.parts_off):
            topic.subscribe(self._refresh)
        board.restarts.subscribe(self._restart)

    def _restart(self) -> None:
        """Introduce every resource to kubelet again, as a plugin does that starts."""
        if (pod := self._board.restarts.value.get(_PART, "")) == self._restarted:
            return
        self._restarted = pod
        for standing in self._standing.values():
            standing.kubelet = ""
        self._wake.set()

    def _refresh(self) -> None:
        self._stale = True
        self._wake.set()

    async def run(self) -> None:
        """Reconcile until cancelled; the sockets stay for who closes them."""
        async with asyncio.TaskGroup() as group:
            self._group = group
            group.create_task(self._tick())
            group.create_task(self._topologies.run())
            while True:
                await self._wake.wait()
                self._wake.clear()
                watched = self._sockets.watch(self._wake.set)  # first: what comes after it is told
                self._metrics.turned("plugin")
                self._look()
                if (offer := self._board.offer.value) is not None:
                    await self._act(offer)
                    if not watched and self._sockets.watch(self._wake.set):
                        self._wake.set()  # the folder is new: somebody may have been in it already
                    if not (self._started.is_set() or self.unregistered()):
                        self._started.set()

    async def answer(
        self, resource: ResourceName, requests: Sequence[Sequence[str]]
    ) -> tuple[Injection, ...] | Reason:
        """What the containers get; noted before it is answered. Raises HardwareError when that fails."""
        async with self._ledger.answering:  # one after another, so that each sees what the one before took
            await self._holders.confirm(resource, {slot for ids in requests for slot in ids})
            self._look()
            offer = self._board.offer.value
            offered = offer and offer.plan.resource(resource)
            if offer is None or not offered:
                return not_offered(resource)
            allocations, refusal = self._decide(offer, offered, requests)
            answers = tuple(
                inject(allocation, offer.config.config, offer.plan.access) for allocation in allocations
            )
            if refusal is None and self._specs is not None:
                refusal = await self._specs.lacking(answers)
            if refusal is not None:
                _LOG.warning("allocation refused: node=%s code=%s why=%s", self._node, *_words(refusal))
                return refusal
            await self._holders.take(allocations)
        return answers

    def _decide(
        self, offer: NodeOffer, offered: PlannedResource, requests: Sequence[Sequence[str]]
    ) -> tuple[list[Allocation], Reason | None]:
        allocations: list[Allocation] = []
        held, plan = self._board.holds.value, offer.plan
        uses = self._uses(plan, held)
        for ids in requests:
            decided = allocate(offered, ids, held, plan.whole_of, uses)
            if isinstance(decided, Reason):
                return allocations, decided
            allocations.append(decided)
        return allocations, None

    def _uses(self, plan: NodePlan, held: DeviceHolds) -> Uses:
        """The uses of these holds, worked out once."""
        if self._used is None or self._used[0] is not plan or self._used[1] is not held.holds:
            self._used = plan, held.holds, held.uses(plan.whole_of)
        return self._used[2]

    async def counted_answer(
        self, resource: ResourceName, requests: Sequence[Sequence[str]]
    ) -> tuple[Injection, ...] | Reason:
        """`answer`, with its result and duration counted."""
        started, outcome = self._clock.monotonic(), "failed"
        try:
            with self._holders.hushed():
                answer = await self.answer(resource, requests)
            outcome = "refused" if isinstance(answer, Reason) else "granted"
            return answer
        finally:
            self._metrics.allocated(resource, outcome, self._clock.monotonic() - started)

    async def preferred(
        self, resource: ResourceName, available: Sequence[str], required: Sequence[str], size: int
    ) -> tuple[str, ...]:
        """The best ids; any valid ones when the resource is not offered any more. An allocation follows."""
        with self._holders.hushed():
            await self._holders.listed()
            return self._preferred(resource, available, required, size)

    def _preferred(
        self, resource: ResourceName, available: Sequence[str], required: Sequence[str], size: int
    ) -> tuple[str, ...]:
        offer = self._board.offer.value
        offered = offer and offer.plan.resource(resource)
        if offer is None or not offered:
            return tuple(dict.fromkeys((*required, *available)))[:size]
        policy = offer.config.config.shared_policy
        slots = offered.by_id
        healthy = [i for i in available if i not in slots or slots[i].healthy or i in required]
        if len(healthy) < len(available):  # kubelet has not taken in yet what it was told of them
            left_out = sorted({*available}.difference(healthy))
            _LOG.info("unhealthy devices left out: resource=%s ids=%s", resource, ",".join(left_out))
            available = healthy
        doubtful = self._holders.doubtful(resource)  # kubelet may have forgotten whose they are
        if doubtful:
            certain = [slot for slot in available if slot not in doubtful or slot in required]
            available = certain if len(certain) >= size else available
        topology = self._topologies.of(resource)
        chosen = prefer(offered, available, required, size, policy=policy, topology=topology)
        self._topologies.explain(resource, chosen, of=len(available))
        return chosen

    def unregistered(self) -> dict[ResourceName, str]:
        """Why kubelet does not know a resource that is offered, by resource; empty once it knows all."""
        kubelet, reasons = self._sockets.kubelet(), dict[ResourceName, str]()
        offer = self._board.offer.value
        for name in (advertisement.resource for advertisement in offer.advertised) if offer else ():
            standing, trouble = self._standing.get(name), self._trouble.get(name)
            if trouble is not None:
                reasons[name] = trouble.error
            elif not kubelet:
                reasons[name] = "kubelet's registration socket is missing"
            elif standing is None or standing.kubelet != kubelet or not self._sockets.present(name):
                reasons[name] = "not registered yet"
        return reasons

    async def _tick(self) -> None:
        """Sockets vanish and kubelets restart; the kernel tells, but perhaps not of a folder made anew."""
        while True:
            watched = self._sockets.watch(self._wake.set)
            self._wake.set()
            await (next_beat(self._clock) if watched else self._clock.sleep(_LOOK_S))

    async def _wake_in(self, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._wake.set()

    def _look(self) -> None:
        """Compute the offer anew if anything that it follows from changed."""
        board = self._board
        inventory, config, held = board.inventory.value, board.configuration.value, board.holds.value
        if not self._stale or inventory is None or config is None or not held.settled:
            return
        self._stale = False
        mps, old = board.mps.value, board.offer.value
        off = _PART in board.parts_off.value
        plan = plan_of(inventory, config, mps, old if off is self._off else None)
        plan, self._off = replace(plan, resources=()) if off else plan, off
        if old is None or not old.is_of(inventory, config):
            self._topologies.follow(plan, inventory)
        board.offer.publish(offer_of(inventory, config, plan, held, mps, uses=self._uses(plan, held)))

    async def _act(self, offer: NodeOffer) -> None:
        """Take the steps that bring sockets and registrations in line with the offer; note what fails."""
        kubelet = self._sockets.kubelet()
        served = {
            name: RunningPluginServer(standing.advertised, self._sockets.present(name), standing.kubelet)
            for name, standing in self._standing.items()
        }
        blocked: set[ResourceName] = set()
        for step in reconcile(offer.advertised, served, kubelet):
            name = _resource(step)
            waits = name in blocked or self._waiting(name, kubelet)
            if waits and not isinstance(step, Withdraw):
                continue
            self._metrics.turned("plugin")  # a step may take seconds, and there may be many
            try:
                await self._take(step, kubelet)
            except (HardwareError, ClusterError) as error:
                if isinstance(step, Register):
                    self._metrics.not_registered(name)
                blocked.add(name)
                self._note(name, str(error), kubelet)
        # Next time it is the same object: to compare tens of thousands of slots that are equal takes long.
        for advertisement in offer.advertised:
            standing = self._standing.get(advertisement.resource)
            if standing is not None and standing.advertised == advertisement:
                standing.advertised = advertisement

    async def _take(self, step: SocketStep, kubelet: str) -> None:
        match step:
            case Withdraw(name):
                del self._standing[name]
                self._trouble.pop(name, None)
                await self._sockets.withdraw(name)
                _LOG.info("resource withdrawn: node=%s resource=%s", self._node, name)
            case Serve(advertisement):
                name = advertisement.resource
                await self._sockets.serve(advertisement, _Service(self, name))
                self._standing[name] = _Standing(advertisement)
            case Publish(advertisement):
                await self._sockets.publish(advertisement)
                self._standing[advertisement.resource].advertised = advertisement
            case Register(name):
                await self._sockets.register(name)
                self._standing[name].kubelet = kubelet
                self._trouble.pop(name, None)
                self._metrics.registered(name)
                _LOG.info("resource registered: node=%s resource=%s", self._node, name)

    def _waiting(self, name: ResourceName, kubelet: str) -> bool:
        """Whether to leave a resource alone for a while. A new kubelet ends every wait."""
        trouble = self._trouble.get(name)
        return (
            trouble is not None and trouble.kubelet == kubelet and self._clock.monotonic() < trouble.retry_at
        )

    def _note(self, name: ResourceName, error: str, kubelet: str) -> None:
        before = self._trouble.get(name)
        failures = before.failures + 1 if before and before.kubelet == kubelet else 0
        pause_s = _BACK_OFF_S[min(failures, len(_BACK_OFF_S) - 1)]
        self._trouble[name] = _Trouble(error, failures, self._clock.monotonic() + pause_s, kubelet)
        assert self._group is not None  # only what `run` does goes wrong here
        self._group.create_task(self._wake_in(pause_s))
        if before is None or before.error != error:
            _LOG.error("resource not advertised: node=%s resource=%s error=%s", self._node, name, error)


@dataclass(frozen=True, slots=True)
class _Service:
    """One resource's side of the plugin, for its server."""

    plugin: DevicePlugin
    resource: ResourceName

    async def allocate(self, requests: Sequence[Sequence[str]]) -> tuple[Injection, ...] | Reason:
        return await self.plugin.counted_answer(self.resource, requests)

    async def prefer(self, available: Sequence[str], required: Sequence[str], size: int) -> tuple[str, ...]:
        return await self.plugin.preferred(self.resource, available, required, size)


def _resource(step: SocketStep) -> ResourceName:
    match step:
        case Serve(advertisement) | Publish(advertisement):
            return advertisement.resource
        case Register(name) | Withdraw(name):
            return name


def _words(refusal: Reason) -> tuple[str, str]:
    return refusal.code, refusal.message
