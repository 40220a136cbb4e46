"""NVIDIA devices through NVML. Facts only; a device that fails or hangs never hides another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar

from tonnage.adapters.vendors.driver_thread import NODE, DriverThread, OverdueError, Steps
from tonnage.adapters.vendors.nvml_fields import plans_of
from tonnage.adapters.vendors.nvml_inventory import inventory_of
from tonnage.adapters.vendors.nvml_links import read_links
from tonnage.adapters.vendors.nvml_reader import NvmlReader, Scan
from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.adapters.vendors.nvml_steps import set_compute_mode
from tonnage.adapters.vendors.platforms import refused_driver, refused_platform
from tonnage.model.actions.devices import DeviceAction, MigStep, ResetGpu, SetComputeMode, SetTimeSlice
from tonnage.model.devices.inventory import Device, GpuProcess, Inventory, RawEvent, RawEventKind, Sample
from tonnage.model.devices.links import Link
from tonnage.model.errors import HardwareError, Problem
from tonnage.model.mig.layouts import DividedGpu
from tonnage.ports.clock import Clock

if TYPE_CHECKING:
    from tonnage.adapters.vendors.nvml_child import Reply
    from tonnage.adapters.vendors.nvml_process import Helpers

T = TypeVar("T")

_WAIT_MS: Final = 1000
_WAITS: Final = 10
"""So often in a row: only its own thread wakes for a second without events."""
_RETRY_S: Final = 5.0
_LINKS_PATIENCE_S: Final = 0.1
"""How long a scan waits for links that are being read; a later one shows them."""
_LINKS_DEADLINES: Final = 2.0
"""For the links of one device, some hundred calls."""
_MIG_DEADLINES: Final = 6.0
"""A GPU may be started anew for another MIG mode."""
_LINK_XIDS: Final = frozenset({74, 137, *range(144, 151), 155, 156, 158})
"""Errors of NVLink and NVSwitch: after them the links may be others."""
_TRY_S: Final = 5.0
_TRY_MOST_S: Final = 60.0
_UNHEARD: Final = 1024


@dataclass(slots=True)
class _Hung:
    """A device that owes an answer: since when, to whom, and when it is tried again. Monotonic seconds."""

    since: float
    thread: bool
    try_at: float
    pause_s: float = _TRY_S


class NvmlBackend:
    """A DeviceBackend over nvidia-ml-py; the library is loaded at the first call, in a thread of its own.

    A call that does not come back within `deadline_s` is left alone with its thread. From then on a process
    of its own reads the devices, without the one that hangs, which another process tries now and then; once
    the thread is free again it takes over.

    `root` stands before the node's /sys and /proc. `driver_root` is where the driver's files are mounted;
    without it the library is where this system's own search finds it.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        root: Path = Path("/"),
        driver_root: Path | None = None,
        deadline_s: float = 5.0,
    ) -> None:
        self._clock = clock
        self._root = root
        self._driver_root = driver_root
        self._deadline_s = deadline_s
        self._session = NvmlSession(root, driver_root)
        self._reader = NvmlReader(self._session, root, clock.monotonic)
        self._calls = DriverThread("nvml", deadline_s=deadline_s)
        self._waits = DriverThread("nvml-events", deadline_s=deadline_s + _WAIT_MS / 1000)
        self._asks = DriverThread("nvml-links", deadline_s=_LINKS_DEADLINES * deadline_s)
        self._helpers: Helpers | None = None
        self._hung: dict[int, _Hung] = {}
        self._stuck_with = NODE
        """What the thread asked about when it was overdue last."""
        self._trying: asyncio.Task[None] | None = None
        self._sampled: dict[str, None] = {}  # all fields ever asked for: what hangs is tried with them
        self._last = Scan()
        self._last_devices: dict[str, Device] = {}
        self._links: tuple[Link, ...] = ()
        self._linked: frozenset[str] = frozenset()
        """The devices that were there when links were read."""
        self._reading: asyncio.Task[None] | None = None
        self._event_queue: asyncio.Queue[RawEvent] = asyncio.Queue(_UNHEARD)
        self._news = False
        self._scanned = asyncio.Event()
        self._present = asyncio.Event()
        """Not while GPUs are reset: nobody may talk to the driver then."""
        self._present.set()

    async def scan(self) -> Inventory:
        if refused := await asyncio.to_thread(refused_platform, self._root):
            raise HardwareError(refused)
        if not self._present.is_set():
            return replace(self._inventory(self._last), links=self._links)
        scan = await self._scan()
        if (scan.count, scan.incarnation) != (self._last.count, self._last.incarnation):
            for hung in self._hung.values():  # the device of that index may be another one now
                hung.try_at = 0.0
        self._last = scan
        self._scanned.set()
        inventory = self._inventory(scan)
        healthy = frozenset(device.uuid for device in inventory.devices if device.healthy)
        if self._reading is None and not healthy <= self._linked and self._free:
            self._reading = asyncio.create_task(self._read_links(healthy))
        if self._reading is not None:
            await asyncio.wait({self._reading}, timeout=_LINKS_PATIENCE_S)
        if self._hung and self._trying is None:
            self._trying = asyncio.create_task(self._try_hung())
        self._news = False
        return replace(inventory, links=self._links)

    async def sample(self, fields: Collection[str]) -> tuple[Sample, ...]:
        names = tuple(fields)
        plans_of(names)  # an unknown field is the caller's mistake, whoever reads
        self._sampled |= dict.fromkeys(names)
        read = partial(self._reader.sample, names)
        return await self._rows("sample", read, lambda reply: reply.samples, names)

    async def processes(self) -> tuple[GpuProcess, ...]:
        return await self._rows("processes", self._reader.processes, lambda reply: reply.processes)

    async def apply(self, step: DeviceAction) -> None:
        if isinstance(step, ResetGpu):
            await self._reset(step)
            return
        if isinstance(step, SetTimeSlice):
            await self._slice(step)
            return
        if not isinstance(step, SetComputeMode):
            await self._divide(step)
            return
        try:
            await self._calls.call(
                f"set a mode of {step.uuid}", lambda: set_compute_mode(self._session, step)
            )
        except self._session.errors() as error:
            raise self._refused(error) from None

    async def divided(self) -> tuple[DividedGpu, ...]:
        from tonnage.adapters.vendors.nvml_mig import read_divided  # only where layouts are changed

        try:
            return await self._calls.call("read MIG instances", lambda: read_divided(self._session))
        except self._session.errors() as error:
            raise self._refused(error) from None

    async def _slice(self, step: SetTimeSlice) -> None:
        from tonnage.adapters.vendors.nvml_program import SLICE_S, set_time_slice

        def take(steps: Steps) -> None:
            steps(NODE, times=1 + SLICE_S / self._deadline_s)
            set_time_slice(self._driver_root, step)

        await self._calls.follow(f"set the time slice of {step.uuid}", take)

    async def _divide(self, step: MigStep) -> None:
        from tonnage.adapters.vendors.nvml_mig import described, take_step

        def take(steps: Steps) -> None:
            steps(NODE, times=_MIG_DEADLINES)
            take_step(self._session, step)

        try:
            await self._calls.follow(described(step), take)
        except self._session.errors() as error:
            raise self._refused(error) from None

    async def _reset(self, step: ResetGpu) -> None:
        """With everybody away from the driver: it resets no GPU that somebody has open."""
        from tonnage.adapters.vendors.nvml_mig import described
        from tonnage.adapters.vendors.nvml_reset import RESET_S, reset_gpus

        def reset(steps: Steps) -> None:
            steps(NODE, times=2 + RESET_S / self._deadline_s)
            reset_gpus(self._session, self._driver_root, step)

        if not self._free or self._hung:
            raise HardwareError(Problem(described(step), why="the driver has not answered yet"))
        self._present.clear()
        try:
            if self._helpers is not None:
                await self._helpers.dismiss()
            for thread in (self._waits, self._asks):
                await thread.call("shut down NVML", lambda: None)
            await self._calls.follow(described(step), reset)
        except self._session.errors() as error:
            raise self._refused(error) from None
        finally:
            self._present.set()

    async def events(self) -> AsyncIterator[RawEvent]:
        listening = asyncio.create_task(self._listen())
        try:
            while True:
                yield await self._event_queue.get()
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)

    def stuck_s(self) -> float:
        now = time.monotonic()
        hung = max((now - device.since for device in self._hung.values()), default=0.0)
        return max(self._calls.stuck_s(), self._waits.stuck_s(), hung)

    async def close(self) -> None:
        self._calls.close()
        self._waits.close()
        self._asks.close()
        tasks = [task for task in (self._reading, self._trying) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._helpers is not None:
            await self._helpers.close()

    async def _listen(self) -> None:
        failures = 0
        while True:
            await self._present.wait()
            try:
                event = await self._waits.follow("wait for events", self._wait)
            except self._session.errors(HardwareError):
                self._hear(RawEvent(RawEventKind.CHANGED))
                failures += 1
                if failures > 1:  # one is no more than a device that was lost
                    await self._until_scanned()
                continue
            failures = 0
            if event is not None:
                self._hear(event)
            elif self._news:
                self._news = False
                self._hear(RawEvent(RawEventKind.CHANGED))

    def _wait(self, steps: Steps) -> RawEvent | None:
        """What the driver reports; None when it is silent for long, or somebody else has news."""
        for _ in range(_WAITS):
            steps(NODE)
            event = self._reader.wait(_WAIT_MS)
            if event is not None or self._news or not self._present.is_set():
                return event
        return None

    async def _until_scanned(self) -> None:
        """Return after the next scan, or a while."""
        self._scanned.clear()
        scanned = asyncio.create_task(self._scanned.wait())
        waits = [scanned, asyncio.ensure_future(self._clock.sleep(_RETRY_S))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    def _hear(self, event: RawEvent) -> None:
        if event.code in _LINK_XIDS:
            self._linked = frozenset()
        if not self._event_queue.full():  # nobody listens; who begins to, scans
            self._event_queue.put_nowait(event)

    async def _read_links(self, present: frozenset[str]) -> None:
        """Read them in their own time: a slow driver must not hold up what is said about devices."""
        self._linked = present
        try:
            self._links = await self._asks.follow(
                "read links", lambda steps: read_links(self._session, steps)
            )
            self._news = True
        except self._session.errors(HardwareError):
            self._linked = frozenset()  # the next scan asks again
        finally:
            self._reading = None

    @property
    def _free(self) -> bool:
        """Whether this process may ask the driver: none of its calls is overdue."""
        return self._calls.free and self._waits.free and self._asks.free

    async def _scan(self) -> Scan:
        """A scan; when a device begins to hang, the last one without it, so that this is known at once."""
        while True:
            try:
                return await self._read("scan", self._reader.scan, lambda reply: reply.scan)
            except OverdueError as error:
                if not self._note(error):
                    raise
                if self._last.count:
                    return self._last.without(frozenset(self._hung))

    async def _rows(
        self,
        do: Literal["sample", "processes"],
        read: Callable[[Steps, frozenset[int]], tuple[T, ...]],
        of_reply: Callable[[Reply], tuple[T, ...] | None],
        fields: tuple[str, ...] = (),
    ) -> tuple[T, ...]:
        """What is read of the devices that answer; nothing while GPUs are reset."""
        while self._present.is_set():
            try:
                return await self._read(do, read, of_reply, fields)
            except OverdueError as error:
                if not self._note(error):
                    raise
        return ()

    async def _read(
        self,
        do: Literal["scan", "sample", "processes"],
        read: Callable[[Steps, frozenset[int]], T],
        of_reply: Callable[[Reply], T | None],
        fields: tuple[str, ...] = (),
    ) -> T:
        """What is read by the thread; by another process while a thread owes an answer."""
        if self._free:
            self._hung = {index: hung for index, hung in self._hung.items() if not hung.thread}
            if self._helpers is not None:
                await self._helpers.dismiss()
            skip = frozenset(self._hung)
            try:
                return await self._calls.follow(do, lambda steps: read(steps, skip))
            except OverdueError as error:
                self._stuck_with = error.subject
                # Nothing is said against the driver when it was our own events or links that held this up.
                if error.subject != NODE or (self._waits.free and self._asks.free):
                    raise
            except self._session.errors() as error:
                raise self._refused(error) from None
        from tonnage.adapters.vendors.nvml_child import ReadRequest

        answer = of_reply(await self._others().ask(ReadRequest(do, tuple(self._hung), fields)))
        assert answer is not None
        return answer

    def _note(self, error: OverdueError) -> bool:
        """Note which device hangs; False when it is none, or one that is known to."""
        if error.subject == NODE or error.subject in self._hung:
            return False
        now = time.monotonic()
        by_thread = not self._calls.free and error.subject == self._stuck_with
        self._hung[error.subject] = _Hung(now, by_thread, now + _TRY_S)
        return True

    def _others(self) -> Helpers:
        if self._helpers is None:
            from tonnage.adapters.vendors.nvml_process import Helpers  # only ever needed on a bad day

            self._helpers = Helpers(
                self._root, self._driver_root, deadline_s=self._deadline_s, on_event=self._hear
            )
        return self._helpers

    async def _try_hung(self) -> None:
        """Ask the devices that hang whether they answer again, each by a process of its own."""
        from tonnage.adapters.vendors.nvml_child import ReadRequest

        try:
            for index, hung in tuple(self._hung.items()):
                if time.monotonic() < hung.try_at:
                    continue
                others = tuple(other for other in range(self._last.count) if other != index)
                try:
                    sample = ReadRequest("sample", others, tuple(self._sampled))
                    await self._others().try_once(ReadRequest("scan", others), sample)
                except HardwareError:
                    hung.pause_s = min(2 * hung.pause_s, _TRY_MOST_S)
                    hung.try_at = time.monotonic() + hung.pause_s
                else:
                    self._hung.pop(index, None)
                    self._news = True
        finally:
            self._trying = None

    def _inventory(self, scan: Scan) -> Inventory:
        inventory = inventory_of(scan, self._hung, self._last_devices)
        self._last_devices = {device.uuid: device for device in inventory.devices}
        return inventory

    def _refused(self, error: BaseException) -> HardwareError:
        return HardwareError(refused_driver(self._root, self._driver_root, error))
