"""The page on security has every field of a configuration, and the tests that it names are there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from support.plugin_configs import fields
from tonnage.documents.device_plugin.schema import DevicePluginConfig
from tonnage.documents.mig.hooks import _Clients, _Hook

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/explanation/security.md").read_text(encoding="utf-8")
NUMBERS_AND_SWITCHES = {
    "passDeviceSpecs",
    "failOnInitError",
    "useNodeFeatureAPI",
    "oneshot",
    "noTimestamp",
    "renameByDefault",
    "failRequestsGreaterThanOne",
    "dynamicMig",
    "consumableShares",
    "replicas",
    "required",
}
SECTIONS = {"flags", "plugin", "gfd", "resources", "gpus", "mig", "sharing", "timeSlicing", "mps", "imex"}


def test_every_field_of_a_configuration_with_a_text_is_in_the_table() -> None:
    """A new one must not reach a path, a program or a container without a word on what guards it."""
    section = PAGE.partition("## Where a configuration's text goes\n")[2].partition("\n## ")[0]
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| ")]
    named = set(re.findall(r"\w+", " ".join(cells)))
    known = set(fields(DevicePluginConfig)) - NUMBERS_AND_SWITCHES - SECTIONS
    assert {"nvidiaCTKPath", "mpsRoot", "rename", "channelIDs"} < known
    assert known - named == set()


def test_every_field_of_hooks_is_in_the_table() -> None:
    assert [name for name in _Hook.model_fields if f"`{name}`" not in PAGE] == []
    assert {*_Clients.model_fields} == {"version", "systemd_services"}


def test_every_test_that_the_page_names_is_there() -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)
    assert len(named) > 8
    missing = [f"{file}::{name}" for file, name in named if name not in _functions(ROOT / file)]
    assert missing == []


def _functions(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
