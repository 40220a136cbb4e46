"""How bad a finding is, of doctor and of lint."""

from __future__ import annotations

from enum import StrEnum


class Severity(StrEnum):
    """ERROR: it cannot work, or is refused. WARNING: soon, in part, or not as meant. NOTE: good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"
