"""The schema tables of built-in kinds, out of Kubernetes' own sources; never written by hand.

`schema.json` holds facts that `scripts/extract_schema.py` takes out of the Go sources of Kubernetes; its
first line names them with their versions. `go_names.json` and `time_zones.json` are written by
`scripts/extract_go_names.py` and `scripts/extract_time_zones.py`.

Source: types.go of k8s.io/{api,apimachinery,apiextensions-apiserver}, api/discovery of k8s.io/kubernetes.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import msgspec

GoName: TypeAlias = tuple[str, str, str, Any]
"""A field: its name in Go and in JSON, how it is held, and what it is when unset."""


class Field(msgspec.Struct, frozen=True):
    """A field of an object, as it stands in JSON.

    `type` is one of string, bool, bytes (base64), int32, int64, float64, quantity, int-or-string,
    time, micro-time, duration, raw (any JSON), object, array, map, schema-or-array, schema-or-bool and
    schema-or-strings.
    `item` is the type of an array's or a map's elements (`array:string` for an array in it); `ref` names the
    ObjectType of an object, or of the elements.
    """

    name: str
    type: str
    item: str = ""
    ref: str = ""
    required: bool = False
    pointer: bool = False
    """The server tells an unset value from a zero one."""
    keep: bool = False
    """A zero value is written (`status: {}`), not left out."""
    list_type: str = ""
    """atomic, set or map for a list; atomic or granular for a map or an object; empty if nothing is said."""
    map_keys: tuple[str, ...] = ()
    patch_strategy: tuple[str, ...] = ()
    merge_key: str = ""
    default: Any = None
    enum: tuple[str, ...] = ()
    number: int = 0
    """Protobuf number; 0 for a field that comes from an inlined struct or has none."""
    go: str = ""
    """Go type where the words above do not tell it: messages about wrong types name it."""
    inside: tuple[str, ...] = ()
    """Go names of the inlined structs that the field comes from, outermost first."""


class Inline(msgspec.Struct, frozen=True):
    """A struct whose fields stand beside the others in JSON, but in a message of its own in protobuf."""

    ref: str
    number: int = 0
    at: int = 0
    """How many own fields come before it."""


class Subresource(msgspec.Struct, frozen=True):
    """A subresource and the kind that it speaks, which may belong to another group."""

    name: str
    group: str
    version: str
    kind: str
    verbs: tuple[str, ...]


class KindRow(msgspec.Struct, frozen=True):
    """A kind as discovery lists it; `type` names its ObjectType, empty for a custom kind."""

    group: str
    version: str
    kind: str
    plural: str
    singular: str
    namespaced: bool
    verbs: tuple[str, ...]
    type: str
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[Subresource, ...] = ()

    @property
    def api_version(self) -> str:
        """`v1` or `apps/v1`, as it stands in an object."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def resource(self) -> str:
        """`pods` or `deployments.apps`, as messages name it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def subresource(self, name: str) -> Subresource | None:
        """The subresource of that name."""
        return next((sub for sub in self.subresources if sub.name == name), None)


class ObjectType(msgspec.Struct, frozen=True):
    """Fields by JSON name, in Go's order, inlined ones included; `inlined` for protobuf."""

    name: str
    fields: dict[str, Field]
    inlined: tuple[Inline, ...] = ()
    atomic: bool = False
    """Owned and replaced as a whole by server-side apply."""


class Schema(msgspec.Struct, frozen=True):
    """All built-in kinds and the types that they are made of. `types` is keyed `core/v1.Pod`."""

    source: dict[str, str]
    kinds: tuple[KindRow, ...]
    types: dict[str, ObjectType]
    index: dict[tuple[str, str, str], KindRow]

    def kind(self, group: str, version: str, kind: str) -> KindRow | None:
        """The row of a kind, None if it is not built in."""
        return self.index.get((group, version, kind))


class _TypeRow(msgspec.Struct):
    fields: list[Field]
    inline: list[Inline] = []
    atomic: bool = False


class _Table(msgspec.Struct):
    source: dict[str, str]
    kinds: list[KindRow]
    types: dict[str, _TypeRow]


@cache
def load_schema() -> Schema:
    """The committed tables, read once."""
    table = msgspec.json.decode(files(__name__).joinpath("schema.json").read_bytes(), type=_Table)
    types: dict[str, ObjectType] = {}
    for name in table.types:
        _flatten(table, name, types)
    kinds = tuple(table.kinds)
    index = {(row.group, row.version, row.kind): row for row in kinds}
    return Schema(table.source, kinds, types, index)


@cache
def load_go_names() -> dict[str, list[GoName]]:
    """Fields of Go's structs in their order, by the struct's name; read once."""
    content = files(__name__).joinpath("go_names.json").read_bytes()
    return msgspec.json.decode(content, type=dict[str, list[GoName]])


@cache
def load_time_zones() -> frozenset[str]:
    """The names of time zones that the API server takes; read once."""
    return frozenset(
        msgspec.json.decode(files(__name__).joinpath("time_zones.json").read_bytes(), type=list[str])
    )


def _flatten(table: _Table, name: str, done: dict[str, ObjectType]) -> ObjectType:
    """Build a type with the fields of its inlined structs in their place."""
    if name in done:
        return done[name]
    row = table.types[name]
    fields: dict[str, Field] = {}
    inlines = {at: [i for i in row.inline if i.at == at] for at in {i.at for i in row.inline}}
    for position, field in enumerate([*row.fields, None]):
        for inline in inlines.get(position, ()):
            for inner in _flatten(table, inline.ref, done).fields.values():
                path = (inline.ref.rpartition(".")[2], *inner.inside)
                fields[inner.name] = msgspec.structs.replace(inner, number=0, inside=path)
        if field is not None:
            fields[field.name] = field
    done[name] = ObjectType(name, fields, tuple(row.inline), row.atomic)
    return done[name]
