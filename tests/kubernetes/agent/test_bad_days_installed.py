"""Bad days of the agent that the chart installed: kubelet starts it, as it starts the pods that hold GPUs.

What kubelet rejects, because it admits pods before the agent's plugin has registered, is recorded, and so is
how long recovery took, from the fault on; that is never asserted.
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from support.accounts import Slot, accounts_of, disagreements, offered
from support.bad_days import CONFIG, RECOVERY, REPLICAS
from support.genuine_cluster import GenuineCluster
from support.genuine_node import until
from support.installed_agent import GPU, InstalledAgent, gpu_pod, installed_agent
from support.load import SHARED, Load, Watchman
from support.nvml.state import DriverState, FakeGpu
from support.own_cgroup import processes_in

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

GPUS: Final = 5
"""The first is shared, by `CONFIG`."""
STATE: Final = DriverState(tuple(FakeGpu(slot, "A100-40") for slot in range(GPUS)))
WORK: Final = {"whole": (GPU, GPUS - 1), "slices": (SHARED, REPLICAS)}
"""Deployments: the resource and how many there are; they have one pod less, but when all is handed out."""
REJECTED: Final = "UnexpectedAdmissionError"
"""kubelet's reason when it admits a pod and has no device for it."""
_CHECKPOINT: Final = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"


@dataclass(slots=True)
class Scene:
    """The installed agent, and somebody who looks all the time whether a device is held twice."""

    cluster: GenuineCluster
    agent: InstalledAgent
    watch: Watchman
    forgotten: frozenset[str] = field(default=frozenset())
    """Pods whose devices kubelet has forgotten."""

    @property
    def slots(self) -> frozenset[Slot]:
        shared, *whole = self.agent.uuids
        return frozenset(
            {(GPU, uuid) for uuid in whole} | {(SHARED, f"{shared}::{n}") for n in range(REPLICAS)}
        )

    def all_is_offered(self) -> bool:
        """By kubelet itself and by the Node object."""
        node = {name: self.cluster.allocatable(name) for name in (GPU, SHARED)}
        return offered(self.cluster) == self.slots and node == dict(WORK.values())

    def restarts_of_agent(self) -> tuple[str, int]:
        """Its pod's uid, and how often its container was started again."""
        pod = self.agent.pod()
        (status,) = pod["status"]["containerStatuses"]
        return pod["metadata"]["uid"], status["restartCount"]

    def agent_is(self, wanted: tuple[str, int]) -> bool:
        """Whether that pod of the agent's is ready, after so many restarts; AssertionError after more."""
        found = self.restarts_of_agent()
        assert found[1] <= wanted[1], self.agent.log(check=False)
        return found == wanted and self.agent.pod()["status"]["containerStatuses"][0]["ready"] is True

    def pods(self) -> Mapping[str, Any]:
        """Those of namespace default that are not ending, whole, by uid."""
        pods = self.cluster.get("pods").get("items", [])
        return {
            pod["metadata"]["uid"]: pod for pod in pods if "deletionTimestamp" not in pod["metadata"]
        }  # fmt: skip

    def running(self) -> dict[str, int]:
        """By pod (uid) that is ready: how often its containers were started again."""
        return {
            uid: sum(one["restartCount"] for one in pod["status"]["containerStatuses"])
            for uid, pod in self.pods().items()
            if pod["status"]["phase"] == "Running"
            and all(one["ready"] for one in pod["status"].get("containerStatuses", ({"ready": False},)))
        }

    def rejected(self) -> Mapping[str, tuple[str, str, str]]:
        """Pods that failed, by uid: name, reason, message."""
        return {
            uid: (pod["metadata"]["name"], pod["status"].get("reason", ""), pod["status"].get("message", ""))
            for uid, pod in self.pods().items()
            if pod["status"]["phase"] == "Failed"
        }

    def work(self, *, all_of_it: bool = False) -> None:
        """Have each deployment leave one of its devices free, or none, and wait until all its pods run."""
        for name, (_, count) in WORK.items():
            self.cluster.kubectl("scale", f"deployment/{name}", f"--replicas={count - (not all_of_it)}")
        wanted = sum(count - (not all_of_it) for _, count in WORK.values())
        until(lambda: len(self.running()) == wanted == len(self.pods()) - len(self.rejected()))

    def accounts_agree(self) -> None:
        problems: list[str] = []

        def agree() -> bool:
            problems[:] = disagreements(accounts_of(self.cluster), forgotten=self.forgotten)
            return not problems

        try:
            until(agree)
        except AssertionError:
            raise AssertionError("\n".join(problems)) from None
        assert not (twice := self.watch.report()), twice
        self.cluster.plane.check()
        self.cluster.node.check()

    def seen(self) -> Counter[str]:
        """In how many containers each GPU is, by what the containers find in their environment."""
        found = accounts_of(self.cluster).containers.values()
        return Counter(uuid for pod in found for devices in pod for uuid in devices)


@pytest.fixture(scope="module")
def scene(cluster: GenuineCluster, agent_version: str) -> Iterator[Scene]:
    with installed_agent(cluster, agent_version, state=STATE) as agent:
        assert agent.configure(CONFIG) == ""
        watch = Watchman(cluster, lambda uuid: REPLICAS if uuid == agent.uuids[0] else 1)
        scene = Scene(cluster, agent, watch)
        until(scene.all_is_offered)
        watch.start()
        try:
            yield scene
        finally:
            watch.stop()
            agent.configure()


