"""Updates of objects that are not there: of some kinds they make them.

Source: k8s.io/apiserver pkg/registry/generic/registry (store.go, Update), v1.35.
"""

from __future__ import annotations

from dataclasses import replace

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import text
from tonnage.twin.apiserver.requests import ApiRequest, WriteOutcome
from tonnage.twin.apiserver.statuses import not_found
from tonnage.twin.apiserver.strategies.by_kind import CREATED_BY_UPDATE
from tonnage.twin.apiserver.writing.pipeline import WritePipeline


async def put(pipeline: WritePipeline, request: ApiRequest, body: JsonValue) -> WriteOutcome:
    """The object after a PUT. Raises ApiError 400, 404, 409, 422."""
    if not text(body, "metadata", "name"):
        _readable(pipeline, request, body)
    if pipeline.store.get(request.resource, request.key) is None:
        obj = _readable(pipeline, request, body)
        if request.subresource or request.resource not in CREATED_BY_UPDATE:
            raise not_found(request.plural_resource, request.name)
        return replace(await pipeline.create(replace(request, verb="create"), obj), made=True)
    return await pipeline.update(request, lambda _old: body)


def _readable(pipeline: WritePipeline, request: ApiRequest, body: JsonValue) -> JsonObject:
    """The object that a body is, with the name of the path. Raises ApiError 400."""
    obj, warnings = pipeline.codec.decode(request.served, body, request.options.field_validation)
    request.notes.warn(*warnings)
    pipeline.address(request, obj)
    return obj
