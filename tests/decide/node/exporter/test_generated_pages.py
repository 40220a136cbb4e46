"""Pages of nodes, pods and readings that nobody recorded, against what the recordings' description says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from tonnage.decide.node.exporter.holders import holders_of
from tonnage.decide.node.exporter.labels import LabelOptions
from tonnage.decide.node.exporter.page import exporter_page
from tonnage.decide.node.exporter.rows import Attribution, EntityRows, entity_rows
from tonnage.documents.exporter_counters import counter_numbers
from tonnage.model.catalog.xid_messages import xid_message
from tonnage.model.devices.sharing import Hold
from tonnage.model.node.telemetry import (
    CounterType,
    DeviceEntity,
    Entity,
    ExportedCounter,
    GpuEntity,
    InstanceEntity,
    Reading,
)

NAMES: Final = sorted(name for name in counter_numbers() if name.startswith("DCGM_FI_"))
XID: Final = "DCGM_FI_DEV_XID_ERRORS"
LONG: Final = 4096
ODD = st.sampled_from(['say "no"', "back\\slash", "two\nlines", "Größe", "x" * LONG, "", "a,b}{=1", "\\n"])
TEXTS = st.one_of(ODD, st.text(max_size=12))
NUMBERS = st.one_of(
    st.integers(0, 1 << 63), st.floats(0, 1e9, allow_nan=False), st.floats(-1, 1, allow_nan=False)
)


@dataclass(frozen=True)
class Node:
    """Devices, what they read, and who holds them: 0, 1 or more pods for each."""

    devices: tuple[DeviceEntity, ...]
    readings: Mapping[DeviceEntity, Mapping[str, Reading]]
    holders: Mapping[DeviceEntity, int]
    counters: tuple[ExportedCounter, ...]
    options: LabelOptions
    each_holder: bool


@st.composite
def nodes(draw: st.DrawFn) -> Node:
    devices: list[DeviceEntity] = []
    for index in range(draw(st.integers(1, 4))):
        gpu = GpuEntity(index, f"GPU-{index}", f"00000000:{index:02X}:00.0", draw(TEXTS))
        parts = draw(st.integers(0, 3))
        devices += [InstanceEntity(gpu, n, "1g.10gb", (f"MIG-{index}-{n}",)) for n in range(parts)] or [gpu]
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True))
    kinds = [draw(st.sampled_from(CounterType)) for _ in names]
    numbers = counter_numbers()
    counters = tuple(
        ExportedCounter(name, kind, draw(TEXTS).replace("\r", ""), numbers[name])
        for name, kind in zip(names, kinds, strict=True)
    )
    readings: dict[DeviceEntity, dict[str, Reading]] = {device: {} for device in devices}
    for device in devices:
        for counter in counters:
            if draw(st.booleans()):
                is_text = counter.type is CounterType.LABEL
                whole = st.integers(0, 200) if counter.name == XID else NUMBERS
                readings[device][counter.name] = draw(TEXTS if is_text else whole)
    holders = {device: draw(st.integers(0, 3)) for device in devices}
    options = LabelOptions(draw(TEXTS), "Hostname", draw(st.booleans()), draw(st.booleans()))
    return Node(tuple(devices), readings, holders, counters, options, draw(st.booleans()))


def page_of(node: Node) -> str:
    holds = [
        Hold("nvidia.com/gpu", (f"{_id(device)}::{n}",), "ml", f"pod-{n}", "main")
        for device, count in node.holders.items()
        for n in range(count)
    ]
    attribution = Attribution(holders_of(holds, node.devices), each_holder=node.each_holder)
    labels = {counter.name for counter in node.counters if counter.type is CounterType.LABEL}
    rows: Mapping[Entity, EntityRows] = {
        device: entity_rows(
            device,
            {name: str(value) for name, value in node.readings[device].items() if name in labels},
            attribution,
            node.options,
        )
        for device in node.devices
    }
    readings: dict[Entity, Mapping[str, Reading]] = {device: node.readings[device] for device in node.devices}
    return exporter_page(node.counters, readings, rows).text


def _id(device: DeviceEntity) -> str:
    return device.uuids[0] if isinstance(device, InstanceEntity) else device.uuid


def described(node: Node) -> str:
    """The page as the recordings' README describes it, in one go."""
    old = node.options.old_namespace
    page = ""
    for counter in sorted(node.counters, key=lambda counter: counter.number):
        lines = ""
        for device in node.devices if counter.type is not CounterType.LABEL else ():
            value = node.readings[device].get(counter.name)
            if value is None:
                continue
            gpu = device.gpu if isinstance(device, InstanceEntity) else device
            pairs = [("gpu", f"{gpu.index}"), ("uuid" if old else "UUID", gpu.uuid)]
            pairs += [("pci_bus_id", gpu.pci_bus_id), ("device", f"nvidia{gpu.index}")]
            pairs.append(
                ("modelName", "-".join(gpu.model.split()) if node.options.replace_blanks else gpu.model)
            )
            if isinstance(device, InstanceEntity):
                pairs += [("GPU_I_PROFILE", device.profile), ("GPU_I_ID", f"{device.gpu_instance}")]
            if node.options.hostname:
                pairs.append(("Hostname", node.options.hostname))
            texts = {
                other.name: str(node.readings[device][other.name])
                for other in node.counters
                if other.type is CounterType.LABEL and other.name in node.readings[device]
            }
            pairs += sorted(texts.items())
            xid = {"err_code": f"{value}", "err_msg": xid_message(int(value))} if counter.name == XID else {}
            for holder in _shown_holders(node, device):
                lines += (
                    f"{counter.name}{{{_labels(pairs + sorted((holder | xid).items()))}}} {_number(value)}\n"
                )
        if lines:
            text = counter.help.replace("\\", "\\\\").replace("\n", "\\n")
            page += f"# HELP {counter.name} {text}\n# TYPE {counter.name} {counter.type.value}\n{lines}"
    return page


def _shown_holders(node: Node, device: DeviceEntity) -> list[dict[str, str]]:
    names = ("pod_namespace", "pod_name", "container_name") if node.options.old_namespace else NEW
    holders = [
        {**dict(zip(names, ("ml", f"pod-{n}", "main"), strict=True)), "vgpu": f"{n}"}
        for n in range(node.holders[device])
    ]
    if node.each_holder:
        return holders or [{}]
    for holder in holders:
        del holder["vgpu"]
    return holders if len(holders) == 1 else [{}]


NEW = ("namespace", "pod", "container")


def _labels(pairs: list[tuple[str, str]]) -> str:
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n"}
    return ",".join(f'{name}="{"".join(escapes.get(c, c) for c in value)}"' for name, value in pairs)


def _number(value: Reading) -> str:
    return f"{value:d}" if isinstance(value, int) else f"{value:.6f}"


@given(nodes())
def test_a_page_is_what_the_description_says(node: Node) -> None:
    assert page_of(node) == described(node)


@given(nodes())
def test_prometheus_reads_every_label_as_it_was(node: Node) -> None:
    models = {
        gpu.uuid: "-".join(gpu.model.split()) if node.options.replace_blanks else gpu.model
        for gpu in (device.gpu if isinstance(device, InstanceEntity) else device for device in node.devices)
    }
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    for family in text_string_to_metric_families(page_of(node)):
        for sample in family.samples:
            labels = sample.labels
            assert labels["modelName"] == models[labels.get("UUID") or labels["uuid"]]
            assert labels.get("Hostname", "") == node.options.hostname
            series = sample.name, tuple(sorted(labels.items()))
            assert series not in seen
            seen.add(series)
