"""What `tonnage top` shows: rows by view, their order, and lines that fit the screen."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta

import pytest

from tonnage.diagnose.top.columns import Row, View, row_key
from tonnage.diagnose.top.layout import rows_of, screen, table_lines
from tonnage.diagnose.top.screen_state import ScreenState, after_key
from tonnage.diagnose.top.usage import FleetUsage, fleet_usage
from tonnage.model.node.device_usage import DevicePage, DeviceReading, PodReading
from tonnage.model.node.gpu_status import DeviceHolder, GpuDevice, GpuStatus

NOW = datetime(2026, 1, 1, tzinfo=UTC)
BUSY = DeviceReading("GPU-a", index=0, product="NVIDIA A100", utilization=90, used_mib=4096, memory_mib=8192)
QUIET = DeviceReading("GPU-b", index=1, product="NVIDIA A100", utilization=10, used_mib=1024, memory_mib=8192)


def held(reading: DeviceReading, *pods: str, power_w: float | None = 300.0) -> DeviceReading:
    return DeviceReading(
        reading.uuid,
        index=reading.index,
        product=reading.product,
        utilization=reading.utilization,
        used_mib=reading.used_mib,
        memory_mib=reading.memory_mib,
        power_w=power_w,
        holders=pods,
    )


def report(node: str, *devices: GpuDevice, age_s: int = 40) -> GpuStatus:
    return GpuStatus(node, devices, heartbeat=NOW - timedelta(seconds=age_s))


TWO = fleet_usage({}, {"n-0": DevicePage("n-0", (held(BUSY, "ml/train"), held(QUIET, "web/a", "web/b")))})


def test_a_pod_has_what_its_own_device_reads_and_nothing_of_a_shared_one() -> None:
    assert [(pod.pod, pod.gpus, pod.used_mib, pod.shared) for pod in TWO.pods] == [
        ("ml/train", 0.9, 4096, False),
        ("web/a", None, None, True),
        ("web/b", None, None, True),
    ]


def test_sharers_have_their_own_readings_where_the_exporter_tells_them() -> None:
    pods = (
        PodReading("web", "a", "GPU-b", "", 0.25, 512 * 2**20, "process"),
        PodReading("web", "b", "GPU-b", "", 0.5, 256 * 2**20, "process"),
    )
    usage = fleet_usage({}, {"n-0": DevicePage("n-0", (QUIET,), pods)})
    assert [(pod.pod, pod.gpus, pod.used_mib, pod.attribution) for pod in usage.pods] == [
        ("web/a", 0.25, 512, "process"),
        ("web/b", 0.5, 256, "process"),
    ]


def test_a_node_without_a_page_is_shown_by_its_report_with_its_age() -> None:
    device = GpuDevice(
        "GPU-a", index=0, memory_mib=8192, used_mib=100, healthy=False, reason="Xid 79",
        holders=(DeviceHolder("ml", "p", "c", "nvidia.com/gpu", ("GPU-a",)),),
    )  # fmt: skip
    usage = fleet_usage({"n-0": report("n-0", device)}, {}, NOW)
    (row,) = usage.devices
    assert (row.reading.used_mib, row.reading.holders, row.reason, row.age_s) == (
        100,
        ("ml/p",),
        "Xid 79",
        40,
    )
    assert usage.nodes[0].unhealthy == 1
    assert "40s ago" in table_lines([row], ScreenState(), None, {})[1]


def test_an_instance_repeats_its_gpus_power_and_a_node_counts_it_once() -> None:
    parts = tuple(
        DeviceReading("GPU-a", instance=str(n), index=0, profile="1g.10gb", power_w=100.0) for n in (1, 2)
    )
    usage = fleet_usage({}, {"n-0": DevicePage("n-0", parts)})
    assert (usage.nodes[0].power_w, usage.nodes[0].devices) == (100, 2)
    assert "0 1g.10gb #2" in table_lines([*usage.devices], ScreenState(), None, {})[2]


def test_a_namespace_sees_the_devices_that_its_pods_hold() -> None:
    page = DevicePage("n-0", (held(BUSY, "ml/train"), held(QUIET, "web/a", "ml/b")))
    usage = fleet_usage({}, {"n-0": page}, namespace="web")
    assert [device.reading.uuid for device in usage.devices] == ["GPU-b"]
    assert [pod.pod for pod in usage.pods] == ["web/a"]


@pytest.mark.parametrize(
    ("state", "uuids"),
    [
        pytest.param(ScreenState(), ["GPU-a", "GPU-b"], id="by node"),
        pytest.param(ScreenState(sort="UTIL"), ["GPU-a", "GPU-b"], id="the busiest first"),
        pytest.param(ScreenState(sort="UTIL", upwards=True), ["GPU-b", "GPU-a"], id="the idlest first"),
        pytest.param(ScreenState(sort="MEMORY", upwards=True), ["GPU-b", "GPU-a"], id="by memory"),
        pytest.param(ScreenState(filter="TRAIN"), ["GPU-a"], id="with a word of a pod"),
        pytest.param(ScreenState(filter="gpu-b"), ["GPU-b"], id="with a word of the device"),
        pytest.param(ScreenState(filter="nothing"), [], id="with a word that nothing has"),
    ],
)
def test_rows_are_sorted_and_filtered(state: ScreenState, uuids: list[str]) -> None:
    assert [row_key(row).split("/")[1] for row in rows_of(TWO, state)] == uuids


@pytest.mark.parametrize("view", View)
@pytest.mark.parametrize("width", [20, 40, 60, 80, 200])
@pytest.mark.parametrize("plain", [False, True])
def test_no_line_is_wider_than_the_screen(view: View, width: int, *, plain: bool) -> None:
    rows: list[Row] = [*TWO.devices, *TWO.nodes]
    trends = {row_key(row): deque([0.0, 50.0, 100.0]) for row in rows}
    lines = screen(TWO, ScreenState(view), ["a note " * 20], (width, 12), trends, plain=plain)
    assert len(lines) == 12
    assert max(map(len, lines)) <= width
    assert not plain or all(line.isascii() for line in lines)


def test_sixty_columns_have_what_matters() -> None:
    head, first, *_ = table_lines([*TWO.devices], ScreenState(), 60, {})
    assert head.split() == ["NODE", "GPU", "UTIL", "MEMORY", "POWER", "TEMP", "HEALTH", "PODS"]
    assert first.split() == ["n-0", "0", "90%", "4.0/8.0G", "300W", "-", "ok", "ml/train"]


def test_sixty_columns_have_the_whole_fleet_in_a_line() -> None:
    state = ScreenState(sort="HEALTH", filter="a100", paused=True)
    line, *_ = screen(TWO, state, [], (60, 12), {})
    assert line == "2 devices on 1 node, 50% busy, 600 W, filter a100, paused"
    line, *_ = screen(TWO, state, [], (200, 12), {})
    assert line.startswith("devices sorted by health, 2 devices on 1 node, 50% busy")


def test_hostile_names_are_escaped_and_stay_on_their_line() -> None:
    nasty = "ml/\x1b[2J\n\u202etrain"
    usage = fleet_usage({}, {"n\x1b]0;x\x07": DevicePage("", (held(BUSY, nasty),))})
    for view in View:
        lines = screen(usage, ScreenState(view, filter="\x9b"), ["\x1b[31m"], (200, 9), {})
        lines += screen(usage, ScreenState(view), [], (200, 9), {})
        assert all(line.isprintable() for line in lines)


def test_a_long_list_is_scrolled_no_further_than_its_end() -> None:
    many = FleetUsage(devices=TWO.devices * 30)
    lines = screen(many, ScreenState(offset=1000), [], (80, 10), {})
    assert sum("n-0" in line for line in lines) == 7


@pytest.mark.parametrize(
    ("keys", "state"),
    [
        pytest.param(["3"], ScreenState(View.PODS), id="a view by its number"),
        pytest.param(["tab"], ScreenState(View.PODS), id="the next view"),
        pytest.param(["s", "s"], ScreenState(sort="UTIL"), id="the third column"),
        pytest.param(["S"], ScreenState(sort="PODS"), id="the last column"),
        pytest.param(["r"], ScreenState(upwards=True), id="the other way round"),
        pytest.param(["/", "m", "l", "q", "enter"], ScreenState(filter="mlq"), id="a filter, q in it"),
        pytest.param(["/", "m", "backspace", "enter"], ScreenState(), id="a filter taken back"),
        pytest.param(["/", "m", "escape"], ScreenState(), id="a filter given up"),
        pytest.param(["down", "down", "up"], ScreenState(offset=1), id="scrolled"),
        pytest.param(["up"], ScreenState(), id="scrolled above the first row"),
        pytest.param(["?", "x"], ScreenState(), id="help, closed by any key"),
        pytest.param([" "], ScreenState(paused=True), id="paused"),
        pytest.param(["+"], ScreenState(interval_s=5.0), id="slower"),
        pytest.param(["-", "-", "-"], ScreenState(interval_s=1.0), id="as fast as may be"),
        pytest.param(["f12", "é"], ScreenState(), id="keys that mean nothing"),
        pytest.param(["q"], None, id="leave"),
        pytest.param(["?", "ctrl-c"], None, id="leave from the help"),
        pytest.param(["/", "ctrl-c"], None, id="leave from the filter"),
    ],
)
def test_keys_change_what_is_shown(keys: list[str], state: ScreenState | None) -> None:
    current: ScreenState | None = ScreenState()
    for key in keys:
        assert current is not None
        current = after_key(current, key)
    assert current == state


def test_the_help_names_every_key() -> None:
    shown = screen(TWO, ScreenState(help=True), [], (80, 24), {})
    assert any("filter" in line for line in shown)
    assert any("quit" in line for line in shown)
