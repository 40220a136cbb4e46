"""Preferred whole devices: the best there are, by an enumeration that shares no code with the search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import combinations
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.topologies import (
    SIXTEEN,
    TOPOLOGIES,
    bridged_pairs,
    dgx1,
    matrix_of,
    nvswitch,
    partitions,
    pci_only,
)
from tonnage.decide.node.preference.class_tables import ClassTables, class_tables, kinds_of, steps_of
from tonnage.decide.node.preference.heuristic import nearly_best
from tonnage.decide.node.preference.objective import Pairs, pairs_of
from tonnage.decide.node.preference.subset_tables import SubsetTables, subset_tables
from tonnage.decide.node.preference.whole_devices import (
    DeviceTopology,
    finished,
    prefer_whole,
    topology_of,
    worked_out,
)
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.links import LinkMatrix

pytestmark = pytest.mark.long

Fields = tuple[int, int, int]


def known(inventory: Inventory) -> DeviceTopology:
    return finished(worked_out(topology_of(matrix_of(inventory))))


# ---- the enumeration: fields are (slowest, sum, sum over PCI)


def enumerated_quality(matrix: LinkMatrix, members: Sequence[int]) -> Fields:
    pairs = list(combinations(members, 2))
    if not pairs:
        return 0, 0, 0
    best = [matrix.best[i][j] for i, j in pairs]
    return min(best), sum(best), sum(matrix.pci[i][j] for i, j in pairs)


def enumerated_future(matrix: LinkMatrix) -> Callable[[frozenset[int]], Fields]:
    def added(one: Fields, other: Fields) -> Fields:
        return one[0] + other[0], one[1] + other[1], one[2] + other[2]

    @cache
    def quality(members: tuple[int, ...]) -> Fields:
        return enumerated_quality(matrix, members)

    @cache
    def divided(left: frozenset[int], size: int, sets: int) -> Fields:
        """The best `sets` disjoint sets of `size`: the lowest device is in one, or in none."""
        if not sets:
            return 0, 0, 0
        first, *others = sorted(left)
        with_it = (
            added(quality((first, *rest)), divided(left - {first, *rest}, size, sets - 1))
            for rest in combinations(others, size - 1)
        )
        without = [divided(left - {first}, size, sets)] if len(others) >= size * sets else []
        return max((*with_it, *without))

    @cache
    def future(left: frozenset[int]) -> Fields:
        total: Fields = 0, 0, 0
        for size in (1, 2, 4, 8):
            most = divided(left, size, len(left) // size)
            total = added(total, (size * most[0], size * most[1], size * most[2]))
        return total

    return future


def enumerated_best(
    matrix: LinkMatrix, free: Sequence[int], required: Sequence[int], size: int
) -> tuple[int, ...]:
    sets = [
        combination for combination in combinations(sorted(free), size) if set(required) <= set(combination)
    ]
    best = max(enumerated_quality(matrix, each) for each in sets)
    equal = [each for each in sets if enumerated_quality(matrix, each) == best]
    future = enumerated_future(matrix)
    most = max(future(frozenset(free) - set(node)) for node in equal)
    return min(node for node in equal if future(frozenset(free) - set(node)) == most)


# ---- exactness


@st.composite
def matrices(draw: st.DrawFn, most: int = 8) -> LinkMatrix:
    """Few different bandwidths, so that the later rules decide often."""
    size = draw(st.integers(1, most))
    values = draw(st.sampled_from([(60, 99), (60, 200, 400), (99, 2400), (60, 99, 200, 400, 3708)]))
    best = [[0] * size for _ in range(size)]
    pci = [[0] * size for _ in range(size)]
    for i in range(size):
        for j in range(i):
            pci[i][j] = pci[j][i] = draw(st.sampled_from([60, 99]))
            best[i][j] = best[j][i] = max(pci[i][j], draw(st.sampled_from(values)))
    return LinkMatrix(tuple(f"GPU-{i}" for i in range(size)), tuple(map(tuple, best)), tuple(map(tuple, pci)))


def requests(data: st.DataObject, count: int) -> tuple[list[int], list[int], int]:
    free = sorted(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    size = data.draw(st.integers(1, len(free)))
    required = data.draw(st.lists(st.sampled_from(free), unique=True, max_size=size))
    return free, required, size


@given(st.data())
def test_up_to_eight_devices_get_the_very_best_set(data: st.DataObject) -> None:
    matrix = data.draw(matrices())
    tables = finished(subset_tables(pairs_of(matrix)))
    free, required, size = requests(data, len(matrix.uuids))
    assert tables.choose(free, required, size) == enumerated_best(matrix, free, required, size)


@given(st.data())
def test_tables_by_kind_choose_as_tables_by_subset(data: st.DataObject) -> None:
    pairs = pairs_of(data.draw(matrices()))
    by_kind = finished(class_tables(pairs, kinds_of(pairs)))
    by_subset = finished(subset_tables(pairs))
    free, required, size = requests(data, len(pairs))
    assert by_kind.choose(free, required, size) == by_subset.choose(free, required, size)


@pytest.mark.parametrize("name", TOPOLOGIES)
def test_real_topologies_get_the_best_set_of_every_size(name: str) -> None:
    matrix = matrix_of(TOPOLOGIES[name])
    topology = known(TOPOLOGIES[name])
    count = len(matrix.uuids)
    for size in range(1, count + 1):
        for free in (range(count), range(count - 1), range(1, count)):
            if size <= len(free):
                expected = tuple(matrix.uuids[i] for i in enumerated_best(matrix, free, (), size))
                got = prefer_whole(topology, [matrix.uuids[i] for i in free], (), size)
                assert got == expected, (size, free)


@cache
def sixteen(name: str) -> tuple[LinkMatrix, tuple[SubsetTables | ClassTables, ...]]:
    """A topology, and the tables of both sorts that it can have."""
    matrix = matrix_of(SIXTEEN[name])
    topology = topology_of(matrix)
    tables: list[SubsetTables | ClassTables] = [finished(subset_tables(topology.pairs))]
    if steps_of(topology.kinds) < 100_000:
        tables.append(finished(class_tables(topology.pairs, topology.kinds)))
    return matrix, tuple(tables)


@given(st.data())
def test_sixteen_devices_get_the_very_best_set(data: st.DataObject) -> None:
    matrix, sorts = sixteen(data.draw(st.sampled_from(sorted(SIXTEEN))))
    free = data.draw(st.lists(st.integers(0, 15), unique=True, min_size=8, max_size=12))
    size = data.draw(st.integers(1, len(free)))
    required = data.draw(st.lists(st.sampled_from(free), unique=True, max_size=min(size, 3)))
    expected = enumerated_best(matrix, free, required, size)
    assert [tables.choose(free, required, size) for tables in sorts] == [expected] * len(sorts)


@pytest.mark.parametrize("size", [2, 5, 8, 12, 15])
def test_sixteen_free_cubes_of_a_double_mesh_get_the_very_best_set(size: int) -> None:
    matrix, sorts = sixteen("two cube meshes")
    assert sorts[0].choose(range(16), (), size) == enumerated_best(matrix, range(16), (), size)


# ---- what people expect of it


@pytest.mark.parametrize(
    ("inventory", "free", "required", "size", "chosen"),
    [
        pytest.param(dgx1(), "01234567", "", 2, "03", id="a pair with two links, not the lowest numbers"),
        pytest.param(dgx1(), "0124567", "", 4, "4567", id="four that are all joined"),
        pytest.param(bridged_pairs(), "0123", "", 2, "01", id="a bridged pair"),
        pytest.param(bridged_pairs(), "123", "", 2, "23", id="the bridged pair that is whole"),
        pytest.param(
            bridged_pairs(8), "01345 67", "", 1, "3", id="one GPU: the single one, no pair is split"
        ),
        pytest.param(
            bridged_pairs(8), "0134567", "", 3, "013", id="three: a pair and the single of its socket"
        ),
        pytest.param(pci_only(), "1234567", "", 1, "1", id="one GPU: no whole PCIe switch is split"),
        pytest.param(pci_only(), "01234567", "4", 2, "45", id="beside what is required"),
        pytest.param(pci_only(), "0234567", "", 3, "023", id="three in one socket, the other stays whole"),
        pytest.param(nvswitch(8), "01245 67", "", 2, "01", id="NVSwitch: of one NUMA node"),
        pytest.param(nvswitch(8), "0124567", "", 3, "012", id="NVSwitch: the NUMA node with three left"),
        pytest.param(nvswitch(8), "01234567", "", 8, "01234567", id="all there are"),
        pytest.param(partitions(2, 4), "0124567", "", 3, "012", id="no more partitions of a GPU than needed"),
    ],
)
def test_a_choice(inventory: Inventory, free: str, required: str, size: int, chosen: str) -> None:
    available = [f"GPU-{i}" for i in free.replace(" ", "")]
    got = prefer_whole(known(inventory), available, [f"GPU-{i}" for i in required], size)
    assert got == tuple(f"GPU-{i}" for i in chosen)


def test_single_requests_leave_linked_pairs_whole_as_long_as_they_can() -> None:
    """Of four pairs, one GPU each time: two requests share a pair before a second pair is touched."""
    topology, free, order = known(bridged_pairs(8)), [f"GPU-{i}" for i in range(8)], list[str]()
    while free:
        (one,) = prefer_whole(topology, free, (), 1)
        free.remove(one)
        order.append(one)
    assert [sorted(order[i : i + 2]) for i in range(0, 8, 2)] == [
        [f"GPU-{i}", f"GPU-{i + 1}"] for i in range(0, 8, 2)
    ]


# ---- without tables


@pytest.mark.parametrize("name", [*TOPOLOGIES, *SIXTEEN])
def test_before_the_tables_are_there_the_quality_is_that_of_the_best_on_real_topologies(name: str) -> None:
    topology = topology_of(matrix_of((TOPOLOGIES | SIXTEEN)[name]))
    if len(topology.pairs) > 8:
        exact: SubsetTables | ClassTables = sixteen(name)[1][0]
    else:
        exact = finished(subset_tables(topology.pairs))
    free = range(len(topology.pairs))
    for size in free:
        got = nearly_best(topology.pairs, topology.kinds, free, (), size)
        best = topology.pairs.quality(exact.choose(free, (), size))
        assert topology.pairs.quality(got) == best, size


@given(st.data())
def test_without_tables_every_answer_is_valid_and_the_same_again(data: st.DataObject) -> None:
    topology = topology_of(data.draw(matrices(14)))
    free, required, size = requests(data, len(topology.pairs))
    available = [topology.matrix.uuids[place] for place in free]
    must = [topology.matrix.uuids[place] for place in required]
    got = prefer_whole(topology, available, must, size)
    assert len(got) == len(set(got)) == size
    assert set(must) <= set(got) <= set(available)
    assert prefer_whole(topology, available[::-1], must[::-1], size) == got


@cache
def sixty_four_partitions() -> DeviceTopology:
    return topology_of(matrix_of(partitions(8, 8)))


@given(st.data())
def test_few_free_devices_of_many_get_the_very_best_set_without_tables(data: st.DataObject) -> None:
    topology = sixty_four_partitions()
    free = sorted(data.draw(st.sets(st.integers(0, 63), min_size=1, max_size=9)))
    size = data.draw(st.integers(1, len(free)))
    got = prefer_whole(topology, [f"GPU-{i}" for i in free], (), size)
    assert got == tuple(f"GPU-{i}" for i in enumerated_best(topology.matrix, free, (), size))


@pytest.mark.parametrize(
    ("taken", "size", "chosen"),
    [
        pytest.param("", 8, range(8), id="eight: all of one GPU"),
        pytest.param("0 1 2", 8, range(8, 16), id="eight: of a GPU that is whole"),
        pytest.param("0 16 17 18 19", 4, range(20, 24), id="four: of the GPU that has just four"),
        pytest.param("40", 1, [41], id="one: of a GPU that is in use already"),
    ],
)
def test_sixty_four_partitions_of_eight_gpus(taken: str, size: int, chosen: Sequence[int]) -> None:
    topology = known(partitions(8, 8))
    free = [f"GPU-{i}" for i in range(64) if str(i) not in taken.split()]
    assert prefer_whole(topology, free, (), size) == tuple(f"GPU-{i}" for i in chosen)


def test_sixty_four_devices_of_few_kinds_have_tables() -> None:
    assert isinstance(known(nvswitch(64)).tables, ClassTables)
    assert known(partitions(8, 8)).tables is None


class Counted(tuple[int, ...]):
    """A row that counts how often it is read."""

    __slots__ = ()
    reads: ClassVar = [0]

    def __getitem__(self, key: int) -> int:  # type: ignore[override]
        self.reads[0] += 1
        return super().__getitem__(key)


@pytest.mark.parametrize("count", [64, 256])
@pytest.mark.parametrize("share", [4, 2, 1.1])
def test_an_answer_without_tables_takes_a_bounded_number_of_steps(count: int, share: float) -> None:
    """Half a million reads are about 20 ms. A hard matrix: nearly no two pairs are equally fast."""
    rows = [[0 if i == j else (i * j * 7919 + i + j) % 9973 + 60 for j in range(count)] for i in range(count)]
    counted = Pairs(tuple(map(Counted, rows)), tuple(map(Counted, rows)))
    Counted.reads[0] = 0
    size = int(count / share)
    assert len(nearly_best(counted, [(i,) for i in range(count)], range(count), (), size)) == size
    assert Counted.reads[0] < 500_000


# ---- never fails


@pytest.mark.parametrize(
    ("available", "required", "size", "chosen"),
    [
        pytest.param("", "", 1, "", id="nothing is there"),
        pytest.param("0 1", "", 0, "", id="nothing is asked for"),
        pytest.param("0 1", "", -3, "", id="less than nothing"),
        pytest.param("0 1", "", 9, "0 1", id="more than there are"),
        pytest.param("0 0 1 1", "1 1", 1, "1", id="named twice"),
        pytest.param("0 1 2", "1 2", 1, "1", id="more required than asked for"),
        pytest.param("0 1", "3", 1, "0", id="required, and not available"),
        pytest.param("odd 5", "", 1, "5", id="a stranger comes last"),
        pytest.param("odd 5", "", 2, "5 odd", id="a stranger when there is nothing else"),
        pytest.param("odd 5 6", "odd", 2, "5 odd", id="a stranger when it is required"),
    ],
)
def test_odd_requests_get_a_valid_answer(available: str, required: str, size: int, chosen: str) -> None:
    for topology in (known(dgx1()), topology_of(matrix_of(dgx1())), topology_of(matrix_of(Inventory()))):
        got = prefer_whole(
            topology, [f"GPU-{i}" for i in available.split()], [f"GPU-{i}" for i in required.split()], size
        )
        expected = {f"GPU-{i}" for i in chosen.split()}
        assert set(got) == expected
        assert len(got) == len(expected)


def test_a_table_of_more_than_sixteen_devices_is_not_begun() -> None:
    with pytest.raises(ValueError, match="17 devices, at most 16"):
        finished(subset_tables(pairs_of(matrix_of(nvswitch(17)))))
