"""The messages by which the CEL library knows the types of what an expression knows.

An object is a message, so that a field that it has not is found when an expression is compiled. A message
cannot say what lists of lists, or maps of lists, hold: what is in those is of any type.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from google.protobuf import descriptor_pb2

from tonnage.decide.kubernetes.cel.types.kinds import DYN, CelKind, KnownKinds
from tonnage.decide.kubernetes.cel.types.messages import OWN_FILES

PACKAGE: Final = "schema"
ROOT: Final = "selfType0"
"""Stands in titles for what a rule is about."""
_SCALARS: Final = {"double": 1, "int": 3, "uint": 4, "bool": 8, "string": 9, "bytes": 12}
_MESSAGES: Final = {
    "timestamp": ".google.protobuf.Timestamp",
    "duration": ".google.protobuf.Duration",
    "dyn": ".google.protobuf.Value",
}
_MESSAGE: Final = 11
_REPEATED: Final = 3
_LISTS: Final = ".google.protobuf.ListValue"
_MAPS: Final = ".google.protobuf.Struct"


@dataclass(slots=True)
class Declarations:
    """Messages for the objects among what is known."""

    file: descriptor_pb2.FileDescriptorProto = field(
        default_factory=lambda: descriptor_pb2.FileDescriptorProto(
            name="schema.proto",
            package=PACKAGE,
            syntax="proto2",
            dependency=[
                *(f"google/protobuf/{name}.proto" for name in ("struct", "timestamp", "duration")),
                *OWN_FILES,
            ],
        )
    )
    titles: dict[str, str] = field(default_factory=dict)
    """What errors call a message, by its name."""
    _made: dict[tuple[str, CelKind], str] = field(default_factory=dict)

    def signature(self, kind: CelKind, where: str) -> str:
        """A type as the library writes it."""
        match kind.name:
            case "list":
                return f"list<{self.signature(kind.element or DYN, f'{where}.@idx')}>"
            case "map":
                return f"map<string,{self.signature(kind.element or DYN, f'{where}.@elem')}>"
            case "optional":
                return f"optional_type<{self.signature(kind.element or DYN, where)}>"
            case "object":
                return self._message(kind, kind.title or where)
            case name:
                return name

    def _message(self, kind: CelKind, title: str) -> str:
        if (title, kind) not in self._made:
            name = f"T{len(self._made)}"
            self._made[title, kind] = f"{PACKAGE}.{name}"
            self.titles[name] = title
            made = self.file.message_type.add(name=name)
            made.options.deprecated_legacy_json_field_conflicts = True
            for number, (key, inner) in enumerate(kind.fields, 1):
                declared = made.field.add(name=key, number=number, label=1, json_name=f"f{number}")
                self._declare(made, declared, inner, f"{title}.{key}")
        return self._made[title, kind]

    def _declare(
        self,
        made: descriptor_pb2.DescriptorProto,
        declared: descriptor_pb2.FieldDescriptorProto,
        kind: CelKind,
        where: str,
    ) -> None:
        inner = kind.element
        holds_many = inner is not None and inner.name in ("list", "map")
        if kind.name == "list" and not holds_many:
            declared.label = _REPEATED  # type: ignore[assignment]
            self._give(declared, inner or DYN, f"{where}.@idx")
        elif kind.name == "map" and not holds_many:
            declared.label = _REPEATED  # type: ignore[assignment]
            entry = _camel(declared.name) + "Entry"
            declared.type, declared.type_name = _MESSAGE, entry  # type: ignore[assignment]
            pair = made.nested_type.add(name=entry)
            pair.options.map_entry = True
            pair.field.add(name="key", number=1, label=1, type=_SCALARS["string"])
            self._give(pair.field.add(name="value", number=2, label=1), inner or DYN, f"{where}.@elem")
        else:
            self._give(declared, kind, where)

    def _give(self, declared: descriptor_pb2.FieldDescriptorProto, kind: CelKind, where: str) -> None:
        if kind.name in _SCALARS:
            declared.type = _SCALARS[kind.name]  # type: ignore[assignment]
            return
        declared.type = _MESSAGE  # type: ignore[assignment]
        match kind.name:
            case "object":
                declared.type_name = f".{self._message(kind, kind.title or where)}"
            case "list":
                declared.type_name = _LISTS
            case "map":
                declared.type_name = _MAPS
            case name:
                declared.type_name = _MESSAGES.get(name) or f".{name}"


def declared(variables: KnownKinds) -> tuple[Mapping[str, str], Declarations]:
    """Every name's type as the library writes it, and the messages that belong to it."""
    made = Declarations()
    return {name: made.signature(kind, ROOT) for name, kind in variables}, made


def _camel(name: str) -> str:
    """
    >>> _camel("foo_bar"), _camel("fooBar")
    ('FooBar', 'FooBar')
    """
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
