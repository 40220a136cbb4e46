"""Functions whose answers are known outside: who may do what, and whether a text is of a format.

A value of theirs holds what was asked so far, as JSON; the answers come from the host of the evaluation, for
whom the functions that ask are made: the engine does not say for whom it calls one.

Source: k8s.io/apiserver pkg/cel/library (authz.go, format.go), 1.35.8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol, cast

from tonnage.decide.kubernetes.cel.types.kinds import AUTHORIZER, RESOURCE_CHECK
from tonnage.decide.kubernetes.cel.types.messages import TextMessage, value_of
from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError
from tonnage.decide.kubernetes.claims.cel_values import type_name
from tonnage.model.json import JsonObject

FORMAT: Final = "kubernetes.NamedFormat"
_AUTH: Final = "kubernetes.authorization."
PATH_CHECK, GROUP_CHECK, DECISION = f"{_AUTH}PathCheck", f"{_AUTH}GroupCheck", f"{_AUTH}Decision"
FORMATS: Final = (
    *("dns1123Label", "dns1123Subdomain", "dns1035Label", "qualifiedName", "dns1123LabelPrefix"),
    *("dns1123SubdomainPrefix", "dns1035LabelPrefix", "labelValue", "uri", "uuid", "byte", "date"),
    "datetime",
)


class CelHost(Protocol):
    """Who knows the answers."""

    def complaints(self, form: str, text: str) -> Sequence[str]:
        """What keeps a text from being of a format."""
        ...

    def allowed(self, check: JsonObject) -> tuple[bool, str]:
        """Whether the user of the request, or the `account`, may do this, and why."""
        ...


def _texts(function: str, *values: object) -> list[str]:
    if not all(isinstance(value, str) for value in values):
        raise CelError(f"no such overload: {function}({', '.join(type_name(value) for value in values)})")
    return [str(value) for value in values]


def _carried_check(function: str, value: object, kind: str) -> JsonObject:
    if type_name(value) != kind:
        raise CelError(f"no such overload: {function}({type_name(value)})")
    check: JsonObject = json.loads(cast("TextMessage", value).text)
    return check


def authorizer_of(check: JsonObject, kind: str = AUTHORIZER) -> TextMessage:
    """`authorizer` itself, of which nothing is asked yet, or `authorizer.requestResource`."""
    return value_of(kind, json.dumps(check, sort_keys=True))


def _more(function: str, owner: str, result_kind: str, key: str, needed: str = "") -> Callable[..., object]:
    """A function that adds a word to what is asked; `needed`: what an empty word is called."""

    def called(value: object, word: object) -> object:
        check, (text,) = _carried_check(function, value, owner), _texts(function, word)
        if needed and not text.strip():
            raise CelError(f"{needed} must not be empty")
        return authorizer_of({**check, key: text}, result_kind)

    return called


class _Asking:
    """The functions that ask: of a host, or of nobody."""

    def __init__(self, host: CelHost | None) -> None:
        self._host = host

    @property
    def host(self) -> CelHost:
        if self._host is None:
            raise CelUnsupportedError("a question to a host that is absent")
        return self._host

    def account(self, value: object, namespace: object, name: object) -> object:
        check, (space, called) = (
            _carried_check("serviceAccount", value, AUTHORIZER),
            _texts("serviceAccount", namespace, name),
        )
        for form, word, field in (("dns1123Subdomain", called, "name"), ("dns1123Label", space, "namespace")):
            if self.host.complaints(form, word):
                raise CelError(f"Invalid service account {field}")
        return authorizer_of({**check, "account": f"{space}/{called}"})

    def check(self, value: object, verb: object) -> object:
        kind = PATH_CHECK if type_name(value) == PATH_CHECK else RESOURCE_CHECK
        check, (verb_text,) = _carried_check("check", value, kind), _texts("check", verb)
        allowed, reason = self.host.allowed({**check, "verb": verb_text})
        return authorizer_of({"allowed": allowed, "reason": reason}, DECISION)

    def complaints(self, form: object, text: object) -> list[str]:
        (value,) = _texts("validate", text)
        if type_name(form) != FORMAT:
            raise CelError(f"no such overload: validate({type_name(form)}, string)")
        return list(self.host.complaints(cast("TextMessage", form).text, value))


def functions_asking(host: CelHost | None) -> Mapping[str, Callable[..., object]]:
    """Implementations by name of the functions that ask this host; without one they fail."""
    asking = _Asking(host)
    return {"serviceAccount": asking.account, "check": asking.check, "validate": asking.complaints}


def _of_decision(function: str, key: str, default: object) -> Callable[[object], object]:
    return lambda value: _carried_check(function, value, DECISION).get(key, default)


def _format_of(name: object) -> object:
    (text,) = _texts("format.named", name)
    return value_of(FORMAT, text if text in FORMATS else "")


def _constant(form: str) -> Callable[[], object]:
    return lambda: value_of(FORMAT, form)


FUNCTIONS: Final[Mapping[str, Callable[..., object]]] = {
    "path": _more("path", AUTHORIZER, PATH_CHECK, "path", "path"),
    "group": _more("group", AUTHORIZER, GROUP_CHECK, "group"),
    "resource": _more("resource", GROUP_CHECK, RESOURCE_CHECK, "resource", "resource"),
    **{
        name: _more(name, RESOURCE_CHECK, RESOURCE_CHECK, name)
        for name in ("subresource", "namespace", "name", "fieldSelector", "labelSelector")
    },
    "errored": _of_decision("errored", "errored", default=False),
    "error": _of_decision("error", "error", default=""),
    "allowed": _of_decision("allowed", "allowed", default=False),
    "reason": _of_decision("reason", "reason", default=""),
    "format.named": _format_of,
    **{f"format.{form}": _constant(form) for form in FORMATS},
}
"""Implementations by name of those that ask nobody."""
ASKING: Final = frozenset(
    {"authorizer_serviceaccount", "pathcheck_check", "resourcecheck_check", "format-validate"}
)
"""The overloads of those that ask the host."""
OPTIONAL: Final = frozenset({"validate", "format.named"})
"""Those whose empty answer is an optional without a value."""
