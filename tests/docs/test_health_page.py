"""The page on health has the catalogue's classes and the configuration's words."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.documents.device_plugin.health import Health
from tonnage.model.catalog.xids import xids
from tonnage.model.devices.health import FaultClass, Signal

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/health.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("fault_class", FaultClass)
def test_every_xid_is_in_its_row(fault_class: FaultClass) -> None:
    row = re.search(rf"^\| `{fault_class}` \| ([\d, -]+) \|$", PAGE, re.MULTILINE)
    assert row is not None
    told: set[int] = set()
    for part in row[1].split(", "):
        first, _, last = part.partition("-")
        told |= set(range(int(first), int(last or first) + 1))
    assert told == {code for code, known in xids().items() if known.fault_class is fault_class}


def test_what_asks_for_more_the_second_time_is_named() -> None:
    (sentence,) = re.findall(r"Some ask for more[^.]*\.", PAGE)
    told = set(map(int, re.findall(r"\d+", sentence))) - {24}
    assert told == {code for code, known in xids().items() if known.again is not known.fault_class}


def test_the_example_is_a_configuration_and_has_every_field() -> None:
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    parse_device_plugin_config(example, source="health.md")
    for name, field in Health.model_fields.items():
        assert f"  {field.alias or name}:" in example


def test_every_signal_and_class_is_named() -> None:
    for word in (*Signal, *FaultClass):
        assert f"`{word}`" in PAGE
