"""Fields that a built-in kind does not have, and values of another type: what strict decoding refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from tonnage.diagnose.lint.finding import Draft, QuoteText, RenameKey, UnwrapEntry
from tonnage.diagnose.lint.manifest_objects import ManifestObject, is_variable
from tonnage.diagnose.lint.rule_inputs import FieldShape, RuleInputs
from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.reasons.lint.manifests import FieldUnknown, ValueOfWrongType
from tonnage.model.severity import Severity

_TEXTS: Final = ("string", "time", "micro-time", "duration")
_NUMBERS: Final = ("int32", "int64")
_NO_TEXT: Final = re.compile(r"[yYnN]|[-+]?0o[0-7]+")
_MOST: Final = 100
_LATER: Final = "lint knows the fields of an older Kubernetes than the cluster's"
_GONE: Final[Mapping[Path, str]] = {
    ("resourceClaims", "source"): "replace it with the fields below it: since 1.31 there is no source",
}
"""(list, field) that older versions had -> what to write now."""


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings at every depth of an object of a built-in kind."""
    group, _, version = manifest.api_version.rpartition("/")
    type_name = inputs.shapes.kinds.get((group, version, manifest.kind), "")
    if type_name:
        drafts = _Walk(inputs.shapes.types, manifest).of(type_name, manifest.value, manifest.path)
        for draft, _ in zip(drafts, range(_MOST), strict=False):
            later = inputs.minor > inputs.shapes.minor and isinstance(draft.reason, FieldUnknown)
            yield replace(draft, severity=Severity.WARNING, why=_LATER) if later else draft


class _Walk:
    """Looks at an object along the fields of its type."""

    def __init__(self, types: Mapping[str, Mapping[str, FieldShape]], manifest: ManifestObject) -> None:
        self._types = types
        self._manifest = manifest

    def of(self, type_name: str, value: JsonObject, path: Path) -> Iterator[Draft]:
        fields = self._types.get(type_name)
        if fields is None:
            return
        for key, child in value.items():
            field = fields.get(key)
            if key.startswith("$"):
                continue  # a directive of a strategic merge patch
            if field is None:
                yield _unknown(key, list(fields), (*path, key), value)
            elif child is not None:
                yield from self._field(field, child, (*path, key))

    def _field(self, field: FieldShape, value: JsonValue, path: Path) -> Iterator[Draft]:
        if is_variable(value):
            return
        if field.type == "array":
            if not isinstance(value, list):
                yield _wrong(value, "a list", path)
                return
            for index, element in enumerate(value):
                yield from self._element(field.item, field.ref, element, (*path, index))
        elif field.type == "map":
            if not isinstance(value, dict):
                yield _wrong(value, "a mapping", path)
                return
            for name, element in value.items():
                if element is not None:
                    yield from self._element(field.item, field.ref, element, (*path, name))
        else:
            yield from self._element(field.type, field.ref, value, path)

    def _element(self, kind: str, ref: str, value: JsonValue, path: Path) -> Iterator[Draft]:
        if is_variable(value):
            return
        if kind == "object" or (ref and kind not in ("array", "map")):
            if isinstance(value, dict):
                yield from self.of(ref, value, path)
            elif value is not None:
                yield _wrong(value, "a mapping", path)
        elif kind in _TEXTS:
            if isinstance(value, bool | int | float):
                yield _number_for_text(self._written(value, path), path)
            elif isinstance(value, str):
                yield from self._read_otherwise(value, path)
            elif value is not None:
                yield _wrong(value, "a text", path)
        elif kind == "bool":
            if not isinstance(value, bool):
                yield _wrong(value, "true or false", path)
        elif kind in _NUMBERS and (isinstance(value, bool) or not isinstance(value, int)):
            yield _wrong(value, "a whole number", path)

    def _read_otherwise(self, value: str, path: Path) -> Iterator[Draft]:
        """What kubectl's YAML reads as no text, though most others do."""
        if _NO_TEXT.fullmatch(value):
            part = self._manifest.sheet.parts.part(self._manifest.document, path)
            if part is not None and not part.style:
                yield _number_for_text(value, path)

    def _written(self, value: bool | int | float, path: Path) -> str:
        """The value as it stands in the text: 010 is read as 8, yes as true."""
        sheet = self._manifest.sheet
        span = sheet.span(self._manifest.document, path)
        written = sheet.text[span.start : span.end] if span is not None else ""
        return str(value) if not written or written[0] in "&!" else written


def _unknown(key: str, names: list[str], path: Path, holder: JsonObject) -> Draft:
    meant = next((name for name in names if name.lower() == key.lower() and name not in holder), "")
    gone = _GONE.get(path[-3:-2] + path[-1:], "")
    inner = holder.get(key)
    unwraps = bool(gone) and isinstance(inner, dict) and len(inner) == 1 and inner.keys() <= {*names}
    return Draft(
        FieldUnknown(message=f"unknown field {key[:100]}", remedy=gone or nearest(key, names)),
        path,
        "kubectl refuses it; clients that do not validate drop it silently",
        UnwrapEntry(path) if unwraps else RenameKey(path, meant) if meant else None,
        on_key=True,
    )


def _wrong(value: JsonValue, expected: str, path: Path) -> Draft:
    shown = type(value).__name__ if isinstance(value, dict | list) else repr(value)[:60]
    words = {"dict": "a mapping", "list": "a list"}
    message = f"{expected} is expected, not {words.get(shown, shown)}"
    return Draft(ValueOfWrongType(message=message, expected=expected), path)


def _number_for_text(shown: str, path: Path) -> Draft:
    reason = ValueOfWrongType(
        message=f"a string is expected, but {shown[:60]} without quotes is not one",
        remedy=f'write "{shown[:60]}"',
        expected="a text",
    )
    return Draft(reason, path, "the API server refuses the object", QuoteText(path))
