"""Names of the objects and requests that a migration makes: valid, free, and the same every time."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Final

from tonnage.model.devices.claims import DRIVER

_PARTS: Final = re.compile(r"[^a-z0-9]+")
_LONGEST_NAME: Final = 63
_DIGITS: Final = 8


def class_name(clauses: Sequence[str]) -> str:
    """A name that says what its devices are, and is the same for the same clauses."""
    return cut_name(f"gpu-{slug('-'.join(_class_words(clauses)))}", " && ".join(clauses))


def _class_words(clauses: Sequence[str]) -> Iterator[str]:
    for clause in clauses:
        quoted = re.findall(r"'([^']+)'", clause.replace(f"['{DRIVER}']", "").replace("(' ', '-')", ""))
        if "isGreaterThan" in clause or " > " in clause:
            yield "over"
        if "isLessThan" in clause or " < " in clause:
            yield "under"
        if "!" in clause:
            yield "not"
        yield from quoted or re.findall(r"(?:major|minor)|\d+", clause)


def slug(text: str) -> str:
    """The text as part of a name: small letters, digits and dashes.

    >>> slug("Tesla T4 1g.10gb.me")
    'tesla-t4-1g-10gb-me'
    """
    return _PARTS.sub("-", text.lower().replace(".me", "-me")).strip("-")


def cut_name(name: str, content: str = "") -> str:
    """A name within 63 characters; what is cut off is told by a digest."""
    if len(name) <= _LONGEST_NAME:
        return name
    digest = sha256((content or name).encode()).hexdigest()[:_DIGITS]
    return f"{name[: _LONGEST_NAME - _DIGITS - 1].rstrip('-')}-{digest}"


def free_name(name: str, others: Sequence[str]) -> str:
    """The name, with a number where others have it.

    >>> free_name("gpu", ["gpu", "gpu-2"])
    'gpu-3'
    """
    if name not in others:
        return name
    number = 2
    while f"{name}-{number}" in others:
        number += 1
    return f"{name}-{number}"
