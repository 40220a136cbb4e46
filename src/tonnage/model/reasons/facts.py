"""What facts are made of, and how they stand in the JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields
from functools import cache
from typing import Final

from tonnage.model.json import JsonObject, JsonValue


@dataclass(frozen=True, slots=True)
class FactUnit:
    """In what a number is counted, for `Annotated`."""

    words: str


MIB: Final = FactUnit("MiB")
AMOUNT: Final = FactUnit("thousandths of a core, bytes, or a count, as the resource is counted")


def facts_json(cls: type, values: Mapping[str, object]) -> JsonObject:
    """The facts of an object of a dataclass, of which `values` are all fields by key (`asdict` with `keyed`).

    A fact that is None and need not be given is left out.
    """
    facts: JsonObject = {}
    for field in shown_fields(cls):
        fact = values[key_of(field)]
        if fact is not None or is_required(field):
            facts[key_of(field)] = _written(fact)
    return facts


@cache
def shown_fields(cls: type) -> tuple[Field[object], ...]:
    """The fields of a class in the order in which they stand in the JSON; of a reason only its facts."""
    general: frozenset[str] = getattr(cls, "general", frozenset())
    last: tuple[str, ...] = getattr(cls, "trailing", ())
    own = [field for field in fields(cls) if field.name not in general]
    return tuple(sorted(own, key=lambda field: last.index(field.name) + 1 if field.name in last else 0))


def is_required(field: Field[object]) -> bool:
    """Whether the fact is always there, be it None."""
    return field.default is MISSING


def key_of(field: Field[object]) -> str:
    """The key of a fact: `class` of a field `class_`."""
    return field.name.rstrip("_")


def keyed(pairs: Iterable[tuple[str, object]]) -> dict[str, object]:
    """The fields of a dataclass by the keys that they have in the JSON."""
    return {name.rstrip("_"): value for name, value in pairs}


def _written(value: object) -> JsonValue:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Mapping():
            return {str(key): _written(inner) for key, inner in value.items()}
        case tuple():
            return [_written(inner) for inner in value]
        case _:
            raise TypeError(f"a fact cannot be a {type(value).__name__}")


@dataclass(frozen=True, slots=True)
class Holder:
    """A pod, as `namespace/name`, that holds some of a resource."""

    pod: str
    amount: int

    def to_json(self) -> JsonObject:
        """As among the facts, for many nodes."""
        return {"pod": self.pod, "amount": self.amount}


@dataclass(frozen=True, slots=True)
class Guest(Holder):
    """A pod for which as much is kept, since the node is cleared for it."""

    nominated: bool = True

    def to_json(self) -> JsonObject:
        """As among the facts, for many nodes."""
        return {"pod": self.pod, "amount": self.amount, "nominated": self.nominated}


@dataclass(frozen=True, slots=True)
class FailingRequirement:
    """A requirement of a selector that a node does not meet, and what the node has instead."""

    key: str
    operator: str
    values: tuple[str, ...]
    actual: str | None


@dataclass(frozen=True, slots=True)
class ExcludedDevice:
    """A device that a request cannot have, and why: the expression, claim, taint or counter."""

    device: str
    why: str
    detail: str
    owner: str


@dataclass(frozen=True, slots=True)
class RequestShortage:
    """A request of a claim on a node: how many devices it wants (or `all`) and how many are left for it.

    `counts`: by cause, how many devices are excluded; `excluded` has the first of them.
    """

    claim: str
    request: str
    class_: str
    wants: int | str
    left: int
    excluded: tuple[ExcludedDevice, ...]
    counts: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class GpuPair:
    """Two GPUs by index, and how they are joined."""

    pair: tuple[int, ...]
    link: str
    gb_s: float


@dataclass(frozen=True, slots=True)
class GpuSet:
    """GPUs by index, their slowest pair, and what all pairs together carry."""

    gpus: tuple[int, ...]
    slowest: GpuPair | None
    total_gb_s: float
    numa_nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GpuFamily:
    """Nodes whose GPUs are joined alike, and the best set there."""

    nodes: tuple[str, ...]
    gpus: tuple[int, ...]
    slowest: GpuPair | None
    total_gb_s: float
    numa_nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SharedDevices:
    """How many devices a node offers as replicas, and how often each; None: not told."""

    node: str
    devices: int | None
    replicas: int | None


@dataclass(frozen=True, slots=True)
class LimitBreach:
    """An amount that a LimitRange does not allow."""

    resource: str
    bound: str
    allowed: str
    where: str


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """A key of a quota, in quantities as Kubernetes writes them."""

    key: str
    asked: str
    used: str
    hard: str


@dataclass(frozen=True, slots=True)
class MigUser:
    """Who is in the way of a change: a pod (namespace and name, as far as they are known), or a process."""

    device: str
    pod: tuple[str, str] | None = None
    pid: int = 0

    def __str__(self) -> str:
        if self.pod is None:
            return f"{self.device} is used by process {self.pid}"
        return f"{self.device} is used by {'/'.join(filter(None, self.pod)) or 'a container'}"
