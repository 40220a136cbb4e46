"""What contradicts itself in what a node's agent says of its GPUs, so that no drawing hides it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.topo.families import numbered
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import GpuStatus

_MOST_NAMED: Final = 3


def topo_doubts(status: GpuStatus) -> Iterator[str]:
    """Sentences on indices of several GPUs, and on links that their two ends count differently."""
    indices = Counter(device.index for device in status.devices if device.index is not None)
    several = [str(index) for index, count in sorted(indices.items()) if count > 1]
    if several:
        fault = f"NodeGPUStatus has several GPUs of index {listed(several, _MOST_NAMED)}"
        yield f"{status.node}: its {fault}: Tonnage cannot tell which one is meant, so they are left out"
    stated: Counter[tuple[int, int]] = Counter()
    for device in numbered(status):
        for links in device.links:
            for peer in links.peers if not links.switches else ():
                stated[device.index or 0, peer] += links.nvlinks
    known_indices = {device.index for device in numbered(status)}
    uneven = [
        f"{left}-{other}"
        for left, other in sorted({(min(pair), max(pair)) for pair in stated})
        if left != other and {left, other} <= known_indices and stated[left, other] != stated[other, left]
    ]
    if uneven:
        text = f"the two GPUs of {listed(uneven, _MOST_NAMED)} disagree about the links between them"
        yield f"{status.node}: {text}: their row in the table may be wrong"
