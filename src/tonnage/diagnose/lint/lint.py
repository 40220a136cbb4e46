"""Every rule over every document: from texts to findings with their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from tonnage.diagnose.lint.codes import FACTS
from tonnage.diagnose.lint.finding import Draft, Finding, LintCode, WrapEntries
from tonnage.diagnose.lint.items import Item, items_of, mapping, pods_of
from tonnage.diagnose.lint.order import ITEM_RULES, POD_RULES
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.diagnose.lint.world import Cluster, Shapes, World
from tonnage.documents.mig.layouts import MigParted
from tonnage.documents.yaml.reader import Path, only_one
from tonnage.documents.yaml.source import validate
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.api_answer import ApiServer
from tonnage.model.kubernetes.cluster import Manifest
from tonnage.model.layer import Layer
from tonnage.model.severity import Severity

MOST_FINDINGS: Final = 1000
"""Of one file; a file with more is wrong as a whole."""
SERVERS: Final = (LintCode.OBJECT_REFUSED, LintCode.OBJECT_UNREADABLE, LintCode.API_WARNING)
"""What the API server's own rules say; every other rule says it better."""
_NOT_OF_FIELDS: Final = (LintCode.PRIORITY_CLASS, LintCode.RUNTIME_CLASS, LintCode.SERVICE_ACCOUNT)
"""Refusals that hang on other objects."""
_LEAST: Final = 2
_SHORT: Final = ("version", "mig-configs", "sharing")


@dataclass(frozen=True, slots=True)
class Given:
    """What is linted with, beside the texts: see `World`. `mig_parted`: files that shall be such."""

    shapes: Shapes
    read_pod: Callable[[JsonObject], Manifest | None]
    cluster: Cluster | None = None
    minor: int = 35
    namespace: str = "default"
    mig_parted: frozenset[str] = frozenset()
    server: ApiServer | None = None


@dataclass(frozen=True, slots=True)
class Located:
    """A finding, the draft it comes from and the sheet that its path is in."""

    finding: Finding
    draft: Draft
    item: Item


@dataclass(frozen=True, slots=True)
class Report:
    """Everything found. `unreadable`: why texts could not be read, `objects`: how many were looked at."""

    found: tuple[Located, ...]
    unreadable: tuple[Problem, ...] = ()
    objects: int = 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """In the order of files, lines and columns."""
        return tuple(one.finding for one in self.found)

    def count(self, severity: Severity) -> int:
        """How many findings are so bad."""
        return sum(finding.severity is severity for finding in self.findings)


def lint(sheets: Iterable[Sheet], given: Given) -> Report:
    """The findings on texts, each with the name of its file."""
    readable, unreadable = _read(sheets, given.mig_parted)
    items = tuple(item for sheet in readable for item in items_of(sheet, given.namespace))
    items = (*items, *(inner for item in items for inner in _inner(item)))
    cluster, minor = given.cluster, given.minor
    world = World(items, given.shapes, given.read_pod, cluster, minor, given.mig_parted, given.server)
    found = [one for item in items for one in _of_item(item, world)]
    objects = sum(bool(item.kind or item.sheet.host or "mig-configs" in item.value) for item in items)
    return Report(_bounded(found), unreadable, objects)


def _read(sheets: Iterable[Sheet], mig_parted: frozenset[str]) -> tuple[list[Sheet], tuple[Problem, ...]]:
    """The sheets with documents, and what cannot be read."""
    readable: list[Sheet] = []
    problems: list[Problem] = []
    for sheet in sheets:
        found = sheet.problems
        if sheet.readable:
            problems.extend(found)
            if sheet.name in mig_parted:
                problems.extend(_no_mapping(sheet))
            if sheet.documents:
                readable.append(sheet)
        else:
            problems.extend([_template(found[0])] if "{{" in sheet.text else found)
    return readable, tuple(problems)


def _no_mapping(sheet: Sheet) -> tuple[Problem, ...]:
    """Why a text is no one configuration at all, where it is no mapping, nor an object of Kubernetes."""
    values = [document.value for document in sheet.documents]
    if any(isinstance(value, dict) and (len(values) == 1 or "kind" in value) for value in values):
        return ()
    try:
        validate(only_one(sheet.documents, sheet.name), MigParted)
    except ConfigError as error:
        return error.problems
    return ()


def _template(problem: Problem) -> Problem:
    """A file with `{{` that is no YAML is a template; where it fails first says nothing more."""
    remedy = "lint what it renders to: helm template CHART | tonnage lint -"
    return Problem("no YAML yet but a template", problem.where, "it has {{ in it", remedy)


