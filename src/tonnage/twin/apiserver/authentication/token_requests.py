"""Tokens of service accounts on request, for an audience, for a time, bound to an object that lives as long.

Source: pkg/registry/core/serviceaccount/storage/token.go (v1.35).
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from tonnage.decide.kubernetes.api.problems import InvalidError, invalid, invalid_status
from tonnage.decide.kubernetes.api.validation.access import token_request
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, mapping, number, text, texts
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.authentication.account_tokens import ISSUER, TokenKey
from tonnage.twin.apiserver.authentication.users import ACCOUNT
from tonnage.twin.apiserver.object_store import ObjectStore
from tonnage.twin.apiserver.ownership.field_manager import put_entries
from tonnage.twin.apiserver.requests import ApiRequest
from tonnage.twin.apiserver.resource_names import SERVICE_ACCOUNT
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.statuses import bad_request, conflict, not_found
from tonnage.twin.apiserver.writing.pipeline import WritePipeline
from tonnage.twin.apiserver.writing.preconditions import check_name
from tonnage.wire.schema import KindRow

_GROUP: Final = "authentication.k8s.io"
_ROW: Final = KindRow(
    _GROUP, "v1", "TokenRequest", "serviceaccounts", "", True, ("create",), "authentication/v1.TokenRequest"
)
_SERVED: Final = ServedResource(_ROW, "")
_PLURALS: Final = {"Pod": "pods", "Node": "nodes", "Secret": "secrets"}
_ISSUED: Final = "authentication.kubernetes.io/issued-credential-id"
_PROJECTED_S: Final = 3607
"""What kubelets ask for a pod's own volume: it lives a year, so that old clients may reread late."""
_EXTENDED_S: Final = 365 * 24 * 3600


class TokenRequests:
    """Makes them."""

    def __init__(self, store: ObjectStore, clock: Clock, pipeline: WritePipeline, key: TokenKey) -> None:
        self._store = store
        self._clock = clock
        self._pipeline = pipeline
        self._key = key

    async def answer(self, request: ApiRequest, body: JsonValue) -> JsonObject:
        """The request with its token. Raises ApiError 400, 403, 404, 409, 422."""
        codec = self._pipeline.codec
        token_body, warnings = codec.decode(_SERVED, body, request.options.field_validation)
        for words in warnings:
            request.notes.warn(words)
        token_body = codec.default(_SERVED, token_body)
        # Before admission, which may change it: the entries say what the client sent.
        owners = self._pipeline.ownership.created(
            replace(request, served=_SERVED), token_body, at(token_body, "metadata", "managedFields")
        )
        await self._pipeline.admit(request, token_body, None)
        # Before the account is looked for: another name than the path's is refused even where there is none.
        self._check_metadata(request, mapping(token_body, "metadata"))
        account = self._store.get(SERVICE_ACCOUNT, request.key)
        if account is None:
            raise not_found(SERVICE_ACCOUNT, request.name)
        uid, own = text(token_body, "metadata", "uid"), text(account.object, "metadata", "uid")
        if uid and uid != own:
            why = (
                f"the UID in the token request ({uid}) does not match the UID of the service account ({own})"
            )
            raise conflict((_GROUP, "TokenRequest"), request.name, why)
        now = self._clock.now()
        spec = {**mapping(token_body, "spec")}
        spec["audiences"] = list(texts(spec, "audiences")) or [ISSUER]
        born: JsonObject = {"uid": own, "creationTimestamp": timestamp(now)}
        metadata: JsonObject = {**mapping(token_body, "metadata"), "name": request.name, **born}
        token_body = {**token_body, "metadata": {**metadata, "namespace": request.namespace}, "spec": spec}
        put_entries(token_body, owners)
        problems = tuple(token_request(token_body))
        if problems:
            raise InvalidError(invalid_status(_ROW, "", problems))
        reference = at(spec, "boundObjectRef")
        bound = self._bound(request, reference) if isinstance(reference, dict) else {}
        until = timestamp(now + timedelta(seconds=number(spec, "expirationSeconds")))
        claims = self._claims(request, own, spec, bound)
        request.notes.audit[_ISSUED] = f"JTI={claims['jti']}"
        token = self._key.sign(claims)
        answer: JsonObject = {**token_body, "status": {"token": token, "expirationTimestamp": until}}
        return self._store.shapes.shaped(answer, _ROW.type)

    def _check_metadata(self, request: ApiRequest, metadata: JsonObject) -> None:
        if text(metadata, "namespace") not in ("", request.namespace):
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        name = text(metadata, "name")
        if name not in ("", request.name):
            fault = invalid("metadata.name", name, "must match the service account name if specified")
            raise InvalidError(invalid_status(_ROW, request.name, (fault,)))

    def _bound(self, request: ApiRequest, reference: JsonObject) -> JsonObject:
        """The claims about the object that the token is bound to. Raises ApiError."""
        kind, version = text(reference, "kind"), text(reference, "apiVersion")
        group, _, last = version.rpartition("/") if version.count("/") < 2 else ("", "", "")
        name, uid = text(reference, "name"), text(reference, "uid")
        if group or kind not in _PLURALS:
            raise bad_request(f"cannot bind token to object of type {group}/{last}, Kind={kind}")
        check_name(name)
        resource = ("", _PLURALS[kind])
        stored = self._store.get(resource, ("" if kind == "Node" else request.namespace, name))
        if stored is None:
            raise not_found(resource, name)
        claims: JsonObject = {kind.lower(): _reference(stored.object)}
        if kind == "Pod":
            if text(stored.object, "spec", "serviceAccountName") != request.name:
                raise bad_request(
                    f'cannot bind token for serviceaccount "{request.name}" to pod running with different '
                    "serviceaccount name."
                )
            claims |= self._node_of(stored.object)
        if uid and uid != text(stored.object, "metadata", "uid"):
            why = (
                f"the UID in the bound object reference ({uid}) does not match the UID in record. "
                "The object might have been deleted and then recreated"
            )
            raise conflict(("", kind), name, why)
        return claims

    def _node_of(self, pod: JsonObject) -> JsonObject:
        name = text(pod, "spec", "nodeName")
        node = self._store.get(("", "nodes"), ("", name))
        if not name:
            return {}
        return {"node": _reference(node.object) if node is not None else {"name": name}}

    def _claims(self, request: ApiRequest, uid: str, spec: JsonObject, bound: JsonObject) -> JsonObject:
        now = int(self._clock.now().timestamp())
        lives_s = number(spec, "expirationSeconds")
        private: JsonObject = {
            "namespace": request.namespace,
            "serviceaccount": {"name": request.name, "uid": uid},
            **bound,
        }
        if at(bound, "pod") is not None and lives_s == _PROJECTED_S and texts(spec, "audiences") == [ISSUER]:
            private["warnafter"] = now + lives_s
            lives_s = _EXTENDED_S
        return {
            "iss": ISSUER,
            "sub": f"{ACCOUNT}{request.namespace}:{request.name}",
            "aud": spec["audiences"],
            "iat": now,
            "nbf": now,
            "exp": now + lives_s,
            "jti": self._pipeline.ids.uid(),
            "kubernetes.io": private,
        }


def _reference(obj: JsonObject) -> JsonObject:
    return {"name": text(obj, "metadata", "name"), "uid": text(obj, "metadata", "uid")}
