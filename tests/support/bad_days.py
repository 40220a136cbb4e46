"""Faults of a genuine node and its control plane; each function returns how long recovery took.

The time runs from the moment at which what was broken is whole again (the process is started, the link
stands) until kubelet offers every device and the Node object says so.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from support.accounts import Slot, accounts_of, disagreements, ledger_rows, offered, visible_devices
from support.agent_process import USER, AgentProcess
from support.api_faults import (
    Relay,
    compact_etcd,
    end_api_server,
    newest_version,
    start_api_server,
    starved,
)
from support.faketime import JumpingClock
from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.load import GPU, NAMESPACE, SHARED, Load, Watchman

RECOVERY: Final = "recovery"
"""Of a test: the property that says, as JSON, how long it took."""
DEVICES: Final = tuple(f"GPU-{number}" for number in range(5))
"""The first is shared."""
REPLICAS: Final = 3
CONFIG: Final = f"""\
version: v1
sharing:
  timeSlicing:
    renameByDefault: true
    failRequestsGreaterThanOne: true
    resources: [{{name: {GPU}, replicas: {REPLICAS}, devices: [0]}}]
"""
OFFERED: Final[frozenset[Slot]] = frozenset(
    {(GPU, uuid) for uuid in DEVICES[1:]}
    | {(SHARED, f"{DEVICES[0]}::{number}") for number in range(REPLICAS)}
)
_KUBECONFIG: Final = "/etc/kubernetes/kubeconfig"
_PLUGINS: Final = "/var/lib/kubelet/device-plugins"
_DAY_S: Final = 86_400
_HOUR_S: Final = 3_600


class Scene:
    """A node under load whose agent and kubelet reach the API server through `relay`."""

    def __init__(
        self, cluster: GenuineCluster, relay: Relay, agent: AgentProcess, load: Load, watch: Watchman
    ) -> None:
        self.cluster = cluster
        self.relay = relay
        self.agent = agent
        self.load = load
        self.watch = watch
        self.forgotten: frozenset[str] = frozenset()
        """Pods whose devices kubelet has forgotten."""

    def readvertised_s(self, since: float) -> float:
        """Seconds of the monotonic clock since then, once every device is offered again."""
        until(lambda: offered(self.cluster) == OFFERED)
        until(lambda: self._allocatable() == {GPU: len(DEVICES) - 1, SHARED: REPLICAS})
        return time.monotonic() - since

    def _allocatable(self) -> dict[str, int]:
        return {name: self.cluster.allocatable(name) for name in (GPU, SHARED)}

    def goes_on_s(self, pods: int = 4) -> float:
        """Seconds until so many more pods of the load run."""
        start, enough = time.monotonic(), self.load.started + pods
        # After a minute without an API server its clients wait up to another one before they ask again.
        until(lambda: self.load.started >= enough)
        return time.monotonic() - start

    def restarts(self, *, running: bool = False) -> dict[str, int]:
        """How often containers of each living pod were started again, by the pod's uid.

        With `running` only of pods whose containers all run. A container that is being made when kubelet ends
        is made once more by the next kubelet, which counts that as a restart.
        """
        pods = self.cluster.get("pods", "-n", NAMESPACE).get("items", [])
        return {
            pod["metadata"]["uid"]: sum(one["restartCount"] for one in statuses)
            for pod in pods
            if (statuses := pod["status"].get("containerStatuses"))
            and not (running and any("running" not in one["state"] for one in statuses))
        }

    def all_is_well(self) -> float:
        """Seconds until all accounts agree while nothing is made or deleted; AssertionError if they do not.

        Also asserts what holds all the time: no device was held twice, no process ended by itself.
        """
        with self.load.rest():
            start = time.monotonic()
            problems: list[str] = []

            def agree() -> bool:
                problems[:] = disagreements(accounts_of(self.cluster), forgotten=self.forgotten)
                return not problems

            try:
                until(agree)
            except AssertionError:
                raise AssertionError("\n".join(problems)) from None
            took = time.monotonic() - start
        assert not (twice := self.watch.report()), twice
        self.cluster.plane.check()
        self.cluster.node.check()
        self.agent.check()
        return took


@contextmanager
def scene_on(cluster: GenuineCluster, folder: Path, *, pods: int = 9, seed: int = 1) -> Iterator[Scene]:
    """The agent registered, the load on; afterwards the node is as it was, but for kubelet's memory."""
    with ExitStack() as stack:
        relay = Relay(int(cluster.plane.url.rpartition(":")[2]))
        stack.callback(relay.close)
        stack.enter_context(_kubelet_through(cluster, relay))
        agent = AgentProcess(cluster, folder, devices=DEVICES, config=CONFIG, url=relay.url)
        stack.callback(agent.close)
        load = Load(cluster.kubeconfig, pods=pods, seed=seed)
        watch = Watchman(cluster, lambda uuid: REPLICAS if uuid == DEVICES[0] else 1)
        agent.start()
        scene = Scene(cluster, relay, agent, load, watch)
        scene.readvertised_s(time.monotonic())
        stack.callback(watch.stop)
        watch.start()
        stack.callback(load.stop)
        load.start()
        until(lambda: watch.most >= 4)
        yield scene


