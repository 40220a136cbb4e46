"""Agents of one node that are killed (SIGKILL) while kubelet asks about claims, again and again.

Each is a process of its own. Those that follow start while the API server is away, or have waited beside the
one before, as in a rolling update: then kubelet asks either of the two.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
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
from support.claim_reports import reported
from support.crash.forked_agents import NEVER, Birth, Fuse, Nursery
from support.crash.node import Life
from support.crash.relay import Relay
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.decide.node.claims.sharing import daemon_name
from tonnage.model.devices.claims import ClaimRef
from tonnage.model.devices.inventory import ComputeMode, TimeSlice
from tonnage.model.kubernetes.feature_gates import PARTITIONS, TAINTS, FeatureGates
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer, Endpoint
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.mps_control import MpsProgram
from tonnage.wire import kinds

_CONFIG: Final = (
    "version: v1\nflags: {{mpsRoot: /run/nvidia/mps}}\nclaims: {{devices: {}, dynamicMig: true}}\n"
)
_MODELS: Final = ("T4", "T4", "A100-40", "T4", "T4")
_SLICED: Final = "gpu-0"
_BY_MPS: Final = "gpu-1"
_PARTS: Final = {"gpu-2-mig-3g20gb-9-4": ("3g.20gb", 4), "gpu-2-mig-1g5gb-19-0": ("1g.5gb", 0)}
_SWITCHED: Final = "gpu-4"
"""The GPU that the configuration offers as a claim, or as an extended resource."""
_CLAIMED: Final = (_SLICED, _BY_MPS, *_PARTS, _SWITCHED)
_ILL: Final = 3
"""The GPU that nobody claims, and whose health changes, so that slices are written meanwhile."""
_MOST: Final = 29
"""Devices that are published while all GPUs are offered as claims."""
_FILES: Final = (
    *("claims", "allocations", "allocations.added", "mps", "device-plugin-config"),
    *("hardware.yaml.mig", "hardware.yaml.modes"),
)
_DEEDS: Final = tuple(f"{verb} {file}" for verb in ("create", "write", "rename") for file in _FILES)
_SHARING: Final = {
    _SLICED: sharing(strategy="TimeSlicing", timeSlicingConfig={"interval": "Long"}),
    _BY_MPS: sharing(strategy="MPS"),
}
_WRITES: Final = ("POST resourceslices", "PUT resourceslices", "PATCH nodegpustatuses/status")
_LONGEST_S: Final = 0.3
_LATE_S: Final = 0.5
_HASTE: Final = 10.0


@dataclass(slots=True)
class Tally:
    """How agents ended, and what of kubelet's calls was cut off."""

    moments: Counter[str] = field(default_factory=Counter)
    answered: int = 0
    cut_off: int = 0


