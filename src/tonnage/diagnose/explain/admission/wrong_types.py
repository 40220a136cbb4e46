"""Values of a wrong type: the API server names the first without a line, here all have their places."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, items_of, pods_of
from tonnage.diagnose.lint.rule_inputs import KindFields, LintWorld
from tonnage.diagnose.lint.rules.fields import of_manifest
from tonnage.diagnose.lint.rules.requests import unreadable_amounts
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.documents.yaml.reader import field_path
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.api_answer import ApiAnswer
from tonnage.model.reasons.lint.manifests import QuantityUnreadable, ValueOfWrongType
from tonnage.model.reasons.pod.admission import ObjectRefused
from tonnage.model.verdict import Explanation, Remedy

_SOURCE: Final = "API server, decoding"
WrongTypes = Mapping[tuple[str, str], tuple[ObjectRefused, ...]]
"""By kind and name of the object."""


def wrong_types(
    sheet: Sheet, refused: Sequence[tuple[JsonObject, ApiAnswer]], namespace: str, shapes: KindFields
) -> WrongTypes:
    """What cannot be decoded in the refused objects of a text."""
    undecoded = [obj for obj, answer in refused if not answer.faults]
    world = LintWorld((), shapes, lambda _: None)
    by_object: dict[tuple[str, str], tuple[ObjectRefused, ...]] = {}
    for manifest in items_of(sheet, namespace) if undecoded and sheet.readable else ():
        if manifest.value not in undecoded:
            continue
        by_object[manifest.kind, manifest.name] = tuple(
            _reason(draft.reason, sheet, manifest.document, draft.path, manifest.path, manifest.subject)
            for draft in _undecodable(manifest, world)
            if isinstance(draft.reason, ValueOfWrongType | QuantityUnreadable)
        )
    return by_object


def _undecodable(manifest: ManifestObject, world: LintWorld) -> Iterator[Draft]:
    yield from of_manifest(manifest, world)
    for site in pods_of(manifest):
        yield from unreadable_amounts(site)


def with_places(explanations: Sequence[Explanation], types: WrongTypes) -> Iterator[Explanation]:
    """The explanations, of which those that cannot be decoded say where and why."""
    for explanation in explanations:
        reasons = types.get((explanation.subject.kind, explanation.subject.name), ())
        bare = all(isinstance(r, ObjectRefused) and not r.field for r in explanation.reasons)
        if not reasons or not explanation.reasons or not bare:
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
