"""The page of device metrics, as dcgm-exporter renders it, in families ordered by DCGM's number of the field.

Source: the outputs recorded in `tests/data/dcgm-exporter-d5e5f51.json`, with what they differ in listed in
`docs/reference/exporter.md`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tonnage.decide.node.exporter.metric_text import PageText
from tonnage.decide.node.exporter.processes import HolderUse
from tonnage.decide.node.exporter.rows import EntityRow, EntityRows
from tonnage.model.catalog.xid_messages import xid_message
from tonnage.model.node.telemetry import CounterType, Entity, ExportedCounter, Reading

XID: Final = "DCGM_FI_DEV_XID_ERRORS"
GPU_UTILIZATION: Final = "DCGM_FI_DEV_GPU_UTIL"
MEMORY_USED: Final = "DCGM_FI_DEV_FB_USED"
_HEAD_LINES: Final = 2
"""HELP and TYPE of a family."""
_BY_PROCESS: Final = frozenset((GPU_UTILIZATION, MEMORY_USED))

Readings = Mapping[Entity, Mapping[str, Reading]]
"""What each entity answered, by the counter's name; what it lacks is absent."""


def exporter_page(
    counters: Sequence[ExportedCounter],
    readings: Readings,
    rows: Mapping[Entity, EntityRows],
    uses: Mapping[Entity, HolderUse] | None = None,
) -> PageText:
    """The text of the families that have a row, each after its HELP and TYPE.

    `uses` is what processes have of the devices, where each holder has a row; it fills GPU_UTIL and FB_USED,
    which then have the device's row too.
    """
    columns = [
        (values, [row.labels.text() for row in rows[entity].rows]) for entity, values in readings.items()
    ]
    families = [
        family_text(
            counter,
            _lines(counter.name, columns)
            if counter.name != XID and (uses is None or counter.name not in _BY_PROCESS)
            else _special_lines(counter.name, readings, rows, uses),
        )
        for counter in sorted(counters, key=lambda counter: counter.number)
        if counter.type is not CounterType.LABEL
    ]
    text = "".join(families)
    return PageText(text, text.count("\n") - _HEAD_LINES * sum(map(bool, families)))


def family_text(counter: ExportedCounter, lines: Iterable[str]) -> str:
    """The lines after HELP and TYPE; nothing when there is no line."""
    body = "".join(lines)
    if not body:
        return ""
    text = counter.help.replace("\\", "\\\\").replace("\n", "\\n")
    return f"# HELP {counter.name} {text}\n# TYPE {counter.name} {counter.type}\n{body}"


def _lines(name: str, columns: Sequence[tuple[Mapping[str, Reading], Sequence[str]]]) -> Iterator[str]:
    """Of each entity its readings, and the labels of its rows."""
    for values, texts in columns:
        reading = values.get(name)
        if reading is not None and not isinstance(reading, str):
            # the rows of an entity differ in labels alone: one join writes them, where a line each costs more
            end = f"}} {number_text(reading)}\n"
            yield f"{name}{{{f'{end}{name}{{'.join(texts)}{end}"


def _special_lines(
    name: str,
    readings: Readings,
    rows: Mapping[Entity, EntityRows],
    uses: Mapping[Entity, HolderUse] | None,
) -> Iterator[str]:
    for entity, values in readings.items():
        reading = values.get(name)
        if reading is None or isinstance(reading, str):
            continue
        if uses is not None and name in _BY_PROCESS:
            yield from (_line(name, row, reading) for row in rows[entity].device)
            yield from _held_lines(name, rows[entity].rows, uses.get(entity))
        else:
            yield from (_line(name, row, reading) for row in rows[entity].rows)


def _held_lines(name: str, rows: Iterable[EntityRow], use: HolderUse | None) -> Iterator[str]:
    amounts = {} if use is None else use.utilization if name == GPU_UTILIZATION else use.memory_mib
    for row in rows:
        amount = None if row.holder is None else amounts.get((row.holder.namespace, row.holder.pod))
        if amount is not None:
            assert use is not None
            assert row.holder is not None
            uid = use.uids.get((row.holder.namespace, row.holder.pod), "")
            yield f"{name}{{{row.labels.text(attributes={'pod_uid': uid})}}} {amount}\n"


def _line(name: str, row: EntityRow, reading: int | float) -> str:
    extra = {}
    if name == XID:
        extra = {"err_code": str(int(reading)), "err_msg": xid_message(int(reading))}
    return f"{name}{{{row.labels.text(attributes=extra)}}} {number_text(reading)}\n"


def reading_text(reading: Reading) -> str:
    """A reading as the value of a label.

    >>> reading_text("96.00"), reading_text(7), reading_text(0.5)
    ('96.00', '7', '0.500000')
    """
    return reading if isinstance(reading, str) else number_text(reading)


def number_text(reading: int | float) -> str:
    """Whole numbers as they are, others with six decimals."""
    return str(reading) if isinstance(reading, int) else f"{reading:.6f}"
