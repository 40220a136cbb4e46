"""Writes the keys of NVIDIA's gpu-operator chart into values.schema.json; `--check` only compares."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tonnage.model.catalog.cluster_policy import operator_values
from tonnage.model.catalog.definition_fields import ANY_KEY, Field

SCHEMA: Final = Path(__file__).resolve().parents[1] / "deploy" / "helm" / "tonnage" / "values.schema.json"
OUR_OWN: Final = frozenset({"cdi", "migManager"})
"""Keys that Tonnage's chart has of its own as well; the schema says by hand what they are together."""
_TYPES: Final = {"bool": "boolean", "text": "string", "whole": "integer"}
_LINE: Final = '    "{}": '
_FIRST: Final = "global"


def schema_of(field: Field) -> dict[str, Any]:
    """What a value may be; null stands for what is not set."""
    if isinstance(field, tuple):
        return {"type": ["array", "null"], "items": schema_of(field[0])}
    if isinstance(field, Mapping) and ANY_KEY in field:
        return {"type": ["object", "null"], "additionalProperties": schema_of(field[ANY_KEY])}
    if isinstance(field, Mapping):
        fields = {key: schema_of(inner) for key, inner in field.items()}
        return {"type": ["object", "null"], "additionalProperties": False, "properties": fields}
    if field in _TYPES:
        return {"type": [_TYPES[field], "null"]}
    return {"enum": [None, *field[1:-1].split("|")]} if field.startswith("|") else {}


def text() -> str:
    """The schema's text, with a line for each of those keys behind the first one."""
    fields = {key: field for key, field in operator_values().fields.items() if key not in OUR_OWN}
    names = "|".join(map(re.escape, fields))
    kept = re.sub(rf'^    "({names})": .*\n', "", SCHEMA.read_text(encoding="utf-8"), flags=re.MULTILINE)
    first = re.search(rf'^    "{_FIRST}": .*\n', kept, re.MULTILINE)
    assert first is not None
    lines = "".join(f"{_LINE.format(key)}{json.dumps(schema_of(field))},\n" for key, field in fields.items())
    return kept[: first.end()] + lines + kept[first.end() :]


def main() -> int:
    """Write the file, or with `--check` say whether it differs."""
    wanted = text()
    if "--check" in sys.argv[1:]:
        if SCHEMA.read_text(encoding="utf-8") != wanted:
            print(f"{SCHEMA} is out of date; run python scripts/generate_chart_schema.py", file=sys.stderr)
            return 1
        return 0
    SCHEMA.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
