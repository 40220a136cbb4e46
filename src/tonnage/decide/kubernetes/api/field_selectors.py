"""Field selectors: parsed with the server's complaints, matched against objects.

Source: k8s.io/apimachinery (fields), k8s.io/kubernetes (field labels of each kind).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.kubernetes.api.problems import quoted
from tonnage.decide.kubernetes.api.selectors import LONGEST, SelectorError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.wire.schema import KindRow


@dataclass(frozen=True, slots=True)
class FieldRequirement:
    """One condition on a field."""

    path: str
    value: str
    equal: bool = True

    def matches(self, obj: JsonObject) -> bool:
        """Whether an object meets it."""
        return (field_value(obj, self.path) == self.value) is self.equal


_NAMES: Final = ("metadata.name", "metadata.namespace")
FIELDS: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("", "Pod"): (
        *_NAMES,
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "spec.hostNetwork",
        "status.phase",
        "status.podIP",
        "status.podIPs",
        "status.nominatedNodeName",
    ),
    ("", "Node"): ("metadata.name", "spec.unschedulable"),
    ("", "Namespace"): ("metadata.name", "status.phase"),
    ("", "Secret"): (*_NAMES, "type"),
    ("", "Service"): (*_NAMES, "spec.clusterIP", "spec.type"),
    ("", "ReplicationController"): (*_NAMES, "status.replicas"),
    ("", "Event"): (
        *(f"involvedObject.{key}" for key in ("kind", "namespace", "name", "uid", "apiVersion")),
        "involvedObject.resourceVersion",
        "involvedObject.fieldPath",
        "reason",
        "reportingComponent",
        "source",
        "type",
        *_NAMES,
    ),
    ("events.k8s.io", "Event"): (
        *(f"regarding.{key}" for key in ("kind", "namespace", "name", "uid", "apiVersion")),
        "regarding.resourceVersion",
        "regarding.fieldPath",
        "reason",
        "reportingController",
        "type",
        *_NAMES,
    ),
    ("batch", "Job"): (*_NAMES, "status.successful"),
    ("certificates.k8s.io", "CertificateSigningRequest"): ("metadata.name", "spec.signerName"),
    ("resource.k8s.io", "ResourceSlice"): ("metadata.name", "spec.driver", "spec.nodeName"),
}


def parse_fields(
    kind_row: KindRow, text: str, selectable: Sequence[str] | None = None
) -> tuple[FieldRequirement, ...]:
    """Requirements of a field selector; `selectable` are the paths that a custom kind adds, if it is one.

    Raises:
        SelectorError: the syntax is wrong, or the kind has no such field label.
    """
    return tuple(
        replace(term, path=_known_path(kind_row, term.path, selectable)) for term in field_terms(text)
    )


def field_terms(text: str) -> tuple[FieldRequirement, ...]:
    """Requirements of a field selector about any kind. Raises SelectorError for its syntax."""
    if len(text) > LONGEST:
        raise SelectorError(f"invalid selector: longer than {LONGEST} bytes")
    requirements = []
    for term in sorted(re.findall(r"(?:[^,\\]|\\.|\\$)+", text, re.DOTALL)):
        match = re.match(r"(.*?)(!=|==|=)(.*)", term, re.DOTALL)
        if match is None:
            raise SelectorError(f"invalid selector: '{text}'; can't understand '{term}'")
        requirements.append(FieldRequirement(match[1], _unescaped(match[3]), match[2] != "!="))
    # A term without a name and a value demands nothing.
    return tuple(requirement for requirement in requirements if requirement.path or requirement.value)


def _unescaped(value: str) -> str:
    """A value without its backslashes, which must stand before `\\`, `,` and `=`."""
    plain_letters: list[str] = []
    letters = iter(value)
    for letter in letters:
        if letter in ",=":
            raise SelectorError(f"invalid field selector: unescaped character in value: {ord(letter)}")
        plain = letter
        if letter == "\\":
            plain = next(letters, "")
            if plain not in ("\\", ",", "="):
                raise SelectorError(f"invalid field selector: invalid escape sequence: \\{plain}")
        plain_letters.append(plain)
    return "".join(plain_letters)


def _known_path(kind_row: KindRow, path: str, selectable: Sequence[str] | None) -> str:
    paths = FIELDS.get((kind_row.group, kind_row.kind))
    if selectable is not None:
        paths = (*(_NAMES if kind_row.namespaced else _NAMES[:1]), *selectable)
    if paths is None:
        if path in _NAMES:
            return path
        listed = ", ".join(quoted(name) for name in _NAMES)
        raise SelectorError(f"{quoted(path)} is not a known field selector: only {listed}")
    if path == "spec.host" and kind_row.kind == "Pod":
        return "spec.nodeName"
    if path not in paths:
        if kind_row.group == "resource.k8s.io":
            described = f"{kind_row.api_version}, Kind={kind_row.kind}"
            raise SelectorError(f"field label not supported for {described}: {path}")
        if (kind_row.group, kind_row.kind) == ("batch", "Job"):
            raise SelectorError(f"field label {quoted(path)} not supported for Job")
        raise SelectorError(f"field label not supported: {path}")
    return path


def field_value(obj: JsonObject, path: str) -> str:
    """A field's text as selectors compare it; empty if it is not set."""
    if path == "source":
        return field_value(obj, "source.component") or field_value(obj, "reportingComponent")
    value: JsonValue = obj
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if path == "status.podIPs":
        return ""  # a label that pods may be asked for, and none has
    if isinstance(value, bool) or path in ("spec.unschedulable", "spec.hostNetwork"):
        return "true" if value else "false"
    if value is None:
        return "0" if path in ("status.replicas", "status.successful") else ""
    return str(value)
