"""Reads the words after a program as the program itself does: options with their values, and arguments.

kubectl and helm read them with pflag, Tonnage with click. Neither takes an abbreviated long option. Both take
`--name=value`, `--name value`, `-nvalue` and several switches in one word; pflag alone takes `-n=value` and
a value for a switch.
Source: github.com/spf13/pflag flag.go (parseLongArg, parseSingleShortArg); click/parser.py, 8.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from tonnage.documents.yaml.source import DocumentFieldError


class OptionKind(Enum):
    """What an option takes, or an argument is."""

    SWITCH = auto()
    """No word of its own; `=value` may follow, as in `--wait=false`."""
    TEXT = auto()
    FORMAT = auto()
    """Of the output; some formats read files."""
    FILE = auto()
    KEYED_FILE = auto()
    """`[KEY=]FILE`"""
    COUNTED_FILE = auto()
    """`FILE[=NUMBER]`"""
    SNAPSHOT = auto()
    """A file beside the lab, or one that an earlier step wrote."""
    WRITTEN_FILE = auto()
    """A snapshot that the command writes into the run's private folder."""
    SERVER_PATH = auto()
    """A path on the API server."""


@dataclass(frozen=True, slots=True)
class Option:
    """An option as it was given. `kind` says what its value is."""

    name: str
    kind: OptionKind
    value: str = ""


@dataclass(frozen=True, slots=True)
class Argument:
    """A word that is no option. `after_dashes`: it stood behind `--`."""

    text: str
    after_dashes: bool = False


def read_words(
    words: Sequence[str], options: Mapping[str, OptionKind], *, pflag: bool
) -> Iterator[Option | Argument]:
    """What the words say, in their order.

    >>> list(read_words(["-fa.yaml", "x"], {"-f": OptionKind.FILE}, pflag=True))[0].value
    'a.yaml'

    Raises:
        FieldError: an option that is not in `options`, or one whose value cannot be told for certain.
    """
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if word == "--":
            yield from (Argument(text, after_dashes=True) for text in rest)
            return
        if word.startswith("--"):
            yield _long(word, rest, options, pflag=pflag)
        elif word.startswith("-") and len(word) > 1:
            yield from _short(word, rest, options, pflag=pflag)
        else:
            yield Argument(word)


def _long(word: str, rest: list[str], options: Mapping[str, OptionKind], *, pflag: bool) -> Option:
    name, equals, value = word.partition("=")
    kind = _kind(name, options)
    if kind is OptionKind.SWITCH:
        if equals and not pflag:
            raise DocumentFieldError(f"{name} takes no value", remedy=f"write {name}")
        return Option(name, kind, value)
    return Option(name, kind, value if equals else _next(name, rest))


def _short(word: str, rest: list[str], options: Mapping[str, OptionKind], *, pflag: bool) -> Iterator[Option]:
    name, value = word[:2], word[2:]
    kind = _kind(name, options)
    if pflag and value.startswith("=") and len(value) > 1:
        yield Option(name, kind, value[1:])
    elif kind is not OptionKind.SWITCH:
        yield Option(name, kind, value or _next(name, rest))
    else:
        yield Option(name, kind)
        for letter in value:
            # cobra, which looks for the subcommand, and pflag differ over a value behind switches in one word
            if _kind(f"-{letter}", options) is not OptionKind.SWITCH:
                raise DocumentFieldError(
                    f"-{letter} is joined to {name} in one word", remedy=f"separate them: {name} -{letter}"
                )
            yield Option(f"-{letter}", OptionKind.SWITCH)


def _kind(name: str, options: Mapping[str, OptionKind]) -> OptionKind:
    if name not in options:
        raise DocumentFieldError(f"{name[:60]} is not an option that a lab may use")
    return options[name]


def _next(name: str, rest: list[str]) -> str:
    """The next word as a value: never one that a program could take for an option instead."""
    if not rest:
        raise DocumentFieldError(f"{name} has no value")
    if rest[0].startswith("-") and rest[0] != "-":
        joined = f"{name}={rest[0]}" if name.startswith("--") else f"{name}{rest[0]}"
        raise DocumentFieldError(
            f"{rest[0][:60]} after {name} can be an option or a value",
            remedy=f"write {joined[:100]} for a value",
        )
    return rest.pop(0)
