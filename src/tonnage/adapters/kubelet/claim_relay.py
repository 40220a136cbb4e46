"""Passes kubelet's calls about claims on to the agent that has the node, until this one has it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from tonnage.adapters.kubelet.plugin_folder import CHANNEL_OPTIONS
from tonnage.adapters.kubelet.unix_socket import Context

_PATIENCE_S: Final = 40.0
"""kubelet's own is 45 seconds."""
_AGAIN_S: Final = 0.1
_STREAM_AGAIN_S: Final = 2.0
"""For streams nobody waits, and the other agent may serve none for as long as it is needed."""
_GONE: Final = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
"""How a call ends whose agent ended. Every call may be made twice."""
_NOBODY: Final = "the agent of this node has not answered; it is being replaced"


class ClaimRelay:
    """Passes calls on, as bytes, to the agent whose socket lies at `holder`; `own` is this agent's.

    `taken_over` is set once this agent has the node: then it answers itself.
    """

    def __init__(self, holder: Path, own: Path) -> None:
        self._holder = holder
        self._own = own
        self.taken_over = asyncio.Event()

    def has_holder(self) -> bool:
        """Whether another agent's socket lies there."""
        return self._holder.exists() and self._holder.resolve() != self._own.resolve()

    async def answer(self, path: str, message: bytes, context: Context) -> bytes | None:
        """The other agent's answer; None: this agent has the node now, and answers itself."""
        until = time.monotonic() + _PATIENCE_S
        while not self.taken_over.is_set():
            if self.has_holder():
                try:
                    return await self._passed_on(path, message, until - time.monotonic())
                except grpc.aio.AioRpcError as error:
                    if error.code() not in _GONE:
                        await context.abort(error.code(), error.details() or "")
            if time.monotonic() >= until:
                await context.abort(grpc.StatusCode.UNAVAILABLE, _NOBODY)
            await self._soon(_AGAIN_S)
        return None

    async def stream(self, path: str, message: bytes) -> AsyncIterator[bytes]:
        """What the other agent sends, until this one has the node."""
        while not self.taken_over.is_set():
            if self.has_holder():
                # It ends, or does not serve this: whoever has the node next is asked.
                with suppress(grpc.aio.AioRpcError):
                    async with _channel(self._holder) as channel:
                        async for answer in channel.unary_stream(path)(message):
                            yield answer
            await self._soon(_STREAM_AGAIN_S)

    async def _passed_on(self, path: str, message: bytes, timeout_s: float) -> bytes:
        async with _channel(self._holder) as channel:
            call = channel.unary_unary(path)
            answer: bytes = await call(message, timeout=max(timeout_s, _AGAIN_S))
            return answer

    async def _soon(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.taken_over.wait()
        except TimeoutError:
            return


def _channel(file: Path) -> Any:
    return grpc.aio.insecure_channel(f"unix:{file}", options=CHANNEL_OPTIONS)