def _inner(item: Item) -> Iterator[Item]:
    """Configurations in the data of a ConfigMap, or of a patch of one, which has no kind."""
    if item.kind not in ("ConfigMap", ""):
        return
    for key, text in mapping(item.value.get("data")).items():
        if not isinstance(text, str) or not any(word in text for word in _SHORT):
            continue
        sheet = item.sheet.inner(item.document, (*item.path, "data", key), text)
        if not sheet.readable:
            continue
        for inner in items_of(sheet, item.namespace):
            if not inner.kind:
                yield inner


def _of_item(item: Item, world: World) -> Iterator[Located]:
    for draft in _without_doubles([*islice(_drafts(item, world), MOST_FINDINGS)]):
        yield _located(draft, item)


def _drafts(item: Item, world: World) -> Iterator[Draft]:
    for rule in ITEM_RULES:
        yield from rule.of_item(item, world)
    for site in pods_of(item):
        for pod_rule in POD_RULES:
            yield from pod_rule.of_pod(site, world)


def _without_doubles(drafts: Sequence[Draft]) -> Iterator[Draft]:
    """A special rule at a path silences what is general: an unknown field, a wrong type."""
    general = (LintCode.FIELD_UNKNOWN, LintCode.VALUE_TYPE)
    refused = [draft.path for draft in drafts if draft.code not in SERVERS and _is_refusal(draft)]
    special = {draft.path for draft in drafts if draft.code not in (*general, *SERVERS)}
    wraps = [draft.change for draft in drafts if isinstance(draft.change, WrapEntries)]
    covered = {(*wrap.path, key) for wrap in wraps for key in wrap.keys}
    said: set[tuple[object, ...]] = set()
    for draft in drafts:
        key = (draft.code, draft.path, draft.message, draft.at)
        if key in said or (draft.code in general and (draft.path in special or draft.path in covered)):
            continue
        if draft.code is LintCode.OBJECT_UNREADABLE and refused:
            continue
        if draft.code is LintCode.OBJECT_REFUSED and any(_same_matter(draft.path, path) for path in refused):
            continue
        said.add(key)
        yield draft


def _is_refusal(draft: Draft) -> bool:
    """Whether the API server would refuse the object for it, as another rule sees it."""
    facts = FACTS[draft.code]
    refusing = facts.severity is Severity.ERROR and facts.layer in (Layer.ADMISSION, Layer.QUOTA)
    return refusing and draft.code not in _NOT_OF_FIELDS


def _same_matter(path: Path, other: Path) -> bool:
    """Whether one path is above the other, or both are of the amounts of one container."""
    for place, step in enumerate(path):
        if step == "resources" and other[: place + 1] == path[: place + 1]:
            return True
    shorter = min(len(path), len(other))
    return shorter >= _LEAST and path[:shorter] == other[:shorter]


def _located(draft: Draft, item: Item) -> Located:
    sheet, facts = item.sheet, FACTS[draft.code]
    if draft.at is not None:
        line, column = sheet.in_file(*draft.at)
    else:
        line, column = sheet.place(item.document, draft.path, on_key=draft.on_key)
    finding = Finding(
        code=draft.code,
        layer=facts.layer,
        severity=draft.severity or facts.severity,
        file=sheet.name,
        line=line,
        column=column,
        path=draft.path,
        subject=item.subject,
        message=draft.message,
        why=draft.why,
        remedy=draft.remedy,
        source=facts.source,
    )
    return Located(finding, draft, item)


def _bounded(found: list[Located]) -> tuple[Located, ...]:
    """In order, each once; of one file no more than a person would ever read."""
    counts: dict[str, int] = {}
    kept: list[Located] = []
    once = {one.finding.order: one for one in reversed(found)}  # an alias stands where its anchor does
    for _, one in sorted(once.items()):
        counts[one.finding.file] = counts.get(one.finding.file, 0) + 1
        if counts[one.finding.file] <= MOST_FINDINGS:
            kept.append(one)
    return tuple(kept)


def with_fixable(report: Report, fixable: Iterable[int]) -> Report:
    """The report with the findings at those places marked as such that `--fix` repairs."""
    marked = set(fixable)
    return replace(
        report,
        found=tuple(
            replace(one, finding=replace(one.finding, fixable=True)) if index in marked else one
            for index, one in enumerate(report.found)
        ),
    )
