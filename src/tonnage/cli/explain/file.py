"""`tonnage explain -f`: what would become of each object of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tonnage.cli.api_rules import api_server
from tonnage.cli.cluster import in_file
from tonnage.cli.manifests import read_manifests
from tonnage.diagnose.explain.explain import explain_manifest
from tonnage.diagnose.explain.refused_objects import explain_object, refused_objects
from tonnage.model.cluster import Manifest, Snapshot
from tonnage.model.errors import ConfigError
from tonnage.model.json import JsonValue
from tonnage.model.verdict import Explanation
from tonnage.reading.documents import makes_pods, manifests_from_documents, objects_in, with_claims_in


def explain_file(path: Path, snapshot: Snapshot, namespace: str, version: str) -> tuple[Explanation, ...]:
    """Refused objects that make no pods, or cannot be decoded, and then everything that makes pods.

    Raises:
        ConfigError: unreadable, or nothing in it makes a pod and nothing is refused.
    """
    documents, server = read_manifests(path), api_server()
    objects = [*objects_in(documents)]
    refused = refused_objects(objects, namespace, server)
    alone = [(obj, answer) for obj, answer in refused if not makes_pods(obj)]
    try:
        found, snapshot = _read(documents, snapshot, namespace)
    except ConfigError as error:
        if not refused:
            raise in_file(error, path) from None
        alone = [(obj, answer) for obj, answer in refused if not makes_pods(obj) or not answer.faults]
        broken = {id(obj) for obj, answer in refused if not answer.faults}
        rest = [obj for obj in objects if id(obj) not in broken]
        found, snapshot = _read_rest(rest, snapshot, namespace, path)
    return (
        *(explain_object(obj, answer) for obj, answer in alone),
        *(explain_manifest(one, snapshot, version=version, server=server) for one in found),
    )


def _read(
    documents: Sequence[JsonValue], snapshot: Snapshot, namespace: str
) -> tuple[tuple[Manifest, ...], Snapshot]:
    """What makes pods, and the cluster with what their claims come from. Raises ConfigError."""
    snapshot = with_claims_in(documents, snapshot, namespace=namespace)
    classes = snapshot.priority_classes
    return manifests_from_documents(documents, namespace=namespace, classes=classes), snapshot


def _read_rest(
    rest: Sequence[JsonValue], snapshot: Snapshot, namespace: str, path: Path
) -> tuple[tuple[Manifest, ...], Snapshot]:
    """The same of what can be decoded, which need not make pods. Raises ConfigError."""
    if not any(isinstance(obj, dict) and makes_pods(obj) for obj in rest):
        return (), snapshot
    try:
        return _read(rest, snapshot, namespace)
    except ConfigError as error:
        raise in_file(error, path) from None
