"""What was read in a configuration, kept beside its text: the next start needs no reader of documents.

That one takes 0.1 s and 10 MB, and kubelet waits.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Final

import msgspec

from tonnage.agent.config.reading import Reading
from tonnage.decide.node.choose_config import ConfigChoice, Wishes
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.json import JsonObject, JsonValue

READERS: Final = (
    "agent/config/reading.py",
    "documents/yaml/bounds.py",
    "documents/yaml/field_words.py",
    "documents/device_plugin/*.py",
    "documents/durations.py",
    "documents/nearest.py",
    "documents/yaml/source.py",
    "documents/yaml/syntax.py",
    "documents/yaml/reader.py",
    "documents/yaml/spelling.py",
    "model/*.py",
    "model/devices/*.py",
    "model/kubernetes/*.py",
    "model/mig/*.py",
    "model/node/*.py",
    "model/reasons/reason.py",
    "model/reasons/facts.py",
    "model/reasons/lint/lint_rule.py",
    "model/reasons/node/runtime_plans.py",
    "model/catalog/xids.py",
    "model/catalog/xids.toml",
)
"""Every file of the package that says what a text means."""


def mark_of(choice: ConfigChoice, reading: Reading) -> str:
    """Another text whenever this choice might be read otherwise: by other flags, or by another program."""
    anywhere = replace(reading, wishes=Wishes(""))
    return hashlib.sha256(repr((choice.text, choice.source, anywhere)).encode()).hexdigest()


def remembered(config: PluginConfig, mark: str) -> JsonObject:
    """What `recalled` takes."""
    decided: JsonValue = msgspec.to_builtins(config, str_keys=True)
    return {"mark": mark, "config": decided}


def recalled(value: object, mark: str) -> PluginConfig | None:
    """The configuration if it was remembered under that mark; None when its text must be read."""
    if not isinstance(value, dict) or value.get("mark") != mark:
        return None
    try:
        return msgspec.convert(value.get("config"), PluginConfig, str_keys=True)
    except msgspec.ValidationError:
        return None
