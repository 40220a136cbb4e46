"""A container runtime's files as they stand, and what would change in them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tonnage.model.node.runtime_config import RuntimeKind
from tonnage.model.node.software import RuntimeInventory
from tonnage.model.reasons.node.runtime_plans import RuntimeNotConfigured


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A file of a runtime's configuration. `text` is None where there is none; `link` is where a link leads.

    `trouble` is why what is there cannot be read.
    """

    path: str
    text: str | None = None
    link: str = ""
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class RuntimeSeen:
    """The runtime of a node. `files`: the main one first, whether or not it is there, then what it imports.

    `version` and `name` are as the runtime says them, `version_source` who said so; `name` where it is no
    known one. `unit` is what systemd calls the runtime. `templates` are those that are there of
    what k3s and RKE2 make the main file from.
    """

    kind: RuntimeKind | None = None
    version: str = ""
    version_source: str = ""
    files: tuple[ConfigFile, ...] = ()
    unit: str = ""
    refusals: tuple[RuntimeNotConfigured, ...] = ()
    templates: tuple[ConfigFile, ...] = ()
    name: str = ""


class ChangeState(StrEnum):
    """What is to be done."""

    NOTHING = "nothing"
    CHANGE = "change"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class FileEdit:
    """A file that changes. `before` None: it is made; `after` None: it is removed."""

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class RuntimePlan:
    """What is to be done with one runtime, and `why`. Refused has refusals, a change has edits."""

    standing: ChangeState
    why: str = ""
    edits: tuple[FileEdit, ...] = ()
    refusals: tuple[RuntimeNotConfigured, ...] = ()
    inventory: RuntimeInventory | None = None


@dataclass(frozen=True, slots=True)
class NriAnswer:
    """Whether NVIDIA's NRI plugin works with a runtime: it does where there are no refusals.

    `reason` is why NRI is on. `plugins` are what asks for it on the node. `by_cdi`: CDI does the same there.
    """

    reason: str = ""
    plugins: tuple[str, ...] = ()
    refusals: tuple[RuntimeNotConfigured, ...] = ()
    by_cdi: bool = True
