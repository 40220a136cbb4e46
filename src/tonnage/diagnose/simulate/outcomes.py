"""What a what-if answers: figures of a cluster before and after, and what became of each pod."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tonnage.diagnose.simulate.changed_cluster import WaitingPod
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.name_lists import listed
from tonnage.model.verdict import Verdict

MOST_NAMED = 10
_MOST_PODS = 4
_HELD = (
    *("allocated", "free", "freeOnCordonedNodes", "stranded", "strandedBy", "tooFewTogether"),
    "fragmentedPercent",
)
"""Figures of a resource that hang on what pods hold."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a pod that looked for a place: a node, or why none. `lost`: nobody makes it anew."""

    candidate: WaitingPod
    node: str | None = None
    code: str = ""
    lost: bool = False
    unknown: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self.candidate.pod.namespace}/{self.candidate.pod.name}"

    def to_json(self) -> JsonObject:
        """As `-o json` has it."""
        cause = self.candidate.cause
        return {
            "pod": self.name,
            "from": self.candidate.node or None,
            "cause": cause.value if cause is not None else None,
            "node": self.node,
            "code": self.code or None,
            "lost": self.lost,
        }


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pods that wait for one reason; `code` and `layer` are those of `explain`."""

    code: str
    layer: str
    verdict: Verdict
    message: str
    remedy: str
    pods: tuple[str, ...]

    def to_json(self) -> JsonObject:
        """As `-o json` has it."""
        return {
            "code": self.code,
            "layer": self.layer,
            "verdict": self.verdict.value,
            "message": self.message,
            "remedy": self.remedy,
            "pods": len(self.pods),
            "names": [*self.pods],
        }

    def lines(self, *, whole: bool = False) -> Iterator[str]:
        """The same as text: how many for which reason, who, and what to do. `whole`: who, without a limit."""
        layer = f"[{self.layer}] " if self.layer else ""
        code = f"  ({self.code})" if self.code else ""
        pods = "1 pod waits" if len(self.pods) == 1 else f"{len(self.pods)} pods wait"
        yield f"{pods}: {layer}{self.message}{code}"
        yield f"  {listed(self.pods, len(self.pods) if whole else _MOST_PODS)}"
        if self.remedy:
            yield f"  -> {self.remedy}"


@dataclass(frozen=True, slots=True)
class Stranded:
    """Free units of a resource that no reference pod can use, by cause, and the nodes that have them."""

    cause: str
    amount: int
    nodes: tuple[str, ...]

    def to_json(self) -> JsonObject:
        """As `-o json` has it."""
        return {"cause": self.cause, "amount": self.amount, "nodes": [*self.nodes]}


@dataclass(frozen=True, slots=True)
class ResourceFigures:
    """A resource over all nodes. `stranded` and `fragmented_percent` are None where no pod asks for it.

    `free` counts what nodes that take pods have left; `split` are free units in groups too small for any.
    """

    name: str
    capacity: int
    allocatable: int
    allocated: int
    free: int
    cordoned: int = 0
    """Free on nodes that take no pods."""
    devices: int | None = None
    """GPUs or MIG devices behind the capacity, where some node offers replicas of them."""
    stranded: tuple[Stranded, ...] | None = None
    split: Stranded | None = None
    fragmented_percent: float | None = None

    @property
    def stranded_amount(self) -> int | None:
        """Stranded units for all causes."""
        return None if self.stranded is None else sum(part.amount for part in self.stranded)

    def to_json(self) -> JsonObject:
        """As `-o json` has it."""
        stranded: JsonValue = None if self.stranded is None else [part.to_json() for part in self.stranded]
        percent = None if self.fragmented_percent is None else round(self.fragmented_percent, 2)
        return {
            "name": self.name,
            "capacity": self.capacity,
            **({} if self.devices is None else {"devices": self.devices}),
            "allocatable": self.allocatable,
            "allocated": self.allocated,
            "free": self.free,
            "freeOnCordonedNodes": self.cordoned,
            "stranded": self.stranded_amount,
            "strandedBy": stranded,
            "tooFewTogether": None if self.split is None else self.split.to_json(),
            "fragmentedPercent": percent,
        }


@dataclass(frozen=True, slots=True)
class SimulatedCluster:
    """A cluster once every pod has been tried. `placed` counts all pods that have a node.

    Not `pods_seen`: pods were not read, or those of one namespace alone, so that what they hold is not known.
    """

    name: str
    changes: tuple[str, ...]
    nodes: int
    placed: int
    fates: tuple[Fate, ...]
    waiting: tuple[Waiting, ...]
    resources: tuple[ResourceFigures, ...]
    notes: tuple[str, ...] = ()
    unknown: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What keeps the fate of pods from being known, and which pods."""
    pods_seen: bool = True
    may_displace: bool = False
    """Whether its changes take room away from pods, so that who has none is open where pods are not seen."""

    def of(self, *, displaced: bool) -> tuple[Fate, ...]:
        """Fates of pods that were displaced, or of the others that looked for a place."""
        return tuple(fate for fate in self.fates if (fate.candidate.cause is not None) is displaced)

    @property
    def counts(self) -> Counter[str]:
        """How many pods: pending, unknown, displaced, placed-again, waiting (of those), lost."""
        counter: Counter[str] = Counter()
        for fate in self.fates:
            moved = fate.candidate.cause is not None
            counter["displaced"] += moved
            counter["lost"] += fate.lost
            counter["unknown"] += bool(fate.unknown)
            waits = fate.node is None and not fate.lost and not fate.unknown
            counter["pending"] += waits
            counter["displaced-waiting"] += moved and waits
            counter["displaced-placed"] += moved and fate.node is not None
        return counter

    def resource(self, name: str) -> ResourceFigures | None:
        """The figures of a resource, if any node has it."""
        return next((figures for figures in self.resources if figures.name == name), None)

    def to_json(self) -> JsonObject:
        """As `-o json` has it."""
        counts = self.counts
        held: JsonObject = {} if self.pods_seen else dict.fromkeys(_HELD)
        return {
            "name": self.name,
            "changes": [*self.changes],
            "nodes": self.nodes,
            "pods": {
                "placed": self.placed if self.pods_seen else None,
                "pending": counts["pending"] if self.pods_seen else None,
                "unknown": counts["unknown"],
                "displaced": counts["displaced"],
                "lost": counts["lost"],
            },
            "pending": [entry.to_json() for entry in self.waiting],
            "unknown": [{"what": text, "pods": [*names]} for text, names in self.unknown.items()],
            "displaced": [fate.to_json() for fate in self.of(displaced=True)],
            "resources": [{**entry.to_json(), **held} for entry in self.resources],
            "notes": [*self.notes],
        }


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The cluster before, and each alternative after its changes."""

    before: SimulatedCluster
    alternatives: tuple[SimulatedCluster, ...]

    @property
    def worse(self) -> bool:
        """Whether, in any alternative, a pod that ran or was added has no sure place, or is lost.

        Of pods that are not seen, none has a sure place where room is taken away.
        """
        if any(outcome.may_displace and not outcome.pods_seen for outcome in self.alternatives):
            return True
        return any(
            fate.node is None and (fate.candidate.asked_for or fate.name in self._ran)
            for outcome in self.alternatives
            for fate in outcome.fates
        )

    @property
    def _ran(self) -> frozenset[str]:
        """Pending pods that find a place without any change."""
        return frozenset(fate.name for fate in self.before.fates if fate.node is not None)

    def to_json(self) -> JsonObject:
        """As `-o json` has it."""
        return {
            "before": self.before.to_json(),
            "alternatives": [alternative.to_json() for alternative in self.alternatives],
        }
