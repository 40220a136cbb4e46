"""ValidatingAdmissionPolicies: every binding of a policy judges the requests that both are about.

Source: k8s.io/apiserver pkg/admission/plugin/policy/{validating,generic,matching} (v1.35).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.decide.kubernetes.api.selectors import label_requirements, labels_of, matches_labels
from tonnage.decide.kubernetes.cel.types.policy_names import BOOL, STRING, STRING_OR_NULL
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, mapping, mappings, text, texts
from tonnage.twin.apiserver.codec import Codec
from tonnage.twin.apiserver.object_store import ObjectStore, Resource
from tonnage.twin.apiserver.policies.evaluation import (
    Activation,
    EvaluationError,
    conditions_met,
)
from tonnage.twin.apiserver.rbac.decisions import Authorizers
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import NAMESPACE
from tonnage.twin.apiserver.resources import Registry, ServedResource
from tonnage.twin.apiserver.statuses import StatusError, forbidden
from tonnage.twin.apiserver.webhooks.matching import (
    AdmissionRequest,
    is_exempt,
    selector_at,
    selects_namespace,
    selects_object,
    version_asked,
)

POLICY: Final[Resource] = ("admissionregistration.k8s.io", "validatingadmissionpolicies")
BINDING: Final[Resource] = ("admissionregistration.k8s.io", "validatingadmissionpolicybindings")
_CODES: Final = {"Forbidden": 403, "Unauthorized": 401, "RequestEntityTooLarge": 413, "Invalid": 422}
_LONGEST_MESSAGE: Final = 5 * 1024
_LONGEST_NOTE: Final = 10 * 1024
_FAILURE: Final = "validation.policy.admission.k8s.io/validation_failure"


class _MisconfiguredError(Exception):
    """A policy or binding that cannot be followed."""


@dataclass(frozen=True, slots=True)
class Denial:
    """Why a policy would deny a request; without `binding` it is the policy itself that is wrong."""

    policy: str
    message: str
    binding: str = ""
    reason: str = ""

    @property
    def error(self) -> str:
        """The server's words."""
        by = f"with binding '{self.binding}' denied" if self.binding else "denied"
        return f"ValidatingAdmissionPolicy '{self.policy}' {by} request: {self.message}"


class AdmissionPolicies:
    """An admission plugin that asks every policy with a binding."""

    def __init__(self, store: ObjectStore, registry: Registry, codec: Codec, authority: Authorizers) -> None:
        self._store = store
        self._registry = registry
        self._codec = codec
        self._authority = authority

    async def admit(self, request: ApiRequest, obj: JsonObject | None, old: JsonObject | None) -> None:
        """Refuse what a policy denies. Raises ApiError."""
        if is_exempt(request):
            return
        bindings = [binding.object for binding in self._store.list(BINDING)]
        if not bindings:
            return
        admission = AdmissionRequest(request, obj, old)
        denials: list[Denial] = []
        for stored in self._store.list(POLICY):
            policy = stored.object
            name = text(policy, "metadata", "name")
            bound = [binding for binding in bindings if text(binding, "spec", "policyName") == name]
            if bound:
                denials += self._judged(policy, bound, admission)
        if denials:
            raise _refusal(admission, denials[0])

    def _judged(
        self, policy: JsonObject, bindings: list[JsonObject], admission: AdmissionRequest
    ) -> Iterator[Denial]:
        spec, name = mapping(policy, "spec"), text(policy, "metadata", "name")
        served = self._match(mapping(spec, "matchConstraints"), admission)
        if served is None:
            return
        may_fail = text(spec, "failurePolicy") == "Ignore"
        try:
            self._param_kind(spec)
        except _MisconfiguredError as error:
            if not may_fail:
                yield Denial(name, f"failed to configure policy: {error}")
            return
        activation = self._activation(admission, served)
        notes: dict[str, list[str]] = {}
        for binding in bindings:
            limits = at(binding, "spec", "matchResources")
            if isinstance(limits, dict) and self._match(limits, admission, bound=True) is None:
                continue
            called = text(binding, "metadata", "name")
            try:
                params = self._params(spec, mapping(binding, "spec"), admission)
            except _MisconfiguredError as error:
                if not may_fail:
                    yield Denial(name, f"failed to configure binding: {error}", called)
                continue
            for param in params:
                judge = activation.of_policy(spec, param)
                yield from _with_param(policy, binding, judge, admission, notes)
        for key, values in notes.items():
            admission.request.notes.audit[f"{name}/{key}"] = ", ".join(values)

    def _match(
        self, limits: JsonObject, admission: AdmissionRequest, *, bound: bool = False
    ) -> ServedResource | None:
        """In which version a policy, or its binding, wants the request; None if it is not about it."""
        if not selects_namespace(selector_at(limits, "namespaceSelector"), admission, self._store):
            return None
        if not selects_object(selector_at(limits, "objectSelector"), admission):
            return None
        policy = text(limits, "matchPolicy") or "Equivalent"
        left_out = mappings(limits, "excludeResourceRules")
        if left_out and version_asked(left_out, policy, admission, self._registry) is not None:
            return None
        rules = mappings(limits, "resourceRules")
        if bound and not rules:
            return admission.request.served
        return version_asked(rules, policy, admission, self._registry)

    def _activation(self, admission: AdmissionRequest, served: ServedResource) -> Activation:
        namespace: JsonObject | None = None
        if admission.request.namespace and admission.request.resource != NAMESPACE:
            stored = self._store.get(NAMESPACE, ("", admission.request.namespace))
            namespace = stored.object if stored is not None else None
        shown = admission.shown(self._codec.in_version, served)
        return Activation(admission, served, shown, self._authority, namespace)

    def _param_kind(self, spec: JsonObject) -> ServedResource | None:
        """The kind of the policy's parameters, None if it has none. Raises _MisconfiguredError."""
        param_kind = at(spec, "paramKind")
        if not isinstance(param_kind, dict):
            return None
        group, _, version = text(param_kind, "apiVersion").rpartition("/")
        served = self._registry.find_kind(group, version, text(param_kind, "kind"))
        if served is None:
            described = f"{group}/{version}, Kind={text(param_kind, 'kind')}"
            raise _MisconfiguredError(f"failed to find resource referenced by paramKind: '{described}'")
        return served

    def _params(self, spec: JsonObject, binding: JsonObject, admission: AdmissionRequest) -> list[JsonValue]:
        """What the policy is evaluated with, once each. Raises _MisconfiguredError."""
        served, ref = self._param_kind(spec), at(binding, "paramRef")
        if served is None or not isinstance(ref, dict):
            return [None]
        param_namespace = text(ref, "namespace")
        if served.row.namespaced:
            if not param_namespace and not admission.request.namespace:
                raise _MisconfiguredError(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                )
        elif param_namespace:
            raise _MisconfiguredError(
                "paramRef.namespace must not be provided for a cluster-scoped `paramKind`"
            )
        namespace = (param_namespace or admission.request.namespace) if served.row.namespaced else ""
        params: list[JsonValue]
        if text(ref, "name"):
            stored = self._store.get(served.key, (namespace, text(ref, "name")))
            params = [] if stored is None else [self._codec.in_version(served, stored.object)]
        else:
            requirements = label_requirements(selector_at(ref, "selector"))
            params = [
                self._codec.in_version(served, entry.object)
                for entry in self._store.list(served.key, namespace=namespace)
                if matches_labels(requirements, labels_of(entry.object))
            ]
        if not params and text(ref, "parameterNotFoundAction") == "Deny":
            raise _MisconfiguredError(
                "no params found for policy binding with `Deny` parameterNotFoundAction"
            )
        return params


