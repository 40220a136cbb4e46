"""Many writers, one disk: what has gathered while the disk was busy is written together the next time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, TypeVar

from tonnage.model.errors import ApiError

T = TypeVar("T")


class GroupCommit(Generic[T]):
    """Items in the order in which they came, until they are on disk or given up.

    `keep` writes items, all or none, and raises ApiError when it cannot: all that are pending by then are
    given up, since each may stand on those before it.
    """

    def __init__(
        self,
        keep: Callable[[Sequence[T]], Awaitable[None]],
        on_disk: Callable[[Sequence[T]], None],
        given_up: Callable[[Sequence[T]], None],
    ) -> None:
        """`on_disk` is told what is on disk now, `given_up` what never will be, while it is pending still."""
        self.pending: list[T] = []
        self._keep = keep
        self._on_disk = on_disk
        self._given_up = given_up
        self._added = 0
        self._waiting: list[tuple[int, asyncio.Future[None]]] = []
        self._task: asyncio.Task[None] | None = None

    def add(self, entry: T) -> None:
        """Have an item written soon."""
        self.pending.append(entry)
        self._added += 1
        self._begin()

    async def settled(self) -> None:
        """Return once all that was added by now is on disk. Raises ApiError when some of it was given up."""
        if self.pending:
            future = asyncio.get_running_loop().create_future()
            self._waiting.append((self._added, future))
            self._begin()
            await future

    def _begin(self) -> None:
        if self._task is not None:
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return  # before anything runs; whoever waits first begins
        self._task = loop.create_task(self._run())

    async def _run(self) -> None:
        try:
            while self.pending:
                batch = tuple(self.pending)
                try:
                    await self._keep(batch)
                except ApiError as error:
                    self._given_up(tuple(self.pending))
                    self.pending.clear()
                    self._tell(error)
                else:
                    del self.pending[: len(batch)]
                    self._on_disk(batch)
                    self._tell(None)
        finally:
            self._task = None

    def _tell(self, error: ApiError | None) -> None:
        """Answer those who wait for what is decided now; after an error that is everything."""
        decided = self._added - len(self.pending)
        waiting = self._waiting
        self._waiting = [(number, future) for number, future in waiting if number > decided]
        for number, future in waiting:
            if number > decided or future.done():
                continue
            if error is None:
                future.set_result(None)
            else:
                future.set_exception(error)
