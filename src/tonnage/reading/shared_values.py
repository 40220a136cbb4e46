"""What thousands of objects have alike is kept once: labels, products, versions, links of devices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeVar

import msgspec

from tonnage.wire import objects as w

N = TypeVar("N", bound=w.Node)
_MOST: Final = 4_096
"""Values remembered at a time: those of one node alone, its uuids, would be remembered for ever."""


class SharedValues:
    """Remembers values of JSON by what they say. What it gives must not be changed: many objects have it."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}
        self._containers: dict[tuple[object, ...], Any] = {}

    def __len__(self) -> int:
        return len(self._texts) + len(self._containers)

    def of(self, value: Any) -> Any:
        """An equal value, the same one for all who ask while it is remembered."""
        if isinstance(value, str):
            return self._texts.setdefault(value, value)
        if not isinstance(value, dict | list):
            return value
        if len(self) > _MOST:
            # All at once: containers are found by which values they have, which must be remembered, too.
            self._texts.clear()
            self._containers.clear()
        text, of = self._texts.setdefault, self.of
        if isinstance(value, list):
            elements = [text(part, part) if isinstance(part, str) else of(part) for part in value]
            return self._containers.setdefault((list, *map(id, elements)), elements)
        fields = {
            text(name, name): text(part, part) if isinstance(part, str) else of(part)
            for name, part in value.items()
        }
        return self._containers.setdefault((dict, *map(id, fields), *map(id, fields.values())), fields)


class SharedNodes:
    """Makes of a Node what is kept of it; `economise` of an Informer."""

    def __init__(self) -> None:
        self._values = SharedValues()

    def __call__(self, before: N | None, after: N) -> N:
        """The Node, with the texts that other Nodes have, too, in common with them."""
        shared, meta, status = self._values.of, after.metadata, after.status
        return msgspec.structs.replace(
            after,
            metadata=msgspec.structs.replace(
                meta, labels=shared(meta.labels), annotations=shared(meta.annotations)
            ),
            status=msgspec.structs.replace(
                status,
                capacity=shared(status.capacity),
                allocatable=shared(status.allocatable),
                node_info=shared(status.node_info),
            ),
        )


class SharedReports:
    """The same for NodeGPUStatuses, of which nearly every change is a heartbeat."""

    def __init__(self) -> None:
        self._values = SharedValues()

    def __call__(self, before: w.NodeGPUStatus | None, after: w.NodeGPUStatus) -> w.NodeGPUStatus:
        """The report, with what has not changed as it was before."""
        last: Mapping[str, Any] = {} if before is None else before.status
        status = {
            name: last[name] if name in last and last[name] == value else self._values.of(value)
            for name, value in after.status.items()
        }
        return msgspec.structs.replace(after, status=status)
