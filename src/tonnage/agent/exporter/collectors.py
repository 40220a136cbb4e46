"""The counters of the page: those of a file, followed while it changes, or the default's."""

from __future__ import annotations

import logging
from typing import Final

from tonnage.agent.context import AgentContext
from tonnage.decide.node.exporter.readings import fields_of
from tonnage.documents.exporter_counters import default_counters, read_counters
from tonnage.loop.ticks import next_beat
from tonnage.model.errors import Problem
from tonnage.model.node.telemetry import ExportedCounter
from tonnage.ports.node import ABSENT, AgentConfigFile

_LOG: Final = logging.getLogger(__name__)


class Collectors:
    """What is served now. A file that cannot be used leaves the counters as they were, and is logged once.

    While there is none, as of a ConfigMap that may be missing, the default counters are served.
    """

    def __init__(self, context: AgentContext, file: AgentConfigFile | None) -> None:
        self._clock = context.clock
        self._node = context.node
        self._file = file
        self._stamp = ""
        self.counters: tuple[ExportedCounter, ...] = default_counters()

    def fields(self) -> frozenset[str]:
        """What devices are to be asked for them."""
        return fields_of(self.counters)

    async def run(self) -> None:
        """Follow the file until cancelled."""
        if self._file is None:
            return
        while True:
            await self.look()
            await next_beat(self._clock)

    async def look(self) -> None:
        """Take over a file that changed."""
        assert self._file is not None
        stamp = self._file.stamp()
        if stamp == self._stamp:
            return
        self._stamp = stamp
        if stamp == ABSENT:
            self.counters = default_counters()
            _LOG.info("no counters: node=%s file=%s served=default", self._node, self._file)
            return
        text = await self._file.read()
        if isinstance(text, Problem):
            problems: tuple[Problem, ...] = (text,)
        else:
            file = read_counters(text.encode(), str(self._file))
            problems = file.problems
            if file.counters:
                self.counters = file.counters
        for problem in problems:
            _LOG.warning("counter refused: node=%s problem=%s", self._node, str(problem))
        _LOG.info("counters: node=%s count=%d problems=%d", self._node, len(self.counters), len(problems))