@contextmanager
def _kubelet_through(cluster: GenuineCluster, relay: Relay) -> Iterator[None]:
    kubeconfig = cluster.node.root.at(_KUBECONFIG)
    before = kubeconfig.read_bytes()
    through = json.loads(before)
    through["clusters"][0]["cluster"]["server"] = relay.url
    kubeconfig.write_text(json.dumps(through))
    try:
        cluster.node.restart("kubelet")
        yield
    finally:
        kubeconfig.write_bytes(before)
        cluster.node.restart("kubelet")
        until(cluster.is_ready)


def agent_killed(scene: Scene) -> float:
    """SIGKILL; the next one starts once kubelet has noticed."""
    scene.agent.kill()
    until(lambda: not offered(scene.cluster))
    since = time.monotonic()
    scene.agent.start()
    return scene.readvertised_s(since)


def agent_killed_at_random(scene: Scene, times: int, seed: int) -> float:
    """SIGKILL again and again, soon after each start, while kubelet asks it for devices."""
    chance = random.Random(seed)
    for _ in range(times):
        time.sleep(chance.uniform(0.1, 2.5))
        scene.agent.kill()
        since = time.monotonic()
        scene.agent.start()
    return scene.readvertised_s(since)


def agent_upgraded(scene: Scene) -> float:
    """The next one starts first and waits for the end of the one before, which is asked to end."""
    scene.agent.start()
    since = time.monotonic()
    scene.agent.stop()
    return scene.readvertised_s(since)


