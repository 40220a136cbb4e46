"""topologymanager.Scope: whether a kubelet lets a pod have its devices: hints, merge, choice.

Source: Kubernetes 1.36, pkg/kubelet/cm/devicemanager and pkg/kubelet/cm/topologymanager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Final, TypeAlias

from tonnage.decide.kubernetes.kubelet.cpus import NO_CPUS, CpuIds, Cpus, NoCpus, cpu_hints, take_cpus
from tonnage.decide.kubernetes.kubelet.devices import (
    NO_IDS,
    AskPlugin,
    ContainerDeviceRequest,
    Devices,
    DeviceSelection,
    Ids,
    Unavailable,
    choose,
    hints_for,
    prefer,
)
from tonnage.decide.kubernetes.kubelet.numa_memory import MemoryCell, memory_hints, with_memory
from tonnage.decide.kubernetes.kubelet.topology_manager import (
    ANY,
    REASON,
    REFUSAL,
    Hint,
    NumaTopology,
    TopologyPolicy,
    TopologyScope,
    admit,
)

UNEXPECTED: Final = "UnexpectedAdmissionError"
_CPU: Final = "cpu"


@dataclass(frozen=True, slots=True)
class ContainerNeed:
    """What a container asks for. `reusable_after` marks an init container that ends first."""

    name: str
    resources: Mapping[str, int]
    reusable_after: bool = False
    sidecar: bool = False
    cpus: int = 0
    """Whole CPUs that a static CPU manager gives it alone; 0 where the pod is not Guaranteed."""
    memory: Mapping[str, int] = field(default_factory=dict)
    """Bytes by kind that a static memory manager gives it; nothing where the pod is not Guaranteed."""


@dataclass(frozen=True, slots=True)
class DeviceAdmissionFailure:
    """The reason and kubelet's message (without `Pod was rejected: `) that the pod's status would have."""

    reason: str
    upstream_message: str
    container: str = ""


@dataclass(frozen=True, slots=True)
class DeviceAdmitted:
    """The pod gets in, with these devices by container and resource, as far as they follow from the rules."""

    hints: tuple[Hint, ...]
    ids: Mapping[tuple[str, str], Ids] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AdmissionUndecided:
    """Whether the pod gets in hangs on which of several devices the plugin or chance picks."""

    why: str


_MOST_WAYS: Final = 64
_MOST_SUMS: Final = 4096
Admission: TypeAlias = DeviceAdmitted | DeviceAdmissionFailure | AdmissionUndecided


def pod_request(needs: Sequence[ContainerNeed]) -> dict[str, int]:
    """What a pod asks of plugins as a whole, see `greatest_request`.

    >>> pod_request([ContainerNeed("i", {"g": 4}, reusable_after=True), ContainerNeed("m", {"g": 2})])
    {'g': 4}
    """
    return greatest_request([(need, need.resources) for need in needs])


def greatest_request(requests: Sequence[tuple[ContainerNeed, Mapping[str, int]]]) -> dict[str, int]:
    """The containers and sidecars together, or the greediest init step, of each amount by itself."""
    total: dict[str, int] = {}
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for need, amounts in requests:
        if need.reusable_after:
            for name in (*amounts, *sidecars):
                peak[name] = max(peak.get(name, 0), amounts.get(name, 0) + sidecars.get(name, 0))
            continue
        for name, count in amounts.items():
            total[name] = total.get(name, 0) + count
            if need.sidecar:
                sidecars[name] = sidecars.get(name, 0) + count
    return {name: max(total.get(name, 0), peak.get(name, 0)) for name in total | peak}


def affinity(
    topology: NumaTopology,
    requests: Mapping[str, int],
    devices: Callable[[str], Devices],
    *,
    held: Callable[[str], Ids] = lambda _: NO_IDS,
    reusable: Mapping[str, Ids] | None = None,
    others: Sequence[tuple[Hint, ...] | None] = (),
) -> tuple[Hint, bool]:
    """The hint that devices are chosen by, and whether the policy lets in what wants them.

    `requests` are of a container, or of a pod where the scope is the pod. What it has already (`held`) gives
    the hints again. `others` are the hints of the CPU and memory managers.
    """
    if topology.policy is TopologyPolicy.NONE:
        return ANY, True
    offers: list[tuple[Hint, ...] | None] = []
    for name, count in requests.items():
        supply, own = devices(name), held(name)
        if not any(supply.numa.values()):
            offers.append(None)
        elif own:
            offers.append(_again(supply, own, count))
        else:
            offers.append(hints_for(supply, count, (reusable or {}).get(name, NO_IDS)))
    return admit(topology, [*offers, *others])


def _again(devices: Devices, held: Ids, count: int) -> tuple[Hint, ...] | None:
    """The hints of devices that are held already, as if these alone were free."""
    if len(held) != count:
        return ()
    return hints_for(replace(devices, healthy=held, allocated=NO_IDS), count)


@dataclass(frozen=True, slots=True)
class Supplies:
    """What a kubelet has to give. `cpus` and `memory` None: no static manager looks after them."""

    devices: Mapping[str, Devices]
    cpus: Cpus | None = None
    memory: Mapping[int, MemoryCell] | None = None


def admission(topology: NumaTopology, needs: Sequence[ContainerNeed], supplies: Supplies) -> Admission:
    """What a kubelet says of a pod that it has not seen before.

    A resource that no plugin offers (`supplies.devices` lacks it) is not the device manager's.
    """
    device_needs = [
        replace(need, resources={n: c for n, c in need.resources.items() if n in supplies.devices})
        for need in needs
    ]
    if supplies.memory is not None and any(need.reusable_after and need.memory for need in device_needs):
        return AdmissionUndecided("how much memory init containers leave to the others is not followed")
    steps = _Steps(topology, dict(supplies.devices), supplies.cpus, supplies.memory)
    whole: Hint | None = None
    if topology.scope is TopologyScope.POD and topology.policy is not TopologyPolicy.NONE:
        whole, aligned = steps.hint_of_all(device_needs)
        if not aligned:
            return DeviceAdmissionFailure(REASON, REFUSAL)
    return _walk(steps, device_needs, whole, [_MOST_WAYS])


def _walk(steps: _Steps, needs: Sequence[ContainerNeed], whole: Hint | None, left: list[int]) -> Admission:
    """Container after container; `left`: how many more ways to choose may be followed."""
    hints: list[Hint] = []
    for index, need in enumerate(needs):
        hint, aligned = (whole, True) if whole is not None else steps.hint(need)
        if not aligned:
            return DeviceAdmissionFailure(REASON, REFUSAL, need.name)
        hints.append(hint)
        rest = needs[index + 1 :]
        before = replace(steps, devices=dict(steps.devices), reusable=dict(steps.reusable))
        stopped = steps.give(need, hint, rest)
        by_devices = not (steps.cpus or steps.memory) and len(need.resources) == 1
        if isinstance(stopped, AdmissionUndecided) and by_devices:
            return _refused_anyhow(before, need, hint, (rest, whole, left)) or stopped
        if stopped is not None:
            return stopped
    return DeviceAdmitted(tuple(hints), steps.assigned)


def _refused_anyhow(
    steps: _Steps,
    need: ContainerNeed,
    hint: Hint,
    then: tuple[Sequence[ContainerNeed], Hint | None, list[int]],
) -> DeviceAdmissionFailure | None:
    """The refusal of a later container that comes whichever devices this one gets; else None."""
    [(name, count)] = need.resources.items()
    supply, reusable = steps.devices[name], steps.reusable.get(name, NO_IDS)
    choice = choose(supply, ContainerDeviceRequest(count, reusable, hint), plugin_prefers=True)
    if isinstance(choice, Unavailable):
        return None
    certain = choice.must if isinstance(choice, AskPlugin) else choice.certain
    pool = choice.eligible - certain if isinstance(choice, AskPlugin) else choice.pool
    rest, whole, left = then
    first_answer: DeviceAdmissionFailure | None = None
    for drawn in _ways(supply, pool, count - len(certain)):
        left[0] -= 1
        if left[0] < 0:
            return None
        ids = certain | drawn
        after = reusable | ids if need.reusable_after else reusable - ids
        fork = replace(
            steps,
            devices={**steps.devices, name: replace(supply, allocated=supply.allocated | ids)},
            reusable={**steps.reusable, name: after},
        )
        answer = _walk(fork, rest, whole, left)
        if not isinstance(answer, DeviceAdmissionFailure) or answer.reason != REASON:
            return None
        first_answer = first_answer or answer
    return first_answer


def _ways(devices: Devices, pool: Ids, count: int) -> Iterator[Ids]:
    """So many of a pool, in each way that differs in how many are of which NUMA nodes."""
    by_numa: dict[int, list[str]] = {}
    for device_id in sorted(pool):
        by_numa.setdefault(devices.numa.get(device_id, 0), []).append(device_id)
    groups = list(by_numa.values())
    ranges = [range(min(len(group), count) + 1) for group in groups]
    if prod(map(len, ranges)) > _MOST_SUMS:
        return
    for counts in product(*ranges):
        if sum(counts) == count:
            yield frozenset(e for group, n in zip(groups, counts, strict=True) for e in group[:n])


@dataclass(slots=True)
class _Steps:
    """An admission under way: what is left, and what finished init containers leave to the next."""

    topology: NumaTopology
    devices: dict[str, Devices]
    cpus: Cpus | None
    memory: Mapping[int, MemoryCell] | None
    reusable: dict[str, Ids] = field(default_factory=dict)
    reusable_cpus: CpuIds = NO_CPUS
    assigned: dict[tuple[str, str], Ids] = field(default_factory=dict)

    def hint(self, need: ContainerNeed) -> tuple[Hint, bool]:
        """The merged hint of a container, and whether the policy lets it in."""
        return self._merged(need.resources, need.cpus, need.memory, first=False)

    def hint_of_all(self, needs: Sequence[ContainerNeed]) -> tuple[Hint, bool]:
        """The same of a pod as a whole."""
        cpus = greatest_request([(need, {_CPU: need.cpus}) for need in needs]).get(_CPU, 0)
        memory = greatest_request([(need, need.memory) for need in needs])
        return self._merged(pod_request(needs), cpus, memory, first=True)

    def _merged(
        self, requests: Mapping[str, int], cpus: int, memory: Mapping[str, int], *, first: bool
    ) -> tuple[Hint, bool]:
        others: list[tuple[Hint, ...] | None] = []
        if self.cpus is not None:
            others.append(cpu_hints(self.cpus, cpus, NO_CPUS if first else self.reusable_cpus))
        if self.memory is not None and any(memory.values()):
            others += [memory_hints(self.memory, memory)] * len(memory)
        reusable = {} if first else self.reusable
        return affinity(
            self.topology, requests, self.devices.__getitem__, reusable=reusable, others=tuple(others)
        )

    def give(
        self, need: ContainerNeed, hint: Hint, rest: Sequence[ContainerNeed]
    ) -> DeviceAdmissionFailure | AdmissionUndecided | None:
        """Hand out what a container asks for; why not, or why that cannot be foreseen."""
        for name, count in need.resources.items():
            supply, reusable = self.devices[name], self.reusable.get(name, NO_IDS)
            choice = _chosen(supply, ContainerDeviceRequest(count, reusable, hint))
            if isinstance(choice, Unavailable):
                message = f"Allocate failed due to {choice.upstream_message}, which is unexpected"
                return DeviceAdmissionFailure(UNEXPECTED, message, need.name)
            if _open(choice, supply, self.topology) and any(later.resources.get(name) for later in rest):
                return AdmissionUndecided(f"which {name} container {need.name} gets decides for the next")
            self.assigned[need.name, name] = choice.ids
            self.devices[name] = replace(supply, allocated=supply.allocated | choice.ids)
            self.reusable[name] = reusable | choice.ids if need.reusable_after else reusable - choice.ids
        if self.memory is not None and any(need.memory.values()) and hint.mask is not None:
            self.memory = with_memory(self.memory, hint.mask, need.memory)
        return self._give_cpus(need, hint, rest) if self.cpus is not None and need.cpus else None

    def _give_cpus(
        self, need: ContainerNeed, hint: Hint, rest: Sequence[ContainerNeed]
    ) -> DeviceAdmissionFailure | AdmissionUndecided | None:
        if self.cpus is None:
            return None
        choice = take_cpus(self.cpus, need.cpus, hint, self.reusable_cpus)
        if isinstance(choice, NoCpus):
            message = (
                choice.upstream_message
                if choice.reason
                else f"Allocate failed due to {choice.upstream_message}, which is unexpected"
            )
            return DeviceAdmissionFailure(choice.reason or UNEXPECTED, message, need.name)
        if _cpus_open(self.cpus, need.cpus, hint) and any(later.cpus for later in rest):
            return AdmissionUndecided(f"which CPUs container {need.name} gets decides for the next")
        self.cpus = replace(self.cpus, free=self.cpus.free - choice)
        self.reusable_cpus = (
            self.reusable_cpus | choice if need.reusable_after else self.reusable_cpus - choice
        )
        return None


def _cpus_open(cpus: Cpus, count: int, hint: Hint) -> bool:
    """Whether CPUs of several NUMA nodes are there to choose from."""
    aligned = [cpu for cpu in cpus.free if hint.mask is None or hint.mask >> cpus.numa[cpu] & 1]
    others = cpus.free - set(aligned)
    pool, missing = (aligned, count) if len(aligned) >= count else (others, count - len(aligned))
    return len(pool) > missing and len({cpus.numa[cpu] for cpu in pool}) > 1


def _chosen(devices: Devices, request: ContainerDeviceRequest) -> DeviceSelection | Unavailable:
    """The choice as it is without a plugin's preference: what is certain, and what chance draws from."""
    choice = choose(devices, request, plugin_prefers=False)
    return prefer(choice, NO_IDS) if isinstance(choice, AskPlugin) else choice


def _open(chosen: DeviceSelection, devices: Devices, topology: NumaTopology) -> bool:
    """Whether the choice is among devices of different NUMA nodes, and that matters to the policy."""
    if topology.policy in (TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT):
        return False
    return len({devices.numa.get(device_id, 0) for device_id in chosen.pool}) > 1
