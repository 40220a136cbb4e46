"""Agents of one node that are killed (SIGKILL) while kubelet asks about claims, again and again.

Each is a process of its own. Those that follow start while the API server is away.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final
from unittest.mock import patch

import grpc

from support.api_stores import new_store
from support.claim_kubelet import ClaimKubelet, eventually
from support.claim_node import NODE, ClaimNode, names, sharing
from support.crash.forked_agents import NEVER, Birth, Fuse, Nursery
from support.crash.node import Life
from support.crash.relay import Relay
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.model.devices.claims import ClaimRef
from tonnage.model.devices.inventory import TimeSlice
from tonnage.model.kubernetes.feature_gates import PARTITIONS, TAINTS, FeatureGates
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer, Endpoint
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.wire import kinds

_CONFIG: Final = "version: v1\nclaims: {devices: all, dynamicMig: true}\n"
_MODELS: Final = ("T4", "T4", "A100-40", "T4")
_SLICED: Final = "gpu-0"
_PARTS: Final = {"gpu-2-mig-3g20gb-9-4": ("3g.20gb", 4), "gpu-2-mig-1g5gb-19-0": ("1g.5gb", 0)}
_CLAIMED: Final = (_SLICED, "gpu-1", *_PARTS)
_ILL: Final = 3
"""The GPU that nobody claims, and whose health changes, so that slices are written meanwhile."""
_DEEDS: Final = tuple(
    f"{verb} {file}"
    for verb in ("create", "write", "rename")
    for file in ("claims", "allocations", "hardware.yaml.mig", "hardware.yaml.modes")
)
_WRITES: Final = ("POST resourceslices", "PUT resourceslices", "PATCH nodegpustatuses/status")
_LONGEST_S: Final = 0.08
_LATE_S: Final = 0.5
_HASTE: Final = 10.0


@dataclass(slots=True)
class Tally:
    """How agents ended, and what of kubelet's calls was cut off."""

    moments: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    cut_off: int = 0


