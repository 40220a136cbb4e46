"""A configuration that is being applied: whether it fits its type, and what comes of it for whom.

Source: k8s.io/apimachinery (util/managedfields/internal: versioncheck.go, structuredmerge.go,
lastappliedmanager.go), v1.35.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, text
from tonnage.twin.apiserver.ownership import last_applied
from tonnage.twin.apiserver.ownership.comparison import BadElementError
from tonnage.twin.apiserver.ownership.managed_fields import Managers
from tonnage.twin.apiserver.ownership.refusals import conflict_status, unfit
from tonnage.twin.apiserver.ownership.type_checks import faults
from tonnage.twin.apiserver.ownership.type_structures import Shape
from tonnage.twin.apiserver.ownership.updates import Applied, ConflictsError, Versions, Writer, applied
from tonnage.twin.apiserver.statuses import StatusError, bad_request


@dataclass(slots=True)
class AppliedConfiguration:
    """A configuration that is being applied; tried again, it starts from the object as it is then."""

    config: JsonObject
    force: bool
    entries: list[JsonValue] = field(default_factory=list)
    """Who owns what afterwards, as objects carry it."""
    made: bool = False
    """Whether the object was not there before."""


def check_kind(config: JsonObject, api_version: str, kind: str) -> None:
    """Raises ApiError 400 for a configuration of another kind, or one that says who owns what."""
    own_kind = (text(config, "apiVersion"), text(config, "kind"))
    if own_kind != (api_version, kind):
        group, _, version = own_kind[0].rpartition("/")
        raise bad_request(f"invalid object type: {group}/{version}, Kind={own_kind[1]}")
    if at(config, "metadata", "managedFields") is not None:
        raise bad_request("metadata.managedFields must be nil")


def check_fit(config: JsonObject, shape: Shape) -> None:
    """Raises ApiError 500 for a configuration that is not as its type has it."""
    wrong = faults(shape, config)
    if wrong:
        raise unfit(config, wrong)


def apply_to(
    live: JsonObject,
    application: AppliedConfiguration,
    managers: Managers,
    writer: Writer,
    versions: Versions,
) -> Applied:
    """What applying comes to. Raises ApiError 409 for what belongs to others."""
    try:
        return _applied(live, application, managers, writer, versions)
    except ConflictsError as error:
        raise conflict_status(error.conflicts) from None
    except BadElementError as error:
        raise StatusError(500, "", f"failed to create typed live object: {error}") from None


def _applied(
    live: JsonObject,
    application: AppliedConfiguration,
    managers: Managers,
    writer: Writer,
    versions: Versions,
) -> Applied:
    config = application.config
    try:
        return applied(live, config, managers, writer, versions, force=application.force)
    except ConflictsError as error:
        if writer.name != last_applied.KUBECTL:
            raise
        left = last_applied.not_its_own(error.conflicts, live, writer.version)
        if left is None:
            raise
        if left:
            raise ConflictsError(left) from None
        return applied(live, config, managers, writer, versions, force=True)
