"""Objects of `resource.k8s.io/v1beta1` and `v1beta2` in the form of v1, by edits of their text.

v1beta2 has the form of v1. In v1beta1 a request has its fields directly under it, and a device of a slice
has them under `basic`. The text that comes out is read again: where it does not say what v1 should, the
document is written anew, and its comments are lost.

Source: k8s.io/kubernetes pkg/apis/resource/v1beta1/conversion.go, 1.34 to 1.37.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.lint.finding import WrapEntries
from tonnage.diagnose.lint.fix import wrap_edits
from tonnage.diagnose.lint.manifest_objects import ManifestObject, at_path, items_of, mapping, mappings
from tonnage.diagnose.lint.sheet import Sheet, TextEdit
from tonnage.diagnose.migrate.text_changes import (
    DocumentChange,
    NotEditableError,
    block_lines,
    changed,
    edited,
    flow_text,
    text_edits,
)
from tonnage.documents.yaml.reader import Path
from tonnage.model.errors import ConfigError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.resource_claims import BETA_VERSIONS
from tonnage.model.reasons.pod.migration import VersionNotConverted

_GROUP: Final = "resource.k8s.io"
V1: Final = f"{_GROUP}/v1"
_FLAT_VERSION: Final = BETA_VERSIONS[0]
_KINDS: Final = ("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ResourceSlice")
REQUEST_FIELDS: Final = (
    "deviceClassName",
    "selectors",
    "allocationMode",
    "count",
    "adminAccess",
    "tolerations",
    "capacity",
)
_NEXT_DOCUMENT: Final = re.compile(r"^(?:---|\.\.\.)(?=\s|$)", re.MULTILINE)
_UNSET: Final = ("", False)
"""What v1beta1 has for `nodeName` and `allNodes` that are not set, and v1 refuses."""


@dataclass(frozen=True, slots=True)
class ConvertedObject:
    """An object of an older version, and why it stays; `anew`: without the comments of its document."""

    subject: str
    version: str
    refusal: VersionNotConverted | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True)
class ConvertedText:
    """A text with its objects of older versions; `text` is the old one where there are none."""

    sheet: Sheet
    objects: tuple[ConvertedObject, ...]
    text: str


def converted_text(sheet: Sheet) -> ConvertedText:
    """The text with every object of this group in the form of v1."""
    objects: list[ConvertedObject] = []
    edits: list[TextEdit] = []
    older = [part for part in items_of(sheet, "") if part.group == _GROUP and part.api_version != V1]
    for number in dict.fromkeys(part.document for part in older):
        parts = [part for part in older if part.document == number]
        convertible = [part for part in parts if part.api_version in BETA_VERSIONS and part.kind in _KINDS]
        own, anew = _document_edits(sheet, number, convertible) if convertible else ([], False)
        edits += own
        objects += (
            ConvertedObject(
                part.subject, part.api_version, None if part in convertible else _refusal(part), anew
            )
            for part in parts
        )
    return ConvertedText(sheet, tuple(objects), edited(sheet.text, edits))


def in_v1(value: JsonObject) -> JsonObject:
    """An object of v1beta1 or v1beta2 in the form of v1.

    >>> request = {"name": "gpu", "deviceClassName": "gpu.nvidia.com"}
    >>> claim = {"apiVersion": "resource.k8s.io/v1beta1", "kind": "ResourceClaim"}
    >>> in_v1({**claim, "spec": {"devices": {"requests": [request]}}})["spec"]
    {'devices': {'requests': [{'name': 'gpu', 'exactly': {'deviceClassName': 'gpu.nvidia.com'}}]}}
    """
    whole = mapping(changed(value, [DocumentChange(("apiVersion",), V1)]))
    if value.get("apiVersion") != _FLAT_VERSION:
        return whole
    for path, request in _requests((), value):
        fields: JsonObject = {key: request[key] for key in REQUEST_FIELDS if key in request}
        rest: JsonObject = {key: entry for key, entry in request.items() if key not in fields}
        if fields:
            whole = mapping(changed(whole, [DocumentChange(path, {**rest, "exactly": fields})]))
    for path, device in _devices((), value):
        rest = {key: entry for key, entry in device.items() if key != "basic"}
        whole = mapping(changed(whole, [DocumentChange(path, {**rest, **mapping(device.get("basic"))})]))
    return mapping(changed(whole, [DocumentChange(path) for path in _unset((), value)]))


def _refusal(part: ManifestObject) -> VersionNotConverted:
    message = f"{part.kind} is in v1 from Kubernetes 1.37 on"
    if part.kind in _KINDS:
        message = f"{part.api_version} is not known here; v1beta1 and v1beta2 are converted"
    return VersionNotConverted(
        subject=part.subject, message=message, version=part.api_version, kind=part.kind
    )


def _requests(path: Path, value: JsonValue) -> Iterator[tuple[Path, JsonObject]]:
    """Each request of a claim or template, with its path; none of other kinds."""
    kind = mapping(value).get("kind")
    above: Path = {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}.get(str(kind), ())
    if above:
        requests = at_path(value, (*above, "devices", "requests"))
        yield from (
            ((*path, *above, "devices", "requests", at), request) for at, request in mappings(requests)
        )


def _devices(path: Path, value: JsonValue) -> Iterator[tuple[Path, JsonObject]]:
    """Each device of a slice that has its fields under `basic`."""
    if mapping(value).get("kind") == "ResourceSlice":
        for at, device in mappings(at_path(value, ("spec", "devices"))):
            if isinstance(device.get("basic"), dict):
                yield (*path, "spec", "devices", at), device


def _unset(path: Path, value: JsonValue) -> Iterator[Path]:
    spec = mapping(mapping(value).get("spec"))
    if mapping(value).get("kind") == "ResourceSlice":
        for name in ("nodeName", "allNodes"):
            if name in spec and spec[name] in _UNSET:
                yield (*path, "spec", name)


def _document_edits(
    sheet: Sheet, number: int, parts: Sequence[ManifestObject]
) -> tuple[list[TextEdit], bool]:
    """The edits of one document, and whether it is written anew."""
    target = sheet.documents[number].value
    for part in parts:
        new = in_v1(part.value)
        target = changed(target, [DocumentChange(part.path, new)]) if part.path else new
    root = sheet.parts.part(number, ())
    assert root is not None
    if root.style == "flow":
        return [TextEdit(root.value.start, root.value.end, _flow(sheet, root.value.start, target))], False
    try:
        edits = [edit for part in parts for edit in _object_edits(part)]
    except NotEditableError:
        edits = []
    if edits and _says(edited(sheet.text, edits), sheet, number, target):
        return edits, False
    indent = root.value.column - 1
    lines = "\n".join([*block_lines(target, indent), ""]).lstrip()
    following = _NEXT_DOCUMENT.search(sheet.text, root.value.start)
    end = following.start() if following is not None else len(sheet.text)
    return [TextEdit(root.value.start, end, lines)], True


def _flow(sheet: Sheet, start: int, target: JsonValue) -> str:
    """JSON stays JSON."""
    if sheet.text[start:].lstrip("{ \n\t").startswith('"'):
        return json.dumps(target, indent=2, ensure_ascii=False)
    return flow_text(target)


def _says(text: str, sheet: Sheet, number: int, target: JsonValue) -> bool:
    try:
        again = Sheet(sheet.name, text)
    except ConfigError:
        return False
    documents = again.documents
    return again.readable and number < len(documents) and documents[number].value == target


def _object_edits(part: ManifestObject) -> Iterator[TextEdit]:
    """The edits of one object. Raises NotEditableError."""
    changes = [DocumentChange((*part.path, "apiVersion"), V1)]
    if part.api_version == _FLAT_VERSION:
        changes += [DocumentChange(path) for path in _unset(part.path, part.value)]
        for path, request in _requests(part.path, part.value):
            fields = tuple(key for key in REQUEST_FIELDS if key in request)
            if fields:
                yield from wrap_edits(WrapEntries(path, fields, "exactly"), part)
        for path, _ in _devices(part.path, part.value):
            yield from _unwrapped(part, (*path, "basic"))
    yield from text_edits(part.sheet, part.document, changes)


def _unwrapped(part: ManifestObject, path: Path) -> Iterator[TextEdit]:
    """The entries of a mapping in its place: its line goes, and theirs move to the left."""
    text, parts = part.sheet.text, part.sheet.parts
    outer, entries = parts.part(part.document, path), parts.entries(part.document, path)
    if outer is None or outer.key is None or outer.shared or not entries:
        raise NotEditableError("it is empty, or shared")
    if outer.style == "flow":
        device = parts.part(part.document, path[:-1])
        written = [text[own.key.start : own.value.end] for _, own in entries if own.key is not None]
        if "#" in text[outer.value.start : outer.value.end]:
            raise NotEditableError("the text may have a comment within braces there")
        within = device is not None and device.style == "flow"
        between = ", " if within else "\n" + " " * (outer.key.column - 1)
        yield TextEdit(outer.key.start, outer.value.end, between.join(written))
        return
    first = entries[0][1].key
    assert first is not None
    start = text.rfind("\n", 0, outer.key.start) + 1
    if text[start : outer.key.start].strip():
        raise NotEditableError("it stands behind a dash")
    begin = text.index("\n", outer.key.end) + 1
    moved, blanks = first.column - outer.key.column, " " * (first.column - outer.key.column)
    lines = text[begin : outer.value.end].split("\n")
    shifted = [line[moved:] if line.startswith(blanks) else line for line in lines]
    yield TextEdit(start, outer.value.end, "\n".join(shifted))
