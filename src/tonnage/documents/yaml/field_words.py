"""What is wrong with a field, in plain words, where the model says it by a code and its bounds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic_core import ErrorDetails

from tonnage.documents.nearest import nearest_word

_EXPECTED_BY_CODE: Final = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
}
_BOUND_BY_CODE: Final = {
    "greater_than_equal": ("ge", "the least is {}"),
    "greater_than": ("gt", "it must be more than {}"),
    "less_than_equal": ("le", "the most is {}"),
    "less_than": ("lt", "it must be less than {}"),
    "string_too_long": ("max_length", "it has more than {} characters"),
    "string_too_short": ("min_length", "it has fewer than {} characters"),
    "too_long": ("max_length", "the list has more than {} entries"),
    "too_short": ("min_length", "the list has fewer than {} entries"),
}
_CHOICES: Final = ("literal_error", "enum")
_CHOICE: Final = re.compile(r"'([^']*)'")
_LONGEST: Final = 60
_MOST_CHOICES: Final = 12


def field_words(detail: ErrorDetails) -> tuple[str, str]:
    """What is wrong, and a remedy or nothing.

    >>> field_words({"type": "bool_type", "loc": (), "msg": "", "input": "yes"})
    ('true or false is expected, not "yes"', '')
    """
    code, value = detail["type"], detail["input"]
    bounds: Mapping[str, Any] = detail.get("ctx", {})
    if (expected := _EXPECTED_BY_CODE.get(code)) is not None:
        quotes = code == "string_type" and isinstance(value, int | float)
        return f"{expected} is expected{_instead(value)}", "put it in quotes" if quotes else ""
    if code in _BOUND_BY_CODE:
        name, words = _BOUND_BY_CODE[code]
        words = words.format(bounds.get(name))
        if value == "":
            return "the string is empty", ""
        return (words if isinstance(value, list | dict) else f"{_shown(value)} cannot be used: {words}"), ""
    if code in _CHOICES:
        return _choice_words(value, _CHOICE.findall(str(bounds.get("expected"))))
    message = detail["msg"]
    return f"{message[:1].lower()}{message[1:]}{_instead(value)}", ""


def _choice_words(value: object, choices: list[str]) -> tuple[str, str]:
    """Of a field that takes certain words alone."""
    if len(choices) == 1:
        return f"{choices[0]} is expected{_instead(value)}", f"write {choices[0]}"
    words = ", ".join(choice or '""' for choice in choices[:_MOST_CHOICES])
    near = nearest_word(value, [choice for choice in choices if choice]) if isinstance(value, str) else ""
    return f"one of {words} is expected{_instead(value)}", f"use {near} if you meant that" if near else ""


def _instead(value: object) -> str:
    return "" if isinstance(value, dict | list) else f", not {_shown(value)}"


def _shown(value: object) -> str:
    return json.dumps(value, default=str)[:_LONGEST]
