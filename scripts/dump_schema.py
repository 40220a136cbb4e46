"""Writes the JSON Schema of `tonnage node --dump`: python -m scripts.dump_schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from tonnage.agent.dump import NodeDump

FILE: Final = Path(__file__).resolve().parents[1] / "docs/reference/node-dump.schema.json"


def dump_schema() -> Any:
    """The schema as JSON has it: without docstrings, and with a default that is a set in order."""
    return json.loads(json.dumps(_plain(msgspec.json.schema(NodeDump))))


def _plain(node: Any) -> Any:
    if isinstance(node, dict):
        return {
            name: sorted(child) if name == "default" and isinstance(child, list) else _plain(child)
            for name, child in node.items()
            if not (name == "description" and isinstance(child, str))
        }
    return [_plain(child) for child in node] if isinstance(node, list | tuple) else node


if __name__ == "__main__":
    FILE.write_text(json.dumps(dump_schema(), indent=1, sort_keys=True) + "\n")
