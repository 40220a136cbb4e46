"""Row 94: the MIG manager failed on a node, and the pod waits for what it should have made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.case import Case, device_needs
from tonnage.diagnose.notable_nodes import MIG_STATE
from tonnage.model.reasons.gpu.devices import MigConfigFailed
from tonnage.model.reasons.reason import Reason

CONFIG: Final = "nvidia.com/mig.config"
_MOST_NODES: Final = 4


def reasons(case: Case) -> Iterator[Reason]:
    """One reason for each of the first nodes whose layout is not the one that it should have."""
    if case.decision.chosen is not None or not case.classes or not device_needs(case.pod):
        return
    for node in map(case.view.nodes.__getitem__, case.remarkable.undivided[:_MOST_NODES]):
        config = node.node.labels.get(CONFIG, "")
        using = sorted(f"{pod.namespace}/{pod.name}" for pod in node.pods if device_needs(pod))
        busy = (
            f"; {', '.join(using[:_MOST_NODES])} use its GPUs, which prevents a change of their layout"
            if using
            else ""
        )
        yield MigConfigFailed(
            subject=f"Node {node.name}",
            message=f"the MIG manager could not give {node.name} the layout "
            f"{config or 'that it should have'} "
            f"({MIG_STATE}=failed){busy}",
            remedy=f"read the MIG manager's log on {node.name}, drain the node and set the label {CONFIG} "
            "again",
            source="Node metadata.labels",
            config=config,
            using=tuple(using),
        )
