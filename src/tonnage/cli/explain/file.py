"""`tonnage explain -f`: what would become of each object of the files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from tonnage.cli.api_rules import api_server
from tonnage.cli.lint.files import ReadableFile, read_files
from tonnage.cli.lint.lint_context import shapes
from tonnage.cli.terminal.output import say
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
from tonnage.model.reasons.pod.admission import ObjectRefused
from tonnage.model.verdict import Explanation, Subject
from tonnage.reading.custom_workloads import UNKNOWN_KIND, makes_none, why_undetermined
from tonnage.reading.documents import in_files, objects_in
from tonnage.reading.manifests import added_manifests, read_manifests


def explain_files(
    names: tuple[str, ...], snapshot: Snapshot, namespace: str, version: str, *, recursive: bool
) -> tuple[Explanation, ...]:
    """Refused objects that make no pods, or cannot be decoded, and then everything that makes pods.

    All files are created together, in their order. Objects whose pods nobody can count come last.

    Raises:
        ConfigError: unreadable, or nothing in them makes a pod and nothing is refused.
    """
    read = read_files(names, recursive=recursive)
    if read.problems:
        raise ConfigError(*read.problems)
    for note in read.notes:
        say(note, err=True)
    by_file = _documents(read.texts)
    documents = [document for _, some in by_file for document in some]
    objects = [*objects_in(documents)]
    server = api_server(objects)
    refused = refused_objects(objects, namespace, server)
    uncounted = tuple(_uncounted(read.texts, objects, namespace))
    try:
        manifests, snapshot = added_manifests(
            documents, snapshot, namespace, refused, may_be_none=bool(uncounted)
        )
    except ConfigError as error:
        raise in_files(error, [(name, len(some)) for name, some in by_file]) from None
    explanations = (
        *explain_objects(refused, manifests),
        *explain_together(manifests, snapshot, version=version, server=server),
        *uncounted,
    )
    subjects = undecoded(explanations)
    if not subjects:
        return explanations
    return tuple(with_places(explanations, _places(read.texts, subjects, shapes(objects), namespace)))


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
