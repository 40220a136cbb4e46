"""A request as the pipeline sees it, whoever sent it: over HTTP or in process."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.object_store import Name, Resource
from tonnage.twin.apiserver.resources import ServedResource


class FieldValidation(StrEnum):
    """What becomes of unknown and duplicate fields; Warn is what the server does unasked."""

    STRICT = "Strict"
    WARN = "Warn"
    IGNORE = "Ignore"


Extra = tuple[tuple[str, tuple[str, ...]], ...]
"""What is known of a user besides: values by key."""


@dataclass(frozen=True, slots=True)
class User:
    """Who asks."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Extra = ()


SYSTEM: Final = User("system:admin", ("system:masters",))
"""Who asks in the server's own process."""


@dataclass(frozen=True, slots=True)
class ResourcePath:
    """What a path names. `path` is (group, version, plural); `rest` is what follows a subresource.

    `watched`: the path itself asks for a watch, as clients did before there was a parameter.
    """

    path: tuple[str, str, str]
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    rest: tuple[str, ...] = ()
    watched: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """What a writer may say besides the body."""

    dry_run: bool = False
    field_validation: FieldValidation = FieldValidation.WARN
    field_manager: str = ""


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The body of a deletion. `propagation` is Background, Foreground, Orphan, or empty: the kind's own."""

    grace_period_s: int | None = None
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""


@dataclass(slots=True)
class RequestNotes:
    """What is said of a request beside its answer, by whoever handles it, in order."""

    warnings: list[str] = field(default_factory=list)
    audit: dict[str, str] = field(default_factory=dict)
    """Annotations for the audit log."""

    def warn(self, *words: str) -> None:
        """Warn the client, once of each, however often the request is tried, and whatever comes of it."""
        self.warnings += [warning for warning in words if warning not in self.warnings]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """What is asked of which object; `name` is empty for a collection and for a generated name.

    `admitted`: admission has had its say, as of a Scale before its object is written.
    """

    verb: str
    served: ServedResource
    namespace: str
    name: str
    subresource: str = ""
    options: Options = field(default_factory=Options)
    user: User = SYSTEM
    notes: RequestNotes = field(default_factory=RequestNotes, compare=False)
    admitted: bool = False

    @property
    def resource(self) -> Resource:
        """Where the store keeps the object."""
        return self.served.key

    @property
    def plural_resource(self) -> Resource:
        """How answers name the resource: as its path does."""
        return self.served.row.group, self.served.row.plural

    @property
    def key(self) -> Name:
        """The object's name in the store."""
        return self.namespace, self.name


@dataclass(frozen=True, slots=True)
class WriteOutcome:
    """The object after a write, in its resource's storage version. `made`: an update has made it."""

    object: JsonObject
    made: bool = False
