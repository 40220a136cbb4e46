"""A pod goes by a node's labels, as the scheduler does, and the node's agent reads other GPUs there."""

from __future__ import annotations

from collections.abc import Iterator

from tonnage.diagnose.case import Case, device_needs
from tonnage.diagnose.fleet.label_claims import false_labels
from tonnage.model.name_lists import listed
from tonnage.model.names import NVIDIA
from tonnage.model.reasons.pod.pods import LabelNotTrue
from tonnage.model.reasons.reason import Reason

_OF_GPUS = f"{NVIDIA}/gpu."


def reasons(case: Case) -> Iterator[Reason]:
    """One warning for each node that the pod may get, where it selects by a GPU label that is not true."""
    if not device_needs(case.pod) or not _selects_gpus(case):
        return
    for name in case.candidates or ((case.decision.chosen,) if case.decision.chosen else ()):
        status = case.view.snapshot.gpu.get(name)
        differences = (
            [*false_labels(case.view.nodes[name].node, status.devices)] if status is not None else []
        )
        if differences:
            yield LabelNotTrue(
                subject=f"Node {name}",
                message=f"on {name}, {listed(differences)}: the scheduler goes by the label",
                remedy=f"tonnage doctor on {name} names what publishes the label; correct it, or restart GPU"
                " feature discovery there",
                source="NodeGPUStatus, the Node's labels",
                node=name,
                differences=tuple(differences),
            )


def _selects_gpus(case: Case) -> bool:
    """Whether labels of GPUs bear on where the pod goes."""
    terms = case.pod.affinity.node or ()
    keys = {*case.pod.node_selector, *(e.key for term in terms for e in term.expressions)}
    return any(key.startswith(_OF_GPUS) for key in keys)
