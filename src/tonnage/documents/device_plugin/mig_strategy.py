"""A device-plugin configuration under another MIG strategy, as NVIDIA's variable MIG_STRATEGY has it."""

from __future__ import annotations

import json

from tonnage.documents.yaml.reader import parse_yaml
from tonnage.model.errors import ConfigError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text as text_at


def with_mig_strategy(text: str, strategy: str) -> str:
    """The text under that strategy; as it stands where it says so already, or makes no sense.

    >>> with_mig_strategy("version: v1\\n", "mixed")
    'version: v1\\nflags:\\n  migStrategy: mixed\\n'
    """
    config = _mapping(text)
    if config is None or (text_at(config, "flags", "migStrategy") or "none") == strategy:
        return text
    changed: JsonObject = {**config}
    flags = config.get("flags")
    changed["flags"] = {**(flags if isinstance(flags, dict) else {}), "migStrategy": strategy}
    if "flags" not in config:
        head = text or "version: v1\n"
        longer = f"{head}{'' if head.endswith(chr(10)) else chr(10)}flags:\n  migStrategy: {strategy}\n"
        if _mapping(longer) == changed:
            return longer
    return json.dumps(changed, indent=2) + "\n"  # comments are lost


def _mapping(text: str) -> JsonObject | None:
    try:
        value: JsonValue = parse_yaml(text, source="").value
    except ConfigError:
        return None
    if value is None:  # a comment alone
        return {"version": "v1"}
    return value if isinstance(value, dict) else None
