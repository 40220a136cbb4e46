"""What keeps a text from being a version, in the server's words.

Source: github.com/blang/semver/v4 (semver.go).
"""

from __future__ import annotations

import json
import re
from typing import Final

_NUMBER: Final = re.compile("[0-9]*")
_WORD: Final = re.compile("[0-9A-Za-z-]*")


def semver_problem(text: str) -> str:
    """Why a text is no version; empty where it is one.

    >>> semver_problem("v1.2.3"), semver_problem("1.2.3-rc.1")
    ('Invalid character(s) found in major number "v1"', '')
    """
    if not text:
        return "Version string empty"
    parts = text.split(".", 2)
    if len(parts) != 3:
        return "No Major.Minor.Patch elements found"
    rest, plus, build = parts[2].partition("+")
    patch, dash, before = rest.partition("-")
    for name, number in (("major", parts[0]), ("minor", parts[1]), ("patch", patch)):
        if wrong := _wrong_number(number, name):
            return wrong
    for identifier in before.split(".") if dash else ():
        if wrong := _wrong_release(identifier):
            return wrong
    for identifier in build.split(".") if plus else ():
        if not identifier:
            return "Build meta data is empty"
        if not _WORD.fullmatch(identifier):
            return f"Invalid character(s) found in build meta data {json.dumps(identifier)}"
    return ""


def _wrong_number(number: str, name: str) -> str:
    if not _NUMBER.fullmatch(number):
        return f"Invalid character(s) found in {name} number {json.dumps(number)}"
    if number.startswith("0") and number != "0":
        return f"{name.capitalize()} number must not contain leading zeroes {json.dumps(number)}"
    return "" if number else 'strconv.ParseUint: parsing "": invalid syntax'


def _wrong_release(word: str) -> str:
    if not word:
        return "Prerelease is empty"
    if not _WORD.fullmatch(word):
        return f"Invalid character(s) found in prerelease {json.dumps(word)}"
    if word.isdecimal() and word.startswith("0") and word != "0":
        return f"Numeric PreRelease version must not contain leading zeroes {json.dumps(word)}"
    return ""
