"""What was read in a configuration and is not read again, unless it might mean something else now."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tonnage.adapters.own_program import files_of
from tonnage.agent.config.checkpoint import READERS, mark_of, recalled, remembered
from tonnage.agent.config.reading import Reading
from tonnage.decide.node.choose_config import ConfigChoice, Wishes
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.node.plugin_settings import Override

EVERYTHING = """
version: v1
flags:
  migStrategy: mixed
  plugin:
    deviceListStrategy: [cdi-cri, envvar]
    deviceIDStrategy: index
    sharedDevicesAllocationPolicy: packed
  gfd: {sleepInterval: infinite, noTimestamp: true}
resources:
  gpus: [{pattern: "*T4*", name: t4}]
imex: {channelIDs: [0], required: true}
sharing:
  timeSlicing:
    failRequestsGreaterThanOne: true
    resources:
    - {name: nvidia.com/gpu, rename: a, replicas: 2, devices: 1}
    - {name: nvidia.com/t4, rename: b, replicas: 3, devices: ["0", "1:0"]}
"""
CHOICE = ConfigChoice(EVERYTHING, "file")
MAP = Wishes("ns/map")
READING = Reading(MAP)


def test_what_is_recalled_is_what_was_read() -> None:
    read = parse_device_plugin_config(EVERYTHING, source="file")
    assert dataclasses.asdict(read) != dataclasses.asdict(PluginConfig())
    assert recalled(remembered(read, "m"), "m") == read
    assert recalled(remembered(PluginConfig(), "m"), "m") == PluginConfig()


@pytest.mark.parametrize(
    "value", [None, 1, "m", [], {}, {"mark": "m"}, {"mark": "m", "config": {"shared": 1}}]
)
def test_what_makes_no_sense_is_read_anew(value: Any) -> None:
    assert recalled(value, "m") is None


@pytest.mark.parametrize(
    ("choice", "reading"),
    [
        (ConfigChoice(EVERYTHING + "\n", "file"), READING),
        (ConfigChoice(EVERYTHING, "other file"), READING),
        (CHOICE, Reading(MAP, lenient=True)),
        (CHOICE, Reading(MAP, labels="direct")),
        (CHOICE, Reading(MAP, program="another")),
        (CHOICE, Reading(MAP, overrides=(Override(("flags",), {}, "--x"),))),
    ],
)
def test_another_text_or_other_flags_are_read_anew(choice: ConfigChoice, reading: Reading) -> None:
    assert mark_of(choice, reading) != mark_of(CHOICE, READING)


def test_where_else_configurations_might_be_means_nothing() -> None:
    elsewhere = Reading(Wishes("other/map"))
    assert mark_of(CHOICE, elsewhere) == mark_of(CHOICE, READING)
    assert mark_of(ConfigChoice(EVERYTHING, "file", "key"), READING) == mark_of(CHOICE, READING)


def test_every_module_that_reads_is_in_the_mark() -> None:
    program = "import sys, tonnage.documents.device_plugin.config\n"
    program += "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('tonnage.')), sep='\\n')"
    said = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = {Path(line) for line in said.stdout.splitlines() if not line.endswith("__init__.py")}
    assert len(loaded) > 5
    assert loaded <= set(files_of(READERS))
