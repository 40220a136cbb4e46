"""A compiled expression as a tree of messages, to read it and to change it.

Source: cel.expr.CheckedExpr (field numbers).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Final

from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message, message_factory

from tonnage.decide.kubernetes.cel.types.untyped import TreeNode

_TYPE_MESSAGE: Final = 11
_SCALARS: Final = {"double": 1, "int64": 3, "uint64": 4, "int32": 5, "bool": 8, "string": 9, "bytes": 12}
_PACKAGE: Final = "tonnage.cel"
_URL: Final = "type.googleapis.com/cel.expr.CheckedExpr"
_SHAPES: Final[Mapping[str, Mapping[str, tuple[int, str]]]] = {
    "Reference": {"name": (1, "string"), "overload_id": (3, "string*")},
    "ReferenceEntry": {"key": (1, "int64"), "value": (2, "Reference")},
    "ListType": {"elem_type": (1, "Type")},
    "MapType": {"key_type": (1, "Type"), "value_type": (2, "Type")},
    "AbstractType": {"name": (1, "string"), "parameter_types": (2, "Type*")},
    "Type": {
        "null": (2, "int32?"),
        "primitive": (3, "int32?"),
        "wrapper": (4, "int32?"),
        "well_known": (5, "int32?"),
        "list_type": (6, "ListType"),
        "map_type": (7, "MapType"),
        "message_type": (9, "string?"),
        "type_param": (10, "string?"),
        "abstract_type": (14, "AbstractType"),
    },
    "TypeEntry": {"key": (1, "int64"), "value": (2, "Type")},
    "Position": {"key": (1, "int64"), "value": (2, "int32")},
    "Source": {"line_offsets": (3, "int32*"), "positions": (4, "Position*")},
    "Checked": {
        "reference_map": (2, "ReferenceEntry*"),
        "type_map": (3, "TypeEntry*"),
        "expr": (4, "Expr"),
        "source_info": (5, "Source"),
    },
    "Parsed": {"expr": (2, "Expr"), "source_info": (3, "Source")},
    "Constant": {
        "null_value": (1, "int32?"),
        "bool_value": (2, "bool?"),
        "int64_value": (3, "int64?"),
        "uint64_value": (4, "uint64?"),
        "double_value": (5, "double?"),
        "string_value": (6, "string?"),
        "bytes_value": (7, "bytes?"),
    },
    "Ident": {"name": (1, "string")},
    "Select": {"operand": (1, "Expr"), "field": (2, "string"), "test_only": (3, "bool")},
    "Call": {"target": (1, "Expr"), "function": (2, "string"), "args": (3, "Expr*")},
    "CreateList": {"elements": (1, "Expr*"), "optional_indices": (2, "int32*")},
    "Entry": {"map_key": (3, "Expr"), "value": (4, "Expr"), "optional_entry": (5, "bool")},
    "CreateStruct": {"message_name": (1, "string"), "entries": (2, "Entry*")},
    "Comprehension": {
        "iter_var": (1, "string"),
        "iter_range": (2, "Expr"),
        "accu_var": (3, "string"),
        "accu_init": (4, "Expr"),
        "loop_condition": (5, "Expr"),
        "loop_step": (6, "Expr"),
        "result": (7, "Expr"),
        "iter_var2": (8, "string"),
    },
    "Expr": {
        "id": (2, "int64"),
        "const_expr": (3, "Constant"),
        "ident_expr": (4, "Ident"),
        "select_expr": (5, "Select"),
        "call_expr": (6, "Call"),
        "list_expr": (7, "CreateList"),
        "struct_expr": (8, "CreateStruct"),
        "comprehension_expr": (9, "Comprehension"),
    },
}
"""Only what is read or changed; the other fields travel along unseen. `*` repeated, `?` with presence."""


def unpacked(serialized: bytes) -> TreeNode:
    """The tree of an expression that the library has serialized."""
    return _shape("Checked").FromString(any_pb2.Any.FromString(serialized).value)


def parsed(serialized: bytes) -> TreeNode:
    """The tree of an expression that nobody has checked."""
    return _shape("Parsed").FromString(any_pb2.Any.FromString(serialized).value)


def packed(checked: message.Message) -> bytes:
    """A tree as the library takes it."""
    return any_pb2.Any(type_url=_URL, value=checked.SerializeToString()).SerializeToString()


def copied(node: TreeNode) -> TreeNode:
    """A message of its own with the same content."""
    made = type(node)()
    made.CopyFrom(node)
    return made


def walk(expr: TreeNode) -> Iterator[TreeNode]:
    """The expression and all below it."""
    stack = [expr]
    while stack:
        current = stack.pop()
        yield current
        for _, part in current.ListFields():
            if isinstance(part, message.Message):
                stack += children(part)


def children(part: TreeNode) -> Iterator[TreeNode]:
    """The expressions directly below."""
    for _, value in part.ListFields():
        values = [value] if isinstance(value, message.Message) else value
        for child in values if not isinstance(values, str | bool | int | float | bytes) else ():
            if isinstance(child, message.Message):
                if child.DESCRIPTOR.name == "Expr":
                    yield child
                else:
                    yield from children(child)


_PRIMITIVES: Final = ("", "bool", "int", "uint", "double", "string", "bytes")
_WELL_KNOWN: Final = ("", "any", "timestamp", "duration")


def type_words(kind: TreeNode) -> str:
    """A type as errors name it."""
    if kind.HasField("null"):
        return "null"
    if kind.HasField("primitive"):
        return _PRIMITIVES[kind.primitive]
    if kind.HasField("wrapper"):
        return f"wrapper({_PRIMITIVES[kind.wrapper]})"
    if kind.HasField("well_known"):
        return _WELL_KNOWN[kind.well_known]
    if kind.HasField("list_type"):
        return f"list({type_words(kind.list_type.elem_type)})"
    if kind.HasField("map_type"):
        return f"map({type_words(kind.map_type.key_type)}, {type_words(kind.map_type.value_type)})"
    if kind.HasField("abstract_type"):
        inside = ", ".join(type_words(parameter) for parameter in kind.abstract_type.parameter_types)
        return f"{kind.abstract_type.name}({inside})"
    return str(kind.message_type or kind.type_param or "dyn")


@cache
def _shape(name: str) -> type[message.Message]:
    return message_factory.GetMessageClass(_pool().FindMessageTypeByName(f"{_PACKAGE}.{name}"))


@cache
def _pool() -> descriptor_pool.DescriptorPool:
    file = descriptor_pb2.FileDescriptorProto(name="tonnage_cel.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _SHAPES.items():
        kind = file.message_type.add(name=name)
        for field, (number, shape) in fields.items():
            _declare(kind, field, number, shape)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def _declare(kind: descriptor_pb2.DescriptorProto, field: str, number: int, shape: str) -> None:
    base = shape.rstrip("*?")
    declared = kind.field.add(name=field, number=number, label=3 if shape.endswith("*") else 1)
    if base in _SCALARS:
        declared.type = _SCALARS[base]  # type: ignore[assignment]
    else:
        declared.type = _TYPE_MESSAGE  # type: ignore[assignment]
        declared.type_name = f".{_PACKAGE}.{base}"
    if shape.endswith("?"):
        kind.oneof_decl.add(name=f"_{field}")
        declared.oneof_index = len(kind.oneof_decl) - 1
        declared.proto3_optional = True
