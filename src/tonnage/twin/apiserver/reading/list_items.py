"""Objects as items of a list: those of a built-in kind leave out kind and version, which the list says.

Source: k8s.io/apimachinery, where only objects of custom kinds keep their type in a list (v1.35).
"""

from __future__ import annotations

from collections.abc import Callable

from tonnage.decide.kubernetes.api.encoding.go_json import go_json
from tonnage.model.json import JsonObject, JsonValue
from tonnage.twin.apiserver.object_store import Stored
from tonnage.twin.apiserver.resources import COMPONENTS, ServedResource


def whole_list(served: ServedResource, metadata: JsonObject, items: list[JsonValue]) -> JsonObject:
    """A list; one of a custom kind is told in the order of names, and always says where it goes on."""
    kind: JsonObject = {"kind": served.list_kind, "apiVersion": served.row.api_version}
    if served.custom is None:
        return {**kind, "metadata": metadata, "items": items}
    metadata = dict(sorted({"continue": "", **metadata}.items()))
    return dict(sorted({**kind, "metadata": metadata, "items": items}.items()))


def is_current(served: ServedResource, stored: Stored) -> bool:
    """Whether an object reads as it was written: in this version, and under the schema that there is now."""
    outdated = served.custom is not None and stored.revision < served.custom.revision
    outdated = outdated or served.key == COMPONENTS
    return not outdated and stored.object.get("apiVersion") == served.row.api_version


def item_of(served: ServedResource, obj: JsonObject) -> JsonObject:
    """An object as an item of its kind's list."""
    if served.custom is not None:
        return obj
    return {key: value for key, value in obj.items() if key not in ("kind", "apiVersion")}


def item_json(
    served: ServedResource, stored: Stored, in_version: Callable[[ServedResource, JsonObject], JsonObject]
) -> bytes:
    """The same, encoded. What is stored begins with its type, so that as a rule nothing is encoded anew."""
    version, text = served.row.api_version, stored.json
    if not is_current(served, stored):
        return go_json(item_of(served, in_version(served, stored.object)))
    if served.custom is not None:
        return text
    for head in _heads(version, served.row.kind):
        if text.startswith(head):
            return b"{" + text[len(head) :]
    return go_json(item_of(served, stored.object))


def _heads(version: str, kind: str) -> tuple[bytes, bytes]:
    api, of = f'"apiVersion":"{version}",', f'"kind":"{kind}",'
    return f"{{{api}{of}".encode(), f"{{{of}{api}".encode()
