"""Expressions about objects of any kind: of admission policies, of webhooks, of custom resources.

An expression is compiled about what is known, with types, and its errors are the server's. What it comes to
is found on plain values, as JSON has them. What it costs while it runs is not counted as Kubernetes does; the
library's own budget ends what goes on for long.

Source: k8s.io/apiserver pkg/cel/environment, pkg/admission/plugin/cel (1.35.8).
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from google.protobuf import message

from tonnage.decide.kubernetes.cel.function_library.functions import as_message
from tonnage.decide.kubernetes.cel.function_library.host_functions import ASKING, OPTIONAL, CelHost
from tonnage.decide.kubernetes.cel.function_library.library import checker, runtime, runtime_names, runtime_of
from tonnage.decide.kubernetes.cel.literals import unmakeable, wrong_literals
from tonnage.decide.kubernetes.cel.optionals import LOST, loses_optionals
from tonnage.decide.kubernetes.cel.tree import copied, packed, parsed, type_words, unpacked, walk
from tonnage.decide.kubernetes.cel.types.declarations import declared
from tonnage.decide.kubernetes.cel.types.kinds import CelKind, KnownKinds, kind_named
from tonnage.decide.kubernetes.cel.types.untyped import LibraryObject, TreeNode
from tonnage.decide.kubernetes.cel.wording import Written, compile_words, full_name, titled
from tonnage.decide.kubernetes.claims.cel_errors import TOO_LONG, CelError, CelUnsupportedError
from tonnage.decide.kubernetes.claims.cel_wording import general_error
from tonnage.model.json import JsonValue

LONGEST: Final = 10 * 1024
_EXISTS_ONE: Final = re.compile(r"\bexists_one(\(\s*[A-Za-z_]\w*\s*,\s*[A-Za-z_]\w*\s*,)")
"""With two variables the library knows the other spelling alone; a space keeps all places as they are."""
_ABSENT: Final = re.compile(r"No value with name \"([\w.]+)\" found in Activation")


class AbsentError(Exception):
    """An expression needs a variable, named by this error, that is not among the values."""


class Expression:
    """One compiled expression. With an `error`, in cel-go's words, it cannot be evaluated."""

    def __init__(self, text: str, variables: KnownKinds, allowed: tuple[str, ...]) -> None:
        """`allowed`: the types of which it must have one, such as `bool`; none for any.

        Raises:
            UnsupportedError: nobody here can compile it.
        """
        self.text = text
        self.error = ""
        self.type = "dyn"
        self.tree: TreeNode = None
        self._program: LibraryObject = None
        # Before anything is compiled, which takes ever longer the longer the text is.
        if len(text.encode()) > LONGEST:
            raise CelUnsupportedError(f"more than {LONGEST} bytes")
        environment, titles = _environment(variables)
        root = f"selfType{zlib.crc32(text.encode()) % 10**9}"
        try:
            program = environment.compile(_EXISTS_ONE.sub(r"existsOne \1", text))
        except RuntimeError as error:
            words = compile_words(str(error), Written(text, titles, root), lambda: _parsed(environment, text))
            self.error = f"compilation failed: {words}"
            return
        self.tree = unpacked(program.serialize())
        # Before the type: the server's parser refuses such literals, and then asks for no type.
        if wrong := wrong_literals(self.tree, text):
            self.error = f"compilation failed: {titled(wrong, Written(text, titles, root))}"
            return
        types = {entry.key: entry.value for entry in self.tree.type_map}
        kind = types.get(self.tree.expr.id)
        self.type = "dyn" if kind is None else type_words(kind)
        if allowed and self.type not in allowed:
            expected = " ".join(full_name(type_name) for type_name in allowed)
            one_of = expected if len(allowed) == 1 else f"one of [{expected}]"
            actual = titled(full_name(self.type), Written(text, titles, root))
            self.error = f"must evaluate to {one_of} but got {actual}"
        else:
            self.error = unmakeable(self.tree)
        # Last: what the server refuses is refused, whether or not it could be evaluated here.
        if not self.error and loses_optionals(self.tree, runtime_names()):
            raise CelUnsupportedError(LOST)

    def evaluate(self, values: Mapping[str, object], host: CelHost | None = None) -> JsonValue:
        """What it comes to as JSON has it; raises as `value` does."""
        return _plain(self.value(values, host))

    def value(self, values: Mapping[str, object], host: CelHost | None = None) -> object:
        """What it comes to, as other expressions take it.

        `host` answers what expressions ask about rights and formats.

        Raises:
            CelError: it fails; the text is cel-go's.
            AbsentError: it hangs on a variable that has no value.
            UnsupportedError: its result cannot be known.
        """
        if self.error:
            raise CelError(self.error)
        program = self._program_for(host)
        try:
            evaluated = program.eval(data=dict(values))
            kind, carried = evaluated.type().name(), _carried(evaluated.value())
        except (RuntimeError, TypeError, OverflowError) as error:
            if "budget exceeded" in str(error):
                raise CelError(TOO_LONG) from None
            raise CelUnsupportedError(f"what cannot be evaluated here ({str(error)[:200]})") from None
        if kind == "ERROR":
            raise _failure(str(carried))
        return carried

    def _program_for(self, host: CelHost | None) -> LibraryObject:
        """What asks nobody is made once; what asks is made for each who answers."""
        if host is not None and any(
            overload in ASKING for entry in self.tree.reference_map for overload in entry.value.overload_id
        ):
            return runtime_of(host).deserialize(_runnable(self.tree))
        if self._program is None:
            self._program = runtime().deserialize(_runnable(self.tree))
        return self._program

    @property
    def kind(self) -> CelKind:
        """The type of what it comes to, as far as other expressions need it."""
        return kind_named(self.type)


