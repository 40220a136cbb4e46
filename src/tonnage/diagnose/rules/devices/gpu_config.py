"""A node whose agent refuses its configuration goes on with the old one: say so beside the refusal."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.case import Case, device_needs
from tonnage.model.reasons.gpu.devices import GpuConfigRefused
from tonnage.model.reasons.reason import Reason


def reasons(case: Case) -> Iterator[Reason]:
    """A reason for every node whose agent complains, when the pod needs a device and does not fit."""
    if case.decision.chosen is not None or case.decision.gates or not device_needs(case.pod):
        return
    statuses = case.view.snapshot.gpu
    for name in case.remarkable.complaining:
        for problem in statuses[name].problems:
            yield GpuConfigRefused(
                subject=f"Node {name}",
                message=f"the agent of {name} reports: {problem.splitlines()[0]}",
                remedy="correct the device-plugin configuration of the node",
                source="NodeGPUStatus",
                problem=problem,
            )
