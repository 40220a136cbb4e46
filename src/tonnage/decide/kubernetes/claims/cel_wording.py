"""What the CEL library says about an expression, in the words of cel-go, which the scheduler passes on."""

from __future__ import annotations

import re
from typing import Final

from tonnage.decide.kubernetes.claims.cel_errors import CelUnsupportedError
from tonnage.decide.kubernetes.claims.cel_tree import Tree
from tonnage.decide.kubernetes.claims.cel_values import SEMVER, type_name

WHOLE_DEVICE: Final = "`device` as a value of its own"
_LACKED: Final = frozenset(
    {"find", "findAll", "indexOf", "lastIndexOf", "format", "strings", "lists", "authorizer"}
    | {"transformList", "transformMap", "transformMapEntry"}
    | {"slice", "flatten", "distinct", "reverse", "sort", "sortBy", "range"}
    | {"ip", "isIP", "cidr", "isCIDR", "isCanonical", "url", "isURL", "getHost", "getHostname", "getPort"}
    | {"getScheme", "getEscapedPath", "getQuery"}
)
"""Functions that Kubernetes has and this engine has not."""
_LACKING: Final = re.compile(r"undeclared reference to '([A-Za-z.]+)'")
_WHOLE_NAME: Final = re.compile(
    r"(ERROR: <input>:\d+:)(\d+)(: undeclared reference to ')(([A-Za-z_]\w*)(?:\.\w+)+)('.*)", re.DOTALL
)
_NO_FIELD: Final = re.compile(r"(undefined field '[^']*') not found in struct '[^']*'")
_NO_MATCH: Final = re.compile(r"(found no matching overload for '([A-Za-z.]+)' applied to )'\(([^']*)\)'")
_MISSING_KEY: Final = re.compile(r'Key not found in map : (?:"(.*)"|(.*))', re.DOTALL)
_NO_OVERLOAD: Final = re.compile(
    r"No matching overloads found : "
    r"(?:(?P<op>[_!@\-][^(]*)|<[a-z_]+>|(?:\((?P<self>\w*)\)\.)?(?P<name>[\w.]+))"
    r"(?:\((?P<types>[^)]*)\))?"
)
_PLACE: Final = re.compile(r"Index error: index=(-?[0-9]+).*")
_OF_TIME: Final = re.compile(r"String to (Timestamp|Duration) conversion failed")
_CONVERSION: Final = re.compile(r"cannot convert (bool|bytes|double|int|string|uint) to (\w+).*")
_DEVICE_PART: Final = re.compile(r"undefined field '(?:driver|attributes|capacity|allowMultipleAllocations)'")
_LIST_CALL: Final = re.compile(r"overload for '(indexOf|lastIndexOf)' applied to '\(list")
_KINDS: Final = {"int64": "int", "uint64": "uint", "struct": "kubernetes.Quantity"}
_UNORDERED: Final = frozenset({"list", "map", "null_type", "struct"})
_PLAIN: Final = frozenset({"startsWith", "endsWith", "contains", "matches"})


def compile_error(text: str, expression: str) -> str:
    """The library's words as the API server and the scheduler say them."""
    lacking = {name.partition(".")[0] for name in _LACKING.findall(text)} & _LACKED
    lacking |= {match[1] for match in _LIST_CALL.finditer(text)}
    if lacking:
        raise CelUnsupportedError(f"the function {min(lacking)}")
    if _DEVICE_PART.search(text):
        raise CelUnsupportedError(WHOLE_DEVICE)
    shown = re.sub(r"^[A-Z_]+: | \[[A-Z_]+\]$", "", text)
    shown = _NO_FIELD.sub(r"\1", shown)
    if not expression:
        shown = shown.replace("<input>:1:1:", "<input>:1:0:")
    blocks = re.split(r"(?m)^(?=ERROR: )", shown)
    return "compilation failed: " + "".join(
        as_member(_with_first_name(block), expression) for block in blocks
    )


def _with_first_name(block: str) -> str:
    """What is not declared under its first name, at whose place the compiler of Go complains.

    >>> print(_with_first_name("ERROR: <input>:1:2: undeclared reference to 'a.b' (in)\\n | a.b\\n | .^"))
    ERROR: <input>:1:1: undeclared reference to 'a' (in)
     | a.b
     | ^
    """
    match = _WHOLE_NAME.match(block)
    if match is None:
        return block
    start, column, words, whole, first, rest = match.groups()
    back = len(whole.rpartition(".")[0])
    return f"{start}{int(column) - back}{words}{first}{rest.replace('.' * back + '^', '^', 1)}"


