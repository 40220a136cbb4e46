"""Request bodies: read up to a bound, then JSON, YAML or protobuf to a JSON value."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Final

from starlette.types import Receive

from tonnage.decide.kubernetes.api.encoding.body import UNREAD, BodyError, parse_json
from tonnage.decide.kubernetes.api.encoding.scalars import describe
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text
from tonnage.ports.kubernetes import PatchType
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
_PARAMETER: Final = re.compile(r"""[!#-'*+.^-z|~\w-]+\s*=\s*([!#-'*+.^-z|~\w-]+|"[^"]*")""")


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


def parse_object(
    schema: Schema, content: bytes, content_type: str, kind: str, *, custom: str = ""
) -> JsonValue:
    """The object of a write; one of a custom kind names that itself, and its version, which is `custom`.

    Raises ApiError 400, of what cannot be read with its beginning, 415.

    Source: k8s.io/apiserver, pkg/endpoints/handlers (transformDecodeError, summarizeData), v1.35.
    """
    try:
        body = parse_typed(schema, content, content_type)
        if custom and not text(body, "kind"):
            raise BodyError(f"Object 'Kind' is missing in '{content.decode('utf-8', 'replace')}'")
    except BodyError as error:
        message = f"{error.detail} ({_beginning(content)})"
        raise bad_request(
            f"the object provided is unrecognized (must be of type {kind}): {message}"
        ) from None
    if custom and (version := text(body, "apiVersion")) != custom:
        message = (
            f"the API version in the data ({version}) does not match the expected API version ({custom})"
        )
        raise bad_request(message)
    return body


def parse_typed(schema: Schema, content: bytes, content_type: str) -> JsonObject:
    """The object of a body. Raises BodyError, and ApiError 415."""
    kind = media_type(content_type)
    value = _READERS[kind](schema, content) if content or kind == _ACCEPTED[2] else parse_json(content)
    if not isinstance(value, dict | None):
        raise BodyError(f"{UNREAD}json: cannot unmarshal {describe(value)} into Go value of type {_TYPED}")
    version = text(value, "apiVersion")
    if version.count("/") > 1:
        raise BodyError(f"unexpected GroupVersion string: {version}")
    return {} if value is None else value


def parse_patch(content: bytes, patch_type: PatchType) -> JsonValue:
    """The JSON of a patch. Raises ApiError 400.

    Source: k8s.io/apiserver, pkg/endpoints/handlers/patch.go (applyJSPatch, strategicPatchObject), v1.35.
    """
    prefix = "" if patch_type is PatchType.STRATEGIC else "error decoding patch: "
    try:
        patch = parse_json(content)
    except BodyError as error:
        raise bad_request(prefix + error.detail.removeprefix(UNREAD)) from None
    if patch is None and patch_type is PatchType.MERGE:
        raise bad_request("Invalid JSON Patch")
    if patch_type is not PatchType.JSON and not isinstance(patch, dict | None):
        message = f"json: cannot unmarshal {describe(patch)} into Go value of type map[string]interface {{}}"
        raise bad_request(prefix + message)
    return patch


def _beginning(content: bytes) -> str:
    if not content:
        return "<empty>"
    shown = content[:_SHOWN]
    text = shown.decode("utf-8", "replace") if content.startswith(b"{") else shown.hex()
    return text + " ..." if len(content) > _SHOWN else text


def media_type(content_type: str) -> str:
    """The type that a header names, of those that are read. Raises ApiError 415."""
    kind, *parameters = (part.strip() for part in (content_type or _ACCEPTED[0]).split(";"))
    kind = kind.lower()
    # One that ends with a semicolon is well-formed.
    readable = all(_PARAMETER.fullmatch(parameter) for parameter in parameters[:-1])
    readable = readable and (
        not parameters or not parameters[-1] or bool(_PARAMETER.fullmatch(parameters[-1]))
    )
    if kind not in _READERS or not readable:
        raise unsupported_media_type(_ACCEPTED)
    return kind


def _protobuf(schema: Schema, content: bytes) -> JsonValue:
    from tonnage.decide.kubernetes.api.encoding.protobuf import decode_envelope

    return decode_envelope(schema, content)


def _yaml(content: bytes) -> JsonValue:
    from tonnage.model.errors import ConfigError
    from tonnage.twin.apiserver.serving.encodings.yaml_body import parse_yaml

    try:
        return parse_yaml(content)
    except (ConfigError, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding YAML: {error}") from None


_READERS: Final[Mapping[str, Callable[[Schema, bytes], JsonValue]]] = {
    "application/json": lambda _schema, content: parse_json(content),
    "application/vnd.kubernetes.protobuf": _protobuf,
    "application/yaml": lambda _schema, content: _yaml(content),
}
