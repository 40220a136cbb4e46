"""The page on the device-plugin configuration has every field, and its defaults are the reader's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from support.plugin_configs import fields
from tonnage.cli.node.command import command
from tonnage.cli.node.nvidia_flags import PLUGIN_FLAGS, REFUSED_FLAGS
from tonnage.documents.device_plugin.schema import DevicePluginConfig, PluginFlags, PluginFlagsSection

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/device-plugin-config.md").read_text(
    encoding="utf-8"
)


def test_every_field_is_named() -> None:
    words = set(re.findall(r"\w+", PAGE))
    named = set(fields(DevicePluginConfig))
    assert {"replicas", "pattern", "channelIDs", "sleepInterval"} <= named
    assert named - words == set()


def test_variables_of_nvidias_other_programs_are_named_as_they_are_read() -> None:
    rows = re.findall(r"^\| (?:GPU feature discovery|config manager) \| (.*) \| (.*) \|$", PAGE, re.MULTILINE)
    taken, refused = (set(re.findall(r"`([A-Z_]+)`", " ".join(cells))) for cells in zip(*rows, strict=True))
    assert refused == {flag.variable for flag in REFUSED_FLAGS}
    of_flags = {name for flag in PLUGIN_FLAGS for name in flag.variables if name.startswith("GFD_")}
    assert of_flags <= taken | {"GFD_FAIL_ON_INIT_ERROR", "GFD_MIG_STRATEGY"}
    read = {str(name) for option in command.params for name in _names(option.envvar)}
    assert taken <= read | {"KUBECONFIG"}


def _names(given: str | Sequence[str] | None) -> Sequence[str]:
    return (given,) if isinstance(given, str) else given or ()


def test_defaults_are_what_is_read() -> None:
    rows = re.findall(r"^\| `(\w+)` \| .* \| `([^`|]+)` \| ", PAGE, re.MULTILINE)
    told = {name: value for name, value in rows if name != "nvidiaDevRoot"}
    read = {**_defaults(PluginFlagsSection), **_defaults(PluginFlags)}
    assert len(told) > 8
    assert told == {name: read[name] for name in told}


def _defaults(model: type[BaseModel]) -> dict[str, str]:
    return {
        field.alias or name: str(field.default).lower()
        if isinstance(field.default, bool)
        else str(field.default)
        for name, field in model.model_fields.items()
    }