class KilledClaims:
    """The node, its kubelet and its API server, which outlive agents."""

    def __init__(self, folder: Path, server: ApiServer, endpoint: Endpoint, seed: int) -> None:
        self.root = folder / "n"
        self.root.mkdir()
        self.node = ClaimNode(self.root, api=server.local())
        self.kubelet = ClaimKubelet(self.root)
        self.tally = Tally()
        self._folder = folder
        self._endpoint = endpoint
        self._relay = Relay(endpoint, self._written)
        self._nursery = Nursery(folder)
        self._life: Life | None = None
        self._write: tuple[str, bool] | None = None
        self._chance = Random(seed)
        self._claims = 0
        self._healthy = True
        self._held: dict[str, tuple[ClaimRef, Any]] = {}
        """By device, the claim and what was answered for it."""

    async def start(self) -> None:
        await self.node.begin(_CONFIG, self._hardware())
        await self._relay.open()
        config = json.loads(kubeconfig_text(self._endpoint))
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self._relay.port}"}
        file = self._folder / "kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(config))
        await self._nursery.start()
        await self._agent()
        await self.node.slices(lambda listing: len(names(listing)) == 28)

    async def stop(self) -> None:
        await self._kill()
        await self._nursery.stop()
        self._relay.close()

    async def trial(self) -> None:
        """One more agent is killed, and the next one started without an API server; all must be well."""
        moment = await self._armed()
        taken, given = await self._asked(moment)
        self._relay.close()
        await self._agent()
        for claim, answer in self._held.values():
            assert (await self.kubelet.prepare(claim))[claim.uid] == answer, f"{moment}: not as answered"
        for claim in given:
            assert await self.kubelet.unprepare(claim) == {claim.uid: ""}, f"{moment}: stuck"
        await self._relay.open()
        for device, claim in taken.items():
            self._held[device] = claim, await eventually(partial(self._prepared, claim))
        await self._check(moment)

    async def end(self) -> None:
        """Everything is given back, and nothing is left."""
        for claim, _ in self._held.values():
            assert await self.kubelet.unprepare(claim) == {claim.uid: ""}
        self._held.clear()
        await self._check("at the end")

    async def _armed(self) -> str:
        """A running agent that will die at a moment; which."""
        kind = self._chance.choice(("time", "file", "file", "api"))
        after = self._chance.random() < 0.5
        side = "after" if after else "before"
        self.tally.moments[kind] += 1
        if kind == "api":
            self._write = self._chance.choice(_WRITES), after
            return f"{side} {self._write[0]}"
        if kind == "file":
            fuse = Fuse(self._chance.choice(_DEEDS), self._chance.randint(1, 3), after)
            await self._agent(fuse)
            return str(fuse)
        return f"after {self._chance.uniform(0, _LONGEST_S):.4f} s"

    async def _asked(self, moment: str) -> tuple[dict[str, ClaimRef], list[ClaimRef]]:
        """(claims by device still to be prepared, claims still to be given back) once the agent is dead."""
        taken, given = dict[str, ClaimRef](), list[ClaimRef]()
        for device in self._chance.sample(_CLAIMED, self._chance.randint(2, len(_CLAIMED))):
            if device in self._held:
                claim, _ = self._held.pop(device)
                given.append(claim)
                if self._chance.random() < 0.5:
                    await self.node.api.delete(kinds.RESOURCE_CLAIM, claim.name, namespace="ml")
            else:
                taken[device] = await self._allocated(device)
        self._healthy = not self._healthy
        fresh = self.root / ".hardware"
        fresh.write_text(self._hardware())
        fresh.replace(self.root / "hardware.yaml")
        asking = {claim: asyncio.ensure_future(self._prepared(claim)) for claim in taken.values()}
        giving = {claim: asyncio.ensure_future(self._given_back(claim)) for claim in given}
        words = moment.split()
        await asyncio.sleep(float(words[1]) if words[-1] == "s" else _LATE_S)
        await self._kill()
        answers = await asyncio.gather(*asking.values())
        over = await asyncio.gather(*giving.values())
        self.tally.answered += sum(map(bool, (*answers, *over)))
        self.tally.cut_off += sum(not answer for answer in (*answers, *over))
        for (device, claim), answer in zip(list(taken.items()), answers, strict=True):
            if answer:
                self._held[device] = claim, answer
                del taken[device]
        return taken, [claim for claim, is_over in zip(given, over, strict=True) if not is_over]

    async def _prepared(self, claim: ClaimRef) -> Any:
        """What is answered; None: nothing was, or a refusal."""
        try:
            answer = (await self.kubelet.prepare(claim))[claim.uid]
        except grpc.aio.AioRpcError:
            return None
        return None if answer.error else answer

    async def _given_back(self, claim: ClaimRef) -> bool:
        try:
            return await self.kubelet.unprepare(claim) == {claim.uid: ""}
        except grpc.aio.AioRpcError:
            return False

    async def _check(self, moment: str) -> None:
        """Nothing is double, lost or half made."""
        backend = ScenarioBackend(self.root / "hardware.yaml", SystemClock())
        [gpu] = [each for each in await backend.divided() if each.uuid == "GPU-2"]
        instances = sorted((each.profile, each.start) for each in gpu.instances)
        assert instances == sorted(_PARTS[device] for device in self._held if device in _PARTS), moment
        assert all(each.computes for each in gpu.instances), f"{moment}: half an instance"
        interval = backend.settings().slices.get("GPU-0", TimeSlice.DEFAULT)
        assert interval == (TimeSlice.LONG if _SLICED in self._held else TimeSlice.DEFAULT), moment
        specs = {file.stem.rpartition("_")[2] for file in (self.root / "var/run/cdi").glob("*claim_*.json")}
        assert specs == {claim.uid for claim, _ in self._held.values()}, moment
        for device in sorted(self._held):
            intruder = await self._allocated(device)
            refusal = (await self.kubelet.prepare(intruder))[intruder.uid].error
            assert f"is held as claim {self._held[device][0]}" in refusal, moment
        await self.node.slices(self._is_published)

    def _is_published(self, listing: list[Any]) -> bool:
        """One whole pool with every device once, of which the ill one is tainted."""
        generations = {obj.spec["pool"]["generation"] for obj in listing}
        whole = {obj.spec["pool"]["resourceSliceCount"] for obj in listing} == {len(listing)}
        devices = [device for obj in listing for device in obj.spec.get("devices") or ()]
        tainted = [device["name"] for device in devices if device.get("taints")]
        unique = len({device["name"] for device in devices}) == len(devices) == 28
        ill = [] if self._healthy else [f"gpu-{_ILL}"]
        return len(generations) == 1 and whole and unique and (tainted == ill or self._healthy)

    async def _allocated(self, device: str) -> ClaimRef:
        self._claims += 1
        sliced = sharing(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"})
        return await self.node.claim(f"c-{self._claims}", device, config=sliced if device == _SLICED else [])

    async def _agent(self, fuse: Fuse = NEVER) -> None:
        """Another agent instead of the one that runs, once kubelet knows it."""
        await self._kill()
        words = (
            *("node", "--node-name", NODE, "--root", str(self.root), "--claims", "--kubelet-socket", ""),
            *("--devices", f"scenario:{self.root / 'hardware.yaml'}"),
            *("--kubeconfig", str(self._folder / "kubeconfig")),
        )
        self._write = None
        birth = Birth(
            *(words, str(self.root), str(self._folder / "trace"), str(self._folder / "log"), _HASTE, fuse)
        )
        self._life = Life(await self._nursery.bear(birth))

        async def known() -> bool:
            assert self._life is not None
            if self._life.over and fuse is not NEVER:
                return True
            assert not self._life.over, (self._folder / "log").read_text()[-2000:]
            try:
                await self.kubelet.register()
            except grpc.aio.AioRpcError:  # the socket is that of the agent before
                return False
            return True

        await eventually(known)

    async def _kill(self) -> None:
        life, self._life = self._life, None
        if life is not None:
            life.kill()
            await life.ends()

    def _written(self, what: str, after: bool) -> None:
        """The agent writes to the API server. Raises ConnectionAbortedError: it is dead."""
        if (what, after) == self._write and self._life is not None:
            self._life.kill()
            raise ConnectionAbortedError

    def _hardware(self) -> str:
        devices: list[dict[str, Any]] = [
            {"uuid": f"GPU-{number}", "model": model} for number, model in enumerate(_MODELS)
        ]
        devices[2]["mig"] = []
        if not self._healthy:
            devices[_ILL] |= {"health": "unhealthy", "reason": "smoke"}
        return json.dumps({"devices": devices})


@asynccontextmanager
async def killed_claims(seed: int) -> AsyncIterator[KilledClaims]:
    """A node whose agent runs, and nothing of it left afterwards."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir=memory))
    gates = FeatureGates(35, ((PARTITIONS, True), (TAINTS, True)))
    server = ApiServer(SystemClock(), gates=gates, store=new_store())
    with patch("tonnage.twin.apiserver.serving.connections.listener.server_context", return_value=None):
        endpoint = await server.start(Authority.generate(datetime.now(UTC)))
    node = KilledClaims(folder, server, endpoint, seed)
    try:
        await node.start()
        yield node
    finally:
        await node.stop()
        await server.stop()
        shutil.rmtree(folder)
