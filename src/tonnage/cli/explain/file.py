"""`tonnage explain -f`: what would become of each object of a file."""

from __future__ import annotations

from pathlib import Path

from tonnage.cli.api_rules import api_server
from tonnage.cli.lint.lint_context import shapes
from tonnage.cli.locations.labs_and_scenarios import read_text
from tonnage.diagnose.explain.admission.refused_objects import explain_objects, refused_objects
from tonnage.diagnose.explain.admission.wrong_types import with_places, wrong_types
from tonnage.diagnose.explain.replicas.answers import explain_together
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.verdict import Explanation
from tonnage.reading.documents import objects_in
from tonnage.reading.manifests import added_manifests, read_manifests


def explain_file(path: Path, snapshot: Snapshot, namespace: str, version: str) -> tuple[Explanation, ...]:
    """Refused objects that make no pods, or cannot be decoded, and then everything that makes pods.

    Raises:
        ConfigError: unreadable, or nothing in it makes a pod and nothing is refused.
    """
    text = read_text(path)
    documents, server = read_manifests(text, str(path)), api_server()
    refused = refused_objects(objects_in(documents), namespace, server)
    manifests, snapshot = added_manifests(documents, str(path), snapshot, namespace, refused)
    explanations = (
        *explain_objects(refused, manifests),
        *explain_together(manifests, snapshot, version=version, server=server),
    )
    if all(answer.faults for _, answer in refused):
        return explanations
    sheet = Sheet("stdin" if str(path) == "-" else str(path), text)
    return tuple(with_places(explanations, wrong_types(sheet, refused, namespace, shapes())))
