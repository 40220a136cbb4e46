"""The page of device metrics, made anew for each scrape of what was sampled."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.exporter.derived import Derived
from tonnage.agent.exporter.own_facts import OwnFacts
from tonnage.agent.exporter.pod_page import PodPage
from tonnage.agent.exporter.pod_usage import UsageMeter
from tonnage.agent.exporter.sampling import DeviceSampler
from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.decide.node.exporter.holders import Holders, device_key, holders_of
from tonnage.decide.node.exporter.jobs import jobs_of
from tonnage.decide.node.exporter.labels import LabelOptions
from tonnage.decide.node.exporter.metric_text import NOTHING, PageText, series_in
from tonnage.decide.node.exporter.page import Readings, exporter_page, reading_text
from tonnage.decide.node.exporter.peers import peer_family
from tonnage.decide.node.exporter.processes import HolderUse, PodKey
from tonnage.decide.node.exporter.readings import (
    entities_of,
    fields_by_counter,
    is_of_links,
    link_readings,
    readings_of,
)
from tonnage.decide.node.exporter.rows import Attribution, EntityRows, entity_rows
from tonnage.decide.node.exporter.windows import clock_event_counts, window_family, xid_counts, xids_of
from tonnage.model.node.telemetry import (
    CLOCK_COUNT,
    PEER_STATUS,
    XID_COUNT,
    CounterType,
    DeviceEntity,
    Entity,
    ExportedCounter,
    GpuEntity,
    InstanceEntity,
    PodIdentity,
    Reading,
    SwitchEntity,
)
from tonnage.ports.clock import Clock

Rows = Mapping[Entity, EntityRows]
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _DeviceMetrics:
    """Families of what devices answered, that of pairs of GPUs, and the rows that entities have."""

    readings: PageText = NOTHING
    peers: PageText = NOTHING
    rows: Rows = field(default_factory=dict)


class ExporterPage:
    """Renders what the board and the sampler know. `jobs` reads the files of HPC jobs."""

    def __init__(
        self,
        settings: ExporterSettings,
        board: NodeBoard,
        clock: Clock,
        sampler: DeviceSampler,
        jobs: Callable[[], Mapping[str, str]],
        meter: UsageMeter,
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
            pod_uid=settings.pod_uid,
        )
        self._meter = meter
        self._processes = meter.processes
        self._replicas = meter.replicas
        self._labels_of = label_choice(settings)
        self._pods = PodPage(settings, board, meter, jobs, self._labels_of)
        self._attributions = Derived[Attribution]()
        self._rows = Derived[Rows]()
        self._devices = Derived[_DeviceMetrics]()

    async def refresh(self) -> None:
        """Have the devices read first, where they are read on demand."""
        if await self._sampler.when_due():
            await self._meter.count()

    def text(self, counters: Sequence[ExportedCounter]) -> str:
        """The page now; empty where it is switched off. Raises what our failures raise; they are counted."""
        if "dcgm-exporter" in self._board.parts_off.value:
            return ""
        try:
            devices = self._device_metrics(counters)
            windows = "".join(
                self._window(counter, devices.rows) for counter in sorted(counters, key=_number)
            )
            series = devices.readings.series + series_in(windows) + devices.peers.series
            pods = self._pods.text(series)
            facts = self._facts.text(series + pods.series, self._errors)
            return "".join((devices.readings.text, windows, devices.peers.text, pods.text, facts))
        except Exception:
            self._errors += 1
            raise

    def _device_metrics(self, counters: Sequence[ExportedCounter]) -> _DeviceMetrics:
        """What devices answered; the same text until they are read again, or something else changes."""
        board, samples = self._board, self._sampler.fresh()
        inventory, xids, jobs = board.inventory.value, board.xids.value, self._jobs()
        if inventory is None:
            return _DeviceMetrics()
        own = frozenset(resource for resource, _ in self._replicas())
        holding = (inventory, board.holds.value, board.pods.value, own, jobs)

        def made() -> _DeviceMetrics:
            entities = entities_of(inventory, self._settings.choice)
            attribution = self._attributions.of(holding, lambda: self._attribution(entities, own, jobs))
            fields = fields_by_counter(counters)
            readings: dict[Entity, Mapping[str, Reading]] = {
                entity: readings_of(entity, fields, samples, next(reversed(xids_of(entity, xids)), 0))
                for entity in entities
            }
            rows = self._rows_of(counters, readings, attribution)
            page = exporter_page(counters, readings, rows, self._uses(entities, attribution))
            of_links = [counter for counter in counters if is_of_links(counter)]
            page += self._link_page(of_links, entities, attribution)
            peers = self._peer_page(counters, entities, attribution)
            return _DeviceMetrics(page, PageText(peers, series_in(peers)), rows)

        # of what processes use, `uses` of the meter tells: it is another object after they were read
        return self._devices.of((*holding, samples, xids, self._meter.uses, counters), made)

    def _rows_of(
        self, counters: Sequence[ExportedCounter], readings: Readings, attribution: Attribution
    ) -> Rows:
        """Rows of each entity; the same ones, with the labels that they wrote, while these do not change."""
        names = [counter.name for counter in counters if counter.type is CounterType.LABEL]
        texts = {
            entity: {name: reading_text(values[name]) for name in names if name in values}
            for entity, values in readings.items()
        }

        def made() -> Rows:
            return {
                entity: entity_rows(entity, labels, attribution, self._options)
                for entity, labels in texts.items()
            }

        return self._rows.of((attribution, texts), made)

    def _peer_page(
        self,
        counters: Sequence[ExportedCounter],
        entities: Sequence[DeviceEntity],
        attribution: Attribution,
    ) -> str:
        """The family of pairs of GPUs; nothing where it is not asked for."""
        counter = next((counter for counter in counters if counter.name == PEER_STATUS), None)
        inventory = self._board.inventory.value
        if counter is None or inventory is None:
            return ""
        indices = {device.uuid: device.index for device in inventory.devices}
        labels = fields_by_counter(counter for counter in counters if counter.type is CounterType.LABEL)
        samples = self._sampler.fresh()
        statuses: dict[Entity, Mapping[int, int]] = {}
        rows: dict[Entity, EntityRows] = {}
        for gpu in _gpus_of(entities):
            timed = samples.get(gpu.uuid)
            peers = {} if timed is None else timed.sample.peers
            statuses[gpu] = {indices[uuid]: status for uuid, status in peers.items() if uuid in indices}
            texts = {name: reading_text(text) for name, text in readings_of(gpu, labels, samples, 0).items()}
            rows[gpu] = entity_rows(gpu, texts, attribution, self._options)
        return peer_family(counter, statuses, rows)

    def _link_page(
        self,
        counters: Sequence[ExportedCounter],
        entities: Sequence[DeviceEntity],
        attribution: Attribution,
    ) -> PageText:
        """Families of NVLinks; nothing where none is asked for."""
        samples = self._sampler.fresh() if counters else {}
        readings: dict[Entity, Mapping[str, Reading]] = {}
        for gpu in _gpus_of(entities):
            readings |= link_readings(gpu, counters, samples)
        rows = {link: entity_rows(link, {}, attribution, self._options) for link in readings}
        return exporter_page(counters, readings, rows)

    def _attribution(
        self, entities: Sequence[DeviceEntity], own: frozenset[str], files: Mapping[str, str]
    ) -> Attribution:
        """`own` are the resources that the agent itself offers."""
        jobs = jobs_of(files, entities)
        if not self._settings.kubernetes:
            return Attribution(jobs=jobs)
        resources = own.union(self._settings.resources)
        holders = holders_of(self._board.holds.value.holds, entities, resources)
        return Attribution(holders, self._pods_of(holders), jobs, self._settings.each_holder)

    def _uses(
        self, entities: Sequence[DeviceEntity], attribution: Attribution
    ) -> Mapping[Entity, HolderUse] | None:
        """By processes, where each holder has a row: the device's numbers are none of theirs."""
        if not attribution.each_holder:
            return None
        return {} if self._processes is None else self._processes.uses(entities, attribution.holders)

    def _pods_of(self, holders: Holders) -> Mapping[PodKey, PodIdentity]:
        """What the API server says of the pods that hold devices, with the labels that rows carry."""
        pods: dict[PodKey, PodIdentity] = {}
        for key in {(holder.namespace, holder.pod) for of_device in holders.values() for holder in of_device}:
            pod = self._board.pods.value.get("/".join(key))
            if pod is not None:
                pods[key] = replace(pod, labels=self._labels_of(pod.labels))
        return pods

    def _window(self, counter: ExportedCounter, rows: Mapping[Entity, EntityRows]) -> str:
        """A family of `DCGM_EXP_*`; nothing for another counter."""
        now = self._clock.monotonic()
        if counter.name == XID_COUNT:
            window_ms, xids = self._settings.xid_window_ms, self._board.xids.value
            oldest_s = now - window_ms / 1000
            counts = {entity: xid_counts(xids_of(entity, xids, oldest_s)) for entity in rows}
            return window_family(counter, "xid", window_ms, counts, rows)
        if counter.name != CLOCK_COUNT:
            return ""
        window_ms = self._settings.clock_window_ms
        oldest_s = now - window_ms / 1000
        reasons = {entity: self._sampler.clock_reasons(_uuid(entity), oldest_s) for entity in rows}
        counts = {entity: clock_event_counts(bits) for entity, bits in reasons.items() if bits}
        return window_family(counter, "clock_event", window_ms, counts, rows)


def _number(counter: ExportedCounter) -> int:
    return counter.number


def _gpus_of(entities: Iterable[DeviceEntity]) -> Iterable[GpuEntity]:
    return dict.fromkeys(entity.gpu if isinstance(entity, InstanceEntity) else entity for entity in entities)


def _uuid(entity: Entity) -> str:
    return "" if isinstance(entity, SwitchEntity) else device_key(entity)[0]


def label_choice(settings: ExporterSettings) -> Callable[[Mapping[str, str]], Mapping[str, str]]:
    """Which of a pod's labels rows carry. Patterns that cannot be used are logged."""
    if not settings.pod_labels:
        return lambda _: {}
    if not settings.label_patterns:
        return lambda labels: labels
    from tonnage.decide.node.exporter.label_choice import chosen_labels, pattern_problems, usable_patterns

    for problem in pattern_problems(settings.label_patterns):
        _LOG.warning("%s", problem)
    patterns = usable_patterns(settings.label_patterns)
    return lambda labels: chosen_labels(labels, patterns)
