"""Whether a kubelet lets a pod have its devices: container by container, hints, merge, choice.

Source: Kubernetes 1.36, pkg/kubelet/cm/devicemanager and pkg/kubelet/cm/topologymanager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from tonnage.decide.cluster.devices import (
    NO_IDS,
    AskPlugin,
    Chosen,
    Devices,
    Ids,
    Request,
    Unavailable,
    choose,
    hints_for,
    prefer,
)
from tonnage.decide.cluster.topology_manager import (
    ANY,
    REASON,
    REFUSAL,
    Hint,
    Topology,
    TopologyPolicy,
    TopologyScope,
    admit,
)

UNEXPECTED: Final = "UnexpectedAdmissionError"


@dataclass(frozen=True, slots=True)
class ContainerNeed:
    """Devices that a container asks for. `reusable_after` marks an init container that ends first."""

    name: str
    resources: Mapping[str, int]
    reusable_after: bool = False
    sidecar: bool = False


@dataclass(frozen=True, slots=True)
class Refused:
    """The reason and the message (without `Pod was rejected: `) that the pod's status would have."""

    reason: str
    message: str
    container: str = ""


@dataclass(frozen=True, slots=True)
class Let:
    """The pod gets in, with these devices by container and resource, as far as they follow from the rules."""

    hints: tuple[Hint, ...]
    ids: Mapping[tuple[str, str], Ids] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Undecided:
    """Whether the pod gets in hangs on which of several devices the plugin or chance picks."""

    why: str


Admission: TypeAlias = Let | Refused | Undecided


def pod_request(needs: Sequence[ContainerNeed]) -> dict[str, int]:
    """What a pod asks as a whole: the containers and sidecars together, or the greediest init step.

    >>> pod_request([ContainerNeed("i", {"g": 4}, reusable_after=True), ContainerNeed("m", {"g": 2})])
    {'g': 4}
    """
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for need in needs:
        if need.reusable_after:
            for name in (*need.resources, *sidecars):
                step = need.resources.get(name, 0) + sidecars.get(name, 0)
                peak[name] = max(peak.get(name, 0), step)
            continue
        for name, count in need.resources.items():
            total[name] = total.get(name, 0) + count
            if need.sidecar:
                sidecars[name] = sidecars.get(name, 0) + count
    return {name: max(total.get(name, 0), peak.get(name, 0)) for name in total | peak}


def affinity(
    topology: Topology,
    wanted: Mapping[str, int],
    devices: Callable[[str], Devices],
    *,
    held: Callable[[str], Ids] = lambda _: NO_IDS,
    reusable: Mapping[str, Ids] | None = None,
    others: Sequence[tuple[Hint, ...] | None] = (),
) -> tuple[Hint, bool]:
    """The hint that devices are chosen by, and whether the policy lets in what wants them.

    `wanted` is of a container, or of a pod where the scope is the pod. What it holds already (`held`) gives
    the hints again. `others` are the hints of the CPU and memory managers.
    """
    if topology.policy is TopologyPolicy.NONE:
        return ANY, True
    offers: list[tuple[Hint, ...] | None] = []
    for name, count in wanted.items():
        known, mine = devices(name), held(name)
        if not any(known.numa.values()):
            offers.append(None)
        elif mine:
            offers.append(_again(known, mine, count))
        else:
            offers.append(hints_for(known, count, (reusable or {}).get(name, NO_IDS)))
    return admit(topology, [*offers, *others])


def _again(devices: Devices, held: Ids, count: int) -> tuple[Hint, ...] | None:
    """The hints of devices that are held already, as if these alone were free."""
    if len(held) != count:
        return ()
    return hints_for(replace(devices, healthy=held, allocated=NO_IDS), count)


def admission(
    topology: Topology, needs: Sequence[ContainerNeed], devices: Mapping[str, Devices]
) -> Admission:
    """What a kubelet says of a pod that it has not seen before.

    A resource that no plugin offers (`devices` lacks it) is not the device manager's.
    """
    supply = dict(devices)
    reusable: dict[str, Ids] = {}
    hints: list[Hint] = []
    given: dict[tuple[str, str], Ids] = {}
    mine = [
        replace(need, resources={n: c for n, c in need.resources.items() if n in devices}) for need in needs
    ]
    whole: Hint | None = None
    if topology.scope is TopologyScope.POD and topology.policy is not TopologyPolicy.NONE:
        whole, aligned = affinity(topology, pod_request(mine), supply.__getitem__)
        if not aligned:
            return Refused(REASON, REFUSAL)
    for index, need in enumerate(mine):
        hint, aligned = (
            (whole, True)
            if whole is not None
            else affinity(topology, need.resources, supply.__getitem__, reusable=reusable)
        )
        if not aligned:
            return Refused(REASON, REFUSAL, need.name)
        hints.append(hint)
        for name, count in need.resources.items():
            request = Request(count, reusable.get(name, NO_IDS), hint)
            found = _chosen(supply[name], request)
            if isinstance(found, Unavailable):
                told = f"Allocate failed due to {found.message}, which is unexpected"
                return Refused(UNEXPECTED, told, need.name)
            if _open(found, supply[name], topology) and _asks_again(mine[index + 1 :], name):
                return Undecided(f"which {name} container {need.name} gets decides for the next")
            given[need.name, name] = found.ids
            supply[name] = replace(supply[name], allocated=supply[name].allocated | found.ids)
            known = reusable.get(name, NO_IDS)
            reusable[name] = known | found.ids if need.reusable_after else known - found.ids
    return Let(tuple(hints), given)


def _chosen(devices: Devices, request: Request) -> Chosen | Unavailable:
    """The choice as it is without a plugin's preference: what is certain, and what chance draws from."""
    found = choose(devices, request, plugin_prefers=False)
    return prefer(found, NO_IDS) if isinstance(found, AskPlugin) else found


def _open(chosen: Chosen, devices: Devices, topology: Topology) -> bool:
    """Whether the choice is among devices of different NUMA nodes, and that matters to the policy."""
    if topology.policy in (TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT):
        return False
    return len({devices.numa.get(each, 0) for each in chosen.pool}) > 1


def _asks_again(needs: Sequence[ContainerNeed], resource: str) -> bool:
    return any(need.resources.get(resource, 0) for need in needs)
