"""While another agent has the node: answers kubelet about claims through it, and is ready to take over."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

from tonnage.agent.events import NodeEvents
from tonnage.agent.holds.claim_book import CHECKPOINT
from tonnage.agent.holds.claim_file import claims_in
from tonnage.loop.ticks import next_beat
from tonnage.model.errors import HardwareError, first_error
from tonnage.ports.claims import EarlySockets
from tonnage.ports.clock import Clock

_LOG: Final = logging.getLogger(__name__)
_NOT_YET: Final = "claims: kubelet has not registered this agent yet"
_UNKNOWN: Final = (
    "whether claims have MPS control daemons is UNKNOWN; if none has, delete the pod of the agent before"
)
_MOST_NAMED: Final = 3
Missing = Callable[[], tuple[str, ...]]
"""What keeps the agent from being ready, a line each."""


@dataclass(frozen=True, slots=True)
class StandbyPorts:
    """What it does without the node: sockets, checkpoints of the agent before, probes, Events.

    `peek` is None for a file that is missing, and raises HardwareError for one that cannot be read.
    """

    sockets: Callable[[], EarlySockets]
    peek: Callable[[str], bytes | None]
    answer_probes: Callable[[Missing], Coroutine[Any, Any, None]]
    events: NodeEvents


class ClaimStandby:
    """Serves kubelet beside the agent that has the node; nothing of the node is changed by it.

    It is ready, so that the one before may be ended, unless a claim has an MPS control daemon: that would end
    with the agent that runs it, and the claim's containers with the daemon.
    """

    def __init__(self, node: str, clock: Clock, ports: StandbyPorts) -> None:
        self._node = node
        self._clock = clock
        self._ports = ports
        self._sockets: EarlySockets | None = None
        self._running: asyncio.Task[None] | None = None
        self._problems: tuple[str, ...] = ("claims: not served yet",)

    def keep(self) -> None:
        """Stand by from now on, and see each time that this goes on. Raises what ended it unexpectedly."""
        if self._running is None:
            self._running = asyncio.create_task(self._run(), name="claims of the agent before")
        elif self._running.done():
            running, self._running = self._running, None
            running.result()

    async def taken_over(self) -> EarlySockets | None:
        """End all but the sockets, which are the caller's now; None: they are not open."""
        if self._running is None:
            return None
        await self._end()
        _LOG.info("the agent before has ended: node=%s", self._node)
        if self._sockets is None or not self._sockets.standing_by():
            return None
        sockets, self._sockets = self._sockets, None
        return sockets

    async def close(self) -> None:
        """End it, whether or not it stood by."""
        await self._end()
        if self._sockets is not None:
            await self._sockets.close()

    async def _end(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    async def _run(self) -> None:
        try:
            await self._stand_by()
        except BaseExceptionGroup as group:
            raise first_error(group) from None

    async def _stand_by(self) -> None:
        """Answer probes, and look at each beat whether the node can be taken over, until cancelled."""
        _LOG.info("waiting for the agent before: node=%s", self._node)
        events = self._ports.events
        async with asyncio.TaskGroup() as group:
            group.create_task(events.run())
            group.create_task(self._ports.answer_probes(lambda: self._problems))
            complaint = ""
            while True:
                try:
                    self._problems = await self._look()
                except HardwareError as error:
                    self._problems = (f"claims: {error}",)
                why = "; ".join(self._problems)
                if why not in (complaint, _NOT_YET, ""):
                    complaint = why
                    _LOG.warning("the agent before is still needed: node=%s why=%s", self._node, why)
                    events.post("Warning", "AgentUpdateWaits", f"the agent's update waits: {why}")
                await next_beat(self._clock)

    async def _look(self) -> tuple[str, ...]:
        """Serve if the one before does; what it is still needed for. Raises HardwareError."""
        if self._sockets is None:
            self._sockets = self._ports.sockets()
        if not self._sockets.has_holder():
            return ()
        if not self._sockets.standing_by():
            await self._sockets.stand_by()
        refused = self._sockets.registered()
        if refused is None:
            return (_NOT_YET,)
        held = await asyncio.to_thread(self._claims_with_daemons)
        return (*((f"claims: kubelet refuses to register this agent: {refused}",) if refused else ()), *held)

    def _claims_with_daemons(self) -> tuple[str, ...]:
        """What the agent before would end with itself; only read, since the file is that agent's."""
        try:
            saved = self._ports.peek(CHECKPOINT)
            claims = () if saved is None else claims_in(saved)
        except (HardwareError, ValueError) as error:
            why = error.problems[0].why if isinstance(error, HardwareError) else str(error)
            return (f"the claims file cannot be read ({why}); {_UNKNOWN}",)
        held = sorted(str(prepared.claim) for prepared in claims if prepared.daemons)
        shown = ", ".join(held[:_MOST_NAMED]) + (" and others" if len(held) > _MOST_NAMED else "")
        text = f"MPS control daemons of claims would end, and their containers with them: {shown}"
        return (text,) if held else ()
