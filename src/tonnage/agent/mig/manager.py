"""The MIG layout of the node's GPUs, kept like the node's label wants it.

One step at a time, each decided from the GPUs as they are. A journal on disk says where a change leads and
what was before, so that whoever comes after a crash ends it, one way or the other.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Final

from tonnage.agent.devices import NodeDevices
from tonnage.agent.mig.host import MigHost
from tonnage.agent.mig.journal import MigJournal
from tonnage.agent.mig.state import MigStanding, what_stands, words
from tonnage.agent.plugin.holders import Holders
from tonnage.agent.world import World
from tonnage.decide.node.mig.board import resets_of
from tonnage.decide.node.mig.change import MigChange, change_to, in_the_way, next_step
from tonnage.decide.node.mig.wanted_layout import MigWish, goals_of, remark_on
from tonnage.model.devices import Inventory
from tonnage.model.errors import ConfigError, HardwareError, Problem
from tonnage.model.mig import DividedGpu, MigState, MigWork, ResetGpu
from tonnage.model.sharing import Hold
from tonnage.ports import DeviceBackend

_LOG: Final = logging.getLogger(__name__)
_WITHDRAW_S: Final = 1.0
"""So that kubelet has heard that it may not give out what is changed."""
_TRIES: Final = 3
_TRY_AGAIN_S: Final = 1.0
_BACK_OFF_S: Final = (10.0, 30.0, 60.0, 300.0)
_LOOK_AGAIN_S: Final = 30.0
"""While somebody is in the way, or nothing can be made: not everything that changes this tells of it."""
_ASK_AGAIN_S: Final = 5.0
"""While pods are asked to leave, as kubectl drain has it."""
_RESUMES: Final = 3
"""After so many agents that ended during a change it goes back; after twice as many it is given up."""
_MOST_STEPS: Final = 4096
_LONGEST: Final = 1024


class NodeMig:
    """Divides GPUs as `wish` says; `on_change` follows another `standing`.

    What a change works on is in `withheld`, from before its first step until it has ended: GPUs by uuid, with
    the ids of the GPU instances that stay. Nobody is given anything else of them meanwhile.
    """

    def __init__(
        self,
        world: World,
        hardware: DeviceBackend,
        devices: NodeDevices,
        holders: Holders,
        wish: Callable[[], MigWish | None],
        *,
        on_change: Callable[[], None],
    ) -> None:
        self._node = world.node
        self._clock = world.clock
        self._events = world.events
        self._hardware = hardware
        self._devices = devices
        self._holders = holders
        self._wish = wish
        self._on_change = on_change
        self._journal = MigJournal(world.checkpoints)
        self.evict: Callable[[str, str], Awaitable[str]] | None = None
        """Asks a pod (namespace, name) to leave, and says what came of it; None: they are waited for."""
        self.settled: Callable[[], Awaitable[str]] | None = None
        """Pauses on the Node what the work asks for, and says why not; None: nothing is ever paused."""
        self.host: MigHost | None = None
        """Who does what a change asks of the node's host."""
        self.boot = ""
        """The id of the machine's boot, if the node may be restarted for a change; `host` does it."""
        self.on_work: Callable[[], None] = lambda: None
        """Called when `work` may be another one."""
        self._draining: Mapping[str, tuple[int, ...]] = {}
        """What is withheld while pods that were asked to leave have not left."""
        self._wake = asyncio.Event()
        self._seen: tuple[MigWish, Inventory, tuple[Hold, ...]] | None = None
        self._failures = 0
        self._due: float | None = None
        """When to try again, after a failure."""
        self._no_reset = False
        """A reset was the last step that was wanted, and it was not done."""
        self._stubborn: set[str] = set()
        """GPUs that did not take another mode without a reset."""
        self.standing: MigStanding | None = None

    @property
    def withheld(self) -> Mapping[str, tuple[int, ...]]:
        """What a change under way works on."""
        return self._draining if self._journal.change is None else self._journal.change.kept

    @property
    def work(self) -> MigWork:
        """What is being done for the layout now."""
        if self._journal.change is not None:
            return MigWork.CHANGING
        return MigWork.EVICTING if self._draining else MigWork.NONE

    async def restore(self) -> None:
        """Learn what an earlier agent began; to be done before any device is offered.

        Where that is lost the GPUs still say how they stand, but nobody knows how they stood before.
        """
        try:
            await self._journal.restore()
        except (HardwareError, ValueError) as error:
            _LOG.error("MIG journal not usable: node=%s error=%s", self._node, error)
            self._events.post("Warning", "MigJournalLost", f"the layout of before is forgotten: {error}")

    def look(self) -> None:
        """Label, configuration, devices or holders may be others now."""
        self._wake.set()

    async def run(self) -> None:
        """Run until cancelled; a change under way is left to the next agent."""
        if self._journal.change is not None:
            await self._resume(self._journal.change)
        while True:
            await self._turn()
            await self._until_woken()

    async def _until_woken(self) -> None:
        waits: list[Awaitable[object]] = [asyncio.ensure_future(self._wake.wait())]
        if self._due is not None:
            left = max(0.0, self._due - self._clock.monotonic())
            waits.append(asyncio.ensure_future(self._clock.sleep(left)))
        tasks = [asyncio.ensure_future(wait) for wait in waits]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
        self._wake.clear()

    async def _turn(self) -> None:
        """Compare, and change what is not as it shall be."""
        wish, inventory = self._wish(), self._devices.inventory
        if wish is None or inventory is None or self._devices.error or not self._holders.known:
            self._seen, self._failures, self._due = None, 0, None  # whoever ends this wakes us
            self._drain({})
            return
        now = (wish, inventory, self._holders.holds)
        due = self._due is not None and self._clock.monotonic() >= self._due
        if self._seen is not None and self._seen[0] != wish:
            self._failures, self._due = 0, None
        elif not due and (self._failures or self._seen == now):
            return
        self._seen, self._due = now, None
        try:
            await self._compare(wish, inventory)
        except (HardwareError, ConfigError) as error:
            self._fail(wish.config, words(error))

    async def _compare(self, wish: MigWish, inventory: Inventory) -> None:
        gpus = await self._hardware.divided()
        goals = goals_of(wish, inventory, gpus, self._holders.holds)
        if isinstance(goals, str):
            self._due = self._clock.monotonic() + _LOOK_AGAIN_S
            self._drain({})
            self._say(MigStanding(wish.config, MigState.FAILED, goals))
            return
        change = change_to(wish.config, goals, gpus, resets_of(inventory), self._stubborn)
        if change is not None and isinstance(wrong := next_step(change, gpus), str):
            raise HardwareError(Problem(wrong))
        if change is None:
            self._drain({})
            self._failures = 0
            self._say(MigStanding(wish.config, MigState.SUCCESS, remark_on(wish, goals)))
        elif not await self._waits(change, gpus):
            await self._begin(replace(change, host=wish.host))

    async def _waits(self, change: MigChange, gpus: tuple[DividedGpu, ...]) -> bool:
        """Whether somebody is in the way; then it is said who, and pods are asked to leave if they may be."""
        users = in_the_way(change, gpus, self._holders.holds)
        if not users:
            return False
        self._due = self._clock.monotonic() + _LOOK_AGAIN_S
        said = [str(user) for user in users]
        if self.evict is not None:
            self._due = self._clock.monotonic() + _ASK_AGAIN_S
            self._drain(change.kept)
            pods = dict.fromkeys(user.pod for user in users if user.pod is not None)
            why = await self.settled() if self.settled is not None else ""
            answers = {pod: f"not evicted: {why}" if why else await self.evict(*pod) for pod in pods}
            said = [f"{user} ({answers[user.pod]})" if user.pod else str(user) for user in users]
        self._say(MigStanding(change.config, MigState.PENDING, f"waits: {'; '.join(said)}"))
        return True

    def _drain(self, kept: Mapping[str, tuple[int, ...]]) -> None:
        """Offer nothing of these GPUs but what stays: who is evicted would be back at once."""
        if kept != self._draining:
            self._draining = kept
            self._withhold()

    def _withhold(self) -> None:
        """What is withheld, or the work, is another one now."""
        self._devices.refresh_withheld()
        self.on_work()

    async def _begin(self, change: MigChange) -> None:
        """Withdraw what is to be changed, look again who uses it, and change it."""
        uuids = ", ".join(shape.uuid for shape in change.goal)
        self._say(MigStanding(change.config, MigState.PENDING, f"{uuids}: {change.config} is being made"))
        # First on disk: an agent that comes after and finds nothing begun offers the devices again.
        await self._journal.write(change)
        try:
            self._draining = {}
            self._withhold()
            await self._clock.sleep(_WITHDRAW_S)
            async with self._holders.answering:
                pass  # what was being given out is a hold now, however slow the disk was; the rest is refused
            if self.settled is not None and (why := await self.settled()):
                raise HardwareError(Problem(why))
            begins = not await self._waits(change, await self._hardware.divided())
            if begins:
                # On disk before the first step: whoever comes after knows that the GPUs may be half divided.
                change = replace(change, begun=True)
                await self._journal.write(change)
        except (HardwareError, ConfigError):
            await self._end()
            raise
        if not begins:
            await self._end()
            return
        _LOG.info("MIG layout changes: node=%s config=%s gpus=%s", self._node, change.config, uuids)
        await self._carry_out(change)

    async def _resume(self, change: MigChange) -> None:
        """Go on with what an earlier agent began, or end it. Of what it had not begun nothing is done."""
        if not change.begun:
            await self._end()
            return
        resumed = change.resumed + 1
        why = change.why
        if resumed >= _RESUMES and not why:
            why = f"{resumed} agents ended during the change"
        _LOG.warning(
            "MIG change resumed: node=%s config=%s times=%d back=%s",
            *(self._node, change.config, resumed, bool(why)),
        )
        change = replace(change, resumed=resumed, why=why)
        self._say(MigStanding(change.config, MigState.PENDING, "an earlier agent's change is being ended"))
        while True:
            try:
                await self._journal.write(change)
                break
            except HardwareError as error:
                self._say(MigStanding(change.config, MigState.PENDING, f"waits: {words(error)}"))
                await self._clock.sleep(_BACK_OFF_S[0])
        if resumed >= 2 * _RESUMES:
            await self._give_up(change, why)
            return
        await self._carry_out(change)

    async def _carry_out(self, change: MigChange) -> None:
        """Forward; back if that fails; and then say how it ended."""
        known = frozenset(self._stubborn)
        wrong = "" if self.host is None or change.why else await self.host.prepare(change)
        wrong = wrong or await self._take_steps(change)
        new = tuple(self._stubborn - known)
        if wrong and not change.why and self._no_reset and not new:
            wrong = await self._restart(change, wrong)
        if wrong and not change.why:
            _LOG.error("MIG layout goes back: node=%s config=%s why=%s", self._node, change.config, wrong)
            change = replace(change, why=wrong, stubborn=new)
            await self._noted(change)
            wrong = await self._take_steps(change)
        if wrong:
            await self._give_up(change, wrong)
            return
        await self._end()
        if change.stubborn:
            self._stubborn.update(change.stubborn)
            self._due = self._clock.monotonic()
            self._say(MigStanding(change.config, MigState.PENDING, change.why))
        elif change.why:
            self._fail(change.config, f"{change.why}; the layout of before is back")
        else:
            self._failures = 0
            self._say(MigStanding(change.config, MigState.SUCCESS))

    async def _restart(self, change: MigChange, wrong: str) -> str:
        """Restart the node, if it may be, which ends this agent; the next one goes on. Why it is not."""
        if self.host is None or not self.boot:
            return wrong
        if change.rebooted not in ("", self.boot):
            return f"{wrong}; a restart of the node did not help"
        if holders := sorted({f"{hold.namespace}/{hold.pod}" for hold in self._holders.holds}):
            return (
                f"{wrong}; a restart of the node may help, but its GPUs are used by {', '.join(holders[:5])}"
            )
        try:
            # Before the restart, which ends this agent: the next one must not restart the node once more.
            await self._journal.write(replace(change, rebooted=self.boot))
        except HardwareError:
            return wrong
        self._say(MigStanding(change.config, MigState.REBOOTING, wrong))
        return f"{wrong}; {await self.host.restart()}"

    async def _noted(self, change: MigChange) -> None:
        """Going back must not wait for a disk: who comes after would go forward, and back again."""
        try:
            await self._journal.write(change)
        except HardwareError as error:
            _LOG.warning("MIG journal not written: node=%s error=%s", self._node, error)

    async def _take_steps(self, change: MigChange) -> str:
        """Take steps until nothing is left to do. Why that is not reached; empty: it is."""
        tries = 0
        for _ in range(_MOST_STEPS):
            self._no_reset = False
            try:
                gpus = await self._hardware.divided()
                step = next_step(change, gpus)
                if step is None:
                    return ""
                if isinstance(step, str):
                    raise HardwareError(Problem(step))
                if not change.why and (users := in_the_way(change, gpus, self._holders.holds)):
                    raise HardwareError(Problem("; ".join(map(str, users))))
                self._no_reset = isinstance(step, ResetGpu)
                if isinstance(step, ResetGpu) and step.uuid not in change.resets:
                    return self._asks_for_reset(step.uuid)
                await self._hardware.apply(step)
            except (HardwareError, ConfigError) as error:
                tries += 1
                if tries >= _TRIES:
                    return words(error)
                await self._clock.sleep(_TRY_AGAIN_S)
        return "the GPUs do not stay as they are made: somebody else changes them, too"

    def _asks_for_reset(self, uuid: str) -> str:
        """Note a GPU that has to be reset with its board: who uses the others has to be asked first."""
        boards = resets_of(self._devices.inventory or Inventory())
        if uuid not in boards or uuid in self._stubborn:
            return f"{uuid} takes the other MIG mode only by a restart of the node"
        self._stubborn.add(uuid)
        return f"{uuid} takes the other MIG mode only by a reset with {', '.join(boards[uuid])}"

    async def _give_up(self, change: MigChange, wrong: str) -> None:
        """Nothing more can be done now: say what stands, and let it be used."""
        stands = await what_stands(change, self._hardware)
        await self._end()
        why = change.why or wrong
        again = "" if wrong == why else f": {wrong}"
        self._fail(change.config, f"{why}; the layout of before is not back{again}; {stands}")

    async def _end(self) -> None:
        """Offer what there is now: first the devices are read anew, then nothing is withheld."""
        change = self._journal.change
        if self.host is not None and change is not None and change.begun:
            await self.host.finish(change)
        await self._devices.rescan()
        while True:
            try:
                await self._journal.write(None)
                break
            except HardwareError as error:
                config = "" if self._journal.change is None else self._journal.change.config
                self._say(MigStanding(config, MigState.PENDING, f"waits: {words(error)}"))
                await self._clock.sleep(_BACK_OFF_S[0])
        self._withhold()

    def _fail(self, config: str, reason: str) -> None:
        """Say it, and try again later."""
        pause = _BACK_OFF_S[min(self._failures, len(_BACK_OFF_S) - 1)]
        self._failures += 1
        self._due = self._clock.monotonic() + pause
        self._drain({})
        self._say(MigStanding(config, MigState.FAILED, f"{reason}; tried again in {pause:.0f} s"))

    def _say(self, standing: MigStanding) -> None:
        standing = replace(standing, reason=standing.reason[:_LONGEST])
        if standing == self.standing:
            return
        self.standing = standing
        text = f"{standing.config}: {standing.state} {standing.reason}".strip()
        if standing.state is MigState.FAILED:
            _LOG.error("MIG layout: node=%s %s", self._node, text)
            self._events.post("Warning", "MigConfigFailed", text)
        else:
            _LOG.info("MIG layout: node=%s %s", self._node, text)
            self._events.post("Normal", f"MigConfig{standing.state.title()}", text)
        self._on_change()
