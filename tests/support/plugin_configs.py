"""Device-plugin configurations, parsed."""

from __future__ import annotations

import pytest

from tonnage.documents.device_plugin_config import parse_device_plugin_config
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.sharing import (
    PluginConfig,
)


def parsed(text: str) -> PluginConfig:
    return parse_device_plugin_config(text, source="f")


def refused(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    return caught.value.problems
