"""The body of a server-side apply: a configuration as JSON or YAML, and what is wrong with it.

Source: k8s.io/apiserver (endpoints/handlers/patch.go), sigs.k8s.io/yaml, v1.35.
"""

from __future__ import annotations

from contextlib import suppress

from tonnage.decide.kubernetes.api.encoding.body import (
    BodyError,
    parse_json,
    repeated_fields,
    repeated_lines,
    unmarshal_error,
)
from tonnage.decide.kubernetes.api.encoding.scalars import describe
from tonnage.model.json import JsonObject, JsonValue
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.apiserver.requests import ApiRequest, FieldValidation
from tonnage.twin.apiserver.resources import ServedResource
from tonnage.twin.apiserver.statuses import StatusError, bad_request, unsupported_media_type


def read_config(body: bytes) -> JsonObject:
    """The configuration. Raises ApiError 400."""
    value = _value(body)
    if value is None:
        return {}
    if not isinstance(value, dict):
        described = describe(value)
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{described} into Go value of type map[string]interface {{}}"
        )
    return value


def tell_repeated(request: ApiRequest, config: JsonObject) -> None:
    """Warn of keys that stand twice, or refuse them. Raises ApiError 400."""
    lines = repeated_lines(config)
    match request.options.field_validation:
        case FieldValidation.WARN:
            request.notes.warn(*lines)
        case FieldValidation.STRICT if lines:
            message = f"error converting YAML to JSON: {unmarshal_error(lines)}"
            raise bad_request(f"error strict decoding YAML: {message}")


def _value(body: bytes) -> JsonValue:
    # kubectl and controllers send JSON, which is YAML as well, and much faster to read.
    if body.lstrip()[:1] == b"{":
        with suppress(BodyError):
            value = parse_json(body)
            if not any(repeated_fields(value)):
                return value
    from tonnage.model.errors import ConfigError
    from tonnage.twin.apiserver.serving.encodings.yaml_body import parse_yaml

    try:
        return parse_yaml(body)
    except ConfigError as error:
        why = error.problems[0].why
    except UnicodeDecodeError:
        why = "invalid leading UTF-8 octet"
    raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {why}")


def no_patch(served: ServedResource) -> StatusError:
    """415 of a body that is no patch of the kind."""
    if served.custom is None:
        return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    return unsupported_media_type([patch_type.value for patch_type in patch_types(served)])


def patch_types(served: ServedResource) -> tuple[PatchType, ...]:
    """The patches of a kind; custom ones know no strategies."""
    others = (PatchType.JSON, PatchType.MERGE, PatchType.APPLY)
    return others if served.custom is not None else (*others, PatchType.STRATEGIC)
