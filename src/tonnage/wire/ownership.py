"""Who has written which fields of an object, read where that is the question alone: it is large."""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.wire.objects import Object, ObjectMeta, Wire


class OwnedFields(Wire):
    """The fields of one writer."""

    manager: str = ""
    fields: dict[str, Any] = msgspec.field(name="fieldsV1", default_factory=dict)


class OwnedMeta(ObjectMeta):
    """Metadata with the writers."""

    managed_fields: list[OwnedFields] = msgspec.field(default_factory=list)


class OwnedNode(Object):
    """A Node as far as its writers are concerned."""

    metadata: OwnedMeta = msgspec.field(default_factory=OwnedMeta)
