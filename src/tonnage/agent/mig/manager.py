"""The MIG layout of the node's GPUs, kept like the node's label wants it.

One step at a time, each decided from the GPUs as they are. A journal on disk says where a change leads and
what was before, so that whoever comes after a crash ends it, one way or the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.devices import NodeDevices
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.agent.mig.host import MigHost
from tonnage.agent.mig.journal import MigJournal
from tonnage.agent.mig.state import followed_by, uuids, what_stands, words, words_of
from tonnage.agent.mig.steps import MigSteps, StepsEnd
from tonnage.decide.node.claims.claimed import without_partitioned
from tonnage.decide.node.mig.change import MigChange, change_to
from tonnage.decide.node.mig.desired_layout import MigWish, goals_of, remark_on
from tonnage.decide.node.mig.gpu_users import in_the_way
from tonnage.decide.node.mig.obstacles import change_refused, eviction_words, pod_not_evicted
from tonnage.decide.node.mig.reset_groups import resets_of
from tonnage.decide.node.mig.steps import next_step
from tonnage.decide.node.mig.transitions import (
    TRANSITIONS,
    MigChangeEvent,
    Stage,
    next_stage,
    restart_obstacle,
    resumed,
    stage_of,
)
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import Hold
from tonnage.model.errors import ConfigError, HardwareError
from tonnage.model.mig.layouts import DividedGpu, MigStanding, MigState, MigWork
from tonnage.model.reasons.gpu.mig import MigNodeNotPaused, MigObstacle, MigPodNotEvicted
from tonnage.ports.node import DeviceReader

_LOG: Final = logging.getLogger(__name__)
_WITHDRAW_S: Final = 1.0
"""So that kubelet has heard that it may not give out what is changed."""
_BACK_OFF_S: Final = (10.0, 30.0, 60.0, 300.0)
_LOOK_AGAIN_S: Final = 30.0
"""While somebody is in the way, or nothing can be made: not everything that changes this tells of it."""
_ASK_AGAIN_S: Final = 5.0
"""While pods are asked to leave, as kubectl drain has it."""
_LONGEST: Final = 1024


@dataclass(frozen=True, slots=True)
class MigWays:
    """What a change may do beside dividing GPUs.

    `evict` asks a pod (namespace, name) to leave, and says why it does not; None: pods are waited for.
    `pause_and_wait` pauses on the Node what the work asks for, and says why not; None: nothing is paused.
    `host` does what a change asks of the node's host. In a `boot`, by its id, the host may also be restarted.
    """

    evict: Callable[[str, str], Awaitable[MigPodNotEvicted | None]] | None = None
    pause_and_wait: Callable[[], Awaitable[MigNodeNotPaused | None]] | None = None
    host: MigHost | None = None
    boot: str = ""


class NodeMig:
    """Divides GPUs as the wish says, and publishes how the node stands to it.

    What a change works on is withheld, from before its first step until it has ended: GPUs by uuid, with the
    ids of the GPU instances that stay. Nobody is given anything else of them meanwhile.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        hardware: DeviceReader,
        devices: NodeDevices,
        ledger: HoldLedger,
        ways: MigWays,
    ) -> None:
        self._node = context.node
        self._clock = context.clock
        self._events = context.events
        self._hardware = hardware
        self._board = board
        self._devices = devices
        self._ledger = ledger
        self._ways = ways
        self._journal = MigJournal(context)
        self._withheld_for_evictions: Mapping[str, tuple[int, ...]] = {}
        """What is withheld while pods that were asked to leave have not left."""
        self._wake = asyncio.Event()
        self._basis: tuple[MigWish, Inventory, tuple[Hold, ...]] | None = None
        """What was compared last."""
        self._failures = 0
        self._due: float | None = None
        """When to try again, after a failure."""
        self._steps = MigSteps(context, board, hardware)
        for topic in (board.inventory, board.devices_error, board.holds, board.mig_wish):
            topic.subscribe(self._wake.set)

    async def restore(self) -> None:
        """Learn what an earlier agent began; to be done before any device is offered.

        Where that is lost the GPUs still say how they stand, but nobody knows how they stood before.
        """
        try:
            await self._journal.restore()
        except (HardwareError, ValueError) as error:
            _LOG.error("MIG journal not usable: node=%s error=%s", self._node, error)
            self._events.post("Warning", "MigJournalLost", f"the previous layout is lost: {error}")
        self._publish_work()

    async def run(self) -> None:
        """Run until cancelled; a change under way is left to the next agent."""
        if self._journal.change is not None:
            await self._resume(self._journal.change)
        while True:
            await self._turn()
            await self._until_woken()

    async def _until_woken(self) -> None:
        waits: list[asyncio.Future[object]] = [asyncio.ensure_future(self._wake.wait())]
        if self._due is not None:
            left = max(0.0, self._due - self._clock.monotonic())
            waits.append(asyncio.ensure_future(self._clock.sleep(left)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        self._wake.clear()

    async def _turn(self) -> None:
        """Compare wish and GPUs after news; after a failure once the wish is another or the pause is over."""
        board = self._board
        wish, inventory, held = board.mig_wish.value, board.inventory.value, board.holds.value
        if wish is None or inventory is None or board.devices_error.value or not held.settled:
            self._basis, self._failures, self._due = None, 0, None  # whoever ends this wakes us
            self._withhold_for_evictions({})
            return
        basis = (wish, inventory, held.holds)
        due = self._due is not None and self._clock.monotonic() >= self._due
        if self._basis is not None and self._basis[0] != wish:
            self._failures, self._due = 0, None
        elif not due and (self._failures or self._basis == basis):
            return
        self._basis, self._due = basis, None
        try:
            await self._reconcile(wish, inventory)
        except (HardwareError, ConfigError) as error:
            self._fail(wish.config, words(error))

    async def _reconcile(self, wish: MigWish, inventory: Inventory) -> None:
        """Say that the wish is met or cannot be; else begin the change, once nobody is in its way."""
        current, gpus = self._board.configuration.value, await self._hardware.divided()
        if current is not None and current.config.partitioned:
            inventory, gpus = without_partitioned(inventory, gpus, current.config)
        goals = goals_of(wish, inventory, gpus, self._board.holds.value)
        if not isinstance(goals, tuple):
            self._due = self._clock.monotonic() + _LOOK_AGAIN_S
            self._withhold_for_evictions({})
            self._publish_standing(MigStanding(wish.config, MigState.FAILED, goals.message))
            return
        change = change_to(wish.config, goals, gpus, resets_of(inventory), self._steps.stubborn)
        # Before `_is_held_up`: no pod is asked to leave for a change that cannot be made.
        if change is not None and isinstance(obstacle := next_step(change, gpus), MigObstacle):
            self._fail(wish.config, obstacle.message)
        elif change is None:
            self._withhold_for_evictions({})
            self._failures = 0
            self._publish_standing(MigStanding(wish.config, MigState.SUCCESS, remark_on(wish, goals)))
        elif not await self._is_held_up(change, gpus):
            await self._begin(replace(change, host=wish.host))

    async def _is_held_up(self, change: MigChange, gpus: tuple[DividedGpu, ...]) -> bool:
        """Whether pods or processes use what would be destroyed.

        Then the standing names them, and where the agent may evict, the pods are asked to leave.
        """
        users = in_the_way(change, gpus, self._board.holds.value)
        if not users:
            return False
        self._due = self._clock.monotonic() + _LOOK_AGAIN_S
        texts = [str(user) for user in users]
        if (evict := self._ways.evict) is not None:
            self._due = self._clock.monotonic() + _ASK_AGAIN_S
            self._withhold_for_evictions(change.kept)
            pods = dict.fromkeys(user.pod for user in users if user.pod is not None)
            paused = await self._pause_and_wait()
            answers = {
                pod: await evict(*pod) if paused is None else pod_not_evicted(*pod, paused.message)
                for pod in pods
            }
            texts = [
                f"{user} ({eviction_words(answers[user.pod])})" if user.pod else str(user) for user in users
            ]
        self._publish_standing(MigStanding(change.config, MigState.PENDING, f"waits: {'; '.join(texts)}"))
        return True

    def _withhold_for_evictions(self, instances_left: Mapping[str, tuple[int, ...]]) -> None:
        """Offer nothing of these GPUs but what stays: who is evicted would be back at once."""
        if instances_left != self._withheld_for_evictions:
            self._withheld_for_evictions = instances_left
            self._publish_work()

    def _publish_work(self) -> None:
        """What is withheld first: devices are not given out any more when others hear of the work."""
        change = self._journal.change
        self._board.withheld.publish(self._withheld_for_evictions if change is None else change.kept)
        if change is not None:
            self._board.mig_work.publish(MigWork.CHANGING)
        else:
            self._board.mig_work.publish(MigWork.EVICTING if self._withheld_for_evictions else MigWork.NONE)

    async def _pause_and_wait(self) -> MigNodeNotPaused | None:
        return None if self._ways.pause_and_wait is None else await self._ways.pause_and_wait()

    async def _begin(self, change: MigChange) -> None:
        """Withdraw what is to be changed, look again who uses it, and change it."""
        self._publish_standing(
            MigStanding(change.config, MigState.PENDING, f"{uuids(change)}: {change.config} is being created")
        )
        # First on disk: an agent that comes after and finds nothing begun offers the devices again.
        await self._journal.write(change)
        await self._carry_out(change, Stage.WITHDRAWN)

    async def _resume(self, change: MigChange) -> None:
        """Go on with what an earlier agent began, or end it. Of what it had not begun nothing is done."""
        stage = stage_of(change)
        event, change = resumed(change)
        stage = next_stage(stage, event)
        if stage is Stage.UNTOUCHED:
            await self._end()
            return
        _LOG.warning(
            "MIG change resumed: node=%s config=%s times=%d back=%s",
            *(self._node, change.config, change.resumed, change.refusal is not None),
        )
        self._publish_standing(
            MigStanding(change.config, MigState.PENDING, "Tonnage completes an earlier agent's change")
        )
        while True:
            try:
                await self._journal.write(change)
                break
            except HardwareError as error:
                self._publish_standing(MigStanding(change.config, MigState.PENDING, f"waits: {words(error)}"))
                await self._clock.sleep(_BACK_OFF_S[0])
        await self._carry_out(change, stage)

    async def _carry_out(self, change: MigChange, stage: Stage) -> None:
        """Go from stage to stage, as `decide.node.mig.transitions` has it, and then say how it ended."""
        end = StepsEnd(MigChangeEvent.REFUSED, change.refusal)
        while stage in TRANSITIONS:
            match stage:
                case Stage.WITHDRAWN:
                    end = await self._withdraw(change)
                case Stage.FORWARD:
                    end = await self._forward(change)
                case Stage.RESTART:
                    assert end.refusal is not None  # nothing else leads to a restart
                    end = StepsEnd(MigChangeEvent.REFUSED, await self._restart(change, end.refusal))
                case _:
                    end = await self._steps.take(change)
            stage = next_stage(stage, end.event)
            change = await self._entered(stage, change, end)
        await self._conclude(stage, change, end.refusal)

    async def _withdraw(self, change: MigChange) -> StepsEnd:
        """Whether it may begin, once nobody is given what it destroys."""
        try:
            # The change is in the journal, and withholds the same from here on.
            self._withheld_for_evictions = {}
            self._publish_work()
            await self._clock.sleep(_WITHDRAW_S)
            async with self._ledger.answering:
                pass  # what was being given out is a hold now, however slow the disk was; the rest is refused
            if refusal := await self._pause_and_wait():
                return StepsEnd(MigChangeEvent.REFUSED, refusal)
            if await self._is_held_up(change, await self._hardware.divided()):
                return StepsEnd(MigChangeEvent.IN_USE)
            # On disk before the first step: whoever comes after knows that the GPUs may be half divided.
            await self._journal.write(replace(change, begun=True))
        except (HardwareError, ConfigError) as error:
            return StepsEnd(MigChangeEvent.REFUSED, change_refused(change.config, words(error)))
        return StepsEnd(MigChangeEvent.FREE)

    async def _forward(self, change: MigChange) -> StepsEnd:
        host = self._ways.host
        if host is not None and (refusal := await host.prepare(change, self._journal.note)):
            return StepsEnd(MigChangeEvent.REFUSED, refusal)
        return await self._steps.take(change)

    async def _entered(self, stage: Stage, change: MigChange, end: StepsEnd) -> MigChange:
        """The change as it is from here on; as `begun` it is on disk already."""
        if stage is Stage.FORWARD:
            _LOG.info(
                "MIG layout changes: node=%s config=%s gpus=%s", self._node, change.config, uuids(change)
            )
            return replace(change, begun=True)
        if stage in (Stage.BACK, Stage.BACK_FOR_BOARD):
            _LOG.error(
                "MIG layout goes back: node=%s config=%s why=%s",
                *(self._node, change.config, words_of(end.refusal)),
            )
            change = replace(change, refusal=end.refusal, stubborn=end.stubborn)
            await self._noted(change)
        return change

    async def _conclude(self, stage: Stage, change: MigChange, refusal: MigObstacle | None) -> None:
        """Let what stands be used, and say how it ended."""
        stands = await what_stands(change, self._hardware) if stage is Stage.GIVEN_UP else ""
        await self._end()
        why, why_back = words_of(refusal), words_of(change.refusal)
        match stage:
            case Stage.APPLIED:
                self._failures = 0
                self._publish_standing(MigStanding(change.config, MigState.SUCCESS))
            case Stage.RESTORED:
                self._fail(change.config, f"{why_back}; the previous layout is restored")
            case Stage.ANEW:
                # Of a change that an earlier agent began, only the journal knows them.
                self._steps.stubborn.update(change.stubborn)
                self._due = self._clock.monotonic()
                self._publish_standing(MigStanding(change.config, MigState.PENDING, why_back))
            case Stage.GIVEN_UP:
                # `why_back` turned it back; `why` ended the way back, and is the same if nothing new did.
                why_back = why_back or why
                then = "" if why == why_back else f": {why}"
                self._fail(change.config, f"{why_back}; the previous layout is not restored{then}; {stands}")
            case Stage.UNTOUCHED:
                self._fail(change.config, why)

    async def _restart(self, change: MigChange, wrong: MigObstacle) -> MigObstacle:
        """Restart the node, if it may be, which ends this agent; the next one goes on. Why it is not."""
        host, boot = self._ways.host, self._ways.boot
        if host is None or not boot:
            return wrong
        if obstacle := restart_obstacle(change, boot, self._board.holds.value):
            return followed_by(wrong, obstacle)
        try:
            # Before the restart, which ends this agent: the next one must not restart the node once more.
            await self._journal.write(replace(change, rebooted=boot))
        except HardwareError:
            return wrong
        self._publish_standing(MigStanding(change.config, MigState.REBOOTING, wrong.message))
        return followed_by(wrong, await host.restart(boot, self._journal.note))

    async def _noted(self, change: MigChange) -> None:
        """Going back must not wait for a disk: who comes after would go forward, and back again."""
        try:
            await self._journal.write(change)
        except HardwareError as error:
            _LOG.warning("MIG journal not written: node=%s error=%s", self._node, error)

    async def _end(self) -> None:
        """Offer what there is now: first the devices are read anew, then nothing is withheld."""
        change = self._journal.change
        if (host := self._ways.host) is not None and change is not None and change.begun:
            await host.finish(change, self._journal.note)
        await self._devices.rescan()
        while True:
            try:
                await self._journal.write(None)
                break
            except HardwareError as error:
                config = "" if self._journal.change is None else self._journal.change.config
                self._publish_standing(MigStanding(config, MigState.PENDING, f"waits: {words(error)}"))
                await self._clock.sleep(_BACK_OFF_S[0])
        self._publish_work()

    def _fail(self, config: str, reason: str) -> None:
        """Say it, and try again later."""
        pause = _BACK_OFF_S[min(self._failures, len(_BACK_OFF_S) - 1)]
        self._failures += 1
        self._due = self._clock.monotonic() + pause
        self._withhold_for_evictions({})
        self._publish_standing(MigStanding(config, MigState.FAILED, f"{reason}; next try in {pause:.0f} s"))

    def _publish_standing(self, standing: MigStanding) -> None:
        standing = replace(standing, reason=standing.reason[:_LONGEST])
        if standing == self._board.mig_standing.value:
            return
        text = f"{standing.config}: {standing.state} {standing.reason}".strip()
        if standing.state is MigState.FAILED:
            _LOG.error("MIG layout: node=%s %s", self._node, text)
            self._events.post("Warning", "MigConfigFailed", text)
        else:
            _LOG.info("MIG layout: node=%s %s", self._node, text)
            self._events.post("Normal", f"MigConfig{standing.state.title()}", text)
        self._board.mig_standing.publish(standing)
