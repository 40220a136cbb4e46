"""Which GPUs are reset together, so that one of them takes another MIG mode."""

from __future__ import annotations

import pytest

from tonnage.decide.node.mig.reset_groups import resets_of
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.links import NVSWITCH, Link, PciLevel

SXM, PCIE, HOPPER = "NVIDIA A100-SXM4-80GB", "NVIDIA A100 80GB PCIe", "NVIDIA H100 80GB HBM3"


def gpu(index: int, product: str = SXM, capability: str = "8.0", *, mig: bool | None = False) -> Device:
    return Device(f"G{index}", index, product, 81920, capability, mig_enabled=mig)


def switched(*indices: int) -> tuple[Link, ...]:
    return tuple(Link(f"G{index}", NVSWITCH, 12) for index in indices)


def pair(one: int, other: int, links: int = 12) -> tuple[Link, ...]:
    ways = ((one, other), (other, one))
    return tuple(Link(f"G{a}", f"G{b}", links, PciLevel.SWITCH) for a, b in ways)


@pytest.mark.parametrize(
    ("devices", "links", "found"),
    [
        pytest.param([gpu(0, PCIE)], (), {"G0": "G0"}, id="one by itself"),
        pytest.param(
            [gpu(0, PCIE), gpu(1, PCIE)], pair(0, 1, 0), {"G0": "G0", "G1": "G1"}, id="only over PCI"
        ),
        pytest.param(
            *(
                [gpu(0, PCIE), gpu(1, PCIE), gpu(2, PCIE)],
                pair(0, 2),
                {"G0": "G0 G2", "G1": "G1", "G2": "G0 G2"},
            ),
            id="with the one at its bridge",
        ),
        pytest.param(
            *([gpu(0), gpu(1), gpu(2)], switched(0, 1, 2), dict.fromkeys(("G0", "G1", "G2"), "G0 G1 G2")),
            id="all behind NVSwitches",
        ),
        pytest.param(
            *([gpu(0), gpu(1, mig=True)], switched(0), {"G0": "G0 G1", "G1": "G0 G1"}),
            id="one that is divided shows no links, and is behind them, too",
        ),
        pytest.param(
            *(
                [gpu(0), gpu(1), gpu(2)],
                (*pair(0, 1), *pair(1, 2)),
                dict.fromkeys(("G0", "G1", "G2"), "G0 G1 G2"),
            ),
            id="whoever is linked to who is linked to it",
        ),
        pytest.param([gpu(0, HOPPER, "9.0")], switched(0), {}, id="Hopper takes the mode without"),
        pytest.param([gpu(0, "NVIDIA B200", "10.0")], switched(0), {}, id="10.0 is newer than 9.0"),
        pytest.param([gpu(0, "NVIDIA X1000", "8")], (), {"G0": "G0"}, id="a major number alone"),
        pytest.param([gpu(0, "Tesla T4", "7.5", mig=None)], (), {}, id="a T4 has no such mode"),
        pytest.param(
            *([gpu(0), gpu(1, "Tesla T4", "7.5", mig=None)], switched(0), {"G0": "G0"}),
            id="not what else is there",
        ),
    ],
)
def test_a_reset_is_of_the_fewest_that_the_board_allows(
    devices: list[Device], links: tuple[Link, ...], found: dict[str, str]
) -> None:
    resets = resets_of(Inventory(tuple(devices), links=links))
    assert {uuid: " ".join(board) for uuid, board in resets.items()} == found
