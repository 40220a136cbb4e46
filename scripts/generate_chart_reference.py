"""Writes docs/reference/chart-values.md from the chart's values and schema; `--check` only compares."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).resolve().parents[1]
CHART: Final = ROOT / "deploy" / "helm" / "tonnage"
PAGE: Final = ROOT / "docs" / "reference" / "chart-values.md"
REFUSAL: Final = "unset: "
"""How the schema's only text for a key begins that Tonnage cannot honour."""
_HEAD: Final = """\
# Values of the Helm chart

Written by `scripts/generate_chart_reference.py` from the comments in `deploy/helm/tonnage/values.yaml`; how
to install is in [Install Tonnage on a cluster](../how-to/install.md). `values.schema.json` is strict: a key
that is not here, or a value of another type, is refused by `helm install`, `upgrade`, `template` and `lint`,
all of them at once.

| value | default | meaning |
|---|---|---|
"""
_REFUSED: Final = """
## Refused keys of NVIDIA's device-plugin chart

A values file of NVIDIA's chart may be used as it is where its keys mean the same here. These do not (yet),
and are refused with their reason instead of being ignored:

| key | accepted | because |
|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Value:
    """A value with its comment; `text` is empty where it has none."""

    path: str
    default: Any
    text: str


def values() -> Iterator[Value]:
    """Every value of values.yaml in its order. A mapping with a comment is one value."""
    text = (CHART / "values.yaml").read_text(encoding="utf-8")
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    assert isinstance(node, yaml.MappingNode)
    yield from _below(node, yaml.load(text, yaml.CSafeLoader), text.splitlines(), ())


def _below(
    node: yaml.MappingNode, default: Any, lines: list[str], parents: tuple[str, ...]
) -> Iterator[Value]:
    for key, child in node.value:
        path = (*parents, str(key.value))
        comment = _comment(lines, key.start_mark.line)
        if not comment and isinstance(child, yaml.MappingNode):
            yield from _below(child, default[key.value], lines, path)
        else:
            yield Value(".".join(path), default[key.value], comment)


def _comment(lines: list[str], at: int) -> str:
    """The comment right above a line."""
    found: list[str] = []
    while at and (line := lines[at - 1].strip()).startswith("#"):
        found.append(line.removeprefix("#").strip())
        at -= 1
    return " ".join(reversed(found))


def refused() -> list[tuple[str, str, str]]:
    """(key, values that are accepted, why no other is) of the keys that the schema names to refuse them."""
    schema = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
    return list(_refused_below(schema, ()))


def _refused_below(schema: dict[str, Any], parents: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    for name, child in schema.get("properties", {}).items():
        path = (*parents, name)
        texts = [text for text in child.get("enum", ()) if isinstance(text, str)]
        if why := [text.removeprefix(REFUSAL) for text in texts if text.startswith(REFUSAL)]:
            rest = [value for value in child["enum"] if value is not None and value not in texts[-1:]]
            yield ".".join(path), ", ".join(f"`{json.dumps(value)}`" for value in rest), why[0]
        yield from _refused_below(child, path)


def _page() -> str:
    rows = [f"| `{value.path}` | {_shown(value.default)} | {_cell(value.text)} |" for value in values()]
    no = [f"| `{key}` | {accepted} | {_cell(why)} |" for key, accepted, why in refused()]
    return _HEAD + "\n".join(rows) + "\n" + _REFUSED + "\n".join(no) + "\n"


def _shown(default: Any) -> str:
    text = json.dumps(default)
    return f"`{text}`" if len(text) <= 60 else "see `values.yaml`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the page, or with `--check` say whether it is up to date."""
    page = _page()
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page:
            return 0
        print(
            f"{PAGE} differs from the chart; run python scripts/generate_chart_reference.py", file=sys.stderr
        )
        return 1
    PAGE.write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
