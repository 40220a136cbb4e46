"""A ConfigMap becomes garbage of many kinds: the last good one is kept, and said, after a restart too."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from support.kubelet_side import GPU, SHARED, Bench, bench_of, healthy
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.wire.kinds import CONFIG_MAP, NODE

GOOD = (
    "version: v1\nsharing: {timeSlicing: {renameByDefault: true, "
    "resources: [{name: nvidia.com/gpu, replicas: 3}]}}\n"
)
WHOLE = {"default": "version: v1\n"}
BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{depth}: &a{depth} [{', '.join([f'*a{depth - 1}'] * 9)}]\n" for depth in range(1, 12)
)
MERGES = "a: &a {b: 1}\n" + "".join(f"k{place}: {{<<: *a}}\n" for place in range(10_000))
TEXTS = {
    "a bomb of aliases": BOMB,
    "a bomb of aliases, filled up to a megabyte": BOMB + "#" * ((1 << 20) - len(BOMB)),
    "a megabyte of keys": "".join(f"k{place}: 1\n" for place in range(90_000)),
    "ten thousand merges": MERGES,
    "three thousand aliases of one long text": f"version: v1\na: &a {'x' * 35_000}\nb:\n" + "- *a\n" * 3000,
    "merges of merges": BOMB.replace("[", "{<<: [")
    .replace("]", "]}")
    .replace("{<<: [x, x, x", "{x: [x, x, x", 1),
    "a list without end": "[" * 100_000,
    "question marks without end": "? " * 100_000,
    "a number of a hundred thousand digits": "version: v1\nflags: {gdsEnabled: " + "9" * 100_000 + "}",
    "control characters": "version: v1\n\x00\x01\x02",
    "a lone surrogate": "version: v1\n# \ud800",
    "a list": "- version: v1\n",
    "a number": "1",
    "nothing but a word": "garbage",
    "wrong types": "version: v1\nsharing: {timeSlicing: {resources: {name: 1, replicas: [x]}}}\nflags: 7\n",
    "text for a number": GOOD.replace("3", "'3'"),
    "more replicas than can be": GOOD.replace("3", "9" * 30),
    "a tag of Python's": "!!python/object/apply:os.system [true]",
    "two documents": f"{GOOD}---\n{GOOD}",
    "half of itself": GOOD[: len(GOOD) // 2],
    "another document": '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}',
    "a web page": "<!DOCTYPE html>\n<html><head><title>502</title></head></html>\n",
}
BINARY = {
    "a program in binaryData": b"\x7fELF\x02\x01\x01" + bytes(range(256)) * 8,
    "binaryData that is no base64": None,
}


def put(file: Path, content: bytes) -> None:
    """At once: half a file may say something else, and an empty one says that every device is exclusive."""
    new = file.with_suffix(".new")
    new.write_bytes(content)
    new.rename(file)


def a_folder(file: Path) -> None:
    file.unlink()
    file.mkdir()


FILES: tuple[Callable[[Path], object], ...] = (
    lambda file: put(file, b"\xff\xfe\x00"),
    lambda file: put(file, b"#" * (2 << 20)),
    lambda file: put(file, b"version: v1\n" * 2),
    a_folder,
)


def replace_with(cluster: Any, garbage: str) -> None:
    if garbage in TEXTS:
        cluster.configs(default=TEXTS[garbage])
        return
    content = BINARY[garbage]
    text = "!" if content is None else b64encode(content).decode()
    cluster.put(CONFIG_MAP, "device-plugin-config", "tonnage-system", data={}, binaryData={"default": text})


@asynccontextmanager
async def agent_on(bench: Bench, cluster: Any) -> AsyncIterator[None]:
    options = AgentOptions("node-1", f"scenario:{bench.root / 'hardware.json'}", bench.root)
    agent = asyncio.create_task(run_agent(options, api=cluster, clock=bench.clock))
    try:
        yield
        assert not agent.done(), agent
    finally:
        agent.cancel()
        await asyncio.gather(agent, return_exceptions=True)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with bench_of(gpus=2) as made:
        await made.kubelet.start()
        yield made


def refused(cluster: Any) -> bool:
    """Whether the node's condition and an Event say that what is asked for is not what runs."""
    condition = cluster.conditions("node-1").get("GPUConfigApplied", {})
    events = [text for reason, text in cluster.events() if reason == "DevicePluginConfigRefused"]
    kept = "tonnage-system/device-plugin-config[default]"
    return condition.get("status") == "False" and any(f"kept: {kept}" in text for text in events)


@pytest.mark.sampled("configurations that are none", share="1/3")
@pytest.mark.parametrize("garbage", [*TEXTS, *BINARY])
async def test_garbage_changes_nothing_and_is_said_also_after_a_restart(
    bench: Bench, cluster: Any, garbage: str
) -> None:
    cluster.put(NODE, "node-1")
    cluster.configs(default=GOOD)
    async with agent_on(bench, cluster):
        assert len(healthy(await bench.kubelet.devices(SHARED))) == 6
        replace_with(cluster, garbage)
        await cluster.until(lambda: refused(cluster))
        await bench.kubelet.allocate(SHARED, "GPU-0::0")
    for key in [key for key in cluster.objects if key[0] == "events"]:
        del cluster.objects[key]
    bench.kubelet.lists.clear()
    async with agent_on(bench, cluster):
        assert len(healthy(await bench.kubelet.devices(SHARED))) == 6
        await cluster.until(lambda: refused(cluster))
        assert bench.kubelet.lists.keys() == {SHARED}, "it never began as something else"
        cluster.put(CONFIG_MAP, "device-plugin-config", "tonnage-system", data=WHOLE, binaryData={})
        assert await bench.kubelet.devices(GPU, until=lambda told: told.keys() == {"GPU-0", "GPU-1"})


async def test_text_that_came_as_binary_data_is_read(bench: Bench, cluster: Any) -> None:
    cluster.put(NODE, "node-1")
    texts = {"default": b64encode(GOOD.encode()).decode()}
    cluster.put(CONFIG_MAP, "device-plugin-config", "tonnage-system", binaryData=texts)
    async with agent_on(bench, cluster):
        assert len(healthy(await bench.kubelet.devices(SHARED))) == 6


async def test_the_file_of_a_node_that_becomes_garbage_changes_nothing(bench: Bench) -> None:
    bench.configure(GOOD)
    bench.start()
    assert len(healthy(await bench.kubelet.devices(SHARED))) == 6
    for make in FILES:
        make(bench.root / "config.yaml")
        await bench.clock.sleep(3)
        await bench.kubelet.allocate(SHARED, "GPU-0::0")
    await bench.end()
    bench.kubelet.lists.clear()
    bench.start()
    assert len(healthy(await bench.kubelet.devices(SHARED, until=healthy))) == 6
    assert bench.kubelet.lists.keys() == {SHARED}
