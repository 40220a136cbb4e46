"""What the driver for claims counts, under the names that dashboards of NVIDIA's driver know."""

from __future__ import annotations

import asyncio
import urllib.request

from support.claim_kubelet import eventually
from support.claim_node import ALL, ClaimNode
from support.prometheus import free_port
from tonnage.adapters.http.metrics_page import families_text
from tonnage.agent.metrics.claim_counters import PREPARE, UNPREPARE, ClaimMetrics
from tonnage.model.devices.claims import ClaimRef, PreparedClaim, PreparedDevice
from tonnage.twin.clock import VirtualClock

CLAIM = ClaimRef("ml", "train", "u-1")


def prepared(*devices: str) -> PreparedClaim:
    return PreparedClaim(CLAIM, tuple(PreparedDevice("gpu", "n", name, f"UUID-{name}") for name in devices))


def lines(metrics: ClaimMetrics) -> list[str]:
    return [line for line in families_text(metrics.families()).splitlines() if not line.startswith("#")]


async def test_requests_devices_and_failures_have_the_names_of_nvidias_driver() -> None:
    clock = VirtualClock()
    metrics = ClaimMetrics("n", clock, lambda: [prepared("gpu-0", "gpu-1-mig-1g5gb-19-4"), prepared("gpu-2")])
    with metrics.request(PREPARE):
        assert 'nvidia_dra_requests_inflight{driver="gpu.nvidia.com",operation="prepare"} 1.0' in lines(
            metrics
        )
        await asyncio.gather(clock.sleep(0.3), clock.advance(0.3))
    metrics.failed(PREPARE, "claimed-device-held")
    metrics.failed(UNPREPARE, "HardwareError")
    driver = 'driver="gpu.nvidia.com"'
    shown = lines(metrics)
    for line in (
        f'nvidia_dra_requests_total{{{driver},operation="prepare"}} 1.0',
        f'nvidia_dra_requests_total{{{driver},operation="unprepare"}} 0.0',
        f'nvidia_dra_request_duration_seconds_bucket{{{driver},le="0.2",operation="prepare"}} 0.0',
        f'nvidia_dra_request_duration_seconds_bucket{{{driver},le="0.4",operation="prepare"}} 1.0',
        f'nvidia_dra_request_duration_seconds_count{{{driver},operation="prepare"}} 1.0',
        f'nvidia_dra_requests_inflight{{{driver},operation="prepare"}} 0.0',
        f'nvidia_dra_prepared_devices{{device_type="gpu",{driver},node="n"}} 2.0',
        f'nvidia_dra_prepared_devices{{device_type="mig",{driver},node="n"}} 1.0',
        f'nvidia_dra_node_prepare_errors_total{{{driver},error_type="claimed-device-held"}} 1.0',
        f'nvidia_dra_node_unprepare_errors_total{{{driver},error_type="HardwareError"}} 1.0',
    ):
        assert line in shown


async def test_the_agents_page_has_them_from_when_there_is_a_driver(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    port = free_port()

    def page() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return str(answer.read(), "utf-8")
        except OSError:
            return ""

    async def shows(line: str) -> bool:
        return line in await asyncio.to_thread(page)

    async with scene.agent(port=port):
        await scene.kubelet.register()
        assert await scene.kubelet.prepare(await scene.claim("train", "gpu-0"))
        line = 'nvidia_dra_requests_total{driver="gpu.nvidia.com",operation="prepare"} 1.0'
        await eventually(lambda: shows(line))
