"""Manifests as `explain -f` reads them: strictly, as kubectl's server does, each problem with its line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tonnage.cli.library import read_text
from tonnage.documents.nearest import nearest
from tonnage.documents.yaml_reader import Located, parse_yaml_all
from tonnage.documents.yaml_reader import Path as FieldPath
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonValue
from tonnage.wire.schema import Schema, load_schema

_MAKES_PODS: Final = {
    "Pod": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}


def read_manifests(path: Path) -> list[JsonValue]:
    """Every document of a YAML or JSON file (`-` is stdin), its built-in kinds checked for unknown fields.

    Raises:
        ConfigError: unreadable, a field that the API does not have, or a version that it does not serve.
    """
    documents = parse_yaml_all(read_text(path), source=_name(path))
    schema = load_schema()
    problems = [
        problem for document in documents for problem in _misspelt(schema, document, document.value, ())
    ]
    if problems:
        raise ConfigError(*problems)
    return [document.value for document in documents]


def _name(path: Path) -> str:
    return "stdin" if str(path) == "-" else str(path)


def _misspelt(schema: Schema, document: Located, value: JsonValue, path: FieldPath) -> Iterator[Problem]:
    """Problems of one object, or of every item of a List."""
    if not isinstance(value, dict):
        return
    kind, version = str(value.get("kind", "")), str(value.get("apiVersion", ""))
    items = value.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for index, item in enumerate(items):
            yield from _misspelt(schema, document, item, (*path, "items", index))
        return
    group, _, number = version.rpartition("/")
    row = schema.kind(group, number, kind)
    if row is not None and row.type:
        yield from _unknown(schema, row.type, document, value, path)
    elif kind in _MAKES_PODS:
        what = f"no kind {kind} in version {version[:60]}" if version else "required field is missing"
        yield Problem(
            what,
            document.where((*path, "apiVersion")),
            remedy=f"write apiVersion: {_MAKES_PODS[kind]}",
        )


def _unknown(
    schema: Schema, type_name: str, document: Located, value: JsonValue, path: FieldPath
) -> Iterator[Problem]:
    """Fields that the type does not have, at every depth."""
    if not isinstance(value, dict) or type_name not in schema.types:
        return
    fields = schema.types[type_name].fields
    for key, child in value.items():
        at = (*path, key)
        if key not in fields:
            yield Problem(f"unknown field {key[:100]}", document.where(at), remedy=nearest(key, list(fields)))
            continue
        ref = fields[key].ref
        if fields[key].type == "object":
            yield from _unknown(schema, ref, document, child, at)
        elif fields[key].type == "array" and isinstance(child, list):
            for index, item in enumerate(child):
                yield from _unknown(schema, ref, document, item, (*at, index))
        elif fields[key].type == "map" and isinstance(child, dict):
            for name, item in child.items():
                yield from _unknown(schema, ref, document, item, (*at, name))
