"""Reviews: questions about access that are answered at once and kept nowhere.

Source: pkg/registry/{authorization,authentication} and their validation (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from tonnage.decide.kubernetes.api.field_selectors import field_terms
from tonnage.decide.kubernetes.api.problems import (
    FieldError,
    InvalidError,
    invalid,
    invalid_status,
    required,
)
from tonnage.decide.kubernetes.api.selectors import SelectorError, parse_labels
from tonnage.decide.kubernetes.api.validation.fields import (
    OPERATORS,
    FieldErrors,
    label_requirement,
    operands,
)
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, items, mapping, mappings, text, texts
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.authentication.account_tokens import ISSUER
from tonnage.twin.apiserver.authentication.authenticator import Authenticator, TokenError
from tonnage.twin.apiserver.authentication.users import user_info
from tonnage.twin.apiserver.codec import Codec
from tonnage.twin.apiserver.ownership.field_manager import FieldOwnership, put_entries
from tonnage.twin.apiserver.rbac.bindings import Bindings, aggregate
from tonnage.twin.apiserver.rbac.decisions import Authorizers
from tonnage.twin.apiserver.rbac.nodes import node_of
from tonnage.twin.apiserver.rbac.rules import Attributes
from tonnage.twin.apiserver.requests import ApiRequest, User, WriteOutcome
from tonnage.twin.apiserver.statuses import bad_request

_NODES: Final = "node authorizer does not support user rule resolution"
_RESOURCE: Final = "resourceAttributes"
_PATH: Final = "nonResourceAttributes"


class Reviews:
    """Answers them."""

    def __init__(
        self,
        codec: Codec,
        ownership: FieldOwnership,
        clock: Clock,
        authenticator: Authenticator,
        authority: Authorizers,
        bindings: Bindings,
    ) -> None:
        self._codec = codec
        self._ownership = ownership
        self._clock = clock
        self._authenticator = authenticator
        self._authority = authority
        self._bindings = bindings
        self._answers: dict[str, Callable[[ApiRequest, JsonObject], JsonObject]] = {
            "SelfSubjectReview": self._oneself,
            "TokenReview": self._token,
            "SelfSubjectAccessReview": self._own_access,
            "SubjectAccessReview": self._access,
            "LocalSubjectAccessReview": self._access,
            "SelfSubjectRulesReview": self._rules,
        }

    def answer(self, request: ApiRequest, body: JsonValue) -> WriteOutcome:
        """The review with its answer. Raises ApiError 400, 422."""
        review, warnings = self._codec.decode(request.served, body, request.options.field_validation)
        request.notes.warn(*warnings)
        metadata = mapping(review, "metadata")
        if request.namespace and text(metadata, "namespace") not in ("", request.namespace):
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        sent = metadata.get("managedFields")
        review = {**review, "metadata": _ordered(metadata, request.namespace)}
        put_entries(review, self._ownership.created(request, review, sent))
        return WriteOutcome(self._answers[request.served.row.kind](request, review))

    def _oneself(self, request: ApiRequest, _review: JsonObject) -> JsonObject:
        born: JsonObject = {"creationTimestamp": timestamp(self._clock.now())}
        return {**_head(request), "metadata": born, "status": {"userInfo": user_info(request.user)}}

    def _token(self, _request: ApiRequest, review: JsonObject) -> JsonObject:
        token, audiences = text(review, "spec", "token"), texts(review, "spec", "audiences")
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        try:
            owner = self._authenticator.owner_of(token, audiences or (ISSUER,))
        except TokenError as error:
            why = f"[invalid bearer token, {error}]" if str(error) else "invalid bearer token"
            return {**review, "status": {"user": {}, "error": why}}
        status: JsonObject = {"authenticated": True, "user": user_info(owner.user)}
        return {**review, "status": {**status, "audiences": list(owner.audiences)}}

    def _own_access(self, request: ApiRequest, review: JsonObject) -> JsonObject:
        _refuse(request, [*_one_of(review), *_selectors(review), *_nameless(review)])
        spec = mapping(review, "spec")
        return {**review, "status": self._status(_attributes_of(request.user, spec), spec)}

    def _access(self, request: ApiRequest, review: JsonObject) -> JsonObject:
        spec = mapping(review, "spec")
        problems = list(_one_of(review))
        if not text(spec, "user") and not texts(spec, "groups"):
            problems.append(invalid("spec.user", "", "at least one of user or group must be specified"))
        problems += [*_selectors(review), *_nameless(review)]
        if request.served.row.namespaced:
            problems += _local(review)
        _refuse(request, problems)
        user = User(text(spec, "user"), tuple(texts(spec, "groups")), text(spec, "uid"))
        return {**review, "status": self._status(_attributes_of(user, spec), spec)}

    def _status(self, attributes: Attributes, spec: JsonObject) -> JsonObject:
        decision = self._authority.decide(attributes)
        explanations = {"reason": decision.reason, "evaluationError": "; ".join(_unread(spec))}
        return {"allowed": decision.allowed, **{key: words for key, words in explanations.items() if words}}

    def _rules(self, request: ApiRequest, review: JsonObject) -> JsonObject:
        namespace = text(review, "spec", "namespace")
        if not namespace:
            raise bad_request("no namespace on request")
        is_node = node_of(request.user) is not None
        grants = self._bindings.grants(request.user, namespace)
        rules = [rule for grant in grants for rule in grant.rules]
        faults = [_NODES] if is_node else []
        faults += [grant.fault for grant in grants if grant.fault]
        status: JsonObject = {
            "resourceRules": [
                _without(rule.as_json(), "nonResourceURLs") for rule in rules if rule.resources
            ],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.urls)} for rule in rules if rule.urls
            ],
            "incomplete": is_node,
        }
        if faults:
            status["evaluationError"] = aggregate(faults)
        return {**_head(request), "metadata": {}, "spec": {}, "status": status}


def _head(request: ApiRequest) -> JsonObject:
    return {"kind": request.served.row.kind, "apiVersion": request.served.row.api_version}


def _ordered(metadata: JsonObject, namespace: str) -> JsonObject:
    """Metadata in the namespace of the request, without entries, in Go's order."""
    first: JsonObject = {key: metadata[key] for key in ("name", "generateName") if key in metadata}
    first |= {"namespace": namespace} if namespace else {}
    passed_over = ("namespace", "managedFields")
    return first | {key: value for key, value in metadata.items() if key not in (*first, *passed_over)}


