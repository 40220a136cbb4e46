"""Writes the tables of reasons into their page, and the schema of their facts; `--check` only compares."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Final

from scripts.drawing import between
from scripts.reason_schema import DIALECT, facts_schemas
from tonnage.model.catalog.messages import Message, messages
from tonnage.model.layer import Layer
from tonnage.model.reasons.reason import ManifestFault, NodeFault, Reason
from tonnage.model.reasons.registry import aliases, manifest_reasons, node_reasons, reasons

_REFERENCE: Final = Path(__file__).resolve().parents[1] / "docs" / "reference"
PAGE: Final = _REFERENCE / "reason-codes.md"
SCHEMA: Final = _REFERENCE / "reason-facts.schema.json"
_BEGIN: Final = "<!-- the {} are written by python -m scripts.generate_reason_codes -->\n"
_END: Final = "<!-- end of the {} -->\n"
_HEAD: Final = "| code | layer | meaning | what to do |\n|---|---|---|---|\n"
_ANY_LAYER: Final = "the one that asks for it"


def files() -> dict[Path, str]:
    """What the page and the schema should be, by path."""
    page = PAGE.read_text(encoding="utf-8")
    tables = {
        "reasons": _reasons(),
        "symptoms": _symptoms(),
        "node's findings": _findings(),
        "manifests' findings": _manifests(),
        "aliases": _aliases(),
    }
    for name, table in tables.items():
        page = between(page, _BEGIN.format(name), _END.format(name), f"\n{table}\n")
    return {PAGE: page, SCHEMA: _schema()}


def _schema() -> str:
    """A line a code."""
    rows = (f"{json.dumps(code)}: {json.dumps(schema)}" for code, schema in facts_schemas().items())
    return f'{{"$schema": "{DIALECT}", "$defs": {{\n' + ",\n".join(rows) + "\n}}\n"


def _reasons() -> str:
    """Reasons that say in their class what they mean."""
    rows = (
        f"| `{code}` | {_layers(cls)} | {_meaning(cls)} | {cls.advice} |\n"
        for code, cls in sorted(reasons().items())
        if cls.advice and not issubclass(cls, NodeFault | ManifestFault)
    )
    return _HEAD + "".join(rows)


def _symptoms() -> str:
    """The others, which the catalogue of messages explains."""
    rows = (
        f"| `{code}` | {m.layer} | {m.meaning} | {m.remedy} |\n"
        for code, m in sorted(_explained().items())
        if not m.kind.advice
    )
    return _HEAD + "".join(rows)


def _explained() -> dict[str, Message]:
    """The first message of each code."""
    first: dict[str, Message] = {}
    for message in messages():
        first.setdefault(message.code, message)
    return first


def _findings() -> str:
    """What doctor finds, by the code that it prints, explained by the catalogue where that has it, too."""
    explained, rows = _explained(), []
    for cls in node_reasons():
        message = None if cls.advice else explained[cls.code]
        meaning, advice = (message.meaning, message.remedy) if message else (_meaning(cls), cls.advice)
        rows.append(f"| `{cls.alias or cls.code}` | {cls.node_layer} | {meaning} | {advice} |\n")
    return _HEAD + "".join(sorted(rows))


def _manifests() -> str:
    """What lint finds, by the code that it prints."""
    rows = (
        f"| `{cls.alias or cls.code}` | {cls.severity}, {cls.usual_layer()} | {_meaning(cls)} "
        f"| {cls.advice} |\n"
        for cls in manifest_reasons()
    )
    return _HEAD.replace("layer", "severity, layer") + "".join(sorted(rows))


def _aliases() -> str:
    rows = (f"| `{alias}` | `{cls.code}` |\n" for alias, cls in sorted(aliases().items()))
    return "| alias | code |\n|---|---|\n" + "".join(rows)


def _layers(cls: type[Reason]) -> str:
    layers = cls.layers
    if layers is None:
        default = cls.__dataclass_fields__["layer"].default
        layers = (default,) if isinstance(default, Layer) else ()
    return ", ".join(layers) or _ANY_LAYER


def _meaning(cls: type[Reason]) -> str:
    """The docstring as the cell of a table."""
    text = " ".join((cls.__doc__ or "").split()).removesuffix(".")
    return text[:1].lower() + text[1:] if text[1:2].islower() or text[1:2] == " " else text


def main() -> int:
    """Write the files, or with `--check` say which differ."""
    there = {path: path.read_text(encoding="utf-8") if path.exists() else "" for path in (PAGE, SCHEMA)}
    wanted = files()
    stale = [path for path, text in wanted.items() if there[path] != text]
    if "--check" in sys.argv[1:]:
        for path in stale:
            print(
                f"{path} differs from the reasons; run python -m scripts.generate_reason_codes",
                file=sys.stderr,
            )
        return 1 if stale else 0
    for path in stale:
        path.write_text(wanted[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
