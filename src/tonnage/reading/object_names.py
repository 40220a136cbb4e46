"""The names of the objects in a file with a cluster, and the kinds of which they are all that there are."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import Snapshot

Name = tuple[str, str, str]
"""(kind, namespace or empty, name)."""
_DEEPEST_LIST: Final = 4


@dataclass(frozen=True, slots=True)
class ObjectNames:
    """What a file knows: kinds that were looked at, in all namespaces or in one, and names of objects."""

    kinds: frozenset[str] = frozenset()
    namespace: str = ""
    names: frozenset[Name] = frozenset()
    scopes: Mapping[str, str] = field(default_factory=dict)
    """Kind -> the one namespace in which it was looked at."""

    def existing(self, objects: Iterable[Name]) -> dict[Name, bool]:
        """Whether each of those, and of the file's own, is there; without those of which it cannot say."""
        return {
            obj: obj in self.names
            for obj in {*objects, *self.names}
            if obj[0] in self.kinds and (not obj[1] or self._scope(obj[0]) in ("", obj[1]))
        }

    def _scope(self, kind: str) -> str:
        return self.scopes.get(kind, self.namespace)


def names_in(documents: Iterable[JsonValue], missing: frozenset[str]) -> ObjectNames:
    """Of objects and Lists of them: the kinds are those of which there are any."""
    kinds: set[str] = set()
    names: set[Name] = set()
    for document in documents:
        for obj in _opened(document, 0):
            kinds.add(str(obj.get("kind")))
            names.update(_names(obj))
    return ObjectNames(frozenset(kinds) - missing, names=frozenset(names))


def names_of(snapshot: Snapshot) -> frozenset[Name]:
    """Of what pods name, as far as a captured cluster holds it."""
    classes: list[Name] = [("PriorityClass", "", obj.name) for obj in snapshot.priority_classes]
    return frozenset(
        [*classes, *(("PersistentVolumeClaim", obj.namespace, obj.name) for obj in snapshot.volume_claims)]
    )


def _opened(value: JsonValue, depth: int) -> Iterator[JsonObject]:
    """The objects of a List."""
    if not isinstance(value, dict):
        return
    items = value.get("items")
    if isinstance(items, list) and depth < _DEEPEST_LIST:
        for element in items:
            yield from _opened(element, depth + 1)
    else:
        yield value


def _names(value: JsonObject) -> Iterator[Name]:
    metadata, kind = value.get("metadata"), str(value.get("kind"))
    if not isinstance(metadata, dict):
        return
    name, space = metadata.get("name"), metadata.get("namespace")
    if isinstance(name, str):
        yield kind, space if isinstance(space, str) else "", name
        if kind == "ConfigMap":
            yield kind, "", name
