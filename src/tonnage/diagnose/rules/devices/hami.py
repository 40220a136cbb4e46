"""HAMi: why no node has parts of GPUs for a pod of its scheduler, as HAMi counts them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.decide.cluster.hami import (
    HANDSHAKE,
    SCHEDULER,
    HamiRequest,
    SharedGpu,
    devices_of,
    parts_of,
    refused_on,
)
from tonnage.decide.kubernetes.view import NodeView
from tonnage.diagnose.case import Case
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.pods import HamiDevicesShort
from tonnage.model.reasons.reason import Reason

_MEANS: Final = {
    "CardInsufficientMemory": "too little memory is left on them",
    "CardInsufficientCore": "too few cores are left on them",
    "CardTypeMismatch": "another type is asked for (nvidia.com/use-gputype, nouse-gputype)",
    "CardUuidMismatch": "other GPUs are asked for by UUID (nvidia.com/use-gpuuuid)",
    "CardTimeSlicingExhausted": "they have as many pods as may share them",
    "CardComputeUnitsExhausted": "all their cores are given out",
    "CardNotHealth": "they are unhealthy",
    "ExclusiveDeviceAllocateConflict": "all cores are asked for, and another pod is there",
    "NodeInsufficientDevice": "the node has fewer GPUs than are asked for",
    "AllocatedCardsInsufficientRequest": "these fit, but they are too few",
    "NumaNotFit": "they are on different NUMA nodes (nvidia.com/numa-bind)",
    "ResourceQuotaNotFit": "a quota on HAMi's resources is used up",
}
_IN_TIME: Final = frozenset(
    (
        "CardInsufficientMemory",
        "CardInsufficientCore",
        "CardTimeSlicingExhausted",
        "CardComputeUnitsExhausted",
        "ExclusiveDeviceAllocateConflict",
        "CardNotHealth",
    )
)
_COUNT: Final = re.compile(r"(\d{1,4})/(\d{1,4}) ([A-Z][A-Za-z]{3,40})")
_GONE: Final = "Deleted"
_LONGEST: Final = 1 << 15


def reasons(case: Case) -> Iterator[Reason]:
    """One reason with every node's GPUs; where HAMi's notes are not seen, what its words mean."""
    if case.pod.scheduler_name != SCHEDULER or case.decision.gates or case.decision.held:
        return
    parts = tuple(parts_of(case.original))
    listing = {name: node for name in case.decision.feasible if _lists(node := case.view.nodes[name])}
    if listing and parts:
        by_node = {name: _counts_and_text(case, node, parts) for name, node in listing.items()}
        if all(words for words, _ in by_node.values()):
            lasting = not any({*words} & _IN_TIME for words, _ in by_node.values())
            nodes = "; ".join(f"{name}: {text}" for name, (_, text) in sorted(by_node.items())[:8])
            yield _reason(case, f"no node has GPUs for it as HAMi counts them: {nodes}", lasting=lasting)
        return
    counts = _COUNT.findall(case.pod.status.unschedulable_message[:_LONGEST])
    words = [f"{n}/{of} {word} ({_MEANS[word]})" for n, of, word in dict.fromkeys(counts) if word in _MEANS]
    if words:
        yield _reason(case, f"HAMi's scheduler says: {listed(words)}", lasting=False)


def _lists(node: NodeView) -> bool:
    return devices_of(node.node.hami, ()) is not None


def _counts_and_text(
    case: Case, node: NodeView, parts: tuple[HamiRequest, ...]
) -> tuple[Mapping[str, int], str]:
    """Why a node's GPUs will not do by HAMi's words, and all in words; empty: they do."""
    if node.node.hami.get(HANDSHAKE, "").startswith(_GONE):
        return {"CardNotHealth": 0}, "HAMi's device plugin has not reported from there"
    gpus = devices_of(node.node.hami, node.pods) or ()
    for part in parts:
        words = refused_on(gpus, part, case.pod.hami)
        if words:
            text = ", ".join(f"{n}/{len(gpus)} {word} ({_MEANS[word]})" for word, n in words.items())
            return words, f"{text}{_left(gpus, part, words)}"
    return {}, ""


def _left(gpus: tuple[SharedGpu, ...], part: HamiRequest, words: Mapping[str, int]) -> str:
    if "CardInsufficientMemory" in words:
        most = max(gpu.left_mib for gpu in gpus)
        return f": asks for {part.on(gpus[0])} MiB, the most left on one is {most} MiB"
    if "CardInsufficientCore" in words:
        most = max(gpu.cores - gpu.used_cores for gpu in gpus)
        return f": asks for {part.cores} cores, the most left on one is {most}"
    return ""


def _reason(case: Case, message: str, *, lasting: bool) -> Reason:
    return HamiDevicesShort(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=message,
        remedy="ask for less (nvidia.com/gpumem, nvidia.com/gpucores), wait for a pod on those GPUs to end, "
        "or correct the annotations that choose GPUs",
        source="annotations hami.io/node-nvidia-register, hami.io/vgpu-devices-allocated",
        lasting=lasting,
        scheduler=SCHEDULER,
    )
