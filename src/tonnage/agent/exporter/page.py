"""The page of device metrics, made anew for each scrape of what was sampled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.exporter.own_facts import OwnFacts
from tonnage.agent.exporter.sampling import DeviceSampler
from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.decide.node.exporter.holders import holders_of
from tonnage.decide.node.exporter.jobs import jobs_of
from tonnage.decide.node.exporter.labels import LabelOptions
from tonnage.decide.node.exporter.page import exporter_page
from tonnage.decide.node.exporter.readings import entities_of, readings_of
from tonnage.decide.node.exporter.rows import Attribution, EntityRows, entity_rows
from tonnage.decide.node.exporter.windows import window_family, xid_counts, xids_of
from tonnage.model.node.telemetry import (
    XID_COUNT,
    CounterType,
    DeviceEntity,
    Entity,
    ExportedCounter,
    Reading,
)
from tonnage.ports.clock import Clock

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class ExporterPage:
    """Renders what the board and the sampler know. `jobs` reads the files of HPC jobs."""

    def __init__(
        self,
        settings: ExporterSettings,
        board: NodeBoard,
        clock: Clock,
        sampler: DeviceSampler,
        jobs: Callable[[], Mapping[str, str]],
    ) -> None:
        self._settings = settings
        self._board = board
        self._clock = clock
        self._sampler = sampler
        self._jobs = jobs
        self._facts = OwnFacts(board, sampler)
        self._errors = 0
        self._options = LabelOptions(
            hostname=settings.hostname,
            hostname_label=settings.hostname_label,
            old_namespace=settings.old_namespace,
            replace_blanks=settings.replace_blanks,
        )

    def text(self, counters: Sequence[ExportedCounter]) -> str:
        """The page now. Raises what a failure of ours raises, which is counted."""
        try:
            page = self._device_metrics(counters)
            return page + self._facts.text(page, self._errors)
        except Exception:
            self._errors += 1
            raise

    def _device_metrics(self, counters: Sequence[ExportedCounter]) -> str:
        """Empty while no device is known."""
        inventory = self._board.inventory.value
        if inventory is None:
            return ""
        entities = entities_of(inventory)
        samples, xids = self._sampler.fresh(), self._board.xids.value
        attribution = self._attribution(entities)
        readings: dict[Entity, Mapping[str, Reading]] = {}
        rows: dict[Entity, EntityRows] = {}
        labels = [counter.name for counter in counters if counter.type is CounterType.LABEL]
        for entity in entities:
            xid = next(reversed(xids_of(entity, xids)), 0)
            of_entity = readings_of(entity, counters, samples, xid)
            readings[entity] = of_entity
            texts = {name: str(of_entity[name]) for name in labels if name in of_entity}
            rows[entity] = entity_rows(entity, texts, attribution, self._options)
        page = exporter_page(counters, readings, rows)
        return page + "".join(
            self._xid_counts(counter, rows) for counter in counters if counter.name == XID_COUNT
        )

    def _attribution(self, entities: Sequence[DeviceEntity]) -> Attribution:
        jobs = jobs_of(self._jobs(), entities)
        if not self._settings.kubernetes:
            return Attribution(jobs=jobs)
        offer = self._board.offer.value
        own = [shown.resource for shown in offer.advertised] if offer is not None else []
        resources = frozenset((*self._settings.resources, *own))
        holders = holders_of(self._board.holds.value.holds, entities, resources)
        return Attribution(holders, jobs=jobs, each_holder=self._settings.each_holder)

    def _xid_counts(self, counter: ExportedCounter, rows: Mapping[Entity, EntityRows]) -> str:
        window_ms, xids = self._settings.xid_window_ms, self._board.xids.value
        oldest_s = self._clock.monotonic() - window_ms / 1000
        counts = {entity: xid_counts(xids_of(entity, xids, oldest_s)) for entity in rows}
        return window_family(counter, "xid", window_ms, counts, rows)
