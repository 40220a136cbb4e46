"""The catalogue of device fields against dcgm-exporter's own list of counters."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tonnage.model.catalog.metrics import DeviceField, FieldKind, FieldOrigin, device_fields, fields_named
from tonnage.model.errors import Bug

RECORD = json.loads(
    (Path(__file__).resolve().parents[1] / "data/dcgm-exporter-d5e5f51-counters.json").read_text("utf-8")
)
BY_DCGM = {name: field for field in device_fields().values() for name in field.dcgm}
ANOTHER_WAY = {("DCGM_FI_PROF_PCIE_TX_BYTES", "counter"), ("DCGM_FI_PROF_PCIE_RX_BYTES", "counter")}
"""Lines that stand a second time in the file, as what they were before."""


READINGS = [
    (name, kind, text)
    for name, kind, text, _ in RECORD["counters"]
    if name.startswith(("DCGM_FI_", "DCGM_EXP_P2P")) and (name, kind) not in ANOTHER_WAY
]


@pytest.mark.parametrize(("name", "kind", "text"), READINGS)
def test_a_counter_of_dcgm_exporters_file_has_its_type_help_and_number(
    name: str, kind: str, text: str
) -> None:
    field = BY_DCGM[name]
    assert (field.kind, field.help, field.dcgm_id) == (kind, text, RECORD["ids"][name])


def is_whole(field: DeviceField) -> bool:
    """Whether it says in one way how it is read, in which unit, and whence that is known."""
    ways = [bool(field.call), field.field_id is not None, field.gpm is not None]
    return (
        sum(ways) == (0 if field.origin is FieldOrigin.RATE else 1)
        and field.source != ""
        and field.help.strip() == field.help != ""
        and 1 in (field.divisor, field.factor)
        and (field.unit == "text") == (field.kind is FieldKind.LABEL)
        and (field.dcgm_id is None or bool(field.dcgm))
    )


def test_a_field_says_how_it_is_read_and_whence_that_is_known() -> None:
    assert [field for field in device_fields().values() if not is_whole(field)] == []


def test_no_two_fields_are_one_of_dcgm() -> None:
    numbers = [field.dcgm_id for field in device_fields().values() if field.dcgm_id is not None]
    assert len(numbers) == len(set(numbers))


def test_a_field_that_is_read_alone_is_the_same() -> None:
    assert {field.name: field for field in fields_named([*device_fields()])} == device_fields()
    alone = [name for name in device_fields() if not re.search(r"nvlink\d", name)]
    assert len(alone) > 250
    for name in alone:
        assert fields_named([name]) == (device_fields()[name],), name


def test_few_fields_do_not_bring_all() -> None:
    device_fields.cache_clear()
    fields_named(["power_w", "clock_sm_mhz"])
    assert device_fields.cache_info().currsize == 0


def test_a_name_of_no_field_is_refused() -> None:
    with pytest.raises(Bug, match="no device has a field power_kw"):
        fields_named(["power_w", "power_kw"])
