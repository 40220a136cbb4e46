"""Every rule over every document: from texts to findings with their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from tonnage.decide.kubernetes.claims.supply import Gates
from tonnage.diagnose.lint.coverage import (
    UnjudgedPart,
    is_configuration,
    unjudged_documents,
    unjudged_part,
)
from tonnage.diagnose.lint.finding import Draft, LintFinding, TextPlace, WrapEntries
from tonnage.diagnose.lint.manifest_objects import ManifestObject, items_of, mapping, pods_of
from tonnage.diagnose.lint.order import ITEM_RULES, POD_RULES
from tonnage.diagnose.lint.rule_inputs import KindFields, LintCluster, RuleInputs
from tonnage.diagnose.lint.sheet import Sheet
from tonnage.documents.mig.layouts import MigParted
from tonnage.documents.yaml.reader import Path, field_path, only_one
from tonnage.documents.yaml.source import validate
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.finding import Finding
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.api_answer import ApiServer
from tonnage.model.kubernetes.cluster import Manifest
from tonnage.model.layer import Layer
from tonnage.model.reasons.lint.configurations import ConfigurationReason
from tonnage.model.reasons.lint.manifests import ApiWarning, FieldUnknown, ObjectUnreadable, ValueOfWrongType
from tonnage.model.reasons.pod.admission import FieldReason, NameMissing, ObjectRefused
from tonnage.model.reasons.reason import ManifestReason
from tonnage.model.severity import Severity

MOST_FINDINGS: Final = 1000
"""Of one file; a file with more is wrong as a whole."""
_OF_SERVER: Final = (ObjectRefused, ObjectUnreadable, ApiWarning)
"""What the API server's own rules say; every other rule says it better."""
_OF_DECODING: Final = (FieldUnknown, ValueOfWrongType)
"""What is general: a special rule says it better."""
_LEAST: Final = 2
_SHORT: Final = ("version", "mig-configs", "sharing")


@dataclass(frozen=True, slots=True)
class LintContext:
    """What is linted with, beside the texts: see `RuleInputs`. `mig_parted`: files that shall be such."""

    shapes: KindFields
    read_pod: Callable[[JsonObject], Manifest | None]
    cluster: LintCluster | None = None
    minor: int = 35
    namespace: str = "default"
    mig_parted: frozenset[str] = frozenset()
    server: ApiServer | None = None
    gates: Gates | None = None


@dataclass(frozen=True, slots=True)
class LocatedFinding:
    """A finding, the draft it comes from and the sheet that its path is in; whether `--fix` repairs it."""

    finding: LintFinding
    draft: Draft
    manifest: ManifestObject
    fixable: bool = False

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """The order of the text."""
        place = self.finding.place
        return place.file, place.line, place.column, self.finding.code, self.finding.reason.message

    def to_json(self) -> JsonObject:
        """The finding as `lint -o json` prints it."""
        finding, reason, place = self.finding, self.finding.reason, self.finding.place
        return {
            "file": place.file,
            "line": place.line,
            "column": place.column,
            "path": field_path(place.path),
            "subject": reason.subject,
            "code": finding.code,
            "layer": reason.layer.value,
            "severity": finding.severity.value,
            "message": reason.message,
            "why": finding.why,
            "remedy": reason.remedy,
            "source": reason.source,
            "fixable": self.fixable,
        }


@dataclass(frozen=True, slots=True)
class LintReport:
    """Everything found. `unreadable`: why texts could not be read, `objects`: how many there are.

    `unjudged` says which of them no rule looks at, and of which some rules do.
    """

    located: tuple[LocatedFinding, ...]
    unreadable: tuple[Problem, ...] = ()
    objects: int = 0
    unjudged: tuple[UnjudgedPart, ...] = ()

    @property
    def findings(self) -> tuple[LintFinding, ...]:
        """In the order of files, lines and columns."""
        return tuple(located.finding for located in self.located)

    def count(self, severity: Severity) -> int:
        """How many findings are so bad."""
        return sum(finding.severity is severity for finding in self.findings)

    @property
    def judged(self) -> int:
        """How many objects rules looked at, be it in part."""
        return self.objects - sum(not part.partly for part in self.unjudged)


def lint(sheets: Iterable[Sheet], context: LintContext) -> LintReport:
    """The findings on texts, each with the name of its file."""
    readable, unreadable = _read(sheets, context.mig_parted)
    items = tuple(manifest for sheet in readable for manifest in items_of(sheet, context.namespace))
    items = (*items, *(inner for manifest in items for inner in _inner(manifest)))
    cluster, minor = context.cluster, context.minor
    inputs = RuleInputs(
        *(items, context.shapes, context.read_pod, cluster, minor, context.mig_parted),
        server=context.server,
        gates=context.gates,
    )
    located = [entry for manifest in items for entry in _of_item(manifest, inputs)]
    wordless = [part for sheet in readable for part in unjudged_documents(sheet)]
    objects = [
        manifest for manifest in items if manifest.sheet.host is None or is_configuration(manifest, inputs)
    ]
    unjudged = [part for manifest in objects if (part := unjudged_part(manifest, inputs)) is not None]
    return LintReport(_bounded(located), unreadable, len(objects) + len(wordless), (*unjudged, *wordless))


