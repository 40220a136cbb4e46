"""The lines of a captured cluster that are no objects: the first and the last."""

from __future__ import annotations

from typing import Any, Final

import msgspec

API_VERSION: Final = "tonnage.dev/v1alpha1"
HEADER: Final = "Snapshot"
FOOTER: Final = "SnapshotEnd"
FORMAT: Final = 1


class Line(msgspec.Struct, rename="camel", kw_only=True):
    """What every line says first."""

    api_version: str = ""
    kind: str = ""


class Absence(msgspec.Struct, rename="camel", frozen=True, omit_defaults=True):
    """A kind that could not be read, or not to its end, and the server's reason in one word.

    `namespace` set: the objects of that namespace were read, and no others.
    """

    kind: str
    api_version: str = ""
    reason: str = ""
    namespace: str = ""


class Count(msgspec.Struct, rename="camel"):
    """Objects of one kind, the version of its list. Not `consistent`: its pages are of several moments."""

    objects: int = 0
    resource_version: str = ""
    consistent: bool = True


class Header(Line, kw_only=True):
    """The first line. `namespace` set: of namespaced kinds only that one was read."""

    api_version: str = API_VERSION
    kind: str = HEADER
    format: int = FORMAT
    server_version: str = ""
    taken_at: str = ""
    redact: str = ""
    program: str = ""
    namespace: str = ""
    kinds: list[str] = []
    missing: list[Absence] = []


class Footer(Line, kw_only=True):
    """The last line."""

    api_version: str = API_VERSION
    kind: str = FOOTER
    objects: dict[str, Count] = {}
    incomplete: list[Absence] = []


def encoded(line: Any) -> bytes:
    """A line as it stands in the file."""
    return msgspec.json.encode(line) + b"\n"
