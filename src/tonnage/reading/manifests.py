"""Manifests that are added to a cluster, read strictly as the API server does: each problem with its line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.reader import MarkedDocument, Path, parse_yaml_all
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.api_answer import ApiAnswer
from tonnage.model.kubernetes.cluster import Manifest, Snapshot
from tonnage.reading.added_objects import with_objects_in
from tonnage.reading.custom_workloads import is_custom
from tonnage.reading.documents import (
    makes_pods,
    manifests_from_documents,
    objects_in,
)
from tonnage.wire.schema import Schema, load_schema

_MAKES_PODS: Final = {
    "Pod": "v1",
    "Deployment": "apps/v1",
    "ReplicaSet": "apps/v1",
    "ReplicationController": "v1",
    "StatefulSet": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
}


def read_manifests(text: str, file: str) -> list[JsonValue]:
    """Every document of a YAML or JSON text, its built-in kinds checked for unknown fields.

    Raises:
        ConfigError: unreadable, a field that the API does not have, or a version that it does not serve.
    """
    documents = parse_yaml_all(text, source="stdin" if file == "-" else file)
    schema = load_schema()
    problems = [
        problem for document in documents for problem in _misspelt(schema, document, document.value, ())
    ]
    if problems:
        raise ConfigError(*problems)
    return [document.value for document in documents]


def added_manifests(
    documents: Sequence[JsonValue],
    snapshot: Snapshot,
    namespace: str,
    refused: Sequence[tuple[JsonObject, ApiAnswer]] = (),
    *,
    may_be_none: bool = False,
) -> tuple[tuple[Manifest, ...], Snapshot]:
    """The manifests among documents, and the cluster with the objects that come beside them.

    `refused`: objects that the API server refuses. One that the server cannot decode does not keep the
    others from being read, and documents with any need not have a manifest. `may_be_none`: nor any others.

    Raises:
        ConfigError: an object cannot be read, or nothing makes a pod; places are those of the documents.
    """
    try:
        unserved = [obj for obj, _ in refused]
        beside = [_without(document, unserved) for document in documents]
        extended = with_objects_in(beside, snapshot, namespace=namespace)
        classes = extended.priority_classes
        manifests = manifests_from_documents(
            documents, namespace=namespace, classes=classes, may_be_none=may_be_none
        )
        return manifests, extended
    except ConfigError:
        if not refused:
            raise
    undecoded = [obj for obj, answer in refused if not answer.faults]
    rest = [_without(document, undecoded) for document in documents]
    if not any(map(makes_pods, objects_in(rest))):
        return (), snapshot
    return added_manifests(rest, snapshot, namespace)


def _without(document: JsonValue, objects: Sequence[JsonObject]) -> JsonValue:
    """The document without some of its objects; the others keep their places."""
    if not objects or not isinstance(document, dict):
        return document
    items = document.get("items")
    if isinstance(items, list) and str(document.get("kind", "")).endswith("List"):
        return {**document, "items": [_without(element, objects) for element in items]}
    return {} if document in objects else document


def _misspelt(schema: Schema, document: MarkedDocument, value: JsonValue, path: Path) -> Iterator[Problem]:
    """Problems of one object, or of every item of a List."""
    if not isinstance(value, dict):
        return
    kind, version = str(value.get("kind", "")), str(value.get("apiVersion", ""))
    items = value.get("items")
    if kind.endswith("List") and isinstance(items, list):
        for index, element in enumerate(items):
            yield from _misspelt(schema, document, element, (*path, "items", index))
        return
    group, _, number = version.rpartition("/")
    row = schema.kind(group, number, kind)
    if row is not None and row.type:
        yield from _unknown(schema, row.type, document, value, path)
    elif kind in _MAKES_PODS and not is_custom(version):
        problem = f"no kind {kind} in version {version[:60]}" if version else "required field is missing"
        yield Problem(
            problem,
            document.where((*path, "apiVersion")),
            remedy=f"write apiVersion: {_MAKES_PODS[kind]}",
        )


def _unknown(
    schema: Schema, type_name: str, document: MarkedDocument, value: JsonValue, path: Path
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
            for index, element in enumerate(child):
                yield from _unknown(schema, ref, document, element, (*at, index))
        elif fields[key].type == "map" and isinstance(child, dict):
            for name, element in child.items():
                yield from _unknown(schema, ref, document, element, (*at, name))
