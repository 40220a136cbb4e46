"""What a controller does now and then, whatever happens."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from tonnage.model.errors import ClusterError
from tonnage.ports.clock import Clock


async def every(
    clock: Clock, seconds: float, look: Callable[[], Awaitable[None]], log: logging.Logger
) -> None:
    """Look at once, and again `seconds` after each end, until cancelled; a refusal is logged."""
    while True:
        try:
            await look()
        except ClusterError as error:
            log.info("periodic task failed, will retry: after=%gs error=%s", seconds, error)
        await clock.sleep(seconds)
