"""What expressions see of a request, and what they come to.

Source: k8s.io/apiserver pkg/admission/plugin/cel, pkg/admission/plugin/webhook/matchconditions (v1.35).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Final

from tonnage.decide.kubernetes.cel.types.kinds import RESOURCE_CHECK
from tonnage.decide.kubernetes.cel.types.policy_names import (
    ABOUT_WEBHOOKS,
    AUTHORIZER,
    BOOL,
    known_names,
    names_of,
)
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mappings, text
from tonnage.twin.apiserver.policies.rights import RightsHost, resource_asked
from tonnage.twin.apiserver.rbac.decisions import Authorizers
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.webhooks.matching import AdmissionRequest
from tonnage.twin.apiserver.webhooks.review import request_facts

_VARIABLE: Final = re.compile(r"\bvariables\s*\.\s*([A-Za-z_]\w*)")


class EvaluationError(Exception):
    """An expression that cannot be evaluated on a request; the text is the server's."""


class Activation:
    """Values for one request. Variables are evaluated when an expression first names them."""

    def __init__(
        self,
        admission: AdmissionRequest,
        served: ServedResource,
        shown: tuple[JsonValue, JsonValue],
        authority: Authorizers,
        namespace: JsonObject | None = None,
    ) -> None:
        from tonnage.decide.kubernetes.cel.function_library.host_functions import authorizer_of

        facts = request_facts(admission, served, (None, None))
        request = {key: value for key, value in facts.items() if key not in ("object", "oldObject")}
        self._host = RightsHost(authority, admission.request.user)
        self._values: dict[str, object] = {
            "object": shown[0],
            "oldObject": shown[1],
            "request": request,
            "namespaceObject": namespace,
            "params": None,
            "authorizer": authorizer_of({}),
            "authorizer.requestResource": authorizer_of(resource_asked(admission.request), RESOURCE_CHECK),
        }
        self._names = known_names(ABOUT_WEBHOOKS)
        self._variables: Mapping[str, str] = {}
        self._evaluated: dict[str, object] = {}
        self._failed: dict[str, str] = {}

    def of_policy(self, spec: JsonObject, params: JsonValue) -> Activation:
        """The same request, judged by a policy with these parameters."""
        variables = mappings(spec, "variables")
        other = copy(self)
        other._values = {**self._values, "params": params}
        other._names = known_names(names_of(spec), variables)
        other._variables = {text(variable, "name"): text(variable, "expression") for variable in variables}
        other._evaluated, other._failed = {}, {}
        return other

    def without_rights(self) -> Activation:
        """The same where nobody may be asked who may what, as for audit annotations."""
        other = copy(self)
        other._values = {key: value for key, value in self._values.items() if key not in AUTHORIZER}
        return other

    def value(self, expression: str, types: tuple[str, ...] = ()) -> object:
        """What an expression comes to. Raises EvaluationError."""
        try:
            return self._value(expression, types)
        except _FailedError as error:
            raise EvaluationError(f"expression '{expression}' resulted in error: {error}") from None

    def _value(self, expression: str, types: tuple[str, ...] = ()) -> object:
        from tonnage.decide.kubernetes.cel.expression import AbsentError
        from tonnage.decide.kubernetes.cel.expression import expression as compiled
        from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError

        try:
            program = compiled(expression, self._names, types)
            if program.error:
                raise EvaluationError(f"compilation error: {program.error}")
            for name in _VARIABLE.findall(expression):
                self._settle(name)
            names = {name for name, _ in self._names}
            values = {key: value for key, value in self._values.items() if key in names}
            return program.value({**values, **self._evaluated}, self._host)
        except AbsentError as error:
            why = self._failed.get(str(error), "no such variable")
            words = f'composited variable "{error}" fails to evaluate: {why}'
            raise _FailedError(words) from None
        except CelError as error:
            raise _FailedError(str(error)) from None
        except CelUnsupportedError as error:
            raise _FailedError(f"this server cannot evaluate {error}") from None

    def _settle(self, name: str) -> None:
        """Evaluate a variable, once. One that fails has no value: only what hangs on it fails, too."""
        if f"variables.{name}" in self._evaluated or name in self._failed or name not in self._variables:
            return
        try:
            self._evaluated[f"variables.{name}"] = self._value(self._variables[name])
        except _FailedError as error:
            self._failed[name] = str(error)


class _FailedError(Exception):
    """What the engine says."""


def conditions_met(conditions: Sequence[JsonObject], activation: Activation, *, may_fail: bool) -> bool:
    """Whether all match conditions hold; one that is false settles it, whatever else fails.

    Raises:
        EvaluationError: none is false, some fail, and `may_fail` is not set.
    """
    errors = []
    for condition in conditions:
        try:
            if activation.value(text(condition, "expression").strip(), BOOL) is False:
                return False
        except EvaluationError as error:
            errors.append(str(error))
    if errors and not may_fail:
        raise EvaluationError(errors[0] if len(errors) == 1 else f"[{', '.join(dict.fromkeys(errors))}]")
    return not errors
