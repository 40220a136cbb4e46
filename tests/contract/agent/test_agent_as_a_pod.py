"""The agent as a process, in the way a pod runs it: probes, metrics, signals, little to stand on."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from support.connections import connection
from support.elf import answer, shared_object, store
from support.plugin_node import PluginNode, allocate, becomes_ready, first_list, page, plugin_node

pytestmark = pytest.mark.long

SERVED = ("--metrics-address", "127.0.0.1:0")
GPU = "nvidia.com/gpu"


@pytest.fixture
async def node() -> AsyncIterator[PluginNode]:
    async with plugin_node() as made:
        yield made


async def samples(port: int) -> dict[tuple[str, ...], float]:
    """Values by the sample's name without our prefix, and the values of its labels in their names' order."""
    status, text = await page(port, "/metrics")
    assert status == 200
    found = dict[tuple[str, ...], float]()
    for family in text_string_to_metric_families(text):
        for one in family.samples:
            labels = (one.labels[name] for name in sorted(one.labels))
            found[(one.name.removeprefix("tonnage_agent_"), *labels)] = one.value
    return found


async def test_it_is_ready_once_kubelet_knows_every_resource(node: PluginNode) -> None:
    await node.start_agent(*SERVED)
    port = await node.port()
    assert await page(port, "/healthz") == (200, "ok\n")
    status, body = await page(port, "/readyz")
    assert (status, body) == (503, f"{GPU}: kubelet's registration socket is missing\n")
    assert (await samples(port))["ready",] == 0
    await node.start_kubelet()
    async with node.channel():
        await becomes_ready(port)
    assert (await samples(port))["ready",] == 1


async def test_without_devices_it_ends_with_the_reason_where_it_is_told_to(node: PluginNode) -> None:
    """`failOnInitError`, out of a file: its text counts once it was read."""
    config = node.root / "config.yaml"
    config.write_text("flags: {failOnInitError: true}")
    await node.start_agent("--config", str(config), devices="scenario:/nowhere.yaml")
    assert await node.ends() == 3
    said = "\n".join(node.log)
    assert "the devices cannot be read, and failOnInitError is true" in said
    assert f"where: {config}" in said
    assert list(node.plugins.iterdir()) == []


async def test_its_metrics_count_what_kubelet_asked(node: PluginNode) -> None:
    await node.start_kubelet()
    await node.start_agent(*SERVED)
    async with node.channel() as channel:
        port = await node.port()
        stream, ids = await first_list(channel)
        assert ids == {"GPU-0", "GPU-1"}
        assert await allocate(channel, "GPU-0") == ""
        assert "GPU-9" in await allocate(channel, "GPU-9")
        found = await samples(port)
        del stream
    assert found["registrations_total", GPU, "registered"] == 1
    assert found["last_registration_timestamp_seconds", GPU] > 1e9
    assert found["devices", GPU, "advertised"] == 2
    assert found["devices", GPU, "unhealthy"] == 0
    assert found["list_and_watch_streams", GPU] == 1
    assert found["allocations_total", GPU, "granted"] == 1
    assert found["allocations_total", GPU, "refused"] == 1
    assert found["allocate_duration_seconds_count",] == 2
    assert found["config_info", "", "built-in"] == 1
    assert found["config_errors_total",] == 0
    assert found["devices_readable",] == 1
    assert found["process_resident_memory_bytes",] > 0


async def test_it_waits_for_a_driver_and_says_so_once(node: PluginNode, tmp_path: Path) -> None:
    await node.start_kubelet()
    await node.start_agent(*SERVED, "--driver-root-ctr-path", str(tmp_path), devices="nvml")
    missing = f"NVML: no libnvidia-ml.so.1 under {tmp_path}"
    await node.says(missing)
    port = await node.port()
    status, body = await page(port, "/readyz")
    assert status == 503
    assert body.startswith(f"devices: {missing}; remedy: check that the NVIDIA driver is loaded")
    assert body.count("\n") == 1
    found = await samples(port)
    assert (found["devices_readable",], found["ready",]) == (0, 0)
    folder = tmp_path / "usr/lib64"
    folder.mkdir(parents=True)
    functions = {"nvmlInitWithFlags": answer(0), "nvmlDeviceGetCount_v2": store(0)}
    (folder / "made").write_bytes(shared_object("libnvidia-ml.so.1", functions))
    (folder / "made").rename(folder / "libnvidia-ml.so.1")
    await becomes_ready(port)  # with a driver and no devices there is nothing to register
    assert (await samples(port))["devices_readable",] == 1
    assert len([line for line in node.log if missing in line]) == 1, "\n".join(node.log)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_in_order_whoever_is_connected(
    node: PluginNode, number: signal.Signals
) -> None:
    await node.start_kubelet()
    await node.start_agent(*SERVED)
    async with node.channel() as channel:
        port = await node.port()
        stream, _ = await first_list(channel)
        async with connection(asyncio.open_connection("127.0.0.1", port)) as (_, writer):
            writer.write(b"GET /metrics HTTP/1.1\r\nHost")
            assert node.agent is not None
            node.agent.send_signal(number)
            assert await node.ends() == 0
        del stream
    assert {file.name for file in node.plugins.iterdir()} == {"kubelet.sock"}
    assert f"ending: signal={number.name}" in node.log[-1]


async def test_the_signal_to_read_the_configuration_again_ends_nobody(node: PluginNode) -> None:
    """A config manager sends it to NVIDIA's plugin; here a changed text counts without."""
    await node.start_kubelet()
    await node.start_agent()
    async with node.channel() as channel:
        await first_list(channel)
        assert node.agent is not None
        node.agent.send_signal(signal.SIGHUP)
        await node.says("SIGHUP ignored")
        assert await allocate(channel, "GPU-0") == ""


