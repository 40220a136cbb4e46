"""Hints of the CPU and memory managers against plain statements of them, and what they do to an admission."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from tonnage.decide.kubernetes.kubelet.cpus import Cpus, cpu_hints, spread_cpus, take_cpus
from tonnage.decide.kubernetes.kubelet.device_admission import (
    Admission,
    AdmissionUndecided,
    ContainerNeed,
    DeviceAdmissionFailure,
    DeviceAdmitted,
    Supplies,
    admission,
)
from tonnage.decide.kubernetes.kubelet.devices import Devices
from tonnage.decide.kubernetes.kubelet.numa_memory import MemoryCell, memory_hints, with_memory
from tonnage.decide.kubernetes.kubelet.topology_manager import (
    Hint,
    NumaTopology,
    TopologyPolicy,
    TopologyScope,
)

GPUS = Devices("gpu", {"a": 1, "b": 1, "c": 2, "d": 2}, frozenset("abcd"))
SINGLE = TopologyPolicy.SINGLE_NUMA_NODE


def groups(nodes: list[int]) -> list[tuple[int, ...]]:
    return [group for size in range(1, len(nodes) + 1) for group in combinations(nodes, size)]


def mask_of(group: tuple[int, ...]) -> int:
    return sum(1 << node for node in group)


def plain_cpu_hints(cpus: Cpus, count: int, reusable: set[int]) -> list[tuple[int, bool]]:
    nodes = sorted(set(cpus.numa.values()))
    least, fitting = len(nodes), []
    for group in groups(nodes):
        everything = [c for c, n in cpus.numa.items() if n in group]
        least = min(least, len(group)) if len(everything) >= count else least
        outside = [c for c in reusable if cpus.numa[c] not in group]
        usable = {c for c in everything if c in cpus.free or c in reusable}
        if not outside and len(usable) >= count:
            fitting.append(group)
    found = []
    for group in fitting:
        spanned = {cpus.sockets[c] for c, n in cpus.numa.items() if n in group}
        per_socket = len(nodes) // len(set(cpus.sockets.values()))
        whole = per_socket > 0 and len(spanned) == (least + per_socket - 1) // per_socket
        by_socket = "align-by-socket" in cpus.options and whole
        found.append((mask_of(group), len(group) == least or by_socket))
    return found


def test_hints_of_cpus_are_those_of_the_plain_statement() -> None:
    for number in range(600):
        chance = Random(f"cpus/{number}")
        nodes = chance.choice((1, 2, 4))
        count = chance.randint(nodes, 12)
        numa = {cpu: cpu * nodes // count for cpu in range(count)}
        sockets = {cpu: at // 2 for cpu, at in numa.items()} if number % 2 else dict(numa)
        held = {cpu for cpu in numa if chance.random() < 0.3}
        reusable = {cpu for cpu in held if chance.random() < 0.3}
        options = frozenset({"align-by-socket"} if chance.random() < 0.4 else ())
        cpus = Cpus(numa, frozenset(set(numa) - held), sockets, options=options)
        amount = chance.randint(1, 6)
        found = cpu_hints(cpus, amount, frozenset(reusable)) or ()
        assert [(h.mask, h.preferred) for h in found] == plain_cpu_hints(cpus, amount, reusable), number
    assert cpu_hints(spread_cpus(4, 2), 0) is None


def plain_memory_hints(cells: dict[int, MemoryCell], wanted: dict[str, int]) -> list[tuple[int, bool]]:
    least, fitting = len(cells), []
    for group in groups(sorted(cells)):
        of = [cells[node] for node in group]
        if any(sum(c.allocatable.get(name, 0) for c in of) < size for name, size in wanted.items()):
            continue
        least = min(least, len(group))
        if len(group) == 1 and len(of[0].group) > 1:
            continue
        if len(group) > 1 and any(c.assignments and set(c.group) != set(group) for c in of):
            continue
        if all(sum(c.free.get(name, 0) for c in of) >= size for name, size in wanted.items()):
            fitting.append(group)
    return [(mask_of(group), len(group) == least) for group in fitting]


def test_hints_of_memory_are_those_of_the_plain_statement_while_containers_come() -> None:
    for number in range(200):
        chance = Random(f"memory/{number}")
        kinds = ["memory", "hugepages-2Mi"][: chance.choice((1, 1, 2))]
        full = {node: dict.fromkeys(kinds, chance.randint(4, 9)) for node in range(chance.choice((1, 2, 3)))}
        cells = {node: MemoryCell(amounts, amounts) for node, amounts in full.items()}
        for _ in range(6):
            wanted = {kind: chance.randint(1, 10) for kind in kinds}
            found = memory_hints(cells, wanted) or ()
            assert [(h.mask, h.preferred) for h in found] == plain_memory_hints(cells, wanted), number
            if found:
                cells = with_memory(cells, chance.choice(found).mask or 0, wanted)
            free = [amount for cell in cells.values() for amount in cell.free.values()]
            assert min(free) >= 0
    assert memory_hints(cells, {}) is None


def test_one_node_serves_containers_alone_or_together_with_others_but_not_both() -> None:
    cells = {node: MemoryCell({"memory": 8}, {"memory": 8}) for node in range(2)}
    alone = with_memory(cells, 1, {"memory": 1})
    assert memory_hints(alone, {"memory": 10}) == ()
    together = with_memory(cells, 3, {"memory": 10})
    assert memory_hints(together, {"memory": 4}) == (Hint(3, preferred=False),)


def admitted(cpus: Cpus | None, *needs: ContainerNeed, policy: TopologyPolicy = SINGLE) -> Admission:
    return admission(NumaTopology(2, policy), needs, Supplies({"gpu": GPUS}, cpus))


def test_gpus_and_cpus_must_find_the_same_numa_node() -> None:
    """KUB-3: two GPUs fit a node, eight CPUs too, but of eight on each node reserved ones are gone."""
    need = ContainerNeed("c", {"gpu": 2}, cpus=8)
    whole = admitted(spread_cpus(16, 2), need)
    assert isinstance(whole, DeviceAdmitted)
    admission_answer = admitted(spread_cpus(16, 2, reserved=2), need)
    assert isinstance(admission_answer, DeviceAdmitted)
    assert admission_answer.ids["c", "gpu"] == frozenset("cd")
    refused = admitted(spread_cpus(16, 2, reserved=10), need)
    assert isinstance(refused, DeviceAdmissionFailure)
    assert refused.reason == "TopologyAffinityError"
    assert isinstance(admitted(None, need), DeviceAdmitted)


def test_a_scope_of_the_pod_counts_cpus_together_too() -> None:
    needs = [ContainerNeed("a", {"gpu": 1}, cpus=6), ContainerNeed("b", {"gpu": 1}, cpus=6)]
    supplies = Supplies({"gpu": GPUS}, spread_cpus(16, 2))
    for scope, kind in (
        (TopologyScope.CONTAINER, DeviceAdmitted),
        (TopologyScope.POD, DeviceAdmissionFailure),
    ):
        assert isinstance(admission(NumaTopology(2, SINGLE, scope=scope), needs, supplies), kind)


def test_memory_that_no_single_node_has_refuses_the_container() -> None:
    cells = {node: MemoryCell({"memory": 8}, {"memory": 8}) for node in range(2)}
    for size, kind in ((8, DeviceAdmitted), (9, DeviceAdmissionFailure)):
        need = ContainerNeed("c", {"gpu": 2}, memory={"memory": size})
        supplies = Supplies({"gpu": GPUS}, None, cells)
        assert isinstance(admission(NumaTopology(2, SINGLE), [need], supplies), kind)
    init = ContainerNeed("i", {}, reusable_after=True, memory={"memory": 1})
    assert isinstance(admission(NumaTopology(2, SINGLE), [init], supplies), AdmissionUndecided)


@pytest.mark.parametrize(
    ("cpus", "count", "reason", "message"),
    [
        pytest.param(
            Cpus({0: 0, 1: 0}, frozenset({0, 1}), {0: 0, 1: 0}, 2, frozenset({"full-pcpus-only"})),
            1,
            "SMTAlignmentError",
            "SMT Alignment Error: requested 1 cpus not multiple cpus per core = 2",
            id="half a core where cores are given whole",
        ),
        pytest.param(
            spread_cpus(4, 1, reserved=3),
            2,
            "UnexpectedAdmissionError",
            "Allocate failed due to not enough cpus available to satisfy request: requested=2, available=1, "
            "which is unexpected",
            id="more than are left, and no policy that aligns",
        ),
    ],
)
def test_the_cpu_managers_refusals_are_in_its_words(
    cpus: Cpus, count: int, reason: str, message: str
) -> None:
    admission_answer = admitted(cpus, ContainerNeed("c", {}, cpus=count), policy=TopologyPolicy.NONE)
    assert admission_answer == DeviceAdmissionFailure(reason, message, "c")


def test_cpus_of_a_finished_init_container_are_the_next_ones() -> None:
    needs = [ContainerNeed("i", {}, reusable_after=True, cpus=4), ContainerNeed("c", {}, cpus=4)]
    assert isinstance(admitted(spread_cpus(4, 1), *needs), DeviceAdmitted)
    more = ContainerNeed("d", {}, cpus=1)
    assert isinstance(admitted(spread_cpus(4, 1), *needs, more), DeviceAdmissionFailure)


def test_a_container_gets_the_cpus_of_its_hint_first() -> None:
    cpus = spread_cpus(8, 2)
    assert take_cpus(cpus, 2, Hint(2, preferred=True)) == frozenset({4, 5})
    assert take_cpus(cpus, 6, Hint(2, preferred=False)) == frozenset({4, 5, 6, 7, 0, 1})
