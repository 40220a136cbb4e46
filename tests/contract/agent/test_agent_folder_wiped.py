"""The folder of the sockets goes in many ways: the agent comes back by itself and forgets nothing."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

import pytest

from support.kubelet_side import GPU, PATIENCE_S, SHARED, Bench, bench_of, healthy
from support.looking import until

TWO_SHARED = (
    "version: v1\nsharing: {timeSlicing: {renameByDefault: true, resources: "
    "[{name: nvidia.com/gpu, replicas: 2, devices: [0, 1]}]}}\n"
)
ALL_SHARED = TWO_SHARED.replace(", devices: [0, 1]", "")
SOCKETS = {"nvidia-gpu.sock", "nvidia-gpu.shared.sock"}


async def appears(bench: Bench) -> None:
    """Return once the agent has both its sockets in the folder."""
    await until(lambda: all((bench.kubelet.plugins / name).is_socket() for name in SOCKETS))


async def our_sockets(bench: Bench) -> None:
    for name in SOCKETS:
        (bench.kubelet.plugins / name).unlink()


async def everything_in_it(bench: Bench) -> None:
    await bench.kubelet.stop()
    for file in bench.kubelet.plugins.iterdir():
        file.unlink()
    await appears(bench)
    await bench.kubelet.start()


async def the_folder(bench: Bench) -> None:
    await bench.kubelet.stop()
    shutil.rmtree(bench.kubelet.plugins)
    await bench.kubelet.start()


async def the_folder_long_before_kubelet_is_back(bench: Bench) -> None:
    await bench.kubelet.stop()
    shutil.rmtree(bench.kubelet.plugins)
    await appears(bench)
    await bench.kubelet.start()


async def the_folder_with_all_above_it(bench: Bench) -> None:
    await bench.kubelet.stop()
    shutil.rmtree(bench.root / "var/lib/kubelet")
    await bench.kubelet.start()


async def another_folder_in_its_place(bench: Bench) -> None:
    """The old one is still there, under another name, with our sockets in it."""
    await bench.kubelet.stop()
    bench.kubelet.plugins.rename(bench.kubelet.plugins.with_name("old"))
    await bench.kubelet.start()


async def another_folder_with_kubelet_in_it(bench: Bench) -> None:
    """Put in its place at once: there is no moment without a kubelet's socket."""
    place = bench.kubelet.plugins
    await bench.kubelet.stop()
    bench.kubelet.plugins = place.with_name("new")
    await bench.kubelet.start()
    bench.kubelet.plugins = place
    place.rename(place.with_name("old"))
    place.with_name("new").rename(place)


async def a_file_in_its_place_for_a_while(bench: Bench) -> None:
    await bench.kubelet.stop()
    shutil.rmtree(bench.kubelet.plugins)
    bench.kubelet.plugins.touch()
    await asyncio.sleep(0.2)  # some of its attempts: four seconds of its time
    bench.kubelet.plugins.unlink()
    await bench.kubelet.start()


async def a_link_in_its_place(bench: Bench) -> None:
    """Somebody moved kubelet's folder to another disk."""
    await bench.kubelet.stop()
    elsewhere = bench.root / "disk"
    bench.kubelet.plugins.rename(elsewhere)
    bench.kubelet.plugins.symlink_to(elsewhere)
    await bench.kubelet.start()


WIPES: Mapping[str, Callable[[Bench], Awaitable[None]]] = {
    wipe.__name__.replace("_", " "): wipe
    for wipe in (
        *(our_sockets, everything_in_it, the_folder, the_folder_long_before_kubelet_is_back),
        *(the_folder_with_all_above_it, another_folder_in_its_place, another_folder_with_kubelet_in_it),
        *(a_file_in_its_place_for_a_while, a_link_in_its_place),
    )
}


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_of() as node:
        yield node


@pytest.mark.parametrize("wiped", WIPES)
async def test_after_a_wipe_all_is_registered_again_and_nothing_is_forgotten(
    bench: Bench, wiped: str
) -> None:
    bench.configure(TWO_SHARED)
    await bench.kubelet.start()
    bench.start()
    assert healthy(await bench.kubelet.devices(GPU)) == {"GPU-2", "GPU-3"}
    assert len(healthy(await bench.kubelet.devices(SHARED))) == 4
    await bench.kubelet.allocate(GPU, "GPU-2")
    bench.kubelet.show_pod("train", GPU, "GPU-2")
    said: tuple[asyncio.Queue[Any], ...] = (bench.kubelet.requests, *bench.kubelet.lists.values())
    for queue in said:
        while not queue.empty():
            queue.get_nowait()
    await WIPES[wiped](bench)
    async with asyncio.timeout(PATIENCE_S):
        names = {(await bench.kubelet.requests.get()).resource_name for _ in "12"}
    assert names == {GPU, SHARED}
    assert healthy(await bench.kubelet.devices(GPU)) == {"GPU-2", "GPU-3"}
    assert (await bench.kubelet.allocate(SHARED, "GPU-0::1")).envs["NVIDIA_VISIBLE_DEVICES"] == "GPU-0"
    bench.configure(ALL_SHARED)
    shown = await bench.kubelet.devices(SHARED, until=lambda told: len(told) == 8)
    assert shown.keys() - healthy(shown) == {"GPU-2::0", "GPU-2::1"}
