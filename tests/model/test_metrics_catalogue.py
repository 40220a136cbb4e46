"""The catalogue of device fields against dcgm-exporter's own list of counters."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tonnage.model.catalog.metrics import DeviceField, FieldKind, FieldOrigin, device_fields

RECORD = json.loads(
    (Path(__file__).resolve().parents[1] / "data/dcgm-exporter-d5e5f51-counters.json").read_text("utf-8")
)
BY_DCGM = {name: field for field in device_fields().values() for name in field.dcgm}
UNKNOWN = {
    "DCGM_FI_DEV_BRAND": "DCGM's words for NVML's numbers of brands are not known",
    "DCGM_FI_DEV_NVLINK_BANDWIDTH_L0": "it is of a link, not of a GPU",
}
ANOTHER_WAY = {("DCGM_FI_PROF_PCIE_TX_BYTES", "counter"), ("DCGM_FI_PROF_PCIE_RX_BYTES", "counter")}
"""Lines that stand a second time in the file, as what they were before."""


@pytest.mark.parametrize("row", RECORD["counters"], ids=lambda row: f"{row[0]} as a {row[1]}")
def test_a_counter_of_dcgm_exporters_file_has_its_type_help_and_number(row: list[str]) -> None:
    name, kind, text, _ = row
    if name.startswith("DCGM_EXP_") or (name, kind) in ANOTHER_WAY:
        pytest.skip("not a reading of a device")
    if name in UNKNOWN:
        assert name not in BY_DCGM
        return
    field = BY_DCGM[name]
    assert (field.kind, field.help, field.dcgm_id) == (kind, text, RECORD["ids"][name])


@pytest.mark.parametrize("field", device_fields().values(), ids=lambda field: field.name)
def test_a_field_says_how_it_is_read_and_whence_that_is_known(field: DeviceField) -> None:
    ways = [bool(field.call), field.field_id is not None, field.gpm is not None]
    assert sum(ways) == (0 if field.origin is FieldOrigin.RATE else 1)
    assert field.source
    assert field.help.strip() == field.help != ""
    assert field.divisor == 1 or field.factor == 1
    assert (field.unit == "text") == (field.kind is FieldKind.LABEL)
    assert field.dcgm_id is None or field.dcgm


def test_no_two_fields_are_one_of_dcgm() -> None:
    numbers = [field.dcgm_id for field in device_fields().values() if field.dcgm_id is not None]
    assert len(numbers) == len(set(numbers))
