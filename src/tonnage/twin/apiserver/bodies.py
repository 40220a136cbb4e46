"""Request bodies: read up to a bound, then JSON, YAML or protobuf to a JSON value."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from starlette.types import Receive

from tonnage.adapters.ports import PatchType
from tonnage.model.json import JsonValue
from tonnage.twin.apiserver.objects.body import UNREAD, BodyError, parse_json
from tonnage.twin.apiserver.objects.scalars import describe
from tonnage.twin.apiserver.statuses import bad_request, too_large, unsupported_media_type
from tonnage.wire.schema import Schema

LIMIT: Final = 3 << 20
"""Bytes of a body; etcd's own limit, and what upstream takes."""
_SHOWN: Final = 30
"""Bytes of a body that an error shows."""
_TYPED: Final = (
    r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'
)
"""As what Go's decoder reads a body first."""
_READ_S: Final = 30.0
_ACCEPTED: Final = ("application/json", "application/yaml", "application/vnd.kubernetes.protobuf")


async def read_body(receive: Receive, headers: Mapping[str, str]) -> bytes:
    """The whole body. Raises ApiError 413 as soon as it is known to be too large, without reading on."""
    length = headers.get("content-length", "0")
    if length.isdecimal() and (len(length) > 12 or int(length) > LIMIT):
        raise too_large(LIMIT)
    chunks: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(_READ_S):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise bad_request("the client went away before its request was complete")
                chunk = message.get("body", b"")
                size += len(chunk)
                if size > LIMIT:
                    raise too_large(LIMIT)
                chunks.append(chunk)
                if not message.get("more_body", False):
                    return b"".join(chunks)
    except TimeoutError:
        raise bad_request(f"the request body did not arrive within {_READ_S:.0f} seconds") from None


def parse_object(schema: Schema, data: bytes, content_type: str, kind: str) -> JsonValue:
    """The object of a write. Raises ApiError 400, of what cannot be read with its beginning, 415.

    Source: k8s.io/apiserver, pkg/endpoints/handlers (transformDecodeError, summarizeData), v1.35.
    """
    try:
        value = parse_body(schema, data, content_type) if data else parse_json(data)
        if not isinstance(value, dict | None):
            raise BodyError(
                f"{UNREAD}json: cannot unmarshal {describe(value)} into Go value of type {_TYPED}"
            )
    except BodyError as error:
        said = f"{error.detail} ({_beginning(data)})"
        raise bad_request(f"the object provided is unrecognized (must be of type {kind}): {said}") from None
    return {} if value is None else value


def parse_patch(data: bytes, patch_type: PatchType) -> JsonValue:
    """The JSON of a patch. Raises ApiError 400.

    Source: k8s.io/apiserver, pkg/endpoints/handlers/patch.go (applyJSPatch, strategicPatchObject), v1.35.
    """
    prefix = "" if patch_type is PatchType.STRATEGIC else "error decoding patch: "
    try:
        patch = parse_json(data)
    except BodyError as error:
        raise bad_request(prefix + error.detail.removeprefix(UNREAD)) from None
    if patch_type is not PatchType.JSON and not isinstance(patch, dict | None):
        said = f"json: cannot unmarshal {describe(patch)} into Go value of type map[string]interface {{}}"
        raise bad_request(prefix + said)
    return patch


def _beginning(data: bytes) -> str:
    if not data:
        return "<empty>"
    shown = data[:_SHOWN]
    text = shown.decode("utf-8", "replace") if data.startswith(b"{") else shown.hex()
    return text + " ..." if len(data) > _SHOWN else text


def parse_body(schema: Schema, data: bytes, content_type: str) -> JsonValue:
    """The body's value; None for an empty one. Raises ApiError 400, 415."""
    if not data:
        return None
    match content_type.partition(";")[0].strip():
        case "" | "application/json":
            return parse_json(data)
        case "application/vnd.kubernetes.protobuf":
            return _protobuf(schema, data)
        case "application/yaml":
            return _yaml(data)
        case other:
            raise unsupported_media_type(other, _ACCEPTED)


def _protobuf(schema: Schema, data: bytes) -> JsonValue:
    from tonnage.twin.apiserver.objects.protobuf import decode_envelope

    return decode_envelope(schema, data)


def _yaml(data: bytes) -> JsonValue:
    # kubectl turns YAML into JSON itself; only hand-made requests come here. Reading is the documents' task,
    # which bounds aliases and depth; its imports are heavy and seldom needed.
    from tonnage.documents.source import parse_yaml
    from tonnage.model.errors import ConfigError

    try:
        return parse_yaml(data.decode(), source="body").value
    except (ConfigError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding YAML: {error}") from None
