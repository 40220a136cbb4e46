"""SHR-7: the same services exclusive, time-sliced and under MPS, by one documented model."""

from __future__ import annotations

import pytest

from tonnage.model.devices.pretended_load import LoadKind, PretendedLoad
from tonnage.model.devices.service_levels import SharingWay
from tonnage.twin.devices.load.sharing import advice, service_levels

SMALL = PretendedLoad(LoadKind.INFERENCE, rate=40, service_s=0.010, width=0.2)
"""Many requests whose kernels fill a fifth of the GPU."""
LARGE = PretendedLoad(LoadKind.INFERENCE, rate=40, service_s=0.010, width=0.95)
"""The same with kernels that fill it."""
SELDOM = PretendedLoad(LoadKind.INFERENCE, rate=5, service_s=0.010, width=0.95)


@pytest.mark.parametrize(
    ("service", "way", "gpus"),
    [
        pytest.param(SMALL, SharingWay.MPS, 1, id="SHR-7: small kernels, much to do: MPS"),
        pytest.param(SELDOM, SharingWay.TIME_SLICING, 1, id="SHR-7: little to do: time-slicing"),
        pytest.param(LARGE, SharingWay.EXCLUSIVE, 4, id="SHR-7: large kernels, much to do: a GPU each"),
    ],
)
def test_the_advice_follows_from_the_parameters(service: PretendedLoad, way: SharingWay, gpus: int) -> None:
    given = advice([service] * 4, p95_s=0.05)
    assert (given.way, given.gpus) == (way, gpus)


@pytest.mark.parametrize("way", SharingWay)
def test_one_service_by_itself_is_the_same_in_every_way(way: SharingWay) -> None:
    assert service_levels([SMALL], way) == service_levels([SMALL], SharingWay.EXCLUSIVE)


def test_sharers_under_mps_answer_more_than_time_sliced_ones() -> None:
    sliced, shared = (service_levels([SMALL] * 4, way) for way in (SharingWay.TIME_SLICING, SharingWay.MPS))
    assert sum(level.throughput for level in sliced) < 100
    assert sum(level.throughput for level in shared) == 160
    assert {level.p95_s for level in sliced} == {None}


@pytest.mark.parametrize("way", SharingWay)
def test_percentiles_are_in_order_and_grow_with_the_rate(way: SharingWay) -> None:
    before = 0.0
    for rate in (1, 5, 10, 15):
        (level, *_) = service_levels(
            [PretendedLoad(LoadKind.INFERENCE, rate=rate, service_s=0.01, width=0.2)] * 4, way
        )
        assert level.p50_s is not None
        assert level.p95_s is not None
        assert level.p99_s is not None
        assert 0.01 <= level.p50_s <= level.p95_s <= level.p99_s
        assert level.p99_s >= before
        before = level.p99_s
