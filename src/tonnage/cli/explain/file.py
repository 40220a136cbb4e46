"""`tonnage explain -f`: what would become of each object of the files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from tonnage.cli.api_rules import api_server
from tonnage.cli.lint.files import ReadableFile, read_files
from tonnage.cli.lint.lint_context import shapes
from tonnage.cli.terminal.output import say
from tonnage.decide.kubernetes.claims.supply import gates_shown
from tonnage.diagnose.explain.admission.refused_objects import explain_objects, refused_objects
from tonnage.diagnose.explain.admission.wrong_types import (
    Named,
    WrongTypes,
    undecoded,
    with_places,
    wrong_types,
)
from tonnage.diagnose.explain.replicas.answers import explain_together
from tonnage.diagnose.explain.replicas.uncounted import explain_uncounted
from tonnage.diagnose.lint.manifest_objects import items_of, pods_of
from tonnage.diagnose.lint.rule_inputs import KindFields
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.feature_gates import minor_of
from tonnage.model.reasons.pod.admission import ObjectRefused
from tonnage.model.verdict import Explanation, Subject
from tonnage.reading.custom_workloads import UNKNOWN_KIND, makes_none, why_undetermined
from tonnage.reading.documents import in_files, makes_pods, objects_in
from tonnage.reading.manifests import added_manifests, read_manifests


@dataclass(frozen=True, slots=True)
class ManifestFiles:
    """Files that are created together, and the documents of each."""

    texts: tuple[ReadableFile, ...]
    documents: tuple[tuple[str, list[JsonValue]], ...]

    @property
    def objects(self) -> list[JsonObject]:
        """Every object of the files, in their order."""
        return [*objects_in(document for _, some in self.documents for document in some)]

    def namespaces(self, default: str) -> tuple[str, ...]:
        """Where their pods are created, once each; `default` for those that do not say."""
        makers = [obj for obj in self.objects if makes_pods(obj)]
        return tuple(dict.fromkeys(_namespace_of(obj) or default for obj in makers)) or (default,)


def read_together(names: tuple[str, ...], *, recursive: bool) -> ManifestFiles:
    """The files that the names stand for. Raises ConfigError: one of them cannot be read."""
    read = read_files(names, recursive=recursive)
    if read.problems:
        raise ConfigError(*read.problems)
    for note in read.notes:
        say(note, err=True)
    return ManifestFiles(read.texts, tuple(_documents(read.texts)))


def explain_files(
    files: ManifestFiles, snapshot: Snapshot, namespace: str, version: str
) -> tuple[Explanation, ...]:
    """Refused objects that make no pods, or cannot be decoded, and then everything that makes pods.

    All files are created together, in their order. Objects whose pods nobody can count come last.

    Raises:
        ConfigError: nothing in them makes a pod and nothing is refused.
    """
    objects = files.objects
    documents = [document for _, some in files.documents for document in some]
    minor = minor_of(version or snapshot.server_version)
    gates = gates_shown(minor, snapshot.slices, snapshot.device_classes, snapshot.claims)
    server = api_server(objects, gates.as_features)
    refused = refused_objects(objects, namespace, server)
    uncounted = tuple(_uncounted(files.texts, objects, namespace))
    try:
        manifests, snapshot = added_manifests(
            documents, snapshot, namespace, refused, may_be_none=bool(uncounted)
        )
    except ConfigError as error:
        raise in_files(error, [(name, len(some)) for name, some in files.documents]) from None
    explanations = (
        *explain_objects(refused, manifests),
        *explain_together(manifests, snapshot, version=version, server=server),
        *uncounted,
    )
    subjects = undecoded(explanations)
    if not subjects:
        return explanations
    return tuple(with_places(explanations, _places(files.texts, subjects, shapes(objects), namespace)))


def _namespace_of(obj: JsonObject) -> str:
    metadata = obj.get("metadata")
    namespace = metadata.get("namespace") if isinstance(metadata, dict) else None
    return namespace if isinstance(namespace, str) else ""


def _documents(texts: Iterable[ReadableFile]) -> list[tuple[str, list[JsonValue]]]:
    """The documents of each file. Raises ConfigError: the problems of all of them."""
    by_file: list[tuple[str, list[JsonValue]]] = []
    problems: list[Problem] = []
    for text in texts:
        try:
            by_file.append((text.name, read_manifests(text.content, text.name)))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)
    return by_file


def _uncounted(
    texts: Iterable[ReadableFile], objects: Sequence[JsonObject], namespace: str
) -> Iterator[Explanation]:
    """What makes pods in a way that only its own controller knows."""
    kinds = shapes()
    versions = {(str(obj.get("apiVersion", "")), str(obj.get("kind", ""))) for obj in objects}
    if all(kinds.knows(*version) for version in versions):
        return
    for text in texts:
        for manifest in items_of(Sheet(text.name, text.content), namespace):
            if not manifest.kind or kinds.knows(manifest.api_version, manifest.kind):
                continue
            none = makes_none(manifest.value)
            why, remedy = ("", "") if none else why_undetermined(manifest.value, objects)
            if why and (why != UNKNOWN_KIND or any(pods_of(manifest))):
                yield explain_uncounted(
                    Subject(manifest.kind, manifest.namespace, manifest.name), why, remedy
                )


def _places(
    texts: Iterable[ReadableFile],
    subjects: Collection[Named],
    kinds: KindFields,
    namespace: str,
) -> WrongTypes:
    """What cannot be decoded, with its place in its file."""
    places: dict[Named, tuple[ObjectRefused, ...]] = {}
    for text in texts:
        places |= wrong_types(Sheet(text.name, text.content), subjects, namespace, kinds)
    return places