def clock_jumped(scene: Scene, clock: JumpingClock) -> float:
    """The agent's clock goes forward by a day and back by more, with new connections at each time."""
    scene.agent.kill()
    scene.agent.start(clock.environment)
    scene.readvertised_s(time.monotonic())
    for offset_s in (_DAY_S, -_HOUR_S // 2):
        clock.jump_to(offset_s)
        since = time.monotonic()
        time.sleep(1.5)
        scene.relay.cut()
        scene.relay.mend()
        scene.goes_on_s(2)
        until(partial(_is_published_at, scene, offset_s))
    return scene.readvertised_s(since)


def _is_published_at(scene: Scene, offset_s: int) -> bool:
    """Whether the agent says that it published its status at a time that is wrong by so much."""
    at = scene.cluster.get("nodegpustatus", NODE_NAME)["status"]["updatedAt"]
    return abs(datetime.fromisoformat(at).timestamp() - time.time() - offset_s) < _HOUR_S / 4


def kubelet_restarted(scene: Scene, number: int = signal.SIGTERM) -> float:
    """SIGTERM or SIGKILL, and a new one at once."""
    scene.cluster.node.end("kubelet", number)
    since = time.monotonic()
    scene.cluster.node.start("kubelet")
    return scene.readvertised_s(since)


def kubelet_socket_removed(scene: Scene) -> float:
    """Its registration socket is deleted under it; only a restart brings it back."""
    scene.cluster.node.root.at(f"{_PLUGINS}/kubelet.sock").unlink()
    time.sleep(2.0)
    until(lambda: offered(scene.cluster) == OFFERED)  # streams that stand need no registration
    return kubelet_restarted(scene)


def checkpoint_deleted(scene: Scene, then: Callable[[], None] = lambda: None) -> float:
    """kubelet forgets which container has which device; the containers go on. `then` follows its end."""
    scene.cluster.node.end("kubelet", signal.SIGKILL)
    scene.forgotten |= frozenset(accounts_of(scene.cluster).checkpoint)
    scene.cluster.node.root.at(f"{_PLUGINS}/kubelet_internal_checkpoint").unlink()
    then()
    since = time.monotonic()
    scene.cluster.node.start("kubelet")
    return scene.readvertised_s(since)


def checkpoint_deleted_unseen(scene: Scene) -> float:
    """The same, while a container runs of which the agent knows only that its device was answered."""
    until(lambda: bool(_unseen(scene)) and not _stopped_in_vain(scene))
    try:
        return checkpoint_deleted(scene, lambda: scene.agent.send(signal.SIGCONT))
    finally:
        scene.agent.send(signal.SIGCONT)


def _unseen(scene: Scene) -> frozenset[str]:
    """Devices that were answered, and of which the agent has not seen whose they are."""
    file = scene.cluster.node.root.at("/var/lib/tonnage/allocations")
    return frozenset(
        row["id"]
        for row in ledger_rows(file)
        if not (row["seen"] or row["forgotten"]) and "::" not in row["id"]
    )


def _stopped_in_vain(scene: Scene) -> bool:
    """Stop the agent until the container runs that got such a device; whether it got none in time."""
    scene.agent.send(signal.SIGSTOP)
    unseen = _unseen(scene)
    deadline = time.monotonic() + 20
    while unseen and time.monotonic() < deadline:
        if unseen & {uuid for _, _, uuids, _ in visible_devices(scene.cluster) for uuid in uuids}:
            return False
        time.sleep(0.1)
    scene.agent.send(signal.SIGCONT)
    return True


def containerd_killed(scene: Scene) -> float:
    """SIGKILL; containers go on under their shims."""
    scene.cluster.node.end("containerd", signal.SIGKILL)
    since = time.monotonic()
    scene.cluster.node.start("containerd")
    return scene.readvertised_s(since)


def node_rebooted(scene: Scene) -> float:
    """Every process of the node ends at once, the agent among them."""
    scene.agent.kill()
    scene.cluster.node.crash()
    scene.cluster.node.boot()
    since = time.monotonic()
    scene.agent.start()
    return scene.readvertised_s(since)


def api_server_gone(scene: Scene, seconds: float) -> float:
    """Its process ends; half way the agent is killed too, and starts again from what it has on disk."""
    end_api_server(scene.cluster)
    time.sleep(seconds / 2)
    scene.agent.kill()
    until(lambda: not offered(scene.cluster))
    scene.agent.start()
    until(lambda: offered(scene.cluster) == OFFERED)
    time.sleep(seconds / 2)
    start_api_server(scene.cluster)
    return scene.readvertised_s(time.monotonic())


def api_server_slow(scene: Scene, latency_s: float, seconds: float) -> float:
    """Every packet of kubelet and agent takes that long in each direction."""
    scene.relay.latency_s = latency_s
    time.sleep(seconds)
    agent_killed(scene)
    scene.relay.latency_s = 0.0
    return scene.readvertised_s(time.monotonic())


def api_server_silent(scene: Scene, seconds: float) -> float:
    """Nothing of kubelet's and the agent's comes through, and no connection breaks: requests time out."""
    with scene.relay.silence():
        time.sleep(seconds)
    return scene.readvertised_s(time.monotonic())


def api_server_refuses(scene: Scene, seconds: float) -> float:
    """Every request of the agent is answered with 429, its new watches among them."""
    with starved(scene.cluster, USER):
        scene.relay.cut()
        scene.relay.mend()
        agent_killed(scene)
        time.sleep(seconds)
    return scene.readvertised_s(time.monotonic())


def past_forgotten(scene: Scene) -> float:
    """While the link is cut, etcd is compacted and the API server started anew: watches meet 410 Gone."""
    scene.relay.cut()
    version = newest_version(scene.cluster)
    until(lambda: newest_version(scene.cluster) > version + 2)  # the load goes on and writes
    compact_etcd(scene.cluster)
    end_api_server(scene.cluster, at_once=True)
    start_api_server(scene.cluster)
    answer = scene.cluster.kubectl(
        "get", "--raw", f"/api/v1/pods?watch=1&timeoutSeconds=1&resourceVersion={version}", check=False
    )
    assert '"code":410' in answer, answer
    since = time.monotonic()
    scene.relay.mend()
    return scene.readvertised_s(since)


FAULTS: Final[Mapping[str, Callable[[Scene], float]]] = {
    "the agent is killed": agent_killed,
    "the agent is killed again and again": lambda scene: agent_killed_at_random(scene, 5, seed=7),
    "the agent is replaced by the next": agent_upgraded,
    "kubelet is restarted": kubelet_restarted,
    "kubelet is killed": lambda scene: kubelet_restarted(scene, signal.SIGKILL),
    "kubelet's registration socket is deleted": kubelet_socket_removed,
    "containerd is killed": containerd_killed,
    "the API server is slow": lambda scene: api_server_slow(scene, latency_s=0.3, seconds=8),
    "the API server is silent": lambda scene: api_server_silent(scene, seconds=40),
    "the API server answers 429": lambda scene: api_server_refuses(scene, seconds=5),
    "the API server is killed and etcd compacted": past_forgotten,
    # Last of its kind: clients that met it ask more rarely for two minutes, so the next would last longer.
    "the API server is gone for a minute": lambda scene: api_server_gone(scene, 60),
    "the node is rebooted": node_rebooted,
    "kubelet's checkpoint is deleted": checkpoint_deleted,
    "kubelet's checkpoint is deleted once more": checkpoint_deleted,
    "kubelet's checkpoint is deleted before the agent saw who has a device": checkpoint_deleted_unseen,
}
"""What can happen, by a sentence."""
