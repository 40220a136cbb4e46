"""A lab's command against what a lab may run: when it is read, and again with the values of variables."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Final

from tonnage.documents.lab.command import Command
from tonnage.documents.lab.options import Argument, Option, OptionKind, read_words
from tonnage.documents.lab.permitted import PERMITTED, Arguments, Permitted
from tonnage.documents.yaml.source import DocumentFieldError

MAX_VALUE: Final = 4096
"""Characters of a variable's value."""
_UNKNOWN: Final = "\ue000"
"""A variable's value before there is one. No command has this character of its own: it does not print."""
_WHY: Final = "a lab reaches its cluster and the files beside it, and nothing else"
_PAGE: Final = "docs/how-to/write-a-lab.md"
_MOST_WORDS: Final = 3
_FILE: Final = re.compile(r"(?!-)[\w.-]+(/[\w.-]+)*", re.ASCII)
_KEY: Final = re.compile(r"([\w.-]+)=(.*)", re.ASCII | re.DOTALL)
_COUNT: Final = re.compile(r"(.*?)(=[0-9]+)?", re.DOTALL)
_FORMAT: Final = re.compile(
    r"json|yaml|kyaml|name|wide|text|table|sarif|(jsonpath|jsonpath-as-json|go-template|custom-columns)=.*",
    re.DOTALL,
)
_SNAPSHOT: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,60}\.jsonl(\.gz)?", re.ASCII)
_SERVER_PATH: Final = re.compile(r"/[^/].*", re.DOTALL)
_FILE_KINDS: Final = (OptionKind.FILE, OptionKind.KEYED_FILE, OptionKind.COUNTED_FILE)
_UNCHANGED: Final = ("client", "server")


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A permitted command, its words told apart."""

    subcommand: str
    permitted: Permitted
    words: tuple[Option | Argument, ...]

    @property
    def files(self) -> Iterator[str]:
        """The files that it reads. A chart is a folder: see `charts`."""
        for word in self.words:
            if isinstance(word, Option) and word.kind in _FILE_KINDS:
                yield _file_in(word)
            elif isinstance(word, Argument) and self.permitted.arguments in _FILE_ARGUMENTS:
                yield word.text

    @property
    def snapshots(self) -> Iterator[str]:
        """The snapshots that it reads."""
        return self._values(OptionKind.SNAPSHOT)

    @property
    def written(self) -> Iterator[str]:
        """The files that it writes into the run's private folder."""
        return self._values(OptionKind.WRITTEN_FILE)

    def _values(self, kind: OptionKind) -> Iterator[str]:
        return (word.value for word in self.words if isinstance(word, Option) and word.kind is kind)

    @property
    def charts(self) -> Iterator[str]:
        """The folder of a chart."""
        if self.permitted.arguments is Arguments.CHART:
            yield from [word.text for word in self.words if isinstance(word, Argument)][-1:]

    @property
    def changes(self) -> bool:
        """Whether it changes the cluster, or runs something there."""
        dry = [word.value for word in self.words if isinstance(word, Option) and word.name == "--dry-run"]
        return self.permitted.changes and not (dry and all(value in _UNCHANGED for value in dry))


_FILE_ARGUMENTS: Final = (Arguments.FILES, Arguments.ANY_FILES)


def review(command: Command, values: Mapping[str, str] | None = None) -> Reviewed:
    """The command's words told apart; without `values` as it stands in the lab, variables unknown.

    Raises:
        FieldError: it is not permitted.
    """
    if values is None:
        words = command.arguments(dict.fromkeys(command.variables, _UNKNOWN))
    else:
        _check_values(command, values)
        words = command.arguments(values)
    subcommand, permitted = _permitted(command.program, words)
    rest = words[len(subcommand.split()) :]
    called = f"{command.program} {subcommand}"
    try:
        read = tuple(read_words(rest, permitted.options, pflag=command.program != "tonnage"))
    except DocumentFieldError as error:
        remedy = error.remedy or f"use {' '.join(sorted(permitted.options)) or 'no option'}"
        raise DocumentFieldError(f"{called}: {error}", why=_WHY, remedy=remedy) from None
    for word in read:
        _check_option(word, called) if isinstance(word, Option) else None
    reviewed = Reviewed(subcommand, permitted, read)
    _check_arguments(reviewed, called)
    if any(_UNKNOWN in name for name in (*reviewed.files, *reviewed.charts, *reviewed.snapshots)):
        raise DocumentFieldError(
            f"{called}: a file out of a variable", why=_WHY, remedy="write the file's name"
        )
    return reviewed


def _check_values(command: Command, values: Mapping[str, str]) -> None:
    """What an earlier step printed stays a value: it never becomes an option or a line of its own."""
    for name in sorted(command.variables):
        value = values[name]
        if len(value) > MAX_VALUE or not value.replace("\n", "").replace("\t", "").isprintable():
            raise DocumentFieldError(
                f"the value of {name} is longer than {MAX_VALUE} characters or does not print"
            )
    before = command.arguments(dict.fromkeys(command.variables, _UNKNOWN))
    for word, unknown in zip(command.arguments(values), before, strict=True):
        if word.startswith("-") and not unknown.startswith("-"):
            raise DocumentFieldError(f"a variable's value became an option: {word[:60]}", why=_WHY)


