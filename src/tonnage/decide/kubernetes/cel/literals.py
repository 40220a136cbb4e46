"""What is wrong with literals of an expression that has passed the compiler.

Source: cel-go checker and cel/validator.go (elements of one type, patterns, moments and spans), as
k8s.io/apiserver pkg/cel/environment switches them on.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from google.protobuf import timestamp_pb2

from tonnage.decide.kubernetes.cel.function_library.formatting import wrong_format
from tonnage.decide.kubernetes.cel.function_library.go_regexps import regexp_problem
from tonnage.decide.kubernetes.cel.tree import type_words, walk
from tonnage.decide.kubernetes.cel.types.untyped import TreeNode
from tonnage.model.durations import nanoseconds


def wrong_literals(tree: TreeNode, text: str) -> str:
    """The compiler's blocks of words, one for each; empty where all are good."""
    offsets = {entry.key: entry.value for entry in tree.source_info.positions}
    types = {entry.key: type_words(entry.value) for entry in tree.type_map}
    formatted = {
        inner.id for expr in walk(tree.expr) if expr.call_expr.function == "format" for inner in walk(expr)
    }
    complaints = []
    for expr in walk(tree.expr):
        mixed = () if expr.id in formatted else _mixed(expr, types)
        for place, words in (*mixed, *_arguments(expr), *_clauses(expr, types)):
            complaints.append((offsets.get(place, 0), words))
    return "\n".join(block(text, offset, words) for offset, words in sorted(complaints))


def block(text: str, offset: int, words: str) -> str:
    """An error as the compiler writes it."""
    before = text[:offset]
    line, column = before.count("\n") + 1, offset - (before.rfind("\n") + 1)
    written = text.split("\n")[line - 1]
    return f"ERROR: <input>:{line}:{column + 1}: {words}\n | {written}\n | {'.' * column}^"


def _mixed(expr: TreeNode, types: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Elements that are of another type than the first."""
    if expr.HasField("list_expr"):
        yield from _unlike(list(expr.list_expr.elements), types)
    elif expr.HasField("struct_expr") and not expr.struct_expr.message_name:
        entries = expr.struct_expr.entries
        yield from _unlike([entry.map_key for entry in entries], types)
        yield from _unlike([entry.value for entry in entries], types)


def _unlike(elements: list[TreeNode], types: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    first_kind = ""
    for element in elements:
        kind = types.get(element.id, "dyn")
        if "dyn" in kind or kind.startswith(("optional_type", "wrapper", "null")):
            return
        if first_kind and kind != first_kind:
            yield element.id, f"expected type '{first_kind}' but found '{kind}'"
            return
        first_kind = kind


def _clauses(expr: TreeNode, types: Mapping[int, str]) -> Iterator[tuple[int, str]]:
    """Values that no clause of a format takes."""
    call = expr.call_expr
    if call.function != "format" or len(call.args) != 1 or not call.args[0].HasField("list_expr"):
        return
    if not call.target.const_expr.HasField("string_value"):
        return
    elements = call.args[0].list_expr.elements
    kinds = [types.get(element.id, "dyn") for element in elements]
    wrong = wrong_format(call.target.const_expr.string_value, kinds)
    if wrong is not None:
        index, words = wrong
        yield expr.id if index is None else elements[index].id, words


def _arguments(expr: TreeNode) -> Iterator[tuple[int, str]]:
    """Patterns, moments and spans that are none."""
    call = expr.call_expr
    if not expr.HasField("call_expr") or len(call.args) != 1 or not call.args[0].HasField("const_expr"):
        return
    constant = call.args[0].const_expr
    if not constant.HasField("string_value"):
        return
    good = {"matches": _is_pattern, "duration": _is_span, "timestamp": _is_moment}.get(call.function)
    if good is not None and not good(constant.string_value):
        yield call.args[0].id, f"invalid {call.function} argument"


def unmakeable(tree: TreeNode) -> str:
    """Why no program can be made of an expression: a pattern that is none, or what cannot be converted."""
    for expr in walk(tree.expr):
        call = expr.call_expr
        if call.args and call.function == "uint" and call.args[0].const_expr.int64_value < 0:
            return "program instantiation failed: unsigned integer overflow"
        if not call.args or not call.args[0].const_expr.HasField("string_value"):
            continue
        spelled = call.args[0].const_expr.string_value
        if call.function in ("find", "findAll") and (wrong := regexp_problem(spelled)):
            return f"program instantiation failed: {wrong}"
        if call.function in _CONVERTED and not _CONVERTED[call.function].fullmatch(spelled):
            words = f"type conversion error from 'string' to '{call.function}'"
            return f"program instantiation failed: {words}"
    return ""


_CONVERTED: Final = {
    "int": re.compile(r"[-+]?[0-9]{1,18}"),
    "uint": re.compile(r"[0-9]{1,19}"),
    "double": re.compile(
        r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?i:inf|infinity)|(?i:nan)"
    ),
    "bool": re.compile(r"1|t|T|TRUE|true|True|0|f|F|FALSE|false|False"),
}


def _is_pattern(text: str) -> bool:
    return not regexp_problem(text)


def _is_span(text: str) -> bool:
    try:
        nanoseconds(text)
    except ValueError:
        return False
    return True


def _is_moment(text: str) -> bool:
    try:
        timestamp_pb2.Timestamp().FromJsonString(text)
    except ValueError:
        return False
    return True
