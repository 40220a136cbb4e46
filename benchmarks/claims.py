"""What a claim costs on its node: prepared and given back over real sockets, as kubelet asks, beside a floor.

The floor is a driver in the same language that fetches the claim, writes and syncs two files (a note, a CDI
spec), and answers; to give back it writes the note again. The agent notes a claim in its ledger too, and
syncs nothing, since nothing in these files outlives a boot. Both ask the same API server.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from support.claim_kubelet import ClaimKubelet, eventually
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.kubelet.claim_sockets import ClaimFolder
from tonnage.agent.main import run_agent
from tonnage.agent.options import AgentOptions
from tonnage.model.devices.claims import DRIVER, ClaimRef, HealthReport, PreparedClaim, PreparedDevice
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire import kinds

NODE = "n"
GPUS = 16
CLAIMS = 100
CHANGES = 4
Side = tuple[ClaimKubelet, Any]
"""Who asks a driver, and the API server that both of them ask."""


def measure(rounds: int) -> dict[str, list[float]]:
    """Milliseconds a call."""
    logging.disable(logging.WARNING)  # there is no kubelet to ask for pods
    figures: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, values in asyncio.run(_measured()).items():
            figures.setdefault(name, []).extend(values)
    return figures


async def _measured() -> dict[str, list[float]]:
    figures: dict[str, list[float]] = {}
    with _folder() as folder, _folder() as of_floor:
        async with _agent(folder) as driver, _floor(of_floor) as floor:
            await _time_calls(driver, floor, figures)
            kubelet, api = driver
            claims = [await allocated_claim(api, f"many-{n}", NODE, n) for n in range(GPUS)]
            began = time.perf_counter()
            await asyncio.gather(*(kubelet.prepare(claim) for claim in claims))
            figures[f"{GPUS} claims at once, the last, ms (kubelet waits 45000)"] = [_ms(began)]
            figures["a GPU that turns unhealthy, until its slice says so, ms (wanted: 1000 at most)"] = [
                await _until_published(folder, api, sick) for sick in range(1, CHANGES + 1)
            ]
    return figures


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        yield Path(folder)


async def _until_published(root: Path, api: Any, sick: int) -> float:
    """Milliseconds from one more GPU that is unhealthy until the API server has it.

    One that becomes healthy again is offered later, on purpose, and later still when it keeps changing.
    """
    _write_hardware(root, sick)
    began = time.perf_counter()

    async def published() -> bool:  # a server of 1.35 drops taints, so the GPUs are left out
        slices = (await api.list(kinds.RESOURCE_SLICE)).items
        return sum(len(each.spec.get("devices", ())) for each in slices) == GPUS - sick

    await eventually(published)
    return _ms(began)


def _write_hardware(root: Path, sick: int = 0) -> None:
    """`sick` GPUs of them are unhealthy."""
    devices: list[dict[str, str]] = [{"uuid": f"GPU-{n}", "model": "H100-80"} for n in range(GPUS)]
    for device in devices[:sick]:
        device |= {"health": "unhealthy", "reason": "smoke"}
    fresh = root / "hardware.new"
    fresh.write_text(json.dumps({"devices": devices}))
    fresh.replace(root / "hardware.yaml")


async def _time_calls(driver: Side, floor: Side, figures: dict[str, list[float]]) -> None:
    """Ask both in turn, so that what else the machine does slows neither more than the other."""
    there, back = list[list[float]](), list[list[float]]()
    for number in range(CLAIMS):
        pairs = [await _there_and_back(*side, number) for side in (driver, floor)]
        there.append([prepared for prepared, _ in pairs])
        back.append([returned for _, returned in pairs])
    for name, of_floor, calls in (
        ("prepare a claim of one GPU", "the floor: fetch, two synced files, answer", there),
        ("give it back", "its floor: one synced file", back),
    ):
        figures[f"{name}, ms"] = [ours for ours, _ in calls]
        figures[f"  {of_floor}, ms"] = [least for _, least in calls]
        ours, least = (median(side) for side in zip(*calls, strict=True))
        figures[f"  {name}, times its floor (wanted: 2 at most)"] = [ours / least]


async def _there_and_back(kubelet: ClaimKubelet, api: Any, number: int) -> tuple[float, float]:
    claim = await allocated_claim(api, f"claim-{number}", NODE, number % GPUS)
    began = time.perf_counter()
    answer = (await kubelet.prepare(claim))[claim.uid]
    prepared = _ms(began)
    assert not answer.error, answer.error
    began = time.perf_counter()
    assert await kubelet.unprepare(claim) == {claim.uid: ""}
    return prepared, _ms(began)


def _ms(began: float) -> float:
    return (time.perf_counter() - began) * 1000


async def _cluster() -> Any:
    api: Any = ApiServer(SystemClock()).local()
    await api.create(kinds.NODE, {"metadata": {"name": NODE}})
    for namespace in ("tonnage-system", "ml"):
        await api.create(kinds.NAMESPACE, {"metadata": {"name": namespace}})
    return api


async def allocated_claim(api: Any, name: str, node: str, gpu: int, namespace: str = "ml") -> ClaimRef:
    """A claim for one GPU of the node, as the scheduler leaves it."""
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
    body = {"metadata": {"name": name}, "spec": spec}
    created = await api.create(kinds.RESOURCE_CLAIM, body, namespace=namespace)
    grant = {"request": "gpu", "driver": DRIVER, "pool": node, "device": f"gpu-{gpu}"}
    status = {"status": {"allocation": {"devices": {"results": [grant]}}}}
    await api.patch(kinds.RESOURCE_CLAIM, name, status, namespace=namespace, subresource="status")
    return ClaimRef(namespace, name, created.metadata.uid)


@asynccontextmanager
async def _agent(root: Path) -> AsyncIterator[Side]:
    api = await _cluster()
    config = {"version": "v1", "claims": {"devices": "all"}}
    body = {"metadata": {"name": "device-plugin-config"}, "data": {"default": json.dumps(config)}}
    await api.create(kinds.CONFIG_MAP, body, namespace="tonnage-system")
    _write_hardware(root)
    kubelet = ClaimKubelet(root)
    options = AgentOptions(NODE, f"scenario:{root / 'hardware.yaml'}", root, kubelet_socket="", claims=True)
    running = asyncio.create_task(run_agent(options, api=api, clock=SystemClock()))
    try:
        await kubelet.register()

        async def published() -> object:
            return (await api.list(kinds.RESOURCE_SLICE)).items

        await eventually(published)
        yield kubelet, api
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


class Floor:
    """The least that a driver can do and still outlive its end."""

    def __init__(self, root: Path, api: Any) -> None:
        self._root = root
        self._api = api
        self._noted: dict[str, list[str]] = {}

    async def prepare(self, claims: Sequence[ClaimRef]) -> dict[str, Any]:
        """Every claim's first device."""
        return {claim.uid: await self._prepared(claim) for claim in claims}

    async def _prepared(self, claim: ClaimRef) -> Any:
        obj = await self._api.get(kinds.RESOURCE_CLAIM, claim.name, claim.namespace)
        [grant] = obj.status["allocation"]["devices"]["results"]
        device = grant["device"]
        self._noted[claim.uid] = [device]
        await asyncio.to_thread(self._write, "note", self._noted)
        entry = {
            "name": f"{claim.uid}-{device}",
            "containerEdits": {"deviceNodes": [{"path": "/dev/nvidia0"}]},
        }
        await asyncio.to_thread(self._write, f"{claim.uid}.json", {"cdiVersion": "0.6.0", "devices": [entry]})
        prepared = PreparedClaim(claim, (PreparedDevice("gpu", NODE, device, device),))
        return prepared, [f"k8s.{DRIVER}/claim={entry['name']}"]

    async def unprepare(self, claims: Sequence[ClaimRef]) -> dict[str, str]:
        """Forget them."""
        for claim in claims:
            self._noted.pop(claim.uid, None)
            (self._root / f"{claim.uid}.json").unlink(missing_ok=True)
            await asyncio.to_thread(self._write, "note", self._noted)
        return {claim.uid: "" for claim in claims}

    async def health(self) -> AsyncIterator[tuple[HealthReport, ...]]:
        """Nobody asks."""
        yield ()

    def _write(self, name: str, content: object) -> None:
        fresh = self._root / f".{name}.new"
        with fresh.open("w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self._root / name)


@asynccontextmanager
async def _floor(root: Path) -> AsyncIterator[Side]:
    api = await _cluster()
    kubelet = ClaimKubelet(root)
    kubelet.endpoint.parent.mkdir(parents=True)
    sockets, floor = ClaimFolder(root, "/var/lib/kubelet"), Floor(root, api)
    await sockets.serve(floor, floor.health)
    try:
        yield kubelet, api
    finally:
        await sockets.close()
