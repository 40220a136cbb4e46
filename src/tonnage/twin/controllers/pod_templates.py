"""ComputeHash, GetPodFromTemplate: a template's hash, and the body of a pod made from it."""

from __future__ import annotations

from typing import Final

import msgspec

from tonnage.decide.kubernetes.api.encoding.go_json import go_json
from tonnage.model.json import JsonObject
from tonnage.model.json_access import mapping
from tonnage.model.kubernetes.well_known import SAFE_LETTERS

"""Letters and digits that spell no word, as Kubernetes uses for generated names."""

_OFFSET: Final = 0x811C9DC5
_PRIME: Final = 0x01000193
_MASK: Final = 0xFFFFFFFF
"""Of the hash FNV with 32 bits."""


def safe_encode(text: str) -> str:
    """Every character of `text` as one of the safe alphabet.

    >>> safe_encode("123")
    '567'
    """
    return "".join(SAFE_LETTERS[ord(char) % len(SAFE_LETTERS)] for char in text)


def template_hash(template: JsonObject, collisions: int | None = None) -> str:
    """A short name for a template, the same for equal ones; `collisions` tells apart what would collide.

    >>> template_hash({"spec": {}}) == template_hash({"spec": {}}, 0)
    False
    """
    value = _OFFSET
    text = msgspec.json.encode(template, order="deterministic")
    for byte in text + (b"" if collisions is None else collisions.to_bytes(8, "little", signed=True)):
        value = (value ^ byte) * _PRIME & _MASK
    return safe_encode(str(value))


def kept_template(template: JsonObject) -> JsonObject:
    """What a ControllerRevision keeps of a template: a patch that puts it in place, its keys in order."""
    content: JsonObject = {"spec": {"template": {**template, "$patch": "replace"}}}
    ordered: JsonObject = msgspec.json.decode(msgspec.json.encode(content, order="deterministic"))
    return ordered


def revision_hash(content: JsonObject, collisions: int) -> str:
    """The name of what a StatefulSet's revision keeps.

    Source: k8s.io/kubernetes/pkg/controller/history (HashControllerRevision, v1.35).
    """
    value = _OFFSET
    for byte in go_json(content) + str(collisions).encode():
        value = (value * _PRIME & _MASK) ^ byte
    return safe_encode(str(value))


def without_label(template: JsonObject, label: str) -> JsonObject:
    """The template without one of its labels, and without what is null or empty, so that equal is equal."""
    metadata = mapping(template.get("metadata"))
    labels = {key: value for key, value in mapping(metadata.get("labels")).items() if key != label}
    return _dense({**template, "metadata": {**metadata, "labels": labels}})


def with_labels(template: JsonObject, labels: dict[str, str]) -> JsonObject:
    """The template with labels added."""
    metadata = mapping(template.get("metadata"))
    merged: JsonObject = {**mapping(metadata.get("labels")), **labels}
    return {**template, "metadata": {**metadata, "labels": merged}}


def pod_from(template: JsonObject, prefix: str, controller: JsonObject) -> JsonObject:
    """The body of a pod that the server names `prefix` and five characters."""
    metadata = mapping(template.get("metadata"))
    fields = {key: metadata[key] for key in ("labels", "annotations", "finalizers") if metadata.get(key)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**fields, "generateName": prefix, "ownerReferences": [controller]},
        "spec": template.get("spec") or {},
    }


def _dense(value: JsonObject) -> JsonObject:
    dense: JsonObject = {}
    for key, field_value in value.items():
        inner = _dense(field_value) if isinstance(field_value, dict) else field_value
        if inner is not None and inner != {}:
            dense[key] = inner
    return dense
