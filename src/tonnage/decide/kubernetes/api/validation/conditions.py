"""Conditions in a status, of the form that kinds share.

Source: k8s.io/apimachinery pkg/apis/meta/v1/validation (ValidateConditions), 1.35.
"""

from __future__ import annotations

import re
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.problems import (
    complaints,
    duplicate,
    invalid,
    required,
    too_long,
    unsupported,
)
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.model.json import JsonObject
from tonnage.model.json_access import number, text
from tonnage.model.kubernetes.name_words import pattern_complaint

STATES: Final = ("False", "True", "Unknown")
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_OF_REASON: Final = (
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'"
)
_REASONS: Final = ("my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB")
_LONGEST_REASON: Final = 1024
_LONGEST_MESSAGE: Final = 32 * 1024


def conditions(entries: list[JsonObject], path: str) -> FieldErrors:
    """Conditions, one of a type."""
    types: set[str] = set()
    for index, condition in enumerate(entries):
        where, kind = f"{path}[{index}]", text(condition, "type")
        if kind in types:
            yield duplicate(f"{where}.type", kind)
        types.add(kind)
        yield from complaints(f"{where}.type", kind, names.qualified_name(kind))
        if (state := text(condition, "status")) not in STATES:
            yield unsupported(f"{where}.status", state, STATES)
        if (generation := number(condition, "observedGeneration")) < 0:
            words = "must be greater than or equal to zero"
            yield invalid(f"{where}.observedGeneration", generation, words)
        if condition.get("lastTransitionTime") is None:
            yield required(f"{where}.lastTransitionTime")
        yield from _reason(text(condition, "reason"), f"{where}.reason")
        if len(text(condition, "message").encode()) > _LONGEST_MESSAGE:
            yield too_long(f"{where}.message", _LONGEST_MESSAGE)


def _reason(reason: str, path: str) -> FieldErrors:
    if not reason:
        yield required(path)
        return
    if not re.fullmatch(_REASON, reason):
        yield invalid(path, reason, pattern_complaint(_OF_REASON, _REASON, *_REASONS))
    if len(reason.encode()) > _LONGEST_REASON:
        yield too_long(path, _LONGEST_REASON)
