"""Throughput and latency of services on one GPU: exclusive, time-sliced and under MPS. A queueing model.

It is modelled, nothing of it is measured. Each service gets requests at random times (Poisson) and works on
each for as long as it takes alone.

- exclusive: each has a GPU of its own, which serves one request after the other (M/D/1);
- time-slicing: one GPU serves the requests of all one after the other (M/D/1 of the sum), each longer by what
  switching contexts costs;
- MPS: as many requests at once as fit by the share of the GPU that their kernels fill (M/D/c), each longer
  by what side-by-side kernels take of each other's memory bandwidth and caches.

How long a request waits falls off exponentially, as in heavy traffic:
P(wait > t) = C exp(-2 c (1 - load) t / s), with Erlang's C of the c servers.
Above a load of 1 the queue grows without end: there is no latency.

Source: Allen, Probability, Statistics and Queueing Theory, 2nd edition, 5.2 (Erlang's C); Kingman's bound
for heavy traffic, with half its variance, as service times are constant; NVIDIA, Multi-Process Service, "When
to Use MPS". SWITCHING and INTERFERENCE are assumptions of this project: measure your own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.model.devices.pretended_load import PretendedLoad
from tonnage.model.devices.service_levels import ServiceLevel, SharingWay

SWITCHING: Final = 0.05
"""So much longer takes a request while GPUs are time-sliced among several processes."""
INTERFERENCE: Final = 0.15
"""So much longer takes a request under MPS while the GPU is full."""


def service_levels(services: Sequence[PretendedLoad], way: SharingWay) -> tuple[ServiceLevel, ...]:
    """The level of each service, in their order. Services have a `service_s`.

    >>> from tonnage.model.devices.pretended_load import LoadKind
    >>> web = PretendedLoad(LoadKind.INFERENCE, rate=40, service_s=0.01, width=0.2)
    >>> [round(sum(l.throughput for l in service_levels([web] * 4, way))) for way in SharingWay]
    [160, 95, 160]
    """
    if way is SharingWay.EXCLUSIVE or len(services) == 1:
        return tuple(_level(load, load.service_s, 1, load.demand) for load in services)
    demand = sum(load.demand for load in services)
    if way is SharingWay.TIME_SLICING:
        longer = 1 + SWITCHING
        return tuple(_level(load, load.service_s * longer, 1, demand * longer) for load in services)
    filled = sum(load.demand * load.width for load in services)
    longer = 1 + INTERFERENCE * min(1.0, filled)
    servers = max(1, min(len(services), math.floor(demand / filled))) if filled else len(services)
    # A service by itself works on one request at a time, however much room there is.
    return tuple(
        _level(load, load.service_s * longer, servers, max(filled, demand / servers, load.demand) * longer)
        for load in services
    )


def _level(service: PretendedLoad, service_s: float, servers: int, load: float) -> ServiceLevel:
    """The level under a load of all servers together (1: always busy)."""
    if load >= 1:
        return ServiceLevel(service.rate / load, None, None, None)
    waits = _erlang_c(servers, load)
    decay_s = service_s / (2 * servers * (1 - load))

    def percentile(part: float) -> float:
        beyond = 1 - part
        return service_s + (decay_s * math.log(waits / beyond) if waits > beyond else 0.0)

    return ServiceLevel(service.rate, percentile(0.5), percentile(0.95), percentile(0.99))


def _erlang_c(servers: int, load: float) -> float:
    """The probability that a request waits. One server: the load itself."""
    offered = servers * load
    term, terms = 1.0, 1.0
    for number in range(1, servers):
        term *= offered / number
        terms += term
    last = term * offered / servers / (1 - load)
    return last / (terms + last)


@dataclass(frozen=True, slots=True)
class SharingAdvice:
    """The way to take, how many GPUs it needs, and why, in a sentence."""

    way: SharingWay
    gpus: int
    why: str


def advice(services: Sequence[PretendedLoad], p95_s: float) -> SharingAdvice:
    """The way on fewest GPUs by which every service answers all requests, 95 % of them within `p95_s`.

    Where both ways of sharing do, time-slicing: its processes cannot bring each other down.

    >>> from dataclasses import replace
    >>> from tonnage.model.devices.pretended_load import LoadKind
    >>> small = PretendedLoad(LoadKind.INFERENCE, rate=40, service_s=0.01, width=0.2)
    >>> advice([small] * 4, 0.05).way, advice([replace(small, rate=5)] * 4, 0.05).way
    (<SharingWay.MPS: 'mps'>, <SharingWay.TIME_SLICING: 'time-slicing'>)
    """
    if _meets(service_levels(services, SharingWay.TIME_SLICING), p95_s):
        why = "the requests of all fit into one GPU's time, and one process cannot bring down another"
        return SharingAdvice(SharingWay.TIME_SLICING, 1, why)
    if _meets(service_levels(services, SharingWay.MPS), p95_s):
        why = "their time does not fit into one GPU's, but their kernels fit side by side"
        return SharingAdvice(SharingWay.MPS, 1, why)
    alone = service_levels(services, SharingWay.EXCLUSIVE)
    why = "together they need more than one GPU can do"
    if not _meets(alone, p95_s):
        why = "a service needs more than one GPU by itself: split it, or take a larger GPU"
    return SharingAdvice(SharingWay.EXCLUSIVE, len(services), why)


def _meets(levels: Sequence[ServiceLevel], p95_s: float) -> bool:
    return all(level.meets(p95_s) for level in levels)
