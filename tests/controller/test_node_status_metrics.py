"""The metrics of NVIDIA's node status exporter, as the controller's page has them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controller.test_operator import Bench
from tonnage.adapters.http.metrics_page import families_text
from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.node_status_metrics import NodeStatusMetrics
from tonnage.controller.operator.readiness_book import ReadinessBook
from tonnage.controller.refused_writes import RefusedWrites
from tonnage.loop.informer import Informers
from tonnage.wire.kinds import CLUSTER_POLICY, NODE, NODE_GPU_STATUS

LABEL: dict[str, Any] = {"nvidia.com/gpu.deploy.node-status-exporter": "true"}
PREFIX = "gpu_operator_node_"


def stages(*outcomes: str) -> dict[str, Any]:
    names = ("driver", "runtime", "plugin", "workload")
    return {
        "stages": [
            {"stage": name, "outcome": outcome} for name, outcome in zip(names, outcomes, strict=False)
        ]
    }


async def lines_of(bench: Bench) -> dict[str, float]:
    """What the page has, by name and node, without the prefix."""
    copied = Informers(bench.api, bench.clock)
    context: Any = ControllerContext(
        api=bench.api,
        clock=bench.clock,
        copies=copied,
        readiness=ReadinessBook(copied),
        refused=RefusedWrites(bench.clock, on_change=lambda: None),
        **dict.fromkeys(
            ("policy_turns", "performer", "events", "counters", "namespace", "operator_namespace")
        ),  # type: ignore[arg-type]
    )
    metrics = NodeStatusMetrics(context)
    copies = [context.copies.of(kind) for kind in (NODE, NODE_GPU_STATUS, CLUSTER_POLICY)]
    running = [asyncio.create_task(copy.run()) for copy in copies]
    async with asyncio.timeout(20):
        for copy in copies:
            await copy.synced()
    text = families_text(metrics.families())
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name.removeprefix(PREFIX): float(value) for name, _, value in rows}


@pytest.fixture
async def bench() -> Bench:
    made = Bench()
    await made.install()
    return made


@pytest.mark.parametrize(
    ("outcomes", "ready"),
    [
        pytest.param(("passed", "passed", "passed", "passed"), (1, 1, 1, 1), id="all passed"),
        pytest.param(("passed", "passed", "passed", "skipped"), (1, 1, 1, 0), id="nothing was there to try"),
        pytest.param(("passed", "failed"), (1, 0, 0, 0), id="the runtime failed, what needs it waits"),
        pytest.param((), (0, 0, 0, 0), id="not validated yet"),
        pytest.param(("passed", "waiting"), (1, 0, 0, 0), id="the runtime is waited for"),
    ],
)
async def test_a_barrier_is_open_once_its_stage_has_passed(
    bench: Bench, outcomes: tuple[str, ...], ready: tuple[int, ...]
) -> None:
    await bench.policy(nodeStatusExporter={"enabled": True})
    await bench.node("a", gpus=4, **LABEL)
    await bench.report("a", validation=stages(*outcomes))
    heard = bench.clock.now()
    page = await lines_of(bench)
    names = ("driver_ready", "toolkit_ready", "plugin_ready", "cuda_ready")
    assert tuple(page[f'{name}{{node="a"}}'] for name in names) == ready
    assert page['driver_validation{node="a"}'] == ready[0]
    at = page.get('driver_validation_last_success_ts_seconds{node="a"}')
    assert at == (pytest.approx(heard.timestamp(), abs=1) if ready[0] else None)


async def test_devices_are_those_of_the_nodes_capacity(bench: Bench) -> None:
    await bench.policy(nodeStatusExporter={"enabled": True})
    await bench.node("a", gpus=4, **LABEL)
    amounts = {"nvidia.com/gpu.shared": "8", "nvidia.com/mig-1g.5gb": "7", "cpu": "64"}
    status: Any = {"status": {"capacity": amounts}}
    await bench.api.patch(NODE, "a", status, subresource="status")
    await bench.node("empty", gpus=0, **LABEL)
    page = await lines_of(bench)
    assert page['device_plugin_devices_total{node="a"}'] == 4 + 8 + 7
    assert page['device_plugin_devices_total{node="empty"}'] == 0
    assert 'device_plugin_validation_last_success_ts_seconds{node="a"}' in page
    assert 'device_plugin_validation_last_success_ts_seconds{node="empty"}' not in page


async def test_gpus_on_the_bus_are_those_that_the_agent_counted(bench: Bench) -> None:
    await bench.policy(nodeStatusExporter={"enabled": True})
    for name in ("a", "silent"):
        await bench.node(name, gpus=2, **LABEL)
    await bench.report("a", host={"gpusOnBus": 3})
    page = await lines_of(bench)
    name = "gpu_operator_nvidia_pci_devices_total"
    assert {node: page[f'{name}{{node="{node}"}}'] for node in ("a", "silent")} == {"a": 3, "silent": -1}


async def test_nodes_are_left_out_as_the_operand_is(bench: Bench) -> None:
    await bench.policy(nodeStatusExporter={"enabled": True})
    off: Any = {"nvidia.com/gpu.deploy.node-status-exporter": "false"}
    await bench.node("off", **off)
    await bench.node("on", **LABEL)
    assert {name.partition('"')[2] for name in await lines_of(bench)} == {'on"}'}


async def test_a_policy_without_the_exporter_has_none(bench: Bench) -> None:
    await bench.policy(nodeStatusExporter={"enabled": False})
    await bench.node("a", **LABEL)
    assert await lines_of(bench) == {}
