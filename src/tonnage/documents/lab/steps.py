"""Labs: steps that a person could type, and what each must show. Text to values; nothing is run here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from functools import cached_property
from typing import Annotated, Final, Literal

import re2
from pydantic import AfterValidator, Field, JsonValue

from tonnage.documents.lab.command import Command, parse_command
from tonnage.documents.lab.review import chart_problem, plain_names, review
from tonnage.documents.nearest import nearest
from tonnage.documents.yaml.reader import MarkedDocument, parse_yaml
from tonnage.documents.yaml.source import Document, DocumentFieldError, validate
from tonnage.documents.yaml.spelling import CASE, LAB_NAME, LAB_USER
from tonnage.model.errors import ConfigError, Problem

MAX_STEPS: Final = 200
LONGEST_WAIT_S: Final = 600
MAX_EXPECTED: Final = 100
"""Texts, patterns or values that one step expects."""
SERVERS: Final = {"prometheus": "PROMETHEUS_URL"}
"""Server that a lab may ask for -> the variable with its address."""
_REFERENCE: Final = re.compile(r"\$\{([A-Z][A-Z0-9_]*)\}")
_KEY: Final = re.compile(r"\.?([\w-]+)|\[([0-9]+)\]|\[\"([^\"]+)\"\]")


def json_path(text: str) -> tuple[str | int, ...]:
    """A path into JSON: keys after dots, indices and odd keys in brackets.

    >>> json_path('items[0].status.capacity["nvidia.com/gpu"]')
    ('items', 0, 'status', 'capacity', 'nvidia.com/gpu')

    Raises:
        ValueError: the text is no such path.
    """
    path: list[str | int] = []
    position = 0
    while position < len(text):
        match = _KEY.match(text, position)
        if match is None:
            raise ValueError(f"not a path into JSON, from {text[position : position + 20]!r} on")
        path.append(int(match[2]) if match[2] is not None else match[1] or match[3])
        position = match.end()
    if not path:
        raise ValueError("the path into JSON is empty")
    return tuple(path)


def line_pattern(pattern: str) -> re2._Regexp[str]:
    """The pattern as RE2 reads it, by lines: a lab's pattern never searches for longer than its text is long.

    Raises:
        ValueError: it is none.
    """
    settings = re2.Options()
    settings.log_errors = False
    try:
        return re2.compile(f"(?m){pattern}", settings)
    except re2.error as error:
        raise ValueError(error.args[0].decode() if isinstance(error.args[0], bytes) else str(error)) from None


def _regular(pattern: str) -> str:
    try:
        line_pattern(pattern)
    except ValueError as error:
        raise DocumentFieldError(
            f"not a regular expression: {error}", remedy="use contains for plain text"
        ) from None
    return pattern


def _path(text: str) -> str:
    try:
        json_path(text)
    except ValueError as error:
        raise DocumentFieldError(
            str(error), remedy='write status.phase, items[0].kind or labels["a.b/c"]'
        ) from None
    return text


def _runnable(text: str) -> str:
    try:
        command = parse_command(text)
    except ValueError as error:
        raise DocumentFieldError(
            str(error),
            why="labs run without a shell",
            remedy="use a file, a jsonpath or an expectation instead",
        ) from None
    review(command)
    return text


Text = Annotated[str, Field(max_length=4000)]
Line = Annotated[str, Field(min_length=1, max_length=1000)]
Several = Field(max_length=MAX_EXPECTED)


def _server(name: str) -> str:
    if name not in SERVERS:
        raise DocumentFieldError(f"unknown server {name[:60]}", remedy=nearest(name, [*SERVERS]))
    return name


class Expectation(Document):
    """What a step must show: `contains`, `lacks`, `matches` in stdout or stderr, the others in stdout.

    `${NAME}` in `contains`, `lacks`, `equals` and the values of `json`: what an earlier step assigned.
    """

    status: Annotated[int, Field(ge=0, le=255)] | Literal["nonzero"] = 0
    within: Annotated[float, Field(ge=0, le=LONGEST_WAIT_S)] = 0
    """Seconds in which everything must come true; the command is run again until then."""
    contains: Annotated[tuple[Line, ...], Several] = ()
    lacks: Annotated[tuple[Line, ...], Several] = ()
    matches: Annotated[tuple[Annotated[Line, AfterValidator(_regular)], ...], Several] = ()
    equals: Text | None = None
    lines: Annotated[int, Field(ge=0)] | None = None
    distinct_lines: Annotated[int, Field(ge=0)] | None = None
    values: Annotated[dict[Annotated[Line, AfterValidator(_path)], JsonValue], Several] = Field(
        default={}, alias="json"
    )
    """Path into the JSON on stdout -> the value there."""

    @property
    def variables(self) -> frozenset[str]:
        """Names that earlier steps must have assigned."""
        texts = [*self.contains, *self.lacks, self.equals or "", *map(str, self.values.values())]
        return frozenset(name for text in texts for name in _REFERENCE.findall(text))

    def filled(self, values: Mapping[str, str]) -> Expectation:
        """The same with every variable replaced. Raises KeyError for one without a value."""
        if not self.variables:
            return self

        def fill(text: str) -> str:
            return _REFERENCE.sub(lambda match: values[match[1]], text)

        changes = {
            "contains": tuple(map(fill, self.contains)),
            "lacks": tuple(map(fill, self.lacks)),
            "equals": None if self.equals is None else fill(self.equals),
            "values": {path: fill(v) if isinstance(v, str) else v for path, v in self.values.items()},
        }
        return self.model_copy(update=changes)


class LabStep(Document):
    """One command and what it must show."""

    title: Text = ""
    explain: Text = ""
    """For the reader: why this step, and what to look at."""
    run: Annotated[str, AfterValidator(_runnable)]
    user: Annotated[str, Field(pattern=LAB_USER, alias="as")] = ""
    """Whom the command acts as, instead of the user of the kubeconfig; no group is taken but everybody's."""
    timeout: Annotated[float, Field(gt=0, le=LONGEST_WAIT_S)] = 60
    """Seconds after which one run of the command is given up."""
    expect: Expectation = Expectation()

    @cached_property
    def command(self) -> Command:
        """`run`, parsed."""
        return parse_command(self.run)


