"""The command of a lab step: text that a shell would run the same way, but run without a shell.

Only what can be shown to be safe is read: words, quotes, a backslash, `$NAME` of an earlier step, and
`NAME=$(command)`. Pipes, redirections, globs, substitutions and lists of commands are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Final

PROGRAMS: Final = ("kubectl", "helm", "tonnage")
MAX_CHARACTERS: Final = 4096

_ASSIGNMENT: Final = re.compile(r"([A-Z][A-Z0-9_]*)=\$\((.*)\)", re.DOTALL)
_VARIABLE: Final = re.compile(r"\$(?:\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")
_SPECIAL: Final = {
    "|": "a pipe",
    "&": "a background command or list",
    ";": "a list of commands",
    "<": "a redirection",
    ">": "a redirection",
    "(": "a subshell",
    ")": "a subshell",
    "`": "a command substitution",
    "*": "a glob",
    "?": "a glob",
    "[": "a glob",
    "]": "a glob",
    "{": "a brace expansion",
    "}": "a brace expansion",
    "~": "a home folder",
    "#": "a comment",
    "!": "a history expansion",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A literal part of a word."""

    text: str


@dataclass(frozen=True, slots=True)
class Variable:
    """A part of a word that an earlier step supplies; it never splits the word."""

    name: str


Word = tuple[Text | Variable, ...]


@dataclass(frozen=True, slots=True)
class Command:
    """A parsed command. The first word names the program; stdout goes to `assigns` when that is set."""

    words: tuple[Word, ...]
    assigns: str = ""

    @property
    def program(self) -> str:
        """`kubectl`, `helm` or `tonnage`."""
        return _literal(self.words[0])

    @property
    def variables(self) -> Set[str]:
        """Names that earlier steps must have assigned."""
        return {part.name for word in self.words for part in word if isinstance(part, Variable)}

    def arguments(self, values: Mapping[str, str]) -> tuple[str, ...]:
        """The words after the program, variables filled in. Raises KeyError for one without a value."""
        return tuple(
            "".join(part.text if isinstance(part, Text) else values[part.name] for part in word)
            for word in self.words[1:]
        )


def parse_command(text: str) -> Command:
    """The command in `text`.

    >>> parse_command("kubectl get pod 'a b' -n $NS").arguments({"NS": "x; rm"})
    ('get', 'pod', 'a b', '-n', 'x; rm')
    >>> parse_command("NODE=$(kubectl get nodes -o name)").assigns
    'NODE'

    Raises:
        ValueError: with a sentence that says what a lab cannot do.
    """
    if len(text) > MAX_CHARACTERS:
        raise ValueError(f"a command has at most {MAX_CHARACTERS} characters")
    for character in text:
        if not (character.isprintable() or character in "\n\t"):
            raise ValueError(f"a command has only characters that print, not {character!a}")
    assignment = _ASSIGNMENT.fullmatch(text.strip())
    words = tuple(_words(assignment[2] if assignment else text))
    program = _literal(words[0]) if words and not _has_variable(words[0]) else ""
    if program not in PROGRAMS:
        raise ValueError(f"a command begins with kubectl, helm or tonnage, not {program[:40]!r}")
    return Command(words, assignment[1] if assignment else "")


def _literal(word: Word) -> str:
    return "".join(part.text for part in word if isinstance(part, Text))


def _has_variable(word: Word) -> bool:
    return any(isinstance(part, Variable) for part in word)


def _words(text: str) -> Iterator[Word]:
    """The words of a command line in the grammar of POSIX shells, without what `_SPECIAL` names."""
    word: list[Text | Variable] | None = None
    position = 0
    while position < len(text):
        character = text[position]
        if character.isspace():
            if character == "\n" and text[position:].strip():
                raise ValueError("a command is one line; end a line with \\ to continue it")
            if word is not None:
                yield tuple(word)
            word, position = None, position + 1
            continue
        if text.startswith("\\\n", position):
            position += 2
            continue
        parts, position = _part(text, position)
        word = [*(word or []), *parts]
    if word is not None:
        yield tuple(word)


def _part(text: str, position: int) -> tuple[list[Text | Variable], int]:
    """One quoted string, escaped character, variable or plain character, and where the next begins."""
    character = text[position]
    if character == "'":
        end = text.find("'", position + 1)
        if end < 0:
            raise ValueError("a single quote is not closed")
        return [Text(text[position + 1 : end])], end + 1
    if character == '"':
        return _double_quoted(text, position + 1)
    if character == "\\":
        if position + 1 >= len(text):
            raise ValueError("a backslash ends the command")
        return [Text(text[position + 1])], position + 2
    if character == "$":
        return _variable(text, position)
    if character in _SPECIAL:
        raise ValueError(
            f"{_SPECIAL[character]} ({character}) is not run by a lab; quote it if it is meant as text"
        )
    return [Text(character)], position + 1


def _double_quoted(text: str, position: int) -> tuple[list[Text | Variable], int]:
    parts: list[Text | Variable] = [Text("")]
    while position < len(text):
        character = text[position]
        if character == '"':
            return parts, position + 1
        if character == "`":
            raise ValueError("a command substitution (`) is not run by a lab")
        if character == "$":
            pieces, position = _variable(text, position)
            parts += pieces
        elif character == "\\" and text[position + 1 : position + 2] in ('"', "\\", "$", "`"):
            parts.append(Text(text[position + 1]))
            position += 2
        else:
            parts.append(Text(character))
            position += 1
    raise ValueError("a double quote is not closed")


def _variable(text: str, position: int) -> tuple[list[Text | Variable], int]:
    match = _VARIABLE.match(text, position)
    if match is None:
        raise ValueError(
            "$ begins a variable ($NAME) that an earlier step assigned; in single quotes it is text"
        )
    return [Variable(match[1] or match[2])], match.end()
