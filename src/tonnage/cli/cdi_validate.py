"""What `tonnage cdi validate` reads and says."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from tonnage.adapters.cdi_files import SPEC_FOLDERS, read_spec, spec_names
from tonnage.cli.failure import render_problem
from tonnage.cli.output import printable
from tonnage.decide.node.cdi_folders import conflicts
from tonnage.decide.node.cdi_remarks import spec_remarks
from tonnage.decide.node.cdi_rules import spec_problems
from tonnage.decide.node.cdi_shape import normal_spec
from tonnage.model.errors import ConfigError, HardwareError, Problem
from tonnage.model.json import JsonObject, JsonValue

if TYPE_CHECKING:
    from tonnage.documents.source import Located

_ENDINGS: Final = (".json", ".yaml")


@dataclass(frozen=True, slots=True)
class Checked:
    """A spec and why a runtime refuses it; `remarks` are what it takes, and a person should look at.

    `rank` is its folder's place among those given: specs of later ones win. `unreadable`: nobody could look.
    """

    path: Path
    rank: int
    document: JsonObject | None = None
    problems: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()
    unreadable: bool = False


def check_specs(paths: Sequence[Path]) -> tuple[Checked, ...]:
    """Every spec of the folders and files, or of runtimes' folders, each with all its problems."""
    places = paths or [folder for folder in map(Path, SPEC_FOLDERS) if folder.is_dir()]
    folders = [place if place.is_dir() else place.parent for place in places]
    ranks = {folder: rank for rank, folder in enumerate(dict.fromkeys(folders))}
    found = [
        each
        for place, folder in zip(places, folders, strict=True)
        for each in _checked_at(place, ranks[folder])
    ]
    specs = [(str(each.path), each.rank, each.document) for each in found if each.document]
    twice = conflicts(specs)
    return tuple(
        replace(each, problems=(*each.problems, *twice.get(str(each.path), ()))) if each.document else each
        for each in found
    )


def status(checked: Sequence[Checked]) -> int:
    """The exit status."""
    if any(each.unreadable for each in checked):
        return 2
    return 1 if any(each.problems for each in checked) else 0


def show_text(checked: Sequence[Checked]) -> None:
    """What is valid on stdout, what is not on stderr."""
    if not checked:
        click.echo("no specs")
    for each in checked:
        if not each.problems:
            click.echo(f"{printable(str(each.path))}: valid")
        for problem in each.problems:
            click.echo(render_problem(problem), err=True)
        for remark in each.remarks:
            click.echo(f"warning: {printable(f'{remark.where}: {remark.what}: {remark.why}')}", err=True)


def verdicts(checked: Sequence[Checked]) -> list[JsonValue]:
    """The same for programs."""
    return [
        {
            "file": str(each.path),
            "valid": not each.problems,
            "problems": [_shown(problem) for problem in each.problems],
            "warnings": [_shown(remark) for remark in each.remarks],
        }
        for each in checked
    ]


def _shown(problem: Problem) -> JsonObject:
    return {
        "what": problem.what,
        "where": problem.where,
        "why": problem.why,
        "remedy": problem.remedy,
    }


def _checked_at(place: Path, rank: int) -> Iterator[Checked]:
    """A file, or a folder's specs, as a runtime takes them: no folders below it, no other names."""
    if not place.is_dir():
        yield _checked(place, rank, named=True)
        return
    try:
        names, left_out = spec_names(place)
    except HardwareError as error:
        yield Checked(place, rank, problems=error.problems, unreadable=True)
        return
    yield from (_checked(place / name, rank) for name in names)
    if left_out:
        what = f"{place.name} has more entries than can be a node's"
        why = f"{left_out} of them were not looked at, and each makes every container start later"
        problem = Problem(what, str(place), why, "see who writes them, and remove what nobody needs")
        yield Checked(place, rank, problems=(problem,))


def _checked(file: Path, rank: int, *, named: bool = False) -> Checked:
    try:
        content = read_spec(file)
    except HardwareError as error:
        return Checked(file, rank, problems=error.problems, unreadable=named)
    if content is None:
        missing = Problem("no such file" if named else "its link leads nowhere", str(file))
        return Checked(file, rank, problems=(missing,), unreadable=named)
    if file.suffix not in _ENDINGS:
        why = "runtimes read no other files"
        return Checked(
            file, rank, problems=(Problem("the name of a CDI spec ends in .json or .yaml", str(file), why),)
        )
    return _judged(Checked(file, rank), content)


def _judged(checked: Checked, content: bytes) -> Checked:
    """With what a runtime says of the content."""
    file = checked.path
    document = _quickly(content) if file.suffix == ".json" else None
    try:
        parsed = _parsed(file, content) if document is None else ()
    except ConfigError as error:
        whys = (replace(each, what=f"failed to parse CDI Spec: {each.what}") for each in error.problems)
        return replace(checked, problems=tuple(whys))
    document = parsed[0].value if parsed else document
    if document is None:
        return replace(checked, problems=(Problem("failed to parse CDI Spec, no Spec data", str(file)),))
    problems, remarks = spec_problems(document), spec_remarks(document)
    if problems or remarks:
        places = _Places(file, (parsed or _parsed(file, content))[0])
        problems, remarks = places.put(problems), places.put(remarks)
    if len(parsed) > 1:
        why = "runtimes read the first document of a file, and say nothing of the others"
        remarks += (Problem("more than one document", parsed[1].where(), why, "make a file of each"),)
    valid = normal_spec(document) if isinstance(document, dict) and not problems else None
    return replace(checked, document=valid, problems=problems, remarks=remarks)


def _quickly(content: bytes) -> JsonValue:
    """Of plain JSON its value, else None: a folder may have ten thousand specs, and most of them are well."""

    def once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise ValueError("a key twice")
        return found

    try:
        value: JsonValue = json.loads(content, object_pairs_hook=once)
    except (ValueError, RecursionError):
        return None
    return value


def _parsed(file: Path, content: bytes) -> tuple[Located, ...]:
    from tonnage.documents.source import parse_yaml_all  # takes a while

    return parse_yaml_all(content.decode("utf-8", "surrogateescape"), source=str(file))


class _Places:
    """Lines and columns of a document's fields."""

    def __init__(self, file: Path, document: Located) -> None:
        from tonnage.documents.source import field_path

        self._file = file
        self._marks = {field_path(path): mark for path, mark in document.marks.items()}

    def put(self, problems: tuple[Problem, ...]) -> tuple[Problem, ...]:
        """The problems with `file:line:column` before their field; an absent field is at its parent's."""
        return tuple(replace(problem, where=self._place(problem.where)) for problem in problems)

    def _place(self, field: str) -> str:
        inner = field
        while inner and inner not in self._marks:
            inner = inner[: max(inner.rfind("."), inner.rfind("["), 0)]
        mark = self._marks.get(inner)
        line, column = (mark.line, mark.column) if mark else (1, 1)
        return f"{self._file}:{line}:{column} {field}".rstrip()
