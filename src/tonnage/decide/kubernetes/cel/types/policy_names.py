"""The names that expressions of admission policies and of webhooks' conditions know, with their types.

Source: k8s.io/apiserver pkg/admission/plugin/cel, pkg/admission/plugin/webhook/matchconditions (v1.35).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tonnage.decide.kubernetes.cel.types.kinds import DYN, KnownKinds
from tonnage.decide.kubernetes.cel.types.request_kinds import KINDS, VARIABLES, with_variable
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text

AUTHORIZER: Final = ("authorizer", "authorizer.requestResource")
ABOUT_WEBHOOKS: Final = ("object", "oldObject", "request", *AUTHORIZER)
"""Names that conditions of webhooks know."""
BOOL: Final = ("bool",)
STRING: Final = ("string",)
STRING_OR_NULL: Final = ("string", "null")


def names_of(spec: JsonObject) -> tuple[str, ...]:
    """Names that a policy's expressions know, and `variables` if it has any."""
    params = ("params",) if isinstance(spec.get("paramKind"), dict) else ()
    own = (VARIABLES,) if spec.get(VARIABLES) else ()
    return (*ABOUT_WEBHOOKS, "namespaceObject", *own, *params)


def known_names(names: tuple[str, ...], variables: Sequence[JsonObject] = ()) -> KnownKinds:
    """Names with their types; a variable has that of its expression, which knows the ones before it."""
    from tonnage.decide.kubernetes.cel.expression import expression as compiled
    from tonnage.decide.kubernetes.claims.cel_errors import CelUnsupportedError

    declared: KnownKinds = tuple((name, KINDS.get(name, DYN)) for name in names)
    for variable in variables:
        try:
            kind = compiled(text(variable, "expression"), declared).kind
        except CelUnsupportedError:
            kind = DYN
        declared = with_variable(declared, text(variable, "name"), kind)
    return declared