def as_member(block: str, expression: str) -> str:
    """`f` applied to `(T, U)` as `T.(U)`, where the call stands behind its target."""
    match = _NO_MATCH.search(block)
    place = re.match(r"ERROR: <input>:(\d+):(\d+):", block)
    if match is None or place is None:
        return block
    lines = expression.splitlines() or [""]
    line = lines[min(int(place[1]), len(lines)) - 1]
    before = line[: int(place[2]) - 1].rstrip()
    if not before.endswith("." + match[2]):
        return block
    target, _, others = match[3].partition(", ")
    return block[: match.start()] + f"{match[1]}'{target}.({others})'" + block[match.end() :]


def runtime_error(text: str, tree: Tree) -> str:
    """The library's words as cel-go's."""
    shown = re.sub(r"^[A-Z_]+: ", "", text)
    if match := _MISSING_KEY.fullmatch(shown):
        if tree.computed:
            raise CelUnsupportedError("a domain that is computed")
        return f"no such key: {match[1] if match[1] is not None else match[2]}"
    if match := _NO_OVERLOAD.fullmatch(shown):
        return _overload_error(match)
    if match := _PLACE.fullmatch(shown):
        return f"index out of bounds: {match[1]}"
    if match := _CONVERSION.fullmatch(shown):
        return f"type conversion error from '{match[1]}' to '{match[2]}'"
    if shown.startswith(("Applying SELECT to non-message type", "Invalid container type")):
        raise CelUnsupportedError(f"a field of an attribute's value ({', '.join(sorted(tree.names))})")
    return "division by zero" if shown == "divide by zero" else shown


def general_error(text: str) -> str:
    """The library's words about an object of any kind as cel-go's."""
    shown = re.sub(r"^[A-Z_]+: ", "", text)
    if match := _MISSING_KEY.fullmatch(shown):
        return f"no such key: {match[1] if match[1] is not None else match[2]}"
    if match := _NO_OVERLOAD.fullmatch(shown):
        return _overload_error(match)
    if match := _PLACE.fullmatch(shown):
        return f"index out of bounds: {match[1]}"
    if match := _CONVERSION.fullmatch(shown):
        return f"type conversion error from '{match[1]}' to '{match[2]}'"
    if match := _OF_TIME.fullmatch(shown):
        return f"type conversion error from 'string' to 'google.protobuf.{match[1]}'"
    if shown.startswith(("Applying SELECT to non-message type", "Invalid container type")):
        return "no such overload"
    return "division by zero" if shown == "divide by zero" else shown


def _overload_error(match: re.Match[str]) -> str:
    types = [kind for kind in (match["self"], *(match["types"] or "").split(", ")) if kind]
    operator, name = match["op"], match["name"]
    if operator is not None and not operator.startswith("@"):
        named = bool(types) and types[0] in _UNORDERED and (operator, types[0]) != ("_+_", "list")
        return f"no such overload: {operator}" if named else "no such overload"
    if name is None or name in _PLAIN:  # `@in`, a condition, a method of strings
        return "no such overload"
    if name == "size":
        return "no such overload: size"
    return f"no such overload: {name}({', '.join(_KINDS.get(kind, kind) for kind in types)})"


def no_bool(value: object) -> str:
    kind = type_name(value)
    problem = f"unsupported type conversion from '{kind}' to bool"
    if kind == "string":
        problem = "unsupported native conversion from string to 'bool'"
    elif kind == SEMVER:
        problem = "type conversion error from 'Semver' to 'bool'"
    return f"CEL result of type {kind} could not be converted to bool: {problem}"


_NAMES: Final = {
    "NULL": "null_type",
    "TIMESTAMP": "google.protobuf.Timestamp",
    "DURATION": "google.protobuf.Duration",
    "any": "google.protobuf.Any",
    "ERROR": "google.protobuf.Any",
}


def written_type(name: str) -> str:
    """A type as the compiler names it.

    >>> written_type("MAP<STRING, any>"), written_type("INT")
    ('map(string, google.protobuf.Any)', 'int')
    """
    written = re.sub(r"[A-Za-z_.]+", lambda match: _NAMES.get(match[0], match[0].lower()), name)
    return written.replace("<", "(").replace(">", ")")
