"""What lint says: findings with stable codes, at a line and a column."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tonnage.documents.yaml.reader import Path, field_path
from tonnage.model.json import JsonObject
from tonnage.model.layer import Layer
from tonnage.model.severity import Severity


class LintCode(StrEnum):
    """Stable names of findings. Each is documented in `docs/reference/reason-codes.md`."""

    API_WARNING = "api-warning"
    CLAIM_INVALID = "claim-invalid"
    CLAIM_UNKNOWN = "claim-name-unknown"
    CLASS_MISSING = "device-class-missing"
    COMPARISON = "comparison-not-integer"
    CONFIG_MAP = "config-map-unknown"
    DEVICE_ANNOTATION = "device-annotation"
    FIELD_UNKNOWN = "field-unknown"
    FIELD_INVALID = "pod-field-invalid"
    FITS_NOWHERE = "fits-nowhere"
    GPU_CONFIG = "gpu-config-invalid"
    LIMIT_MISSING = "limit-missing"
    LIMIT_RANGE = "limit-range-invalid"
    LIMIT_RANGE_GIVES = "limit-range-gives-devices"
    MIG_CONFIG = "mig-config-invalid"
    MIG_LAYOUT = "mig-layout-impossible"
    MIG_PROFILE = "mig-profile-unknown"
    NODE_AFFINITY = "node-affinity-invalid"
    NEGATIVE = "quantity-negative"
    NOT_ADVERTISED = "resource-not-advertised"
    NOT_AN_INTEGER = "resource-not-integer"
    NOT_WRAPPED = "request-not-in-exactly"
    OBJECT_REFUSED = "object-refused"
    OBJECT_UNREADABLE = "object-unreadable"
    PLACEMENT_INVALID = "pod-placement-invalid"
    POD_LEVEL = "pod-level-resource"
    POLICY_DEPRECATED = "cluster-policy-deprecated"
    POLICY_INCOMPLETE = "cluster-policy-incomplete"
    POLICY_KEY = "cluster-policy-key-unknown"
    POLICY_VALUE = "cluster-policy-value-invalid"
    PRIORITY_CLASS = "priority-class-unknown"
    PRODUCT = "product-not-the-label"
    QUANTITY = "quantity-unreadable"
    QUOTA_GAP = "quota-leaves-gap"
    QUOTA_INVALID = "quota-key-invalid"
    QUOTA_WITHOUT_EFFECT = "quota-key-without-effect"
    REQUEST_LIMIT_UNEQUAL = "request-limit-unequal"
    RESOURCE_NAME = "resource-name-unknown"
    RUNTIME_CLASS = "runtime-class-unknown"
    SELECTOR_DOUBTFUL = "selector-doubtful"
    SELECTOR_REFUSED = "selector-refused"
    SELECTS_NOTHING = "selects-no-node"
    SERVICE_ACCOUNT = "service-account-unknown"
    SHARED_NOT_RENAMED = "sharing-without-rename"
    SINGLE_NODE = "single-node"
    TAINT = "taint-not-tolerated"
    TOLERATION_IDLE = "toleration-matches-nothing"
    TOLERATION_INVALID = "toleration-invalid"
    VALUE_TYPE = "value-of-wrong-type"
    VOLUME_CLAIM = "volume-claim-unknown"
    WHOLE_AND_SHARED = "whole-and-shared"


@dataclass(frozen=True, slots=True)
class Change:
    """A repair that is certain, as a change of the text: what to do at a path of the document."""

    path: Path


@dataclass(frozen=True, slots=True)
class RenameKey(Change):
    """Give the entry another key."""

    key: str


@dataclass(frozen=True, slots=True)
class SetText(Change):
    """Replace a scalar by a text."""

    text: str


@dataclass(frozen=True, slots=True)
class SetBare(Change):
    """Replace a scalar by a word without quotes, such as true."""

    word: str


@dataclass(frozen=True, slots=True)
class QuoteText(Change):
    """Put a scalar in quotes as it is written."""


@dataclass(frozen=True, slots=True)
class WrapEntries(Change):
    """Move the entries `keys` of the mapping one level down, under `into`."""

    keys: tuple[str, ...]
    into: str


@dataclass(frozen=True, slots=True)
class UnwrapEntry(Change):
    """Put the only entry of a mapping in the mapping's place."""


@dataclass(frozen=True, slots=True)
class MoveToLimits(Change):
    """Ask for a resource of the mapping `resources` under `limits`."""

    resource: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A finding as a rule makes it: at a path of its document, or at a line and column of its text.

    `severity` None: the code's own.
    """

    code: LintCode
    path: Path
    message: str
    remedy: str = ""
    why: str = ""
    change: Change | None = None
    severity: Severity | None = None
    on_key: bool = False
    at: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, where, why it matters, what to do. `subject` is the object (`Pod ml/train`)."""

    code: LintCode
    layer: Layer
    severity: Severity
    file: str
    line: int
    column: int
    path: Path
    subject: str
    message: str
    why: str = ""
    remedy: str = ""
    source: str = ""
    fixable: bool = False

    @property
    def order(self) -> tuple[str, int, int, str, str]:
        """The order of the text."""
        return self.file, self.line, self.column, self.code.value, self.message

    def to_json(self) -> JsonObject:
        """The finding as `lint -o json` prints it."""
        return {
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "path": field_path(self.path),
            "subject": self.subject,
            "code": self.code.value,
            "layer": self.layer.value,
            "severity": self.severity.value,
            "message": self.message,
            "why": self.why,
            "remedy": self.remedy,
            "source": self.source,
            "fixable": self.fixable,
        }
