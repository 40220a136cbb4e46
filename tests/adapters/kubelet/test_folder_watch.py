"""The kernel's word on sockets that come and go; what it does not tell is not mistaken for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tonnage.adapters.kubelet.folder_watch import FolderWatch
from tonnage.loop.ticks import next_beat

PATIENCE_S = 60.0


class Told:
    """A watch over one folder, and how to wait for what it tells."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.news = asyncio.Event()
        self.watch = FolderWatch()

    def over(self) -> bool:
        return self.watch.over(self.folder, self.news.set)

    async def of(self, deed: Callable[[], object]) -> None:
        """Return once the deed was told."""
        self.news.clear()
        deed()
        async with asyncio.timeout(PATIENCE_S):
            await self.news.wait()

    async def nothing_of(self, deed: Callable[[], object]) -> None:
        """Do it, and see that nothing is told once the kernel's news of it were read."""
        self.news.clear()
        deed()
        for _ in range(5):  # each pass polls what can be read
            await asyncio.sleep(0)
        assert not self.news.is_set()


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    made = Told(tmp_path / "plugins")
    made.folder.mkdir()
    yield made
    made.watch.close()


async def test_a_socket_that_comes_moves_or_goes_is_told(told: Told) -> None:
    assert told.over()
    one, other = told.folder / "kubelet.sock", told.folder / "nvidia-gpu.sock"
    await told.of(one.touch)
    await told.of(lambda: one.rename(other))
    await told.of(other.unlink)
    await told.of(lambda: other.with_name("x.sock").touch())


async def test_other_files_of_kubelet_are_not_told(told: Told) -> None:
    assert told.over()
    checkpoint = told.folder / "kubelet_internal_checkpoint"
    await told.nothing_of(checkpoint.touch)
    await told.nothing_of((told.folder / ".nvidia-gpu.sock").touch)
    await told.of((told.folder / "kubelet.sock").touch)


async def test_a_folder_made_anew_is_watched_again(told: Told) -> None:
    assert told.over()
    await told.of(lambda: shutil.rmtree(told.folder))
    assert not told.over()
    told.folder.mkdir()
    assert told.over()
    await told.of((told.folder / "kubelet.sock").touch)


async def test_looking_again_changes_nothing_and_a_closed_watch_can_be_opened(told: Told) -> None:
    assert all(told.over() for _ in range(3))
    told.watch.close()
    told.watch.close()
    assert told.over()
    await told.of((told.folder / "kubelet.sock").touch)


async def test_lost_news_count_as_news(told: Told) -> None:
    assert told.over()
    reading, writing = os.pipe()
    os.write(writing, struct.pack("iIII", -1, 0x4000, 0, 0))
    kept, told.watch._handle = told.watch._handle, reading
    told.watch._read()
    told.watch._handle = kept
    assert told.news.is_set()
    for handle in (reading, writing):
        os.close(handle)


class Slept:
    """A clock that only notes how long it was to sleep."""

    def __init__(self, now: float) -> None:
        self.at = now

    def monotonic(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds


@pytest.mark.parametrize(
    ("now", "period_s", "then"), [(12.25, 1.0, 13.0), (13.0, 1.0, 14.0), (12.0, 5.0, 15.0)]
)
async def test_beats_are_common_to_all_who_wait(now: float, period_s: float, then: float) -> None:
    clock = Slept(now)
    await next_beat(clock, period_s)  # type: ignore[arg-type]
    assert clock.at == pytest.approx(then)