class Lab(Document):
    """A lab. `covers` holds the ids of the cases that it shows; `cleanup` runs whatever happened before."""

    name: Annotated[str, Field(pattern=LAB_NAME)]
    title: Annotated[Text, Field(min_length=1)]
    description: Text = ""
    scenario: Annotated[str, Field(pattern=LAB_NAME)]
    covers: Annotated[tuple[Annotated[str, Field(pattern=CASE)], ...], Several] = ()
    servers: Annotated[
        tuple[Annotated[str, AfterValidator(_server)], ...], Field(max_length=len(SERVERS))
    ] = ()
    """Servers that Tonnage starts for the lab, and ends with it."""
    steps: Annotated[tuple[LabStep, ...], Field(max_length=MAX_STEPS)]
    cleanup: Annotated[tuple[LabStep, ...], Field(max_length=MAX_STEPS)] = ()


def parse_lab(text: str, *, source: str, files: Set[str]) -> Lab:
    """The lab in `text`; `files` are the files beside it, which alone its commands may read.

    Raises:
        ConfigError: every problem at once: unreadable text, unknown keys, commands that are no plain command
            or not permitted, files that are not there, variables that no earlier step assigns.
    """
    document = parse_yaml(text, source=source)
    lab = validate(document, Lab)
    if not lab.steps:
        raise ConfigError(Problem("the lab has no steps", document.where(("steps",))))
    problems = [*_missing_files(lab, document, plain_names(files)), *_unassigned(lab, document)]
    if problems:
        raise ConfigError(*problems)
    return lab


def _places(lab: Lab) -> Iterator[tuple[str, int, LabStep]]:
    for part, steps in (("steps", lab.steps), ("cleanup", lab.cleanup)):
        for index, step in enumerate(steps):
            yield part, index, step


def _missing_files(lab: Lab, document: MarkedDocument, files: Set[str]) -> Iterator[Problem]:
    written: set[str] = set()
    for part, index, step in _places(lab):
        reviewed, where = review(step.command), document.where((part, index, "run"))
        for name in reviewed.written:
            written.add(name)
            if name in files:
                yield Problem(f"{name} is already a file beside the lab", where, remedy="choose another name")
        unwritten = (name for name in reviewed.snapshots if name not in written)
        for name in (*reviewed.files, *unwritten):
            if name not in files:
                yield Problem(
                    f"the lab's folder has no file {name[:200]}",
                    where,
                    why="a lab reads only the files beside it, and no link that leads elsewhere",
                    remedy=nearest(name, sorted(files)),
                )
        for chart in reviewed.charts:
            if problem := chart_problem(chart, files):
                remedy = "name a folder beside the lab with a Chart.yaml; unpack what is in its charts/"
                yield Problem(f"{chart[:200]} is not a chart that a lab can use", where, problem, remedy)


def _unassigned(lab: Lab, document: MarkedDocument) -> Iterator[Problem]:
    assigned = {SERVERS[name] for name in lab.servers}
    for part, index, step in _places(lab):
        for field, used in (("run", step.command.variables), ("expect", step.expect.variables)):
            for name in sorted(used - assigned):
                yield Problem(
                    f"no earlier step assigns {name}",
                    document.where((part, index, field)),
                    remedy=f"add a step before: {name}=$(kubectl get ...)",
                )
        if step.command.assigns:
            assigned.add(step.command.assigns)
