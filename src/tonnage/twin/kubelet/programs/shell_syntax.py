"""A subset of the shell's grammar: lists, `&&`, `||`, pipes, `while`, `if`, variables, redirections.

What is outside it (functions, `for`, `case`, `[[`, here-documents, background jobs, globs) raises
UnsupportedError.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from tonnage.twin.kubelet.programs.shell_words import Lexer, ShellToken, ShellUnsupportedError, Word, WordPart

_RESERVED: Final = frozenset({"then", "do", "done", "fi", "else", "elif", "esac", "}"})
_LONGEST: Final = 64 << 10
_DEEPEST: Final = 30
_FOREIGN: Final = frozenset({"case", "for", "function", "select", "{", "until", "[["})


@dataclass(frozen=True, slots=True)
class Simple:
    """Assignments, then a command; `out` and `err` say where the streams go: `out`, `err` or `null`.

    `files` are files that output goes to (`out>`, `out>>`) or input comes from (`in<`).
    """

    assignments: tuple[tuple[str, Word], ...]
    words: tuple[Word, ...]
    out: str = "out"
    err: str = "err"
    no_input: bool = False
    files: tuple[tuple[str, Word], ...] = ()


@dataclass(frozen=True, slots=True)
class ShellPipeline:
    commands: tuple[Node, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class AndOr:
    """`first`, then each with `&&` (True) or `||` (False) before it."""

    first: Node
    rest: tuple[tuple[bool, Node], ...]


@dataclass(frozen=True, slots=True)
class Sequence:
    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class While:
    condition: Node
    body: Node


@dataclass(frozen=True, slots=True)
class If:
    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node | None


Node: TypeAlias = Simple | ShellPipeline | AndOr | Sequence | While | If


def parse_script(text: str) -> Sequence:
    """The script as a tree. Raises UnsupportedError."""
    if len(text) > _LONGEST:
        raise ShellUnsupportedError(f"a script of more than {_LONGEST >> 10} KiB")
    parser = _Parser(Lexer(text).tokens())
    tree = parser.sequence(())
    if parser.peek() is not None:
        raise ShellUnsupportedError("unbalanced command")
    return tree


class _Parser:
    def __init__(self, tokens: list[ShellToken]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def peek(self) -> ShellToken | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def sequence(self, ends: tuple[str, ...]) -> Sequence:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ShellUnsupportedError(f"more than {_DEEPEST} commands within each other")
        items: list[Node] = []
        while (token := self.peek()) is not None:
            if token.operator in {";", "\n"}:
                self._at += 1
            elif self._keyword() in ends:
                break
            else:
                items.append(self._and_or())
        self._depth -= 1
        return Sequence(tuple(items))

    def _and_or(self) -> Node:
        first = self._pipeline()
        rest: list[tuple[bool, Node]] = []
        while (token := self.peek()) is not None and token.operator in {"&&", "||"}:
            self._at += 1
            self._skip_lines()
            rest.append((token.operator == "&&", self._pipeline()))
        token = self.peek()
        if token is not None and token.operator in {"&", ")", ";;"}:
            raise ShellUnsupportedError(f"`{token.operator}`")
        return AndOr(first, tuple(rest)) if rest else first

    def _pipeline(self) -> Node:
        negated = self._keyword() == "!"
        if negated:
            self._at += 1
        commands = [self._command()]
        while (token := self.peek()) is not None and token.operator == "|":
            self._at += 1
            self._skip_lines()
            commands.append(self._command())
        return ShellPipeline(tuple(commands), negated) if negated or len(commands) > 1 else commands[0]

    def _command(self) -> Node:
        keyword = self._keyword()
        if keyword in _FOREIGN or keyword in _RESERVED:
            raise ShellUnsupportedError(f"`{keyword}`")
        if keyword == "while":
            self._at += 1
            condition = self.sequence(("do",))
            return While(condition, self._body())
        if keyword == "if":
            return self._if()
        return self._simple()

    def _if(self) -> Node:
        branches: list[tuple[Node, Node]] = []
        otherwise: Node | None = None
        while self._keyword() in {"if", "elif"}:
            self._at += 1
            condition = self.sequence(("then",))
            self._expect("then")
            branches.append((condition, self.sequence(("elif", "else", "fi"))))
        if self._keyword() == "else":
            self._at += 1
            otherwise = self.sequence(("fi",))
        self._expect("fi")
        return If(tuple(branches), otherwise)

    def _body(self) -> Node:
        self._expect("do")
        body = self.sequence(("done",))
        self._expect("done")
        return body

    def _simple(self) -> Simple:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        streams = {"out": "out", "err": "err", "in": ""}
        files: list[tuple[str, Word]] = []
        while (token := self.peek()) is not None:
            if token.word is not None:
                name, value = _assignment(token.word)
                if name and not words:
                    assignments.append((name, value))
                else:
                    words.append(token.word)
            elif token.target is not None:
                files.append((token.operator, token.target))
            elif not _redirected(token.operator, streams):
                break
            self._at += 1
        if not words and not assignments and not files:
            raise ShellUnsupportedError(f"`{token.operator}`" if token else "an empty command")
        return Simple(
            tuple(assignments),
            tuple(words),
            streams["out"],
            streams["err"],
            streams["in"] == "null",
            tuple(files),
        )

    def _keyword(self) -> str:
        token = self.peek()
        if token is None or token.word is None or len(token.word) != 1:
            return ""
        part = token.word[0]
        return part.text if part.kind == "text" and not part.quoted else ""

    def _expect(self, keyword: str) -> None:
        if self._keyword() != keyword:
            raise ShellUnsupportedError(f"`{keyword}` is missing")
        self._at += 1

    def _skip_lines(self) -> None:
        while (token := self.peek()) is not None and token.operator in {"\n", ";"}:
            self._at += 1


def _assignment(word: Word) -> tuple[str, Word]:
    first = word[0] if word else WordPart("text", "")
    name, equals, rest = first.text.partition("=")
    if first.kind != "text" or first.quoted or not equals or not name.isidentifier():
        return "", ()
    return name, ((WordPart("text", rest),) if rest else ()) + word[1:]


def _redirected(operator: str, streams: dict[str, str]) -> bool:
    match operator:
        case "err>out":
            streams["err"] = streams["out"]
        case "out>err":
            streams["out"] = streams["err"]
        case "both>":
            streams["out"] = streams["err"] = "null"
        case "err>" | "out>":
            streams[operator[:-1]] = "null"
        case "in<":
            streams["in"] = "null"
        case _:
            return False
    return True
