"""What the driver for claims counts, under the names that dashboards of NVIDIA's driver know."""

from __future__ import annotations

import asyncio
import urllib.request

import pytest

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
    driver = 'driver="gpu.nvidia.com"'
    assert not [line for line in lines(metrics) if "errors_total" in line or "refused" in line]
    with metrics.request(PREPARE):
        assert f'nvidia_dra_requests_inflight{{{driver},operation="prepare"}} 1.0' in lines(metrics)
        await asyncio.gather(clock.sleep(0.3), clock.advance(0.3))
    for operation, cause in (
        (PREPARE, "claimed-device-held"),
        (PREPARE, "HardwareError"),
        (UNPREPARE, "HardwareError"),
    ):
        with metrics.request(operation) as refused:
            refused(cause)
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
        f'nvidia_dra_prepared_devices{{device_type="vfio",{driver},node="n"}} 0.0',
        f'nvidia_dra_prepared_devices{{device_type="unknown",{driver},node="n"}} 0.0',
        f'nvidia_dra_node_prepare_errors_total{{{driver},error_type="prepare_devices"}} 2.0',
        f'nvidia_dra_node_unprepare_errors_total{{{driver},error_type="unprepare_devices"}} 1.0',
        'tonnage_agent_claims_refused_total{cause="claimed-device-held",operation="prepare"} 1.0',
        'tonnage_agent_claims_refused_total{cause="HardwareError",operation="prepare"} 1.0',
        'tonnage_agent_claims_refused_total{cause="HardwareError",operation="unprepare"} 1.0',
    ):
        assert line in shown


async def test_a_claim_that_ends_in_an_unforeseen_error_is_neither_answered_nor_refused() -> None:
    metrics = ClaimMetrics("n", VirtualClock(), list)
    with pytest.raises(ZeroDivisionError), metrics.request(PREPARE):
        raise ZeroDivisionError
    driver = 'driver="gpu.nvidia.com"'
    assert f'nvidia_dra_requests_total{{{driver},operation="prepare"}} 0.0' in lines(metrics)
    assert f'nvidia_dra_requests_inflight{{{driver},operation="prepare"}} 0.0' in lines(metrics)


async def test_the_agents_page_counts_each_claim_that_is_prepared_and_each_that_is_not(
    scene: ClaimNode,
) -> None:
    """As NVIDIA's driver does: by claim, not by call, and once more for one that is prepared already."""
    await scene.begin(ALL)
    port = free_port()

    def page() -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
                return str(answer.read(), "utf-8")
        except OSError:
            return ""

    async def shows(*lines: str) -> bool:
        shown = (await asyncio.to_thread(page)).splitlines()
        return all(line in shown for line in lines)

    driver = 'driver="gpu.nvidia.com"'
    async with scene.agent(port=port):
        await scene.kubelet.register()
        await eventually(lambda: shows(f'nvidia_dra_requests_total{{{driver},operation="prepare"}} 0.0'))
        a, b = [await scene.claim(f"claim-{number}", f"gpu-{number}") for number in (0, 1)]
        late = await scene.claim("late", "gpu-0")
        for claims in ((a, b), (a,), (late,)):
            await scene.kubelet.prepare(*claims)
        await scene.kubelet.unprepare(b)
        await eventually(
            lambda: shows(
                f'nvidia_dra_requests_total{{{driver},operation="prepare"}} 3.0',
                f'nvidia_dra_requests_total{{{driver},operation="unprepare"}} 1.0',
                f'nvidia_dra_node_prepare_errors_total{{{driver},error_type="prepare_devices"}} 1.0',
                f'nvidia_dra_prepared_devices{{device_type="gpu",{driver},node="a100-0"}} 1.0',
                'tonnage_agent_claims_refused_total{cause="claimed-device-held",operation="prepare"} 1.0',
            )
        )
