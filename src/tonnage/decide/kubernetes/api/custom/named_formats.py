"""Formats that expressions ask for by name, and what keeps a text from being of one.

Source: k8s.io/apiserver pkg/cel/library (format.go), v1.35.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tonnage.decide.kubernetes.api import names
from tonnage.decide.kubernetes.api.custom.formats import has_format
from tonnage.decide.kubernetes.cel.function_library.urls import url_problem
from tonnage.decide.kubernetes.claims.cel_errors import CelUnsupportedError
from tonnage.model.json import JsonObject

_Complaints = Callable[[str], Sequence[str]]


class FormatHost:
    """Answers expressions that ask for formats, and for nobody's rights."""

    def complaints(self, form: str, text: str) -> Sequence[str]:
        """What keeps a text from being of a format."""
        return _CHECKS[form](text)

    def allowed(self, check: JsonObject) -> tuple[bool, str]:
        """Nobody's rights are known here."""
        raise CelUnsupportedError(f"who may {check}")


def _beginning(check: _Complaints) -> _Complaints:
    """The check of a name that something will follow, so that it may end with a dash."""
    return lambda text: check(text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text)


def _of(form: str, words: str) -> _Complaints:
    return lambda text: () if has_format(text, form) else (words,)


def _uri(text: str) -> Sequence[str]:
    wrong = url_problem(text)
    return (wrong,) if wrong else ()


_CHECKS: Final[Mapping[str, _Complaints]] = {
    "dns1123Label": names.dns_label,
    "dns1123Subdomain": names.dns_subdomain,
    "dns1035Label": names.dns_label_1035,
    "qualifiedName": names.qualified_name,
    "dns1123LabelPrefix": _beginning(names.dns_label),
    "dns1123SubdomainPrefix": _beginning(names.dns_subdomain),
    "dns1035LabelPrefix": _beginning(names.dns_label_1035),
    "labelValue": names.label_value,
    "uri": _uri,
    "uuid": _of("uuid", "does not match the UUID format"),
    "byte": _of("byte", "invalid base64"),
    "date": _of("date", "invalid date"),
    "datetime": _of("datetime", "invalid datetime"),
}
