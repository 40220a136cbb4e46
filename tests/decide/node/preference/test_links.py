"""One bandwidth for every pair of devices, out of what their drivers state."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.topologies import asymmetric, bridged_pairs, devices, dgx1, matrix_of, nvswitch, pci_only
from tonnage.decide.node.preference.links import MOST_TENTHS, link_matrix
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.links import NVSWITCH, Link, PciLevel


@pytest.mark.parametrize(
    ("inventory", "pair", "best", "pci"),
    [
        pytest.param(dgx1(), (0, 3), 2 * 200, 99, id="two straight links of a V100"),
        pytest.param(dgx1(), (0, 7), 60, 60, id="no link, other socket"),
        pytest.param(dgx1(), (0, 1), 200, 99, id="one link, same socket"),
        pytest.param(nvswitch(8), (0, 7), 18 * 206, 60, id="all links of an H100 lead to any other"),
        pytest.param(nvswitch(8), (0, 1), 18 * 206, 99, id="over NVSwitch the socket shows in PCI only"),
        pytest.param(pci_only(), (2, 3), 120, 120, id="one PCIe switch"),
        pytest.param(pci_only(), (1, 2), 99, 99, id="one NUMA node, for want of a level"),
        pytest.param(pci_only(), (3, 4), 60, 60, id="two sockets"),
        pytest.param(bridged_pairs(), (0, 1), 12 * 200, 99, id="a bridge"),
        pytest.param(asymmetric(), (0, 1), 8 * 200, 99, id="of two directions the slower"),
        pytest.param(asymmetric(), (2, 3), 60, 60, id="links that one side does not see do not count"),
    ],
)
def test_the_bandwidth_of_a_pair(inventory: Inventory, pair: tuple[int, int], best: int, pci: int) -> None:
    matrix = matrix_of(inventory)
    i, j = pair
    assert (matrix.best[i][j], matrix.pci[i][j]) == (best, pci)
    assert (matrix.best[j][i], matrix.pci[j][i]) == (best, pci)


def test_the_farther_of_two_stated_levels_counts() -> None:
    links = (Link("GPU-0", "GPU-1", 0, PciLevel.SWITCH), Link("GPU-1", "GPU-0", 0, PciLevel.SYSTEM))
    assert link_matrix(devices(2), links).pci == ((0, 60), (60, 0))


def test_a_switch_link_that_is_down_slows_only_its_own_device() -> None:
    healthy = nvswitch(4)
    worn = replace(healthy, links=(Link("GPU-0", NVSWITCH, 9), *healthy.links[1:]))
    assert [matrix_of(worn).best[0][1], matrix_of(worn).best[1][2]] == [9 * 206, 18 * 206]


def test_devices_are_in_index_order_whatever_the_order_of_the_inventory() -> None:
    assert link_matrix(tuple(reversed(devices(3))), ()).uuids == ("GPU-0", "GPU-1", "GPU-2")


@pytest.mark.parametrize(
    ("capability", "tenths"),
    [
        ("6.0", 180),
        ("7.5", 200),
        ("8.0", 200),
        ("8.6", 120),
        ("8.9", 200),
        ("9.0", 206),
        ("10.0", 401),
        ("", 200),
    ],
)
def test_the_speed_of_one_link_follows_from_the_chip(capability: str, tenths: int) -> None:
    links = (Link("GPU-0", "GPU-1", 1), Link("GPU-1", "GPU-0", 1))
    assert link_matrix(devices(2, capability), links).best[0][1] == tenths


UUIDS = st.sampled_from(["GPU-0", "GPU-1", "GPU-2", "GPU-9", NVSWITCH])


@given(
    st.lists(
        st.builds(Link, UUIDS, UUIDS, st.integers(-(10**9), 10**9), st.none() | st.sampled_from(PciLevel)),
        max_size=12,
    )
)
def test_any_links_give_a_symmetric_bounded_matrix(links: list[Link]) -> None:
    matrix = link_matrix(devices(3), links)
    for i in range(3):
        assert matrix.best[i][i] == matrix.pci[i][i] == 0
        for j in range(i):
            assert matrix.best[i][j] == matrix.best[j][i]
            assert 60 <= matrix.pci[i][j] <= matrix.best[i][j] <= MOST_TENTHS
