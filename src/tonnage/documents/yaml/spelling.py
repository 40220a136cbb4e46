"""Patterns of fields with the words that say what they accept: no message shows a regular expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

MIG_PROFILE: Final = r"^([1-7]c\.)?[1-7]g\.[1-9][0-9]{0,2}gb([+-][a-z]{1,8}(\.[a-z]{1,8})?)?$"
DEVICE_UUID: Final = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
SCENARIO_NAME: Final = r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$"
NUMA_COUNT: Final = r"^[1-9][0-9]{0,2}$"
FIRST_CPUS: Final = r"^0(-[1-9][0-9]{0,2})?$"
ALTERNATIVE_NAME: Final = r"^[A-Za-z0-9]([A-Za-z0-9 ._-]{0,38}[A-Za-z0-9])?$"
CASE: Final = r"^[A-Z]{3}-[0-9]{1,3}$"
LAB_NAME: Final = r"^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$"
LAB_USER: Final = r"^([a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?)?$"
"""No name of Kubernetes' own has this form: those have colons."""
DRIVER_NAME: Final = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
DEVICE_NAME: Final = r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
VERSION: Final = r"^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2}(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$"
_ENDS: Final = "the first and last a letter or digit"
_WORDS: Final[Mapping[str, str]] = {
    MIG_PROFILE: "a MIG profile: compute slices, 1 to 7, and memory, as in 1g.10gb or 1g.10gb+me",
    DEVICE_UUID: "a UUID: at most 100 letters, digits, '-', '_' and '.', beginning with a letter or digit",
    SCENARIO_NAME: "a name: at most 32 lowercase letters, digits and '-', beginning with a letter and not "
    "ending with '-'",
    NUMA_COUNT: "a whole number from 1 to 999, in quotes",
    FIRST_CPUS: "a range of CPUs that begins at 0, as in 0-3",
    ALTERNATIVE_NAME: f"a name: at most 40 letters, digits, spaces, '-', '_' and '.', {_ENDS}",
    CASE: "the number of a case, as in SCH-1",
    LAB_NAME: f"a name: at most 63 lowercase letters, digits and '-', {_ENDS}",
    DRIVER_NAME: "a domain name in lowercase letters, as in gpu.example.com",
    DEVICE_NAME: f"a name: at most 63 lowercase letters, digits and '-', {_ENDS}",
    VERSION: "a version with three numbers, as in 1.2.3",
    LAB_USER: f"a user name: at most 63 lowercase letters, digits, '-' and '.', {_ENDS}",
}


def words_of(pattern: str) -> str:
    """What a text must be to match a pattern.

    >>> words_of(CASE)
    'the number of a case, as in SCH-1'
    """
    return _WORDS[pattern]