@pytest.fixture
def work(scene: Scene) -> Iterator[None]:
    """Two deployments; one device of each resource is free. Afterwards no pods are left, nor what failed."""
    scene.cluster.apply(*(_deployment(name, resource) for name, (resource, _) in WORK.items()))
    try:
        scene.work()
        yield
    finally:
        scene.cluster.kubectl("delete", "deployments", "--all", "--cascade=foreground")
        scene.cluster.kubectl("delete", "pods", "--all", "--now")
        scene.forgotten = frozenset()


def _deployment(name: str, resource: str) -> Mapping[str, object]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": gpu_pod(name, 1, resource=resource)["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def _reboot(scene: Scene) -> None:
    """Every process of the node ends at once; kubelet starts the agent, when it starts the other pods."""
    scene.cluster.node.crash()
    scene.agent.driver.reboot()
    scene.cluster.node.boot()


def _forget(scene: Scene) -> None:
    """kubelet forgets which container has which device; the containers go on."""
    scene.cluster.node.end("kubelet", signal.SIGKILL)
    scene.forgotten = frozenset(accounts_of(scene.cluster).checkpoint)
    scene.cluster.node.root.at(_CHECKPOINT).unlink()
    scene.cluster.node.start("kubelet")


def _kill_agent(scene: Scene) -> None:
    """SIGKILL for every process of its container; kubelet starts it again."""
    pod = f"pod{scene.agent.pod()['metadata']['uid']}/"
    for path, process in processes_in(scene.cluster.node.cgroup):
        if pod in path and b"tonnage" in Path(f"/proc/{process}/cmdline").read_bytes():
            os.kill(process, signal.SIGKILL)


FAULTS: Final[Mapping[str, Callable[[Scene], None]]] = {
    "the agent is killed": _kill_agent,
    "kubelet is restarted": lambda scene: scene.cluster.node.restart("kubelet"),
    "kubelet is killed": lambda scene: scene.cluster.node.restart("kubelet", signal.SIGKILL),
    "containerd is killed": lambda scene: scene.cluster.node.restart("containerd", signal.SIGKILL),
    "kubelet's checkpoint is deleted": _forget,
    "the node is rebooted": _reboot,
    "the node is rebooted once more": _reboot,
}


@pytest.mark.usefixtures("work")
@pytest.mark.parametrize("fault", FAULTS)
def test_after_a_fault_all_accounts_agree(
    scene: Scene, record_property: Callable[[str, object], None], fault: str
) -> None:
    """The agent is started again when it ended, once; pods are replaced after a reboot alone, none lost."""
    uid, restarts = scene.restarts_of_agent()
    restarts += FAULTS[fault] in (_kill_agent, _reboot)
    before = scene.running()
    start = time.monotonic()
    FAULTS[fault](scene)
    rebooted = FAULTS[fault] is _reboot
    until(lambda: scene.cluster.is_ready() and scene.agent_is((uid, restarts)))
    until(scene.all_is_offered)
    if rebooted:  # before, the API server has what kubelet said before the reboot
        until(lambda: before.items().isdisjoint(scene.running().items()))
    figures: dict[str, object] = {"offered_s": round(time.monotonic() - start, 1)}
    scene.work()
    figures["pods_run_s"] = round(time.monotonic() - start, 1)
    scene.accounts_agree()

    after, rejected = scene.running(), scene.rejected()
    if not rebooted:
        assert (after, rejected) == (before, {})
    assert {reason for _, reason, _ in rejected.values()} <= {REJECTED}
    assert before.keys() <= after.keys() | rejected.keys()

    scene.work(all_of_it=True)
    scene.accounts_agree()
    shared, *whole = scene.agent.uuids
    assert scene.seen() == {shared: REPLICAS, **dict.fromkeys(whole, 1)}
    assert scene.restarts_of_agent() == (uid, restarts)
    figures |= {"rejected": len(rejected), "of": len(before), "why": [*rejected.values()]}
    record_property(RECOVERY, json.dumps({"fault": f"{fault}, agent installed", **figures}))


@contextmanager
def _load(scene: Scene) -> Iterator[Load]:
    load = Load(scene.cluster.kubeconfig, pods=9, seed=3)
    load.start()
    try:
        yield load
    finally:
        load.stop()


def test_upgrades_and_rollbacks_under_load_give_no_device_twice(
    scene: Scene, next_version: str, record_property: Callable[[str, object], None]
) -> None:
    """Pods are made and deleted all the time; those that hold devices go on."""
    with _load(scene) as load:
        until(lambda: load.started >= 6)
        for number in range(4):
            before, refused, made = scene.running(), load.refused.copy(), load.made
            old, start = scene.restarts_of_agent()[0], time.monotonic()
            if number % 2:
                scene.agent.rollback()
            else:
                scene.agent.upgrade(next_version)
            figures: dict[str, object] = {"ready_s": round(time.monotonic() - start, 1)}
            until(scene.all_is_offered)
            figures["offered_s"] = round(time.monotonic() - start, 1)
            _goes_on(load)
            with load.rest():
                scene.accounts_agree()
            new, restarts = scene.restarts_of_agent()
            assert (new != old, restarts) == (True, 0)
            after = scene.running()
            assert {uid for uid in before.keys() & after.keys() if after[uid] != before[uid]} == set()
            figures |= {"pods_made": load.made - made, "refused": dict(load.refused - refused)}
            what = f"the agent is replaced under load, {number + 1}"
            record_property(RECOVERY, json.dumps({"fault": what, **figures}))


def _goes_on(load: Load) -> None:
    """Wait until four more pods run."""
    enough = load.started + 4
    until(lambda: load.started >= enough)
