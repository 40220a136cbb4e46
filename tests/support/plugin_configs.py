"""Device-plugin configurations, parsed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pydantic import BaseModel

from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.devices.sharing import (
    PluginConfig,
)
from tonnage.model.errors import ConfigError, Problem


def parsed(text: str) -> PluginConfig:
    return parse_device_plugin_config(text, source="f")


def refused(text: str) -> tuple[Problem, ...]:
    with pytest.raises(ConfigError) as caught:
        parsed(text)
    return caught.value.problems


ELSEWHERE = {"health"}
"""Sections with a page of their own."""


def fields(model: type[BaseModel]) -> Iterator[str]:
    """The keys of a document, those within others, too."""
    for name, field in model.model_fields.items():
        yield field.alias or name
        inner = [part for part in (field.annotation, *getattr(field.annotation, "__args__", ())) if part]
        for part in inner:
            if isinstance(part, type) and issubclass(part, BaseModel) and field.alias not in ELSEWHERE:
                yield from fields(part)
            for item in getattr(part, "__args__", ()):
                if isinstance(item, type) and issubclass(item, BaseModel):
                    yield from fields(item)
