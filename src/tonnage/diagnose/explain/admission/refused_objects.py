"""What the API server's own rules refuse of a file's objects, beyond what Tonnage has a rule for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.case import ManifestFieldError
from tonnage.diagnose.field_help import field_help, kind_help
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.api_answer import ApiAnswer, ApiFault, ApiServer
from tonnage.model.kubernetes.cluster import Manifest
from tonnage.model.kubernetes.name_words import without_pattern
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.admission import ObjectRefused
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import Explanation, Remedy, Subject, Verdict

_SOURCE: Final = "API server, decoding and validation"
_RESOURCES: Final = ".resources."


@dataclass(frozen=True, slots=True)
class ObjectRefusal:
    """What stands against a manifest that is refused: `words` are the server's whole message.

    `beyond`: fields that no rule of Tonnage's names. `decoded`: whether the object could be read at all.
    `answer` is the server's.
    """

    words: str
    beyond: tuple[ManifestFieldError, ...]
    decoded: bool
    answer: ApiAnswer

    def fields(self, *, amounts_changed: bool) -> tuple[ManifestFieldError, ...]:
        """The fields beyond; a LimitRange that gives amounts comes before validation."""
        return tuple(error for error in self.beyond if not (amounts_changed and _RESOURCES in error.path))


def refusal_of(
    manifest: Manifest, subject: Subject, server: ApiServer | None, ruled: Iterable[ManifestFieldError]
) -> ObjectRefusal | None:
    """What the server refuses of a manifest out of a file; `ruled` is what rules say of it."""
    answer = server(manifest.document, manifest.pod.namespace) if server and manifest.document else None
    if answer is None or not answer.message:
        return None
    paths = {error.path for error in ruled}
    beyond = tuple(
        ManifestFieldError(fault.field, fault.text, _reason(subject, fault))
        for fault in answer.faults
        if fault.field not in paths
    )
    return ObjectRefusal(answer.message, beyond, bool(answer.faults), answer)


def refused_objects(
    objects: Iterable[JsonObject], namespace: str, server: ApiServer | None
) -> list[tuple[JsonObject, ApiAnswer]]:
    """The objects that the server refuses, with its answers."""
    if server is None:
        return []
    answers = ((obj, server(obj, namespace)) for obj in objects)
    return [(obj, answer) for obj, answer in answers if answer is not None and answer.message]


def explain_objects(
    refused: Iterable[tuple[JsonObject, ApiAnswer]], manifests: Iterable[Manifest]
) -> tuple[Explanation, ...]:
    """The refusals of objects that are none of the manifests: they make no pods, or cannot be decoded."""
    own = [manifest.document for manifest in manifests]
    return tuple(_explain_object(obj, answer) for obj, answer in refused if obj not in own)


def _explain_object(obj: JsonObject, answer: ApiAnswer) -> Explanation:
    metadata = obj.get("metadata")
    named = metadata if isinstance(metadata, dict) else {}
    name = named.get("name") or named.get("generateName")
    subject = Subject(_text(obj.get("kind")), answer.namespace, _text(name))
    return explain_answer(subject, answer)


def explain_answer(subject: Subject, answer: ApiAnswer) -> Explanation:
    """The server's refusal alone: nothing else is known of what it refuses."""
    reasons = tuple(_reason(subject, fault) for fault in answer.faults or answer.later)
    if not answer.faults:
        reasons = (_undecoded(subject, answer), *reasons)
    return Explanation(
        subject=subject,
        verdict=Verdict.NEVER,
        layer=Layer.ADMISSION,
        phase="",
        needs={},
        message=f"the API server refuses it: {reasons[0].message}",
        upstream_message=answer.message,
        reasons=reasons,
        remedies=tuple(Remedy(action, "") for action in dict.fromkeys(reason.remedy for reason in reasons)),
    )


def _reason(subject: Subject, fault: ApiFault) -> Reason:
    message = without_pattern(fault.words)
    remedy = f"correct {fault.field or 'the object'}: {field_help(subject.kind, fault.field)}"
    return ObjectRefused(
        subject=str(subject),
        message=message,
        remedy=remedy,
        source=_SOURCE,
        field=fault.field,
    )


def _undecoded(subject: Subject, answer: ApiAnswer) -> Reason:
    message = without_pattern(answer.message.partition(": ")[2] or answer.message)
    remedy = f"correct it: {kind_help(subject.kind)} lists fields and their types"
    return ObjectRefused(
        subject=str(subject),
        message=message,
        remedy=remedy,
        source=_SOURCE,
    )


def _text(value: JsonValue) -> str:
    return value if isinstance(value, str) else ""
