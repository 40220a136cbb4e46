"""A node whose agent is killed again and again: its hardware, files, kubelet and API server outlive it."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import msgspec

from support.crash.forked_agents import NEVER, Birth, Fuse, Nursery
from support.crash.hardware import Gpu, read_gpus
from support.crash.host import CLIENTS, Host, hooks_text
from support.crash.node_objects import device_of, gpu_pod, named_object, write_capabilities
from support.crash.relay import Relay
from support.crash.transitions import FIRST, Transition
from support.driver_root import Driver
from support.kubelet_side import Kubelet
from support.nvml.nvidia_smi import install as install_smi
from support.nvml.state import DriverState
from tonnage.adapters.certificates import Authority
from tonnage.adapters.checkpoints import payload_of
from tonnage.adapters.clock import SystemClock
from tonnage.decide.node.mig.pause import ANNOTATION
from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.model.json import JsonObject
from tonnage.model.names import MIG_CONFIG_LABEL, MIG_REASON_ANNOTATION, MIG_STATE_LABEL
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer, Endpoint
from tonnage.wire.kinds import CONFIG_MAP, CUSTOM_RESOURCE, NAMESPACE, NODE, NODE_GPU_STATUS, POD
from tonnage.wire.kubelet import podresources_v1_pb2 as pr

PATIENCE_S: Final = 240.0
HASTE: Final = 10.0
API: Final = "api "
"""Before the names of deeds that are writes to the API server."""
_MEMORY: Final = Path("/dev/shm")
"""Where a machine has it nothing waits for a disk: what a killed process wrote is there either way."""
_LOOK_S: Final = 0.03
_CONFIG: Final = (
    '{"version": "v1", "flags": {"migStrategy": "mixed", "plugin": {"deviceListStrategy": ["cdi-cri"]}}}'
)
_MAP: Final = "mig-parted-config"
_NAMESPACE: Final = "tonnage-system"
_SPEC: Final = "var/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
_PAUSING: Final = ("--mig-cordon", "--mig-pause-operands")
_OPERAND: Final = "nvidia.com/gpu.deploy.dcgm"
"""A label of the Node; while it is `true`, a pod of that operand is there."""
_NOT_BACK: Final = "; the previous layout is not restored: "
"""What an agent says of a change that the driver has refused both ways."""
_KEPT: Final = ("device-plugin-config",)
"""What an earlier agent on the node has left."""


class Life:
    """A running agent."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle = os.pidfd_open(pid)
        self._over = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._handle, self._over.set)

    @property
    def over(self) -> bool:
        return self._over.is_set()

    async def ends(self) -> None:
        await self._over.wait()
        asyncio.get_running_loop().remove_reader(self._handle)
        os.close(self._handle)

    def kill(self) -> None:
        if not self.over:
            with suppress(ProcessLookupError):  # it has ended, and nobody has told us yet
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)


