"""A pod's annotation gives its GPUs something to do: containers, the exporter and doctor read the same."""

from __future__ import annotations

import asyncio
import urllib.request

from support.fleet import Fleet
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import POD

_QUERY = "--query-gpu=utilization.gpu,memory.used,clocks.sm"


async def _run(fleet: Fleet, name: str, load: str, *, restart: str = "Never") -> None:
    container: JsonObject = {
        "name": "c",
        "image": "busybox:1.37",
        "command": ["sleep", "infinity"],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    spec: JsonObject = {
        "containers": [container],
        "terminationGracePeriodSeconds": 0,
        "restartPolicy": restart,
    }
    meta: JsonObject = {"name": name, "annotations": {"tonnage.dev/pretended-load": load}}
    await fleet.api.create(POD, {"metadata": meta, "spec": spec}, namespace="default")


async def _smi(fleet: Fleet, pod: str) -> list[int]:
    text = await fleet.kubectl("exec", pod, "--", "nvidia-smi", _QUERY, "--format=csv,noheader,nounits")
    return [int(cell) for cell in text.split(",")]


def _rows(address: str, family: str, pod: str) -> list[float]:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return [float(line.rpartition(" ")[2]) for line in lines if family in line and f'pod="{pod}"' in line]


async def test_run_5_nvidia_smi_and_the_exporter_read_the_same_load(fleet: Fleet) -> None:
    await _run(fleet, "web", "idle memory=1000MiB")
    await fleet.until_phase("web", "Running")

    async def loaded() -> bool:
        return (await _smi(fleet, "web"))[1] > 50

    pods = (await fleet.api.list(POD, namespace="tonnage-system")).items
    address = pods[0].metadata.annotations["tonnage.dev/loopback-9400"]

    async def exported(family: str) -> list[float]:
        return await asyncio.to_thread(_rows, address, f"{family}{{", "web")

    async def read_since() -> bool:
        """The page is of the last interval, and knows a pod a moment after it runs."""
        return any(page >= used for page in await exported("DCGM_FI_DEV_FB_USED"))

    await fleet.until(loaded)
    used, clock = (await _smi(fleet, "web"))[1:]
    await fleet.until(read_since)
    (page,) = await exported("DCGM_FI_DEV_FB_USED")
    assert used <= page <= (await _smi(fleet, "web"))[1]
    assert await exported("DCGM_FI_DEV_SM_CLOCK") == [clock]
    assert (await exported("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"))[0] > 0


async def test_a_crash_reports_its_xid_and_ends_the_container(fleet: Fleet) -> None:
    await _run(fleet, "bad", "crash xid=79 after=300ms")
    pod = await fleet.until_phase("bad", "Failed")
    assert pod.status.container_statuses[0]["state"]["terminated"]["exitCode"] == 134
    reported = [device.xids for device in fleet.gpu_node.hardware.read().devices]
    assert sorted(reported) == [(), (79,)]


async def test_a_load_that_cannot_be_read_is_told_in_the_log(fleet: Fleet) -> None:
    await _run(fleet, "odd", "trainng")
    await fleet.until_phase("odd", "Running")
    assert "use training if you meant that" in await fleet.kubectl("logs", "odd")


async def test_shr_7_a_service_is_told_how_it_would_fare_each_way(fleet: Fleet) -> None:
    await _run(fleet, "web", "inference rate=40 service=10ms width=20%")
    await fleet.until_phase("web", "Running")
    report = (await fleet.kubectl("exec", "web", "--", "tonnage-load")).splitlines()
    assert report[0] == "1 on this GPU, exclusive; modelled by the twin, not measured"
    assert [line.split()[0] for line in report[2:5]] == ["exclusive", "time-slicing", "mps"]
    assert report[-1].startswith("advice for 95 % within 50 ms: time-slicing on 1 GPU")
