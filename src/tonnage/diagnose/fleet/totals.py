"""Sums over a fleet, a resource each: GPUs, replicas and MIG devices are never added up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tonnage.diagnose.status import FleetRow
from tonnage.model.json import JsonObject


@dataclass(frozen=True, slots=True)
class FleetTotal:
    """A resource on all nodes. An amount is None where it is not known of one of them.

    `devices`: GPUs or MIG devices behind the capacity, where a node shares them; None: no node does, or
    nobody tells how. `free` may still be asked for, wherever it lies: a node that has more allocated than is
    allocatable there, since a device failed, takes nothing from others.
    """

    resource: str
    nodes: int
    capacity: int | None
    allocatable: int | None
    allocated: int | None
    troubled: int
    free: int | None
    devices: int | None = None
    limit: str = ""
    """What `free` does not say, of some of its nodes."""

    @property
    def words(self) -> str:
        """The total as a line; what is not known is left out."""
        parts = [f"{self.nodes} node{'' if self.nodes == 1 else 's'}"]
        if self.allocatable is not None and self.capacity is not None:
            noun = "MIG device" if "/mig-" in self.resource else "GPU"
            many = "" if self.devices == 1 else "s"
            behind = "" if self.devices is None else f" (on {self.devices} {noun}{many})"
            parts.append(f"{self.allocatable} of {self.capacity} allocatable{behind}")
        parts += [f"{self.allocated} allocated"] if self.allocated is not None else []
        limit = f" ({self.limit})" if self.limit else ""
        parts += [f"{self.free} free{limit}"] if self.free is not None else []
        parts += [f"trouble on {self.troubled}"] if self.troubled else []
        return f"{self.resource or 'not advertised'}: {', '.join(parts)}"

    def to_json(self) -> JsonObject:
        """As `status -o json` prints it."""
        return {
            "resource": self.resource,
            "nodes": self.nodes,
            "capacity": self.capacity,
            "allocatable": self.allocatable,
            "allocated": self.allocated,
            "free": self.free,
            "troubled": self.troubled,
            **({} if self.devices is None else {"devices": self.devices}),
            **({"limit": self.limit} if self.limit else {}),
        }


def totals_of(rows: Iterable[FleetRow]) -> tuple[FleetTotal, ...]:
    """A total for each resource, by name."""
    by_resource: dict[str, list[FleetRow]] = {}
    for row in rows:
        by_resource.setdefault(row.resource, []).append(row)
    return tuple(
        FleetTotal(
            resource,
            len(same),
            _sum(row.capacity for row in same),
            _sum(row.allocatable for row in same),
            _sum(row.allocated for row in same),
            sum(not row.in_order for row in same),
            _sum(_free(row) for row in same),
            _sum(row.device_count for row in same) if any(row.replicas != 1 for row in same) else None,
            ", ".join(dict.fromkeys(row.limit for row in same if row.limit)),
        )
        for resource, same in sorted(by_resource.items())
    )


def _free(row: FleetRow) -> int | None:
    if row.allocatable is None or row.allocated is None:
        return None
    return max(0, row.allocatable - row.allocated + row.held_tainted)


def _sum(amounts: Iterable[int | None]) -> int | None:
    of_nodes = list(amounts)
    return None if None in of_nodes else sum(amount for amount in of_nodes if amount is not None)
