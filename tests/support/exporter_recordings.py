"""A recorded case of dcgm-exporter as our exporter's inputs, and the page that comes of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tonnage.agent.exporter.page import label_choice
from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.decide.node.exporter.holders import Holders, device_key, holders_of
from tonnage.decide.node.exporter.jobs import jobs_of
from tonnage.decide.node.exporter.labels import LabelOptions
from tonnage.decide.node.exporter.page import exporter_page, reading_text
from tonnage.decide.node.exporter.processes import HolderUse, PodKey, holder_use, pod_uid_of
from tonnage.decide.node.exporter.rows import Attribution, EntityRows, entity_rows
from tonnage.decide.node.exporter.windows import (
    clock_event_counts,
    window_family,
    xid_counts,
)
from tonnage.model.devices.sharing import Hold
from tonnage.model.node.telemetry import (
    CLOCK_COUNT,
    XID_COUNT,
    CounterType,
    DeviceEntity,
    Entity,
    ExportedCounter,
    GpuEntity,
    InstanceEntity,
    LinkEntity,
    PodIdentity,
    ProcessUse,
    Reading,
    SwitchEntity,
)

Case = Mapping[str, Any]
FILE = Path(__file__).resolve().parents[1] / "data" / "dcgm-exporter-d5e5f51.json"


def recorded_cases() -> list[Case]:
    """Every case of the file."""
    cases: list[Case] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]
    return cases


def page_of(case: Case) -> str:
    """Our page for the case's inputs."""
    config = case.get("config", {})
    counters = [
        ExportedCounter(row["field"], CounterType(row["type"]), row["help"], row["id"])
        for row in case["counters"]
        if case.get("profiling", True) or not 1000 <= row["id"] < 1100
    ]
    entities = list(_entities(case))
    values = {entity: _values(case, entity, counters) for entity in entities}
    devices = list(_devices(case))
    attribution = _attribution(case, devices)
    options = LabelOptions(
        hostname=case.get("hostname", ""),
        old_namespace=config.get("use-old-namespace", False),
        replace_blanks=config.get("replace-blanks-in-model-name", False),
        pod_uid=config.get("kubernetes-enable-pod-uid", False),
    )
    labels = {counter.name for counter in counters if counter.type is CounterType.LABEL}
    rows = {
        entity: entity_rows(
            entity,
            {name: reading_text(value) for name, value in of_entity.items() if name in labels},
            attribution,
            options,
        )
        for entity, of_entity in values.items()
    }
    windows = [counter for counter in counters if counter.name.startswith("DCGM_EXP_")]
    plain = [counter for counter in counters if counter not in windows]
    text = exporter_page(plain, values, rows, _uses(case, devices, attribution)).text
    return text + "".join(
        _window(case, counter, rows) for counter in sorted(windows, key=lambda row: row.number)
    )


def _gpus(case: Case) -> Iterator[tuple[GpuEntity, Mapping[str, Any]]]:
    for row in case["devices"]:
        yield GpuEntity(row["gpu"], row["uuid"], row["pciBusId"], row["model"]), row


def _devices(case: Case) -> Iterator[DeviceEntity]:
    """GPUs, and instead of one that is divided its instances."""
    for gpu, row in _gpus(case):
        instances = row.get("instances") or ()
        if not instances:
            yield gpu
        for instance in instances:
            uuids = tuple(device["uuid"] for device in instance["devices"]) if case.get("nvml", True) else ()
            yield InstanceEntity(gpu, instance["gi"], instance["profile"], uuids)


def _entities(case: Case) -> Iterator[Entity]:
    match case["group"]:
        case "GPU":
            yield from _chosen(case)
        case "NvLink":
            for gpu, row in _gpus(case):
                yield from (LinkEntity(gpu, link["link"]) for link in row.get("nvlinks", ()) if link["up"])
            for switch in case.get("switches") or ():
                up = (link["link"] for link in switch["nvlinks"] if link["up"])
                yield from (SwitchEntity(switch["switch"], link) for link in up)
        case _:
            yield from (SwitchEntity(row["switch"]) for row in case["switches"])


def _chosen(case: Case) -> Iterator[DeviceEntity]:
    """Those that `--devices` chooses: `f` as they are divided, `g` GPUs, `i` instances."""
    choice, _, ids = case.get("config", {}).get("devices", "f").partition(":")
    wanted = set(_numbers(ids)) if ids else None
    if choice == "g":
        for gpu, _ in _gpus(case):
            if wanted is None or gpu.index in wanted:
                yield gpu
        return
    for entity in _devices(case):
        if choice == "f" or isinstance(entity, InstanceEntity):
            yield entity


