"""What every reason has: a subject, words, a layer, and facts, which are the fields of its class."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import ClassVar, TypeVar, dataclass_transform

from tonnage.model.json import JsonObject
from tonnage.model.layer import Layer, NodeLayer
from tonnage.model.reasons.facts import facts_json, keyed
from tonnage.model.reasons.lint.lint_rule import LintRule
from tonnage.model.severity import Severity

_C = TypeVar("_C")


@dataclass_transform(kw_only_default=True, eq_default=False, frozen_default=True)
def reason(cls: type[_C]) -> type[_C]:
    """Make it a class of reasons: a frozen dataclass whose fields are given by name.

    What `Reason` has of its own is not made anew for each of 150 classes: every start would feel it.
    With slots a fact that is declared again has no default unless it says one.
    """
    return dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)(cls)


@reason
class Reason:  # noqa: PLW1641 facts may be mappings, which have no hash
    """One cause. `subject` is what it is about (`Node gpu-a`); `lasting` when no pod's end would remove it;
    `hidden` when the scheduler never gets to it, because another reason refuses the node first.

    A class of its own for each code: its docstring says what it means, `advice` in general what to do. Its
    fields are the facts; a fact that is None by default is left out of the JSON while it is None.
    """

    code: ClassVar[str]
    alias: ClassVar[str] = ""
    """The code by which doctor and lint print it, since scripts hold on to that."""
    advice: ClassVar[str] = ""
    is_note: ClassVar[bool] = False
    """Whether it is a note beside the answer, of which it is not the gist."""
    leads: ClassVar[bool] = False
    """Whether its layer is the answer's, since the scheduler only passes on what lies below it."""
    severity: ClassVar[Severity] = Severity.ERROR
    """How bad it is as a finding, where the rule that finds it does not say otherwise."""
    settles: ClassVar[bool] = False
    """Whether the verdict follows from it alone: NEVER where it lasts, else NOT_NOW, whatever nodes say."""
    unforeseeable: ClassVar[bool] = False
    """Whether the verdict is UNKNOWN because of it."""
    layers: ClassVar[tuple[Layer, ...] | None] = None
    """The layers that it may name, where they are several; none at all for any."""
    node_words: ClassVar[str] = ""
    """The phrase, where no fact is in it."""
    trailing: ClassVar[tuple[str, ...]] = ()
    """Facts that stand last in the JSON."""
    general: ClassVar[frozenset[str]] = frozenset()
    """Fields that are no facts."""

    subject: str
    message: str
    remedy: str = ""
    source: str = ""
    layer: Layer
    lasting: bool = True
    hidden: bool = False

    def __eq__(self, other: object) -> bool:
        """Whether all fields are equal."""
        return isinstance(other, Reason) and type(self) is type(other) and asdict(self) == asdict(other)

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in asdict(self).items())
        return f"{type(self).__name__}({fields})"

    @property
    def phrase(self) -> str:
        """What it says of a node, to stand after a number of nodes. Equal phrases are told together."""
        return self.node_words or f"refusing ({self.code})"

    def refuses_on(self, node: str | None) -> bool:
        """Whether the verdict is NEVER because the scheduler chooses this node."""
        return False

    @property
    def facts(self) -> JsonObject:
        """The facts as they stand in the JSON."""
        return facts_json(type(self), asdict(self, dict_factory=keyed))

    def to_json(self) -> JsonObject:
        """The reason under the keys of the verdict's contract."""
        return {
            "code": self.code,
            "layer": self.layer.value,
            "subject": self.subject,
            "facts": self.facts,
            "message": self.message,
            "remedy": self.remedy,
            "source": self.source,
            "hidden": self.hidden,
        }


Reason.general = frozenset(field.name for field in fields(Reason))


@reason
class NodeReason(Reason):
    """What doctor can find on a node. Reasons that others give, too, have it beside their own base."""

    node_layer: ClassVar[NodeLayer]


@reason
class NodeFault(NodeReason):
    """What doctor alone finds, of no node until that is named."""

    subject: str = ""

    @property
    def phrase(self) -> str:
        """As every reason's."""
        return self.node_words or f"with {self.code}"


@reason
class ManifestReason(Reason):
    """What lint can find in a text. Reasons that others give, too, have it beside their own base."""

    rule: ClassVar[LintRule]

    @classmethod
    def usual_layer(cls) -> Layer:
        """The layer in lint's list of rules: the first, where the reason may name several."""
        layer: Layer = cls.layers[0] if cls.layers else cls.__dataclass_fields__["layer"].default
        return layer


@reason
class ManifestFault(ManifestReason):
    """What lint alone finds."""


@reason
class SchedulerReason(Reason):
    """What the scheduler says."""

    layer: Layer = Layer.SCHEDULER


@reason
class Symptom(Reason):
    """What a component says in its own words, quoted: a message of the catalogue.

    `reason` is kubelet's word for it, `check` what to look at.
    """

    trailing: ClassVar[tuple[str, ...]] = ("container",)

    reason: str | None = None
    words: str | None = None
    check: str | None = None
    container: str | None = None