def _without(obj: JsonObject, key: str) -> JsonObject:
    return {name: value for name, value in obj.items() if name != key}


def _attributes_of(user: User, spec: JsonObject) -> Attributes:
    """What a review asks for."""
    if at(spec, _RESOURCE) is None:
        path = mapping(spec, _PATH)
        return Attributes(user, text(path, "verb"), path=text(path, "path"), of_resource=False)
    attributes = mapping(spec, _RESOURCE)
    group, resource, subresource = (text(attributes, key) for key in ("group", "resource", "subresource"))
    namespace, name = text(attributes, "namespace"), text(attributes, "name")
    verb, fields = text(attributes, "verb"), _fields(attributes)
    return Attributes(user, verb, group, resource, subresource, namespace, name, fields)


def _fields(attributes: JsonObject) -> str:
    raw = text(attributes, "fieldSelector", "rawSelector")
    terms = [
        f"{text(requirement, 'key')}={texts(requirement, 'values')[0]}"
        for requirement in mappings(attributes, "fieldSelector", "requirements")
        if text(requirement, "operator") == "In" and len(texts(requirement, "values")) == 1
    ]
    return raw or ",".join(terms)


def _one_of(review: JsonObject) -> FieldErrors:
    spec = mapping(review, "spec")
    resource, path = at(spec, _RESOURCE), at(spec, _PATH)
    if resource is not None and path is not None:
        shown: JsonObject = {"Path": text(path, "path"), "Verb": text(path, "verb")}
        yield invalid(f"spec.{_PATH}", shown, f"cannot be specified in combination with {_RESOURCE}")
    if resource is None and path is None:
        why = f"exactly one of {_PATH} or {_RESOURCE} must be specified"
        yield invalid(f"spec.{_RESOURCE}", None, why)


def _selectors(review: JsonObject) -> FieldErrors:
    for key in ("fieldSelector", "labelSelector"):
        path = f"spec.{_RESOURCE}.{key}"
        selector = at(review, "spec", _RESOURCE, key)
        if not isinstance(selector, dict):
            continue
        raw, requirements = text(selector, "rawSelector"), mappings(selector, "requirements")
        if raw and requirements:
            yield invalid(f"{path}.rawSelector", raw, "may not specified at the same time as requirements")
        if not raw and not requirements:
            why = f"when {path} is specified, requirements or rawSelector is required"
            yield required(f"{path}.requirements", why)
        for index, requirement in enumerate(requirements):
            where = f"{path}.requirements[{index}]"
            if key == "labelSelector":
                yield from label_requirement(requirement, where)
                continue
            if not text(requirement, "key"):
                yield required(f"{where}.key", "must be specified")
            yield from operands(requirement, where)


def _unread(spec: JsonObject) -> Iterator[str]:
    """Selectors that are overlooked in whole or in part, because nobody can read them."""
    for key, reads, parse in (
        ("fieldSelector", _reads_field, field_terms),
        ("labelSelector", _reads_label, parse_labels),
    ):
        selector, path = mapping(spec, _RESOURCE, key), f"spec.{_RESOURCE}.{key}"
        readable = [reads(requirement) for requirement in mappings(selector, "requirements")]
        if not all(readable):
            yield f"{path} {'partially ' if any(readable) else ''}ignored due to parse error"
        try:
            parse(text(selector, "rawSelector"))
        except SelectorError:
            yield f"{path} ignored due to parse error"


def _reads_field(requirement: JsonObject) -> bool:
    return text(requirement, "operator") in ("In", "NotIn") and len(items(requirement, "values")) == 1


def _reads_label(requirement: JsonObject) -> bool:
    return text(requirement, "operator") in OPERATORS


def _nameless(review: JsonObject) -> FieldErrors:
    metadata = mapping(review, "metadata")
    if any(value for key, value in metadata.items() if key not in ("namespace", "managedFields")):
        space = " except for namespace" if text(review, "metadata", "namespace") else ""
        yield invalid("metadata", metadata, f"must be empty{space}")


def _local(review: JsonObject) -> FieldErrors:
    namespace = text(review, "spec", _RESOURCE, "namespace")
    if at(review, "spec", _RESOURCE) is not None and namespace != text(review, "metadata", "namespace"):
        yield invalid(f"spec.{_RESOURCE}.namespace", namespace, "must match metadata.namespace")
    path = at(review, "spec", _PATH)
    if path is not None:
        shown: JsonObject = {"Path": text(path, "path"), "Verb": text(path, "verb")}
        yield invalid(f"spec.{_PATH}", shown, "disallowed on this kind of request")


def _refuse(request: ApiRequest, problems: Sequence[FieldError]) -> None:
    """Raise ApiError 422 if anything is wrong; upstream leaves the kind's name out here."""
    if problems:
        nameless = msgspec.structs.replace(request.served.row, kind="")
        status = invalid_status(nameless, "", tuple(problems))
        mapping(status, "details").pop("kind")
        raise InvalidError(status)