@lru_cache(maxsize=2048)
def expression(text: str, variables: KnownKinds, allowed: tuple[str, ...] = ()) -> Expression:
    """The compiled expression. Raises UnsupportedError."""
    return Expression(text, variables, allowed)


@lru_cache(maxsize=256)
def _environment(variables: KnownKinds) -> tuple[LibraryObject, Mapping[str, str]]:
    """Where expressions about these are compiled, and what errors call the messages of it."""
    signatures, made = declared(variables)
    return checker(signatures, made.file.SerializeToString()), made.titles


def _parsed(environment: LibraryObject, text: str) -> TreeNode:
    """The tree of an expression that does not compile."""
    return parsed(environment.compile(text, disable_check=True).serialize())


def _runnable(tree: TreeNode) -> bytes:
    """The tree with functions of ours under the names that they run by."""
    changed = copied(tree)
    names = runtime_names()
    references = {entry.key: entry.value for entry in changed.reference_map}
    for expr in walk(changed.expr):
        reference = references.get(expr.id)
        if not expr.HasField("call_expr") or reference is None:
            continue
        own = {names[overload] for overload in reference.overload_id if overload in names}
        call = expr.call_expr
        if own and all(overload in names for overload in reference.overload_id):
            if call.HasField("target"):
                arguments = [copied(call.target), *(copied(overload) for overload in call.args)]
                call.ClearField("target")
                del call.args[:]
                call.args.extend(arguments)
            function, call.function = call.function, own.pop()
            reference.overload_id[:] = [f"{call.function}_{len(call.args)}"]
            if function in OPTIONAL:
                _make_optional(changed, expr)
        elif own:
            reference.overload_id[:] = [
                overload for overload in reference.overload_id if overload not in names
            ]
    return packed(changed)


def _make_optional(tree: TreeNode, expr: TreeNode) -> None:
    """Let what a call comes to be an optional, without a value if it is empty."""
    inner = copied(expr)
    inner.id = max(node.id for node in walk(tree.expr)) + 1
    entries = {entry.key: entry.value for entry in tree.reference_map}
    tree.reference_map.add(key=inner.id, value=copied(entries[expr.id]))
    entries[expr.id].overload_id[:] = ["optional_ofNonZeroValue"]
    call = expr.call_expr
    call.ClearField("target")
    call.function = "optional.ofNonZeroValue"
    del call.args[:]
    call.args.append(inner)


def _failure(text: str) -> Exception:
    """What the library says of an evaluation that fails, as cel-go's."""
    absent = _ABSENT.search(text)
    if absent is None:
        return CelError(general_error(text))
    if absent[1].startswith("authorizer"):
        return CelError(f"no such attribute(s): {absent[1]}")
    owner, _, name = absent[1].rpartition(".")
    return AbsentError(name) if owner == "variables" else CelError(f"no such key: {name}")


def _carried(value: LibraryObject) -> object:
    """A result as another expression takes it."""
    if value is None or isinstance(value, bool | int | float | str | message.Message):
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if callable(getattr(value, "value", None)):  # what a list or a map of the library's holds
        return _carried(value.value())
    if isinstance(value, Mapping) or hasattr(value, "keys"):
        return {key: _carried(value[key]) for key in value}
    if hasattr(value, "__len__") and hasattr(value, "__getitem__"):
        return [_carried(value[index]) for index in range(len(value))]
    return as_message(value)


def _plain(value: object) -> JsonValue:
    """A result as JSON has it; what JSON has not is told as text."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case dict():
            return {str(key): _plain(inner) for key, inner in value.items()}
        case list():
            return [_plain(inner) for inner in value]
        case _:
            return str(value)
