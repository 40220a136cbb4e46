"""Values of a wrong type: the API server names the first without a line, here all have their places."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, items_of, pods_of
from tonnage.diagnose.lint.rule_inputs import KindFields, RuleInputs
from tonnage.diagnose.lint.rules import quotas
from tonnage.diagnose.lint.rules.fields import of_manifest
from tonnage.diagnose.lint.rules.requests import unreadable_amounts
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.documents.yaml.reader import field_path
from tonnage.model.layer import Layer
from tonnage.model.reasons.lint.manifests import QuantityUnreadable, ValueOfWrongType
from tonnage.model.reasons.pod.admission import ObjectRefused, Unreadable
from tonnage.model.verdict import Explanation, Remedy, Subject

_SOURCE: Final = "API server, decoding"
Named = tuple[str, str, str]
"""Kind, namespace and name of an object."""
WrongTypes = Mapping[Named, tuple[ObjectRefused, ...]]


def undecoded(explanations: Iterable[Explanation]) -> frozenset[Named]:
    """Every object that cannot be decoded, of those whose explanation has no place in a file."""
    return frozenset(
        _key_of(explanation.subject)
        for explanation in explanations
        if explanation.layer is Layer.ADMISSION
        and explanation.reasons
        and all(
            isinstance(reason, Unreadable) or (isinstance(reason, ObjectRefused) and not reason.field)
            for reason in explanation.reasons
        )
    )


def wrong_types(sheet: Sheet, subjects: Collection[Named], namespace: str, shapes: KindFields) -> WrongTypes:
    """What cannot be decoded of these objects in a text."""
    inputs = RuleInputs((), shapes, lambda _: None)
    by_object: dict[Named, tuple[ObjectRefused, ...]] = {}
    for manifest in items_of(sheet, namespace) if subjects and sheet.readable else ():
        if (manifest.kind, manifest.namespace, manifest.name) not in subjects:
            continue
        by_object[manifest.kind, manifest.namespace, manifest.name] = tuple(
            _reason(draft.reason, sheet, manifest.document, draft.path, manifest.path, manifest.subject)
            for draft in _undecodable(manifest, inputs)
            if isinstance(draft.reason, ValueOfWrongType | QuantityUnreadable)
        )
    return by_object


def _key_of(subject: Subject) -> Named:
    return subject.kind, subject.namespace, subject.name


def _undecodable(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    yield from of_manifest(manifest, inputs)
    yield from quotas.of_manifest(manifest, inputs)
    for site in pods_of(manifest):
        yield from unreadable_amounts(site)


def with_places(explanations: Sequence[Explanation], types: WrongTypes) -> Iterator[Explanation]:
    """The explanations, of which those that cannot be decoded say where and why."""
    for explanation in explanations:
        reasons = types.get(_key_of(explanation.subject), ())
        if not reasons:
            yield explanation
            continue
        remedies = dict.fromkeys(reason.remedy for reason in reasons if reason.remedy)
        yield replace(
            explanation,
            message=f"the API server cannot decode it: {reasons[0].message}",
            reasons=reasons,
            remedies=tuple(Remedy(action, "") for action in remedies) or explanation.remedies,
        )


def _reason(
    reason: ValueOfWrongType | QuantityUnreadable,
    sheet: Sheet,
    document: int,
    path: tuple[str | int, ...],
    outer: tuple[str | int, ...],
    subject: str,
) -> ObjectRefused:
    line, column = sheet.place(document, path)
    field = field_path(path[len(outer) :])
    return ObjectRefused(
        subject=subject,
        message=f"{sheet.name}:{line}:{column} {field}: {reason.message}",
        remedy=f"{field}: {reason.remedy}" if reason.remedy else "",
        source=_SOURCE,
        field=field,
    )
