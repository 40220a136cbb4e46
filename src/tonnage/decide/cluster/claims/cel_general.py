"""CEL about objects of any kind: admission policies, webhooks' conditions, rules of custom resources.

Variables have no types, so an expression that selects a field which no object has compiles, and fails when
it is evaluated. Not there: macros with two variables, addresses, URLs, the authorizer. The cost is
not counted as Kubernetes does; the library's own budget ends what goes on for long.

Source: k8s.io/apiserver pkg/cel/environment, pkg/admission/plugin/cel (1.35.8).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final

from tonnage.decide.cluster.claims.cel_environment import arities_of_functions, extensions, result_type
from tonnage.decide.cluster.claims.cel_errors import CelError, UnsupportedError
from tonnage.decide.cluster.claims.cel_values import FUNCTIONS, messages
from tonnage.decide.cluster.claims.cel_wording import compile_error, general_error, written_type
from tonnage.model.json import JsonValue

LONGEST: Final = 10 * 1024
OVER_BUDGET: Final = (
    "validation failed due to running out of cost budget, no further validation rules will be run"
)
Known = tuple[tuple[str, str], ...]
"""Names that an expression may use, each with its type as `Expression.type` has it; `DYN` is of any."""

_ROOTLESS: Final = re.compile(
    r"ERROR: <input>:(\d+):(\d+): undeclared reference to '(([A-Za-z_]\w*)(?:\.\w+)+)'([^\n]*)\n"
    r"( \| [^\n]*\n) \| \.*\^"
)
_PLACE_ENDS: Final = len("ERROR: <input>:00000:00000")
_ABSENT: Final = re.compile(r"No value with name \"([\w.]+)\" found in Activation")


class AbsentError(Exception):
    """An expression needs a variable, named by this error, that is not among the values."""


class Expression:
    """One compiled expression. With an `error`, in cel-go's words, it cannot be evaluated."""

    def __init__(self, text: str, known: Known, wanted: tuple[str, ...]) -> None:
        """`wanted`: the types of which it must have one, such as `BOOL`; none for any.

        Raises:
            UnsupportedError: nobody here can compile it.
        """
        self.text = text
        self.error = ""
        self.type = "DYN"
        self._program: Any = None
        if len(text.encode()) > LONGEST:
            raise UnsupportedError(f"more than {LONGEST} bytes")
        try:
            program = _environment(known).compile(text)
        except RuntimeError as error:
            self.error = _rooted(compile_error(str(error), text))
            return
        self.type = program.return_type().name()
        if wanted and self.type not in (*wanted, "ERROR"):
            told = " ".join(written_type(one) for one in wanted)
            one_of = told if len(wanted) == 1 else f"one of [{told}]"
            self.error = f"must evaluate to {one_of} but got {written_type(self.type)}"
            return
        self._program = program

    def evaluate(self, values: Mapping[str, object]) -> JsonValue:
        """What it comes to.

        Raises:
            CelError: it fails; the text is cel-go's.
            AbsentError: it hangs on a variable that has no value.
            UnsupportedError: its result cannot be known.
        """
        if self._program is None:
            raise CelError(self.error)
        try:
            found = self._program.eval(data=dict(values))
            kind, plain = found.type().name(), found.value()
        except (RuntimeError, TypeError, OverflowError) as error:
            if "budget exceeded" in str(error):
                raise CelError(OVER_BUDGET) from None
            raise UnsupportedError(f"what cannot be evaluated here ({str(error)[:200]})") from None
        if kind == "ERROR":
            if absent := _ABSENT.search(str(plain)):
                owner, _, name = absent[1].rpartition(".")
                raise AbsentError(name) if owner == "variables" else CelError(f"no such key: {name}")
            raise CelError(general_error(str(plain)))
        return plain_value(plain)


@lru_cache(maxsize=2048)
def expression(text: str, known: Known, wanted: tuple[str, ...] = ()) -> Expression:
    """The compiled expression. Raises UnsupportedError."""
    return Expression(text, known, wanted)


def _rooted(error: str) -> str:
    """Blame a name that nothing has where it begins, as cel-go does, not at its last part."""

    def blamed(match: re.Match[str]) -> str:
        parts, root = match[3], match[4]
        column = int(match[2]) - len(parts.rpartition(".")[0])
        place = f"ERROR: <input>:{match[1]}:{column}: undeclared reference to '{root}'{match[5]}"
        return f"{place}\n{match[6]} | {'.' * (column - 1)}^"

    whole = _ROOTLESS.sub(blamed, error)
    head, *blocks = re.split(r"(?=ERROR: <input>:)", whole)
    return head + "\n".join(sorted((block.rstrip("\n") for block in blocks), key=_place_of))


def _place_of(block: str) -> tuple[int, ...]:
    """Line and column of an error."""
    return tuple(int(number) for number in re.findall(r"\d+", block[:_PLACE_ENDS])[:2])


def plain_value(value: Any) -> JsonValue:
    """A result as JSON has it; what JSON has not is told as text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if callable(getattr(value, "value", None)):  # what a list or a map of the library's holds
        return plain_value(value.value())
    if isinstance(value, Mapping) or hasattr(value, "keys"):
        return {str(key): plain_value(value[key]) for key in value}
    if hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, bytes):
        return [plain_value(value[index]) for index in range(len(value))]
    return str(value)


@lru_cache(maxsize=256)
def _environment(known: Known) -> Any:
    from cel_expr_python import cel

    types = cel.Type
    anything = types("google.protobuf.Any")
    functions = []
    for name, kinds in arities_of_functions().items():
        result = result_type(name)
        overloads = [
            cel.Overload(
                f"{name}_{count}", result, [anything] * count, is_member=member, impl=FUNCTIONS[name]
            )
            for count, member in sorted(kinds)
        ]
        functions.append(cel.FunctionDecl(name, overloads))
    of_text: tuple[tuple[str, Any, list[Any], Callable[..., object]], ...] = (
        ("find", types.STRING, [types.STRING], _find),
        ("findAll", types.List(types.STRING), [types.STRING], _find_all),
    )
    for name, result, parameters, function in of_text:
        taken = [types.STRING, *parameters]
        overloads = [cel.Overload(f"string_{name}", result, taken, is_member=True, impl=function)]
        functions.append(cel.FunctionDecl(name, overloads))
    return cel.NewEnv(
        descriptor_pool=messages(),
        variables={name: _type(written) for name, written in known},
        functions=functions,
        extensions=extensions(bindings=False),
    )


def _type(written: str) -> Any:
    from cel_expr_python import cel

    types = cel.Type
    match written.partition("<")[0]:
        case "BOOL" | "STRING" | "INT" | "UINT" | "DOUBLE" | "BYTES" | "TIMESTAMP" | "DURATION" as plain:
            return getattr(types, plain)
        case "LIST":
            return types.List(types.DYN)
        case "MAP":
            texts = written == "MAP<STRING, STRING>"
            return types.Map(types.STRING, types.STRING) if texts else types.Map(types.DYN, types.DYN)
        case _:
            return types.DYN


def _pattern(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise CelError(f"error parsing regexp: {error}") from None


def _find(text: str, pattern: str) -> str:
    found = _pattern(pattern).search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [found[0] for found in _pattern(pattern).finditer(text)]
