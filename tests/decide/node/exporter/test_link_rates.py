"""What NVLinks moved between two samples, of one link and of all, as DCGM counts it."""

from __future__ import annotations

import pytest

from tonnage.decide.node.exporter.readings import TimedSample, fields_by_counter, fields_of, readings_of
from tonnage.model.devices.inventory import Sample
from tonnage.model.node.telemetry import CounterType, ExportedCounter, GpuEntity

ALL, THIRD = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_NVLINK_BANDWIDTH_L3"
GPU = GpuEntity(0, "GPU-0", "00000000:01:00.0", "NVIDIA H100 80GB HBM3")


def counter(name: str) -> ExportedCounter:
    return ExportedCounter(name, CounterType.COUNTER, "moved", 449)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        pytest.param(ALL, ("nvlink_sent_kib", "nvlink_received_kib"), id="all links"),
        pytest.param(THIRD, ("nvlink3_sent_kib", "nvlink3_received_kib"), id="link 3"),
    ],
)
@pytest.mark.parametrize(
    ("before", "now", "rate"),
    [
        pytest.param((1000.0, 2000.0), (5000.0, 8000.0), 1, id="10,000 KiB in ten seconds"),
        pytest.param((0.0, 0.0), (4e6, 6e6), 1000, id="ten million"),
        pytest.param(None, (5000.0, 8000.0), 0, id="the first sample"),
        pytest.param((9e9, 9e9), (1.0, 1.0), 0, id="counters that begin anew"),
        pytest.param((1.0, 1.0), (1.0, None), None, id="one of both is not there"),
        pytest.param((1.0, 1.0), (None, None), None, id="no such link"),
    ],
)
def test_a_rate_is_made_of_what_was_sent_and_received(
    name: str,
    parts: tuple[str, str],
    before: tuple[float, float] | None,
    now: tuple[float | None, float | None],
    rate: int | None,
) -> None:
    assert fields_of([counter(name)]) == {*parts}
    first = None if before is None else TimedSample(sample_of(parts, before), 100.0)
    timed = TimedSample(sample_of(parts, now), 110.0, first)
    readings = readings_of(GPU, fields_by_counter([counter(name)]), {GPU.uuid: timed}, 0)
    assert readings.get(name) == rate


def sample_of(parts: tuple[str, str], moved: tuple[float | None, float | None]) -> Sample:
    values = zip(parts, moved, strict=True)
    return Sample(GPU.uuid, {name: value for name, value in values if value is not None})


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL", "nvlink_sent_kib"),
        ("DCGM_FI_DEV_NVLINK_RX_THROUGHPUT_TOTAL", "nvlink_received_kib"),
        ("DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_L3", "nvlink3_received_kib"),
    ],
)
def test_a_rate_of_one_way_is_made_of_that_way_alone(name: str, part: str) -> None:
    assert fields_of([counter(name)]) == {part}
    first = TimedSample(Sample(GPU.uuid, {part: 0}), 100.0)
    timed = TimedSample(Sample(GPU.uuid, {part: 4_000_000}), 110.0, first)
    assert readings_of(GPU, fields_by_counter([counter(name)]), {GPU.uuid: timed}, 0) == {name: 400}
