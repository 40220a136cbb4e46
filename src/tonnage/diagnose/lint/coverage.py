"""What of the texts no rule looks at, so that nothing passes for good because nobody judged it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from tonnage.diagnose.lint.finding import TextPlace
from tonnage.diagnose.lint.manifest_objects import ManifestObject, pods_of, resources_of, wordless_documents
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.diagnose.lint.rules import cluster_policy, device_plugin, mig_parted
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.diagnose.missing_kinds import unread_text
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.resource_claims import BETA_VERSIONS

_CHART: Final = "helm template RELEASE CHART -f values.yaml | tonnage lint -"
_KUSTOMIZE: Final = "kustomize build FOLDER | tonnage lint -"
_WHOLE: Final = frozenset({("nvidia.com", "ClusterPolicy")})
"""Kinds of others that have a rule for the whole of them."""
_PARTS: Final = {
    (
        "kubelet.config.k8s.io",
        "KubeletConfiguration",
    ): "only the managers of topology, CPUs, memory and devices, and what is reserved for them",
}
"""Kinds of which rules look at some fields -> at which."""


@dataclass(frozen=True, slots=True)
class UnjudgedPart:
    """An object, or a document that is none, that no rule looks at; `partly`: some rules do."""

    place: TextPlace
    subject: str
    message: str
    remedy: str = ""
    partly: bool = False

    def to_json(self) -> JsonObject:
        """As `lint -o json` lists it."""
        return {
            "file": self.place.file,
            "line": self.place.line,
            "column": self.place.column,
            "subject": self.subject,
            "partly": self.partly,
            "message": self.message,
            "remedy": self.remedy,
        }


@dataclass(frozen=True, slots=True)
class UnreadKind:
    """A kind that was not read: no object, or none outside the namespace `seen_in`."""

    kind: str
    seen_in: str | None
    text: str

    def to_json(self) -> JsonObject:
        """As `lint -o json` lists it."""
        return {"kind": self.kind, "seenIn": self.seen_in}


def unread_of(snapshot: Snapshot) -> tuple[UnreadKind, ...]:
    """What was not read of a cluster: what the API server refused, and what a list of objects lacks."""
    unlisted = snapshot.missing if not snapshot.complete else frozenset[str]()
    kinds = sorted(snapshot.forbidden | snapshot.scopes.keys() | unlisted)
    return tuple(UnreadKind(kind, snapshot.scopes.get(kind), unread_text(kind, snapshot)) for kind in kinds)


def unjudged_documents(sheet: Sheet) -> Iterator[UnjudgedPart]:
    """Documents, and elements of Lists, that are no mappings: a list, a number, a text."""
    for number, path, value in wordless_documents(sheet):
        line, column = sheet.place(number, path)
        words = "a list" if isinstance(value, list) else "one value"
        message = f"{words}, not an object with apiVersion and kind"
        yield UnjudgedPart(TextPlace(sheet.name, line, column, path), "", message)


def unjudged_part(manifest: ManifestObject, inputs: RuleInputs) -> UnjudgedPart | None:
    """What is not judged of an object; None when all of it is."""
    if not manifest.kind:
        return None if is_configuration(manifest, inputs) else _without_kind(manifest)
    if inputs.shapes.knows(manifest.api_version, manifest.kind):
        return None
    kind = (manifest.group, manifest.kind)
    if "cdiVersion" in manifest.value:
        return _part(manifest, "it is a CDI specification", f"tonnage cdi validate {manifest.sheet.name}")
    if kind in _WHOLE:
        return None
    if kind in _PARTS:
        return _part(manifest, _PARTS[kind], partly=True)
    versions = inputs.shapes.versions(*kind)
    if versions:
        message = f"lint knows {' and '.join(versions)} of {manifest.kind}, not {manifest.api_version[:60]}"
        if manifest.api_version in BETA_VERSIONS:
            return _part(manifest, message, f"tonnage convert {manifest.sheet.name} writes {versions[-1]}")
        return _part(manifest, message, f"write {versions[-1]}, or ask: kubectl api-resources")
    unknown = f"lint does not know {manifest.kind[:60]} of {manifest.api_version[:60] or 'no apiVersion'}"
    ask = "kubectl apply --dry-run=server -f FILE asks a cluster that has the kind"
    if any(pods_of(manifest)) or any(resources_of(manifest)):
        return _part(manifest, f"{unknown}: only its pods and resources", ask, partly=True)
    return _part(manifest, unknown, ask)


def is_configuration(manifest: ManifestObject, inputs: RuleInputs) -> bool:
    """Whether it is one of those that have no kind, or a patch of a ConfigMap with one in its data."""
    return (
        device_plugin.is_config(manifest.value)
        or mig_parted.is_config(manifest, inputs)
        or device_plugin.holds_config(manifest.value)
        or cluster_policy.is_values(manifest)
        or any(inner.sheet.host is manifest.sheet for inner in inputs.items)
    )


def _without_kind(manifest: ManifestObject) -> UnjudgedPart:
    name = PurePosixPath(manifest.sheet.name).name.lower().rpartition(".")[0]
    if name == "chart" or "values" in name:
        return _part(manifest, "it looks like a file of a Helm chart, not an object", _CHART)
    if name == "kustomization":
        return _part(manifest, "it is kustomize's own file, not an object", _KUSTOMIZE)
    message = "neither a Kubernetes object (kind is missing) nor a configuration that lint knows"
    return _part(manifest, message)


def _part(manifest: ManifestObject, message: str, remedy: str = "", *, partly: bool = False) -> UnjudgedPart:
    line, column = manifest.sheet.place(manifest.document, manifest.path)
    place = TextPlace(manifest.sheet.name, line, column, manifest.path)
    return UnjudgedPart(place, manifest.subject.strip(), message, remedy, partly)