class CrashNode:
    """What outlives agents, and the one that lives; one change after another is tried on it."""

    def __init__(self, root: Path, server: ApiServer, endpoint: Endpoint) -> None:
        self.root = root
        self.driver = Driver(root, DriverState())
        install_smi(root)
        self.kubelet = Kubelet(root)
        self.relay = Relay(endpoint, self._written)
        self.nursery = Nursery(root.parent)
        self.life: Life | None = None
        self.change: Transition | None = None
        self._api = server.local()
        self._endpoint = endpoint
        self._host: Host | None = None
        self.lives = 0
        """Agents of this change."""
        self.healed = False
        """Whether the driver refuses nothing any more."""
        self._fuse = NEVER
        self._writes: Counter[tuple[str, bool]] = Counter()
        self._offers: dict[str, dict[str, str]] = {}
        self._holds: dict[str, tuple[str, str]] = {}
        """Resource and device of each pod."""
        self._log = root.parent / "agent.log"
        self.trace_file = root.parent / "trace"

    async def start(self) -> None:
        write_capabilities(self.root)
        (self.root / "config.yaml").write_text(_CONFIG)
        await self.relay.open()
        config = json.loads(kubeconfig_text(self._endpoint))
        config["clusters"][0]["cluster"] = {
            "server": f"http://127.0.0.1:{self.relay.port}",
            "insecure-skip-tls-verify": True,  # or each life would load all authorities of the world
        }
        (self.root / "kubeconfig").touch(mode=0o600)
        (self.root / "kubeconfig").write_text(json.dumps(config))
        await self.kubelet.start()
        await self.nursery.start()
        for namespace in (_NAMESPACE, "ml"):
            await self._api.create(NAMESPACE, named_object(namespace))
        await self._api.create(CUSTOM_RESOURCE, node_gpu_status_crd())
        await self._api.create(CONFIG_MAP, named_object(_MAP), namespace=_NAMESPACE)

    async def stop(self) -> None:
        await self.end_agent()
        await self.nursery.stop()
        self.relay.close()
        await self.kubelet.stop()

    # ---- an agent's life ----

    async def start_agent(self, fuse: Fuse = NEVER, *, loaded: bool = True) -> Life:
        """One that ends at `fuse`; without `loaded` an interpreter of its own loads all modules."""
        change = self.change
        assert change is not None
        self.lives += 1
        self._fuse = fuse
        self._writes.clear()
        self.trace_file.write_text("")
        words = (
            *("node", "--node-name", "n", "--root", str(self.root), "--devices", "nvml"),
            *("--driver-root-ctr-path", str(self.root), "--config", f"{self.root}/config.yaml"),
            *("--kubeconfig", f"{self.root}/kubeconfig", "--mig-config-map", f"{_NAMESPACE}/{_MAP}"),
            *("--labels", "direct"),
            *(("--mig-evict",) if change.evict or change.pauses else ()),
            *(_PAUSING if change.pauses else ()),
            *(("--mig-host-root", str(self.host().root)) if change.host else ()),
        )
        own = NEVER if fuse.deed.startswith(API) else fuse
        birth = Birth(words, str(self.root), str(self.trace_file), str(self._log), HASTE, own, loaded)
        self.life = Life(await self.nursery.bear(birth))
        return self.life

    async def end_agent(self) -> None:
        """Without a warning."""
        life, self.life = self.life, None
        if life is not None:
            life.kill()
            await life.ends()

    def _written(self, what: str, after: bool) -> None:
        """The agent writes to the API server. Raises ConnectionAbortedError: it is dead."""
        deed = API + what
        self._writes[deed, after] += 1
        with self.trace_file.open("a") as trace:
            hit = deed == self._fuse.deed and after == self._fuse.after
            fatal = hit and self._writes[deed, after] == self._fuse.number
            if not after or fatal:
                trace.write(f"{'!' if fatal else ''}{deed}\n")
        if fatal and self.life is not None:
            self.life.kill()
            raise ConnectionAbortedError

    def log(self) -> str:
        """What agents said lately."""
        return self._said()[-3000:]

    def refused_back(self) -> bool:
        """Whether the driver still refused when an agent of this change went back: `react` was too late."""
        return _NOT_BACK in self._said()

    def _said(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    # ---- the scene ----

    async def set_scene(self, change: Transition) -> None:
        """A node that has that layout and shall have the other; the agent that comes finds it so."""
        await self.end_agent()
        self.change, self.healed, self.lives = change, False, 0
        self.driver.file.with_name(f"{self.driver.file.name}.mig").unlink(missing_ok=True)
        self.driver.become(DriverState(change.gpus, rules=change.rules, links=change.links))
        state = self.root / "var/lib/tonnage"
        for file in state.glob("*") if state.exists() else ():
            if file.name not in _KEPT:
                file.unlink()
        for file in state.glob(".*") if state.exists() else ():
            file.unlink()
        shutil.rmtree(self.root / "var/run/cdi", ignore_errors=True)
        self._log.unlink(missing_ok=True)
        if change.host:
            self.host().reset()
        for listing in self.kubelet.lists.values():
            while not listing.empty():
                listing.get_nowait()
        self._offers.clear()
        await self._set_objects(change)

    async def _set_objects(self, change: Transition) -> None:
        for pod in (await self._api.list(POD)).items:
            await self._api.delete(POD, pod.metadata.name, namespace=pod.metadata.namespace, grace_period_s=0)
        for kind in (NODE, NODE_GPU_STATUS):
            for each in (await self._api.list(kind)).items:
                await self._api.delete(kind, each.metadata.name)
        hooks = hooks_text(fails=change.picky) if change.host else None
        clients = CLIENTS if change.host else None
        files: JsonObject = {"config.yaml": change.text(), "hooks.yaml": hooks, "clients.yaml": clients}
        data: JsonObject = {"data": files}
        await self._api.patch(CONFIG_MAP, _MAP, data, namespace=_NAMESPACE)
        label = FIRST if change.first else change.config
        await self._api.create(NODE, named_object("n", labels={MIG_CONFIG_LABEL: label, _OPERAND: "true"}))
        gpus = self.gpus()
        self._holds = {}
        for number, place in enumerate((*change.stays, *change.leaves)):
            resource, device = device_of(gpus[place[0]], place)
            name = f"{'stays' if place in change.stays else 'leaves'}-{number}"
            self._holds[name] = resource, device
            await self._api.create(POD, gpu_pod(name, resource), namespace="ml")
        self._show_pods()

    def _show_pods(self) -> None:
        self.kubelet.pods = pr.ListPodResourcesResponse()
        for name, (resource, device) in self._holds.items():
            self.kubelet.show_pod(name, resource, device)

    async def react(self) -> None:
        """Do what a cluster does meanwhile: pods end, and somebody wishes for something else."""
        assert self.change is not None
        if self.change.leaves:
            await self._end_pods(evicted=self.change.evict)
        if self.change.pauses:
            await self._deploy()
        if self.change.rules and self.change.back and not self.healed:
            why = (json.loads(self.journal()) or {}).get("why", "")
            if bool(self.driver.state.rules) == bool(why):  # it does not refuse what was before
                self.driver.rule(*(() if why else self.change.rules))
        if self.change.first or self.change.withdrawn:
            await self._ask_otherwise(None if self.change.withdrawn else self.change.config)

    async def _ask_otherwise(self, config: str | None) -> None:
        """Once the layout that is asked for is being made."""
        node = await self._api.get(NODE, "n")
        begun = "being created" in node.metadata.annotations.get(MIG_REASON_ANNOTATION, "")
        if begun and node.metadata.labels.get(MIG_CONFIG_LABEL, config) != config:
            await self._api.patch(NODE, "n", {"metadata": {"labels": {MIG_CONFIG_LABEL: config}}})

    async def _end_pods(self, *, evicted: bool) -> None:
        """Those that are evicted; or else those that the node names."""
        reason = (await self.said())[1]
        for pod in (await self._api.list(POD, namespace="ml")).items:
            name = pod.metadata.name
            named = name.startswith("leaves") and f"ml/{name}" in reason
            if pod.metadata.deletion_timestamp or (named and not evicted):
                await self._api.delete(POD, name, namespace="ml", grace_period_s=0)
                self._holds.pop(name, None)
                self._show_pods()

    async def _deploy(self) -> None:
        """Have the operand's pod there, or not, as its DaemonSet does."""
        wanted = (await self._api.get(NODE, "n")).metadata.labels.get(_OPERAND) == "true"
        pods = [pod.metadata.name for pod in (await self._api.list(POD, namespace=_NAMESPACE)).items]
        if wanted and not pods:
            pod = gpu_pod("operand", "")
            pod["spec"]["nodeSelector"] = {_OPERAND: "true"}
            await self._api.create(POD, pod, namespace=_NAMESPACE)
        for name in pods if not wanted else ():
            await self._api.delete(POD, name, namespace=_NAMESPACE, grace_period_s=0)

    def heal(self) -> None:
        """The driver refuses nothing any more."""
        self.healed = True
        self.driver.become(replace(self.driver.state, rules=(), links=()))
        if self._host is not None:
            self._host.heal()

    def host(self) -> Host:
        """The node's host; it takes root."""
        if self._host is None:
            self._host = Host(self.root.parent / "host")
        return self._host

    # ---- what is seen ----

    def gpus(self) -> dict[int, Gpu]:
        return read_gpus(self.driver.file)

    def journal(self) -> bytes:
        """The change that is under way, as it is on disk; `null` for none."""
        file = self.root / "var/lib/tonnage/mig"
        return (payload_of(file.read_bytes()) or b"damaged") if file.exists() else b"null"

    async def said(self) -> tuple[str, str]:
        """State and reason on the Node."""
        meta = (await self._api.get(NODE, "n")).metadata
        return meta.labels.get(MIG_STATE_LABEL, ""), meta.annotations.get(MIG_REASON_ANNOTATION, "")

    async def paused(self) -> str:
        """What of the Node is still paused."""
        node = await self._api.get(NODE, "n")
        operand = node.metadata.labels.get(_OPERAND)
        if node.spec.unschedulable or operand != "true" or ANNOTATION in node.metadata.annotations:
            return f"paused: {node.spec.unschedulable} {operand} {node.metadata.annotations}"
        return ""

    async def label(self) -> str:
        """Empty: there is none."""
        return (await self._api.get(NODE, "n")).metadata.labels.get(MIG_CONFIG_LABEL, "")

    def offered(self) -> dict[str, str]:
        """The resource of every device that kubelet may give."""
        for resource, queue in self.kubelet.lists.items():
            while not queue.empty():
                self._offers[resource] = queue.get_nowait() or {}
        return {
            device: resource
            for resource, devices in self._offers.items()
            for device, health in devices.items()
            if health == "Healthy"
        }

    def named(self) -> set[str]:
        """The uuids that the CDI spec has."""
        devices: Any = []
        with suppress(FileNotFoundError):
            devices = msgspec.json.decode((self.root / _SPEC).read_bytes())["devices"]
        return {one["name"] for one in devices if one["name"].startswith(("GPU-", "MIG-"))}

    async def until(self, wrong: Callable[[], Any]) -> str:
        """Empty once nothing is wrong; what still is after a while, or when the agent ends."""
        what, loop = "", asyncio.get_running_loop()
        end = loop.time() + PATIENCE_S
        while loop.time() < end:
            await self.react()
            if not (what := await wrong()):
                return ""
            if self.life is None or self.life.over:
                return f"{what}; and the agent has ended"
            await asyncio.sleep(_LOOK_S)
        return str(what)


@asynccontextmanager
async def crash_node() -> AsyncIterator[CrashNode]:
    """A node, and nothing of it left afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else "/tmp"))
    server = ApiServer(SystemClock())
    with patch("tonnage.twin.apiserver.serving.connections.listener.server_context", return_value=None):
        # Without TLS: of each agent's life its handshakes were half of what the server did.
        endpoint = await server.start(Authority.generate(datetime.now(UTC)))
    node = CrashNode(folder / "n", server, endpoint)
    try:
        await node.start()
        yield node
    finally:
        await node.stop()
        await server.stop()
        shutil.rmtree(folder)
