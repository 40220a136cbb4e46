"""The CDI specs of the kinds that the agent names: there before it names them, and never stale."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.allocate import without_spec
from tonnage.decide.node.cdi.spec import cdi_specs, management_spec, spec_bytes, spec_file, wants_cdi
from tonnage.loop.ticks import next_beat
from tonnage.model.actions.cdi import RemoveSpec, WriteSpec
from tonnage.model.devices.cdi import CdiSpec
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import Injection, PluginConfig
from tonnage.model.errors import HardwareError
from tonnage.model.names import CDI_GPU_KIND, CDI_IMEX_KIND, CDI_MANAGEMENT_KIND, CDI_VENDOR, cdi_device
from tonnage.model.node.plugin_settings import ExtraDevice
from tonnage.model.reasons.reason import Reason
from tonnage.ports.node import CdiView

_LOG: Final = logging.getLogger(__name__)
_KINDS: Final = (
    CDI_GPU_KIND,
    CDI_IMEX_KIND,
    CDI_MANAGEMENT_KIND,
    *(f"{CDI_VENDOR}/{extra.value}" for extra in ExtraDevice),
)


class NodeCdi:
    """Has the specs brought up to date when devices, configuration or the driver's files change."""

    def __init__(self, context: AgentContext, board: NodeBoard, specs: CdiSpecs) -> None:
        self._clock = context.clock
        self._specs = specs
        self._wake = asyncio.Event()
        for topic in (board.inventory, board.devices_error, board.configuration, board.restarts):
            topic.subscribe(self._wake.set)

    async def run(self) -> None:
        """Follow devices, configuration and the driver's files until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._tick())
            while True:
                await self._wake.wait()
                self._wake.clear()
                await self._specs.update()

    async def _tick(self) -> None:
        """Nobody tells of a driver's files that are replaced, or of a spec that somebody removes."""
        while True:
            await next_beat(self._clock)
            self._wake.set()


class CdiSpecs:
    """Writes the specs when a CDI strategy is configured, and keeps fresh those that were written before.

    The latter are for containers that start again: kubelet repeats the answer that their pod got. When the
    driver goes, so do the specs. Without CDI, and without a spec of ours, nothing is read or written.

    A spec for management is kept fresh where a person made one, and comes back with the driver.
    """

    def __init__(self, context: AgentContext, board: NodeBoard, files: CdiView) -> None:
        self._node = context.node
        self._events = context.events
        self._performer = context.performer
        self._board = board
        self._files = files
        self._writing = asyncio.Lock()
        self._names = frozenset[str]()
        self._made: tuple[Inventory, PluginConfig, bool] | None = None
        self._stamp = ""
        self._reported: tuple[str, ...] = ()
        self._withdrawn = False
        self.problems: tuple[str, ...] = ()
        """What is not in the specs, and why; empty when all is."""

    async def lacking(self, injections: Iterable[Injection]) -> Reason | None:
        """Why what containers would be told points at nothing; kubelet or a person may ask again.

        Specs are brought up to date first, so that a device is named only once it can be found.
        """
        names = {name for injection in injections for name in _cdi_names(injection)}
        if not names:
            return None
        if not names <= self._names or not self._fresh():
            await self.update()
        missing = sorted(names - self._names)
        if not missing:
            return None
        return without_spec(missing, self.problems)

    def _basis(self) -> tuple[Inventory, PluginConfig, bool] | None:
        inventory, config = self._board.inventory.value, self._board.configuration.value
        if inventory is None or config is None:
            return None
        return inventory, config.config, not self._board.devices_error.value

    def _fresh(self) -> bool:
        basis = self._basis()
        return basis is not None and self._made is not None and _same(basis, self._made)

    async def update(self) -> None:
        """Have the files say what is so now."""
        async with self._writing:
            basis = self._basis()
            if basis is None:
                return
            if self._fresh() and not self._names and not wants_cdi(basis[1]):
                return
            stamp = await self._files.stamp()
            if stamp == self._stamp and self._fresh():
                return
            try:
                self._names, problems, whole = await self._write(*basis)
            except HardwareError as error:
                self._names, problems, whole = frozenset(), (str(error),), False
            # The stamp from before counts: what changed meanwhile is a change. So is our own writing: the
            # next look finds nothing to write, and then it is quiet.
            self._made, self._stamp = basis if whole else None, stamp
            self.problems = problems
            self._report(problems)

    async def _write(
        self, inventory: Inventory, config: PluginConfig, readable: bool
    ) -> tuple[frozenset[str], tuple[str, ...], bool]:
        """(qualified names that specs have, what is left out and why, whether no file refused)."""
        needed = wants_cdi(config)
        before = {kind: await self._content(spec_file(kind)) for kind in _KINDS}
        managed = self._withdrawn or bool(before[CDI_MANAGEMENT_KIND])
        specs: dict[str, CdiSpec] = {}
        problems: list[str] = []
        if readable and (needed or managed or any(before.values())):
            files = await self._files.driver_files(inventory.driver_version, config)
            made = cdi_specs(inventory, files, config)
            if managed:
                made = (*made, management_spec(inventory, files, config))
            specs = {spec.kind: spec for spec in made}
            problems += [
                problem.what + f": {problem.why}" for spec in specs.values() for problem in spec.left_out
            ]
            problems += files.problems
        elif not readable and needed:
            problems.append(self._board.devices_error.value)
        names: set[str] = set()
        whole = True
        for kind, content in before.items():
            spec = specs.get(kind)
            if spec is None and not content and not needed:
                continue
            try:
                names |= await self._keep(kind, spec, content)
            except HardwareError as error:  # the other kinds stay usable
                problems.append(str(error))
                whole = False
        return frozenset(names), tuple(problems), whole

    async def _content(self, name: str) -> bytes | None:
        """Of a spec; empty of what can be none, such as a pipe or a link in a circle, which is to go."""
        try:
            return await self._files.read(name)
        except HardwareError:
            return b""

    async def _keep(self, kind: str, spec: CdiSpec | None, content: bytes | None) -> set[str]:
        """Have the file be what it should, or gone; the qualified names in it."""
        if spec is None or spec.document is None:
            if content is not None:
                await self._performer.perform(RemoveSpec(spec_file(kind)))
                self._withdrawn |= kind == CDI_MANAGEMENT_KIND and bool(content)
                _LOG.warning("CDI spec removed: node=%s kind=%s", self._node, kind)
            return set()
        fresh = spec_bytes(spec.document)
        if fresh != content:
            await self._performer.perform(WriteSpec(spec_file(kind), fresh))
            self._withdrawn &= kind != CDI_MANAGEMENT_KIND
            _LOG.info("CDI spec written: node=%s kind=%s devices=%d", self._node, kind, len(spec.names))
        return {cdi_device(name, kind) for name in spec.names}

    def _report(self, problems: tuple[str, ...]) -> None:
        for problem in problems:
            if problem not in self._reported:
                _LOG.warning("not in the CDI spec: node=%s why=%s", self._node, problem)
                self._events.post("Warning", "CdiSpecIncomplete", problem)
        self._reported = problems


def _same(basis: tuple[Inventory, PluginConfig, bool], other: tuple[Inventory, PluginConfig, bool]) -> bool:
    return basis[0] is other[0] and basis[1] is other[1] and basis[2] == other[2]


def _cdi_names(injection: Injection) -> Iterable[str]:
    yield from injection.cdi_devices
    for value in injection.annotations.values():
        yield from value.split(",")
