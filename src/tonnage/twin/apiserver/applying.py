"""The body of a server-side apply: a configuration as JSON or YAML, and what is wrong with it.

Source: k8s.io/apiserver (endpoints/handlers/patch.go), sigs.k8s.io/yaml, v1.35.
"""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.adapters.ports import PatchType
from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.objects.body import BodyError, Repeated, parse_json
from tonnage.twin.apiserver.objects.scalars import describe
from tonnage.twin.apiserver.requests import FieldValidation
from tonnage.twin.apiserver.resources import Served
from tonnage.twin.apiserver.statuses import StatusError, bad_request, unsupported_media_type


def read_config(data: bytes, validation: FieldValidation) -> tuple[JsonObject, tuple[str, ...]]:
    """The configuration, and warnings of keys that stand twice. Raises ApiError 400."""
    value = _value(data)
    if value is None:
        return {}, ()
    if not isinstance(value, dict):
        what = describe(value)
        raise bad_request(
            "error decoding YAML: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal "
            f"{what} into Go value of type map[string]interface {{}}"
        )
    twice = tuple(f'  line 1: key "{key}" already set in map' for key in dict.fromkeys(_repeated(value)))
    if not twice or validation is FieldValidation.IGNORE:
        return value, ()
    said = "error converting YAML to JSON: yaml: unmarshal errors:\n" + "\n".join(twice)
    if validation is FieldValidation.STRICT:
        raise bad_request(f"error strict decoding YAML: {said}")
    return value, (said,)


def _value(data: bytes) -> JsonValue:
    # kubectl and controllers send JSON, which is YAML as well, and much faster to read.
    if data.lstrip()[:1] == b"{":
        try:
            return parse_json(data)
        except BodyError:
            pass
    from tonnage.documents.source import parse_yaml
    from tonnage.model.errors import ConfigError

    try:
        return parse_yaml(data.decode(), source="body").value
    except ConfigError as error:
        said = error.problems[0].why
    except UnicodeDecodeError:
        said = "invalid leading UTF-8 octet"
    raise bad_request(f"error decoding YAML: error converting YAML to JSON: yaml: {said}")


def _repeated(value: JsonValue) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value, Repeated):
            yield from value.repeated
        for inner in value.values():
            yield from _repeated(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _repeated(inner)


def no_patch(served: Served) -> StatusError:
    """415 of a body that is no patch of the kind."""
    if served.custom is None:
        return StatusError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
    # Custom kinds know no strategies.
    accepted = (PatchType.JSON.value, PatchType.MERGE.value, PatchType.APPLY.value)
    return unsupported_media_type(accepted)
