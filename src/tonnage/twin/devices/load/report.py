"""The services of one GPU side by side, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tonnage.twin.devices.load.load_file import LoadRun
from tonnage.twin.devices.load.sharing import ServiceLevel, SharingWay, advice, service_levels


def report_lines(runs: Sequence[LoadRun], p95_s: float) -> Iterator[str]:
    """What the model says of services that share a GPU as they do now; nothing without any."""
    if not runs:
        return
    loads = [run.load for run in runs]
    shared = SharingWay.MPS if runs[0].mps else SharingWay.TIME_SLICING
    now = SharingWay.EXCLUSIVE if len(runs) == 1 else shared
    yield f"{len(runs)} on this GPU, {now}; modelled by the twin, not measured"
    yield "WAY RATE ANSWERED P50 P95 P99 SERVICE"
    for way in SharingWay:
        for run, level in zip(runs, service_levels(loads, way), strict=True):
            yield f"{way} {run.load.rate:g}/s {level.throughput:.1f}/s {_latencies(level)} {run.pod}"
    advised = advice(loads, p95_s)
    gpus = "1 GPU" if advised.gpus == 1 else f"{advised.gpus} GPUs"
    yield f"advice for 95 % within {p95_s * 1000:g} ms: {advised.way} on {gpus}: {advised.why}"


def _latencies(level: ServiceLevel) -> str:
    """Three percentiles; a queue that grows without end has none."""
    percentiles = (level.p50_s, level.p95_s, level.p99_s)
    return " ".join("grows" if seconds is None else f"{seconds * 1000:.1f}ms" for seconds in percentiles)