def _read(sheets: Iterable[Sheet], mig_parted: frozenset[str]) -> tuple[list[Sheet], tuple[Problem, ...]]:
    """The sheets with documents, and what cannot be read."""
    readable: list[Sheet] = []
    problems: list[Problem] = []
    for sheet in sheets:
        problems_there = sheet.problems
        if sheet.readable:
            problems.extend(problems_there)
            if sheet.name in mig_parted:
                problems.extend(_no_mapping(sheet))
            if sheet.documents:
                readable.append(sheet)
        else:
            problems.extend([_template(problems_there[0])] if "{{" in sheet.text else problems_there)
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
    return Problem("a template, not YAML", problem.where, "it contains {{", remedy)


def _inner(manifest: ManifestObject) -> Iterator[ManifestObject]:
    """Configurations in the data of a ConfigMap, or of a patch of one, which has no kind."""
    if manifest.kind not in ("ConfigMap", ""):
        return
    for key, text in mapping(manifest.value.get("data")).items():
        if not isinstance(text, str) or not any(word in text for word in _SHORT):
            continue
        sheet = manifest.sheet.inner(manifest.document, (*manifest.path, "data", key), text)
        if not sheet.readable:
            continue
        yield from (inner for inner in items_of(sheet, manifest.namespace) if not inner.kind)


def _of_item(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[LocatedFinding]:
    for draft in _without_doubles([*islice(_drafts(manifest, inputs), MOST_FINDINGS)]):
        yield _located(draft, manifest)


def _drafts(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    for rule in ITEM_RULES:
        yield from rule.of_manifest(manifest, inputs)
    for site in pods_of(manifest):
        for pod_rule in POD_RULES:
            yield from pod_rule.of_pod(site, inputs)


def _without_doubles(drafts: Sequence[Draft]) -> Iterator[Draft]:
    """A special rule at a path silences what is general: an unknown field, a wrong type."""
    refused = [
        draft.path for draft in drafts if not isinstance(draft.reason, _OF_SERVER) and _is_refusal(draft)
    ]
    special = {draft.path for draft in drafts if not isinstance(draft.reason, _OF_DECODING + _OF_SERVER)}
    wraps = [draft.change for draft in drafts if isinstance(draft.change, WrapEntries)]
    special |= {(*wrap.path, key) for wrap in wraps for key in wrap.keys}
    earlier: set[tuple[object, ...]] = set()
    for draft in drafts:
        key = (draft.reason.code, draft.path, draft.reason.message, draft.at)
        if key in earlier:
            continue
        match draft.reason:
            case FieldUnknown() | ValueOfWrongType() if draft.path in special:
                continue
            case ObjectUnreadable() if refused:
                continue
            case ObjectRefused() if any(_same_matter(draft.path, path) for path in refused):
                continue
        earlier.add(key)
        yield draft


def _is_refusal(draft: Draft) -> bool:
    """Whether the API server would refuse the object for one of its fields, as another rule sees it."""
    reason = draft.reason
    if isinstance(reason, NameMissing):  # this hangs on other objects
        return False
    return reason.severity is Severity.ERROR and reason.layer in (Layer.ADMISSION, Layer.QUOTA)


def _same_matter(path: Path, other: Path) -> bool:
    """Whether one path is above the other, or both are of the amounts of one container."""
    for place, step in enumerate(path):
        if step == "resources" and other[: place + 1] == path[: place + 1]:
            return True
    shorter = min(len(path), len(other))
    return shorter >= _LEAST and path[:shorter] == other[:shorter]


def _located(draft: Draft, manifest: ManifestObject) -> LocatedFinding:
    sheet = manifest.sheet
    if draft.at is not None:
        line, column = sheet.in_file(*draft.at)
    else:
        line, column = sheet.place(manifest.document, draft.path, on_key=draft.on_key)
    reason = _placed(draft.reason, draft.path, manifest)
    place = TextPlace(sheet.name, line, column, draft.path)
    return LocatedFinding(
        Finding(reason, draft.severity or reason.severity, place, draft.why), draft, manifest
    )


def _placed(reason: ManifestReason, path: Path, manifest: ManifestObject) -> ManifestReason:
    """The reason with what the place says: the object that it is about, and the field's path."""
    if isinstance(reason, FieldReason | ConfigurationReason) and reason.field is None:
        reason = replace(reason, field=field_path(path))
    return replace(reason, subject=manifest.subject, source=reason.rule.source)


def _bounded(located: list[LocatedFinding]) -> tuple[LocatedFinding, ...]:
    """In order, each once; of one file no more than a person would ever read."""
    counts: dict[str, int] = {}
    bounded: list[LocatedFinding] = []
    once = {entry.order: entry for entry in reversed(located)}  # an alias stands where its anchor does
    for _, entry in sorted(once.items()):
        file = entry.finding.place.file
        counts[file] = counts.get(file, 0) + 1
        if counts[file] <= MOST_FINDINGS:
            bounded.append(entry)
    return tuple(bounded)


def with_fixable(report: LintReport, fixable: Iterable[int]) -> LintReport:
    """The report with the findings at those places marked as such that `--fix` repairs."""
    marked = set(fixable)
    return replace(
        report,
        located=tuple(
            replace(located, fixable=True) if index in marked else located
            for index, located in enumerate(report.located)
        ),
    )
