"""How devices are joined, drawn and compared: well-known machines, and any links at all."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.topologies import TOPOLOGIES, both, bridged_pairs, devices, dgx1, levels, nvswitch, pci_only
from tonnage.decide.node.preference.device_sets import GpuTopology, best_set, board_of, joined
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.links import NVSWITCH, Link, PciLevel


def board(inventory: Inventory) -> GpuTopology:
    return board_of(inventory.devices, inventory.links)


def test_top_1_twelve_bonded_links_are_nv12_and_pci_has_its_own_words() -> None:
    """TOP-1: the number after NV counts links, not hops."""
    drawn = board(nvswitch(3, "8.0", 12)).ways
    assert drawn == (("X", "NV12", "NV12"), ("NV12", "X", "NV12"), ("NV12", "NV12", "X"))
    stated = [
        *levels([(0, 1)], PciLevel.SWITCH),
        *levels([(0, 2), (1, 2)], PciLevel.SWITCHES),
        *levels([(0, 3), (1, 3), (2, 3)], PciLevel.SYSTEM),
        *levels([(0, 4)], PciLevel.HOST_BRIDGE),
    ]
    four = board(Inventory(devices(5), links=tuple(stated)))
    assert four.ways[0] == ("X", "PIX", "PXB", "SYS", "PHB")
    assert four.ways[3][4] == "NODE", "not stated: it follows from the NUMA nodes"


def test_amds_links_have_their_own_name() -> None:
    amd = tuple(Device(f"GPU-{i}", i, "AMD Instinct MI300X", 1, numa_node=0) for i in range(3))
    assert board_of(amd, both({(0, 1): 1})).ways[0] == ("X", "XGMI", "NODE")


def test_links_that_one_end_does_not_see_are_not_drawn() -> None:
    gpu_board = board(Inventory(devices(2, numa_nodes=1), links=(Link("GPU-0", "GPU-1", 4),)))
    assert gpu_board.ways == (("X", "NODE"), ("NODE", "X"))


def test_a_set_is_as_fast_as_its_slowest_pair() -> None:
    pairs = board(bridged_pairs())
    linked, split = joined(pairs, (0, 1)), joined(pairs, (1, 2))
    assert (linked.pair, linked.way, linked.slowest, linked.numa_nodes) == ((0, 1), "NV12", 2400, (0,))
    assert (split.pair, split.way, split.slowest, split.numa_nodes) == ((1, 2), "SYS", 60, (0, 1))
    assert linked.worth > split.worth
    alone = joined(pairs, (3, 99))
    assert (alone.indices, alone.pair, alone.slowest) == ((3,), None, 0)


def test_where_every_pair_is_as_fast_one_numa_node_is_better() -> None:
    eight = board(nvswitch(8))
    assert joined(eight, (0, 1)).worth > joined(eight, (3, 4)).worth
    assert best_set(eight, 4).numa_nodes == (0,)
    assert best_set(eight, 2, (3, 4, 5)).indices == (4, 5)


@pytest.mark.parametrize("name", sorted(TOPOLOGIES))
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_no_set_is_better_than_the_best(name: str, size: int) -> None:
    whole = board(TOPOLOGIES[name])
    best = best_set(whole, size)
    assert len(best.indices) == size
    others = (joined(whole, chosen) for chosen in combinations(whole.indices, size))
    assert best.worth == max(other.worth for other in others)


def test_the_cube_mesh_has_its_best_four() -> None:
    assert best_set(board(dgx1()), 4).slowest == 200
    assert best_set(board(pci_only()), 2).way == "PIX"


ENDS = st.sampled_from([*(f"GPU-{i}" for i in range(6)), NVSWITCH, "GPU-gone"])
LINKS = st.lists(
    st.builds(Link, ENDS, ENDS, st.integers(0, 40), st.none() | st.sampled_from(PciLevel)), max_size=20
)


@given(LINKS, st.integers(0, 6), st.sets(st.integers(0, 7)), st.integers(1, 6))
def test_any_links_make_a_board(links: list[Link], count: int, chosen: set[int], size: int) -> None:
    whole = board_of(devices(count) if count else (), links)
    assert all(whole.ways[i][j] == whole.ways[j][i] for i in range(count) for j in range(count))
    found = joined(whole, chosen)
    assert set(found.indices) == chosen & set(range(count))
    best = best_set(whole, size)
    assert len(best.indices) == min(size, count)
    assert len(found.indices) != size or best.worth >= found.worth