def _with_param(
    policy: JsonObject,
    binding: JsonObject,
    judge: Activation,
    admission: AdmissionRequest,
    notes: dict[str, list[str]],
) -> Iterator[Denial]:
    """What a policy, bound and with one parameter, has against a request; warnings and notes are left."""
    spec, name = mapping(policy, "spec"), text(policy, "metadata", "name")
    called, may_fail = text(binding, "metadata", "name"), text(spec, "failurePolicy") == "Ignore"
    try:
        if not conditions_met(mappings(spec, "matchConditions"), judge, may_fail=may_fail):
            return
    except EvaluationError as error:
        yield from _acted(policy, binding, Denial(name, str(error), called), 0, admission)
        return
    for index, validation in enumerate(mappings(spec, "validations")):
        denial = _validated(validation, judge, name, called, may_fail=may_fail)
        if denial is not None:
            yield from _acted(policy, binding, denial, index, admission)
    for annotation in mappings(spec, "auditAnnotations"):
        try:
            _annotate(annotation, judge, notes)
        except EvaluationError as error:
            if not may_fail:
                yield Denial(name, str(error), called)


def _annotate(annotation: JsonObject, judge: Activation, notes: dict[str, list[str]]) -> None:
    """Take down what an annotation says of a request, once. Raises EvaluationError."""
    value = judge.without_rights().value(text(annotation, "valueExpression"), STRING_OR_NULL)
    note = value.strip()[:_LONGEST_NOTE] if isinstance(value, str) else ""
    if note and note not in (noted := notes.setdefault(text(annotation, "key"), [])):
        noted.append(note)


def _validated(
    validation: JsonObject, judge: Activation, policy: str, binding: str, *, may_fail: bool
) -> Denial | None:
    expression = text(validation, "expression")
    try:
        if judge.value(expression, BOOL) is True:
            return None
    except EvaluationError as error:
        return None if may_fail else Denial(policy, str(error), binding)
    reason = text(validation, "reason") or "Invalid"
    return Denial(policy, _message(validation, judge), binding, reason)


def _message(validation: JsonObject, judge: Activation) -> str:
    """What is said of a request that a validation denies."""
    computed = text(validation, "messageExpression")
    if computed:
        try:
            value = judge.value(computed, STRING)
        except EvaluationError:
            value = None
        if isinstance(value, str) and value.strip():
            message = value.strip()
            if len(message.encode()) <= _LONGEST_MESSAGE and "\n" not in message:
                return message
    written = text(validation, "message").strip()
    return written or f"failed expression: {text(validation, 'expression').strip()}"


def _acted(
    policy: JsonObject, binding: JsonObject, denial: Denial, index: int, admission: AdmissionRequest
) -> Iterator[Denial]:
    """Do what the binding says is to be done about a denial."""
    actions = texts(binding, "spec", "validationActions")
    name = text(policy, "metadata", "name")
    for action in actions:
        match action:
            case "Deny":
                yield denial
            case "Warn":
                admission.request.notes.warn(
                    f"Validation failed for ValidatingAdmissionPolicy '{name}' with binding "
                    f"'{denial.binding}': {denial.message}"
                )
            case "Audit":
                failure = {
                    "message": denial.message,
                    "policy": name,
                    "binding": denial.binding,
                    "expressionIndex": index,
                    "validationActions": actions,
                }
                admission.request.notes.audit[_FAILURE] = json.dumps([failure], separators=(",", ":"))


def _refusal(admission: AdmissionRequest, denial: Denial) -> StatusError:
    error = forbidden(admission.request.resource, admission.name, denial.error)
    reason = denial.reason or "Invalid"
    details: JsonObject = {**(error.details or {}), "causes": [{"message": denial.error}]}
    return StatusError(_CODES.get(reason, 422), reason, error.message, details=details)
