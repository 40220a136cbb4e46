"""What a node with claims reports of itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from support.claim_kubelet import eventually
from support.claim_node import ClaimNode
from tonnage.wire import kinds


def holders(status: Any) -> list[tuple[str, str]]:
    """Who has which device, as the node's report says it."""
    return [
        (uuid, holder["pod"])
        for device in status.get("devices", ())
        for holder in device.get("holders", ())
        for uuid in holder["ids"]
    ]


async def reported(scene: ClaimNode, until: Callable[[Any], object]) -> Any:
    """The NodeGPUStatus, once that holds of it."""

    async def look() -> Any:
        listing = (await scene.api.list(kinds.NODE_GPU_STATUS)).items
        status: Any = listing[0].status if listing else {}
        return status if status and until(status) else None

    return await eventually(look)
