"""The services of one GPU side by side, as lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tonnage.model.devices.service_levels import LEVEL_HEADING, SharingWay, level_line
from tonnage.twin.devices.load.load_file import LoadRun
from tonnage.twin.devices.load.sharing import advice, service_levels


def report_lines(runs: Sequence[LoadRun], p95_s: float) -> Iterator[str]:
    """What the model says of services that share a GPU as they do now; nothing without any."""
    if not runs:
        return
    loads = [run.load for run in runs]
    shared = SharingWay.MPS if runs[0].mps else SharingWay.TIME_SLICING
    now = SharingWay.EXCLUSIVE if len(runs) == 1 else shared
    yield f"{len(runs)} on this GPU, {now}; modelled by the twin, not measured"
    yield LEVEL_HEADING
    for way in SharingWay:
        for run, level in zip(runs, service_levels(loads, way), strict=True):
            yield level_line(way, run.load.rate, level, run.pod)
    advised = advice(loads, p95_s)
    gpus = "1 GPU" if advised.gpus == 1 else f"{advised.gpus} GPUs"
    yield f"advice for 95 % within {p95_s * 1000:g} ms: {advised.way} on {gpus}: {advised.why}"
