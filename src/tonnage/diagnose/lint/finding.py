"""What lint says: reasons, each at a line and a column, some with a repair."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tonnage.diagnose.lint.manifest_objects import PodSite
from tonnage.documents.pods.placement import PodFault
from tonnage.documents.yaml.reader import Path
from tonnage.model.finding import Finding
from tonnage.model.reasons.pod.admission import ManifestFieldReason
from tonnage.model.reasons.reason import ManifestReason
from tonnage.model.severity import Severity


@dataclass(frozen=True, slots=True)
class TextPlace:
    """Where it stands: in a file, and by its path in the document."""

    file: str
    line: int
    column: int
    path: Path


LintFinding: TypeAlias = Finding[ManifestReason, TextPlace]


@dataclass(frozen=True, slots=True)
class TextRepair:
    """A repair that is certain, as a change of the text: what to do at a path of the document."""

    path: Path


@dataclass(frozen=True, slots=True)
class RenameKey(TextRepair):
    """Give the entry another key."""

    key: str


@dataclass(frozen=True, slots=True)
class SetText(TextRepair):
    """Replace a scalar by a text."""

    text: str


@dataclass(frozen=True, slots=True)
class SetBare(TextRepair):
    """Replace a scalar by a word without quotes, such as true."""

    word: str


@dataclass(frozen=True, slots=True)
class QuoteText(TextRepair):
    """Put a scalar in quotes as it is written."""


@dataclass(frozen=True, slots=True)
class WrapEntries(TextRepair):
    """Move the entries `keys` of the mapping one level down, under `into`."""

    keys: tuple[str, ...]
    into: str


@dataclass(frozen=True, slots=True)
class UnwrapEntry(TextRepair):
    """Put the only entry of a mapping in the mapping's place."""


@dataclass(frozen=True, slots=True)
class AddEmptyEntries(TextRepair):
    """Add the entries `keys` to the mapping, each an empty mapping."""

    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MoveToLimits(TextRepair):
    """Ask for a resource of the mapping `resources` under `limits`."""

    resource: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A finding as a rule makes it: at a path of its document, or at a line and column of its text.

    The reason's subject and source, and the path of a field, come with the place. `severity` None: the
    reason's own.
    """

    reason: ManifestReason
    path: Path
    why: str = ""
    change: TextRepair | None = None
    severity: Severity | None = None
    on_key: bool = False
    at: tuple[int, int] | None = None


def field_draft(
    kind: type[ManifestFieldReason], fault: PodFault, site: PodSite, *, on_key: bool = False
) -> Draft:
    """What the API server refuses about a field of a pod's spec."""
    reason = kind(subject=site.manifest.subject, message=fault.message, remedy=fault.remedy)
    return Draft(reason, (*site.path, *fault.place), on_key=on_key)
