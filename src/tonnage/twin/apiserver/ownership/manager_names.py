"""Names of managers: said by the writer, or his user agent's first word.

Source: k8s.io/apiserver (endpoints/handlers/create.go), apimachinery (apis/meta/v1/validation), v1.35.
"""

from __future__ import annotations

from typing import Final

from tonnage.decide.kubernetes.api.problems import Errors, FieldError, invalid, invalid_status, too_long
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text
from tonnage.wire.schema import KindRow

LONGEST: Final = 128
_LONGEST_SUBRESOURCE: Final = 256


def manager_of_agent(agent: str) -> str:
    """The manager that a user agent stands for.

    >>> manager_of_agent("kubectl/v1.35.0 (linux/amd64) kubernetes/4e1f4a1")
    'kubectl'
    """
    name, size = "", 0
    for letter in agent.partition("/")[0]:
        if not letter.isprintable():
            continue
        size += len(letter.encode())
        if size > LONGEST:
            break
        name += letter
    return name


def manager_problems(name: str, path: str) -> Errors:
    """What is wrong with a manager's name."""
    if name.isprintable() and len(name.encode()) <= LONGEST:
        return ()
    problems: list[FieldError] = []
    if len(name.encode()) > LONGEST:
        problems.append(too_long(path, LONGEST))
    position = 0
    for letter in name:
        if not letter.isprintable():
            message = f"invalid character U+{ord(letter):04X} (at position {position})"
            problems.append(invalid(path, name, message))
        position += len(letter.encode())
    return tuple(problems)


def entry_problems(entries: JsonValue) -> Errors:
    """What is wrong with names in an object's `managedFields`, whose rest is readable."""
    problems: list[FieldError] = []
    for index, entry in enumerate(entries if isinstance(entries, list) else []):
        path = f"metadata.managedFields[{index}]"
        problems += manager_problems(text(entry, "manager"), f"{path}.manager")
        if len(text(entry, "subresource").encode()) > _LONGEST_SUBRESOURCE:
            problems.append(too_long(f"{path}.subresource", _LONGEST_SUBRESOURCE))
    return tuple(problems)


def options_status(kind: str, errors: Errors, *, name: str = "", group: str = "meta.k8s.io") -> JsonObject:
    """The Status of options that are not allowed; `kind` is such as PatchOptions."""
    row = KindRow(group, "v1", kind, "", "", namespaced=False, verbs=(), type="")
    return invalid_status(row, name, errors)