def _numbers(text: str) -> Iterator[int]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _values(case: Case, entity: Entity, counters: list[ExportedCounter]) -> Mapping[str, Reading]:
    names = {counter.name for counter in counters}
    values: dict[str, Reading] = {}
    for sample in case["samples"]:
        if sample["field"] in names and sample["value"] is not None and _is_of(sample, entity):
            if sample["value"] == "<<<NOT_PERM>>>":
                continue
            kinds = {"int64": int, "double": float, "string": str}
            values[sample["field"]] = kinds[sample["type"]](sample["value"])
    return values


def _is_of(sample: Mapping[str, Any], entity: Entity) -> bool:
    place = tuple(sample.get(key) for key in ("gpu", "gi", "link", "switch"))
    match entity:
        case GpuEntity():
            return place == (entity.index, None, None, None)
        case InstanceEntity():
            return place == (entity.gpu.index, entity.gpu_instance, None, None)
        case LinkEntity():
            return place == (entity.gpu.index, None, entity.link, None)
        case _:
            return place == (None, None, entity.link, entity.switch)


def _attribution(case: Case, devices: list[DeviceEntity]) -> Attribution:
    config = case.get("config", {})
    jobs = jobs_of(case.get("hpc") or {}, devices)
    if not config.get("kubernetes"):
        return Attribution(jobs=jobs)
    return Attribution(
        _holders(case, devices), _pods(case), jobs, bool(config.get("kubernetes-virtual-gpus"))
    )


def _holders(case: Case, devices: list[DeviceEntity]) -> Holders:
    listing = case.get("podResources") or {"podResources": []}
    holds = [
        Hold(
            device["resourceName"],
            tuple(device["deviceIds"]),
            pod["namespace"],
            pod["name"],
            container["name"],
        )
        for pod in listing["podResources"]
        for container in pod["containers"]
        for device in container.get("devices", ())
    ]
    return holders_of(holds, devices, case["config"].get("nvidia-resource-names", ()))


def _pods(case: Case) -> Mapping[PodKey, PodIdentity]:
    config = case["config"]
    settings = ExporterSettings(
        pod_labels=config.get("kubernetes-enable-pod-labels", False),
        label_patterns=tuple(config.get("kubernetes-pod-label-allowlist-regex", ())),
    )
    choice = label_choice(settings)
    return {
        (pod["namespace"], pod["name"]): PodIdentity(pod["uid"], choice(pod["labels"]))
        for pod in case.get("pods") or ()
    }


def _uses(
    case: Case, devices: list[DeviceEntity], attribution: Attribution
) -> Mapping[Entity, HolderUse] | None:
    if not attribution.each_holder:
        return None
    if not case.get("nvml", True):
        return {}
    processes = case.get("processes") or {}
    cgroups = processes.get("cgroups", {})
    uid_of = {int(pid): pod_uid_of(text) for pid, text in cgroups.items()}
    return {
        entity: holder_use(
            attribution.holders.get(device_key(entity), ()),
            _processes(processes, entity),
            uid_of,
            attribution.pods,
            measures_utilization=isinstance(entity, GpuEntity),
        )
        for entity in devices
    }


def _processes(processes: Mapping[str, Any], entity: DeviceEntity) -> list[ProcessUse]:
    if isinstance(entity, InstanceEntity):
        memory = processes.get("migMemory", {}).get(entity.gpu.uuid, {}).get(str(entity.gpu_instance), {})
        utilization: Mapping[str, int] = {}
    else:
        memory = processes.get("memory", {}).get(entity.uuid, {})
        utilization = processes.get("utilization", {}).get(entity.uuid, {})
    not_available = (1 << 64) - 1
    return [
        ProcessUse(
            int(pid),
            None if memory.get(pid) == not_available else memory.get(pid),
            utilization.get(pid),
        )
        for pid in {**memory, **utilization}
    ]


def _window(case: Case, counter: ExportedCounter, rows: Mapping[Entity, EntityRows]) -> str:
    config = case["config"]
    is_xid = counter.name == XID_COUNT
    assert is_xid or counter.name == CLOCK_COUNT
    field = "DCGM_FI_DEV_XID_ERRORS" if is_xid else "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
    counts: dict[Entity, Mapping[str, int]] = {}
    for entity in rows:
        values = [
            value
            for row in case.get("history") or ()
            if row["field"] == field and _is_of(row, entity)
            for value in row["values"]
        ]
        counts[entity] = xid_counts(values) if is_xid else clock_event_counts(values)
    flag = "xid-count-window-size" if is_xid else "clock-events-count-window-size"
    label = "xid" if is_xid else "clock_event"
    return window_family(counter, label, config.get(flag, 300_000), counts, rows)
