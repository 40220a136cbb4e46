"""Taking a driver's version back: the image that a policy named before."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.model.drivers.daemon_set import StandingDaemonSet
from tonnage.model.drivers.policy import DriverOwner, DriverOwnerKind, ImageFields
from tonnage.model.json import JsonObject, parsed_json
from tonnage.model.json_access import text


@dataclass(frozen=True, slots=True)
class DriverRollback:
    """A policy whose driver goes back from one image to the one before."""

    owner: DriverOwner
    current: ImageFields
    previous: ImageFields

    @property
    def patch(self) -> JsonObject:
        """The merge patch of the policy; a field that was not there before is removed."""
        fields: JsonObject = {
            "repository": self.previous.repository or None,
            "image": self.previous.image or None,
            "version": self.previous.version or None,
        }
        cluster = self.owner.kind is DriverOwnerKind.CLUSTER_POLICY
        return {"spec": {"driver": fields} if cluster else fields}


def rollbacks(owners: Iterable[DriverOwner], standing: Iterable[StandingDaemonSet]) -> list[DriverRollback]:
    """Those of the owners that had another image before, by kind and name."""
    by_uid = {f"{owner.kind} {owner.uid}": owner for owner in owners}
    changes: dict[DriverOwner, DriverRollback] = {}
    for daemon_set in standing:
        owner = by_uid.get(daemon_set.owner)
        current, previous = _fields(daemon_set.image), _fields(daemon_set.previous)
        if owner is not None and current is not None and previous not in (None, current):
            assert previous is not None
            changes[owner] = DriverRollback(owner, current, previous)
    return sorted(changes.values(), key=lambda change: str(change.owner))


def _fields(note: str) -> ImageFields | None:
    """The image fields that a note has; None: it cannot be read."""
    try:
        value = parsed_json(note[:2000])
    except ValueError:
        return None
    if not isinstance(value, dict) or not all(isinstance(field, str) for field in value.values()):
        return None
    return ImageFields(*(text(value, key) for key in ("repository", "image", "version")))