def _permitted(program: str, words: Sequence[str]) -> tuple[str, Permitted]:
    table = PERMITTED[program]
    for count in range(min(_MOST_WORDS, len(words)), 0, -1):
        name = " ".join(words[:count])
        if name in table and len(name.split()) == count:
            return name, table[name]
    subcommand = words[0] if words else ""
    subcommands = sorted({name.partition(" ")[0] for name in table})
    if subcommand.startswith("-"):
        remedy = f"write the subcommand first: {program} SUBCOMMAND {subcommand[:60]}"
        raise DocumentFieldError(f"{program} begins with an option", why=_WHY, remedy=remedy)
    below = sorted(name for name in table if name.startswith(f"{subcommand} "))
    shown = " ".join(words[:2]) if below else subcommand
    remedy = f"use one of {', '.join(below or subcommands)}; see {_PAGE}"
    raise DocumentFieldError(
        f"{program} {shown[:60]} is not run by a lab".replace(_UNKNOWN, "$"), why=_WHY, remedy=remedy
    )


def _check_option(option: Option, called: str) -> None:
    if option.kind is OptionKind.FORMAT and not _FORMAT.fullmatch(option.value):
        raise DocumentFieldError(
            f"{called}: {option.name} {option.value[:60]}".replace(_UNKNOWN, "$"),
            why="the format may read files",
            remedy="use json, yaml, name, wide, jsonpath=..., custom-columns=... or go-template=...",
        )
    if option.kind is OptionKind.WRITTEN_FILE and not _SNAPSHOT.fullmatch(option.value):
        raise DocumentFieldError(
            f"{called}: {option.name} {option.value[:60]}".replace(_UNKNOWN, "$"),
            why="a lab writes snapshots alone, into the run's own folder",
            remedy="write a name of small letters, digits and - that ends in .jsonl or .jsonl.gz",
        )
    if option.kind is OptionKind.SERVER_PATH and not _SERVER_PATH.fullmatch(option.value):
        raise DocumentFieldError(
            f"{called}: {option.name} takes a path on the API server", remedy="begin it with /"
        )


def _check_arguments(reviewed: Reviewed, called: str) -> None:
    arguments = [word for word in reviewed.words if isinstance(word, Argument)]
    if any(word.after_dashes for word in arguments) and not reviewed.permitted.container:
        raise DocumentFieldError(
            f"{called}: no words after --", why="the command runs nothing in a container", remedy="remove --"
        )
    permitted = reviewed.permitted.arguments
    if permitted is Arguments.NONE and arguments:
        raise DocumentFieldError(
            f"{called}: {arguments[0].text[:60]} is not an argument that a lab may use".replace(
                _UNKNOWN, "$"
            ),
            why=_WHY,
            remedy="name objects and files with options, such as -f FILE",
        )
    if permitted in (Arguments.FILES, Arguments.CHART) and not arguments:
        kind = "a chart" if permitted is Arguments.CHART else "files"
        raise DocumentFieldError(
            f"{called}: the file is missing", why=_WHY, remedy=f"name {kind} beside the lab"
        )


def _file_in(option: Option) -> str:
    if option.kind is OptionKind.KEYED_FILE:
        match = _KEY.fullmatch(option.value)
        return match[2] if match else option.value
    if option.kind is OptionKind.COUNTED_FILE:
        match = _COUNT.fullmatch(option.value)
        return match[1] if match else option.value
    return option.value


def manifest_files(command: Command) -> Iterator[str]:
    """The files that a command reads.

    >>> from tonnage.documents.lab.command import parse_command
    >>> list(manifest_files(parse_command("kubectl apply -f a.yaml --filename=b.yaml")))
    ['a.yaml', 'b.yaml']
    >>> list(manifest_files(parse_command("tonnage mig lint a.yaml")))
    ['a.yaml']

    Raises FieldError: the command is not permitted.
    """
    return review(command).files


def plain_names(files: Set[str]) -> frozenset[str]:
    """The names that mean themselves alone to every program: no list of files, no URL, no pattern, no option.

    >>> sorted(plain_names({"a.yaml", "a.yaml,/etc/passwd", "-k", "c/../a", "c/a.yaml"}))
    ['a.yaml', 'c/a.yaml']
    """
    return frozenset(
        name for name in files if _FILE.fullmatch(name) and not {".", ".."} & set(name.split("/"))
    )


def chart_problem(chart: str, files: Set[str]) -> str:
    """Why a folder is no chart that a lab may use; empty when it is.

    >>> chart_problem("c", {"c/Chart.yaml", "c/values.yaml"})
    ''
    """
    below = [name for name in files if name.startswith(f"{chart}/")]
    if f"{chart}/Chart.yaml" not in below:
        return "no chart in the lab's folder"
    if any(name.endswith((".tgz", ".tar.gz")) for name in below):
        return "a packed chart inside it cannot be looked into"
    if any(name.endswith("/values.schema.json") for name in below):
        return "its values.schema.json may refer to files and addresses elsewhere"
    return ""