class KilledClaims:
    """The node, its kubelet and API server, which outlive agents. `in_pairs`: the next one waits beside."""

    def __init__(
        self, folder: Path, server: ApiServer, endpoint: Endpoint, seed: int, *, in_pairs: bool = False
    ) -> None:
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
        self._next: tuple[Life, ClaimKubelet] | None = None
        """The agent that waits, and kubelet as it asks it."""
        self._in_pairs = in_pairs
        self._births = 0
        self._write: tuple[str, bool] | None = None
        self._chance = Random(seed)
        self._claims = 0
        self._healthy = True
        self._offered = True
        self._held: dict[str, tuple[ClaimRef, Any]] = {}
        """By device, the claim and what was answered for it."""

    async def start(self) -> None:
        MpsProgram(self.root).install()
        await self.node.begin(_CONFIG.format("all"), self._hardware())
        await self._relay.open()
        config = json.loads(kubeconfig_text(self._endpoint))
        config["clusters"][0]["cluster"] = {"server": f"http://127.0.0.1:{self._relay.port}"}
        file = self._folder / "kubeconfig"
        file.touch(mode=0o600)
        file.write_text(json.dumps(config))
        await self._nursery.start()
        await self._agent()
        await self.node.slices(lambda listing: len(names(listing)) == _MOST)

    async def stop(self) -> None:
        await self._kill(both=True)
        await self._nursery.stop()
        self._relay.close()

    async def trial(self) -> None:
        """One more agent is killed, and the next one started without an API server; all must be well."""
        moment = await self._armed()
        if self._in_pairs:
            self._next = await self._born()
        taken, given = await self._asked(moment)
        self._relay.close()
        await self._agent()
        for device, (claim, answer) in self._held.items():
            again = await eventually(partial(self._prepared, claim))
            assert again == answer, f"{moment}: {device} not as answered"
        for claim in given:
            assert await eventually(partial(self._given_back, claim)), f"{moment}: stuck"
        await self._relay.open()
        for device, claim in taken.items():
            self._held[device] = claim, await eventually(partial(self._prepared, claim))
        await self._check(moment)

    async def end(self) -> None:
        """Everything is given back, and nothing is left."""
        for claim, _ in self._held.values():
            assert await eventually(partial(self._given_back, claim))
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
        self._offered = self._chance.random() < 0.5
        candidates = [device for device in _CLAIMED if device in self._held or self._is_offered(device)]
        for device in self._chance.sample(candidates, self._chance.randint(2, len(candidates))):
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
        await self.node.configure(_CONFIG.format("all" if self._offered else "[0, 1, 2, 3]"))
        listening = asyncio.ensure_future(self._listen())
        asking = {claim: asyncio.ensure_future(self._prepared(claim)) for claim in taken.values()}
        giving = {claim: asyncio.ensure_future(self._given_back(claim)) for claim in given}
        words = moment.split()
        await asyncio.sleep(float(words[1]) if words[-1] == "s" else _LATE_S)
        await self._kill(both=self._chance.random() < 0.3)
        await listening
        answers = await asyncio.gather(*asking.values())
        over = await asyncio.gather(*giving.values())
        self.tally.answered += sum(map(bool, (*answers, *over)))
        self.tally.cut_off += sum(not answer for answer in (*answers, *over))
        for (device, claim), answer in zip(list(taken.items()), answers, strict=True):
            if answer:
                self._held[device] = claim, answer
                del taken[device]
        return taken, [claim for claim, is_over in zip(given, over, strict=True) if not is_over]

    def _asks(self) -> ClaimKubelet:
        """kubelet asks either agent, where there are two."""
        return self.kubelet if self._next is None else self._chance.choice((self.kubelet, self._next[1]))

    def _is_offered(self, device: str) -> bool:
        return self._offered or device != _SWITCHED

    async def _listen(self) -> None:
        """Hear of the health of devices until the agent ends."""
        with suppress(grpc.aio.AioRpcError, StopAsyncIteration):
            async with self._asks().health("v1.DRAResourceHealth") as reports:
                while self._life is not None:
                    await anext(reports)

    async def _prepared(self, claim: ClaimRef) -> Any:
        """What is answered; None: nothing was, or a refusal."""
        try:
            answer = (await self._asks().prepare(claim))[claim.uid]
        except grpc.aio.AioRpcError:
            return None
        return None if answer.error else answer

    async def _given_back(self, claim: ClaimRef) -> bool:
        try:
            return await self._asks().unprepare(claim) == {claim.uid: ""}
        except grpc.aio.AioRpcError:
            return False

    async def _check(self, moment: str) -> None:
        """Nothing is double, lost or half made."""
        backend = ScenarioBackend(self.root / "hardware.yaml", SystemClock())
        [gpu] = [each for each in await backend.divided() if each.uuid == "GPU-2"]
        instances = sorted((each.profile, each.start) for each in gpu.instances)
        assert instances == sorted(_PARTS[device] for device in self._held if device in _PARTS), moment
        assert all(each.computes for each in gpu.instances), f"{moment}: half an instance"
        modes, slices = backend.settings()
        daemons = {file.name for file in (self.root / "run/nvidia/mps/claim").glob("*")}
        claim = self._held[_BY_MPS][0] if _BY_MPS in self._held else None
        assert daemons == ({daemon_name(claim.uid, 0).split("/")[1]} if claim else set()), moment
        mode = ComputeMode.EXCLUSIVE_PROCESS if claim else ComputeMode.DEFAULT
        assert modes.get("GPU-1", ComputeMode.DEFAULT) is mode, moment
        interval = slices.get("GPU-0", TimeSlice.DEFAULT)
        assert interval == (TimeSlice.LONG if _SLICED in self._held else TimeSlice.DEFAULT), moment
        specs = {file.stem.rpartition("_")[2] for file in (self.root / "var/run/cdi").glob("*claim_*.json")}
        assert specs == {claim.uid for claim, _ in self._held.values()}, moment
        for device in sorted(self._held):
            intruder = await self._allocated(device)
            refusal = (await self.kubelet.prepare(intruder))[intruder.uid].error
            why = f"is held as claim {self._held[device][0]}" if self._is_offered(device) else "not offered"
            assert why in refusal, moment
        await self.node.slices(self._is_published)
        await reported(self.node, self._is_reported)
        async with self.kubelet.health("v1.DRAResourceHealth") as reports:
            while not self._is_told(await anext(reports)):
                pass

    def _is_reported(self, status: Any) -> bool:
        """The GPU that is switched is never both an extended resource and a claim."""
        [resource] = [each["resource"] for each in status["devices"] if each["uuid"] == "GPU-4"]
        return bool(resource) is not self._offered

    def _is_told(self, report: dict[str, str]) -> bool:
        """All devices that are offered or held, of which one may be ill: what flaps is well again later."""
        ill = [name for name, health in report.items() if health != "HEALTHY"]
        held = self._offered or _SWITCHED in self._held
        return len(report) == _MOST - (not held) and (ill == [f"{NODE}/gpu-{_ILL}"] or self._healthy)

    def _is_published(self, listing: list[Any]) -> bool:
        """One whole pool with every device once, of which the ill one is tainted."""
        generations = {obj.spec["pool"]["generation"] for obj in listing}
        whole = {obj.spec["pool"]["resourceSliceCount"] for obj in listing} == {len(listing)}
        devices = [device for obj in listing for device in obj.spec.get("devices") or ()]
        tainted = [device["name"] for device in devices if device.get("taints")]
        unique = len({device["name"] for device in devices}) == len(devices) == _MOST - (not self._offered)
        ill = [] if self._healthy else [f"gpu-{_ILL}"]
        return len(generations) == 1 and whole and unique and (tainted == ill or self._healthy)

    async def _allocated(self, device: str) -> ClaimRef:
        self._claims += 1
        return await self.node.claim(f"c-{self._claims}", device, config=_SHARING.get(device, []))

    async def _agent(self, fuse: Fuse = NEVER) -> None:
        """Another agent instead of the one that runs, if it does: the one that waits, else a new one."""
        await self._kill()
        self._write = None
        self._life, self.kubelet = self._next or await self._born(fuse)
        self._next = None
        await self._known(self._life, self.kubelet, fuse)

    async def _born(self, fuse: Fuse = NEVER) -> tuple[Life, ClaimKubelet]:
        """Another agent, and kubelet as it asks it, which knows it."""
        self._births += 1
        pod = f"p{self._births}" if self._in_pairs else ""
        words = (
            *("node", "--node-name", NODE, "--root", str(self.root), "--claims", "--kubelet-socket", ""),
            *("--devices", f"scenario:{self.root / 'hardware.yaml'}", "--pod-uid", pod),
            *("--kubeconfig", str(self._folder / "kubeconfig")),
        )
        birth = Birth(
            *(words, str(self.root), str(self._folder / "trace"), str(self._folder / "log"), _HASTE, fuse)
        )
        life, kubelet = Life(await self._nursery.bear(birth)), ClaimKubelet(self.root, pod)
        await self._known(life, kubelet, fuse)
        return life, kubelet

    async def _known(self, life: Life, kubelet: ClaimKubelet, fuse: Fuse) -> None:
        """Register the agent with kubelet, unless the fuse ends it before."""

        async def known() -> bool:
            if life.over and fuse is not NEVER:
                return True
            assert not life.over, (self._folder / "log").read_text()[-2000:]
            if not kubelet.socket.exists():
                return False
            try:
                await kubelet.register()
            except grpc.aio.AioRpcError:  # the socket is that of the agent before
                return False
            return True

        await eventually(known)

    async def _kill(self, *, both: bool = False) -> None:
        """End the agent that runs, and with `both` the one that waits before it."""
        if both and self._next is not None:
            self._next[0].kill()
            await self._next[0].ends()
            self._next = None
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
async def killed_claims(seed: int, *, in_pairs: bool = False) -> AsyncIterator[KilledClaims]:
    """A node whose agent runs, and nothing of it left afterwards."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp"
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir=memory))
    gates = FeatureGates(35, ((PARTITIONS, True), (TAINTS, True)))
    server = ApiServer(SystemClock(), gates=gates, store=new_store())
    with patch("tonnage.twin.apiserver.serving.connections.listener.server_context", return_value=None):
        endpoint = await server.start(Authority.generate(datetime.now(UTC)))
    node = KilledClaims(folder, server, endpoint, seed, in_pairs=in_pairs)
    try:
        await node.start()
        yield node
    finally:
        await node.stop()
        await server.stop()
        shutil.rmtree(folder)