async def stuck(node: PluginNode) -> asyncio.subprocess.Process:
    """An agent with a thread that never comes back, which was told to end."""
    fifo = node.root / "config.yaml"
    os.mkfifo(fifo)  # as a file of a server that is gone
    await node.start_agent("--config", str(fifo), *SERVED)
    await node.port()
    assert node.agent is not None
    node.agent.send_signal(signal.SIGTERM)
    await node.says("ending: signal=SIGTERM")
    return node.agent


async def test_a_second_signal_ends_it_at_once(node: PluginNode) -> None:
    agent = await stuck(node)
    agent.send_signal(signal.SIGTERM)
    assert await node.ends() == 128 + signal.SIGTERM


async def test_what_does_not_end_is_named_and_ended(node: PluginNode) -> None:
    await stuck(node)
    assert await node.ends() == 1
    assert any("in _read" in line for line in node.log)


async def test_a_port_in_use_is_said_before_anything_is_advertised(node: PluginNode) -> None:
    await node.start_kubelet()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        await node.start_agent("--metrics-address", f"127.0.0.1:{port}")
        assert await node.ends() == 2
    assert f"port {port} is in use" in "\n".join(node.log)
    assert node.registered.empty()


@pytest.mark.parametrize("text", ["9400", "example.com:9400", "127.0.0.1:http", "::1:9400"])
async def test_a_wrong_address_is_refused_with_its_flag(node: PluginNode, text: str) -> None:
    await node.start_agent("--metrics-address", text)
    assert await node.ends() == 2
    assert "--metrics-address" in "\n".join(node.log)


BARE = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount --bind "$1" /mnt
grep -E ' (ext[234]|xfs|btrfs|overlay|tmpfs|9p|virtiofs|fuse[^ ]*) rw' /proc/self/mounts | cut -d' ' -f2 |
while read -r place; do
    case "$place" in "$1"|/mnt) ;; *) mount -o remount,bind,ro "$place" || true ;; esac
done
shift
if touch /tmp/written /var/tmp/written /written 2>/dev/null; then echo "a place is writable" >&2; exit 9; fi
exec setpriv --bounding-set=-all --inh-caps=-all --no-new-privs env -i "$@"
"""
"""A pod's container as far as the agent sees it: its process is the first, nothing can be written but what is
mounted for it, no variables, no capabilities."""


def first_process(unshare: int) -> int:
    """The process that `unshare` runs in its new namespace, by its number in ours."""
    return int(Path(f"/proc/{unshare}/task/{unshare}/children").read_text(encoding="ascii").split()[0])


def capabilities(process: int) -> dict[str, int]:
    """Those that it has, may use and could ever get."""
    lines = Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines()
    words = dict(line.split(":\t") for line in lines if line.startswith("Cap"))
    return {name: int(words[name], 16) for name in ("CapPrm", "CapEff", "CapBnd")}


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("unshare") or not shutil.which("setpriv"),
    reason="needs root, unshare and setpriv",
)
async def test_it_needs_no_capability_no_home_and_nothing_writable_but_its_folders(node: PluginNode) -> None:
    await node.start_kubelet()
    namespaces = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
    within = (*namespaces, "sh", "-c", BARE, "bare", str(node.root))
    await node.start_agent(*SERVED, seen_as=Path("/mnt"), within=within)
    async with node.channel() as channel:
        port = await node.port()
        await becomes_ready(port)
        assert await allocate(channel, "GPU-0") == ""
        assert "GPU-0" in (node.root / "var/lib/tonnage/allocations").read_text()
        assert node.agent is not None
        first = first_process(node.agent.pid)
        assert capabilities(first) == {"CapPrm": 0, "CapEff": 0, "CapBnd": 0}
        os.kill(first, signal.SIGTERM)
        assert await node.ends() == 0
    assert {file.name for file in node.plugins.iterdir()} == {"kubelet.sock"}
