"""Bad days of the controller on a genuine control plane.

Two replicas run with the rights of the chart; nodes are objects.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest

from support.controller_replica import AGENTS, Replica
from support.genuine import GenuinePlane, control_plane
from support.genuine_machines import OPERATOR, GenuineMachines
from support.leftovers import own_folder
from tonnage.adapters.kubernetes.client import connect
from tonnage.decide.cluster.operate.drivers.states import OUR_CORDON, PAUSED, USERS_CORDON, UpgradeState
from tonnage.loop.refusals import or_none
from tonnage.model.errors import GoneError
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.twin.platform import platform_objects
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    DAEMON_SET,
    DEPLOYMENT,
    LEASE,
    NODE,
    NODE_GPU_STATUS,
    NVIDIA_DRIVER,
)

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.sampled("bad days of the controller on a control plane", share="1/2"),
]

PRESENT = "nvidia.com/gpu.present"
PLUGIN = "nvidia.com/gpu.deploy.device-plugin"
STATE = "nvidia.com/gpu-driver-upgrade-state"
OLD, NEW = "580.95.05", "595.91.07"
SET = "nvidia-driver-daemonset-ubuntu22.04"
EVERYTHING: Any = {"autoUpgrade": True, "maxParallelUpgrades": 0, "maxUnavailable": "100%"}
LEASE_S = 15


class Controlled:
    """The cluster, its nodes and the two replicas."""

    def __init__(self, plane: GenuinePlane, machines: GenuineMachines, folder: Path) -> None:
        self.plane = plane
        self.machines = machines
        self.api = machines.api
        self.replicas = [Replica(plane, folder, name) for name in ("first", "second")]

    async def holder(self) -> str:
        lease = await or_none(self.api.get(LEASE, "tonnage-controller", AGENTS))
        return "" if lease is None else lease.spec.holder_identity

    async def leader(self) -> Replica:
        """Once somebody leads."""

        async def is_held() -> bool:
            return bool(await self.holder())

        await self.machines.until(is_held)
        name = await self.holder()
        return next(replica for replica in self.replicas if replica.identity == name)

    async def until_labelled(self, name: str) -> None:
        async def is_labelled() -> bool:
            return (await self.machines.labels(name)).get(PRESENT) == "true"

        await self.machines.until(is_labelled)

    async def until_upgraded(self, *names: str) -> None:
        """Each of these runs the new driver, and has nothing more to do."""

        async def is_upgraded() -> bool:
            running, states = await self.machines.running(), await self.machines.states()
            return all(NEW in running.get(name, "") and states[name] == "upgrade-done" for name in names)

        await self.machines.until(is_upgraded)

    async def is_left_as_it_was(self, *, cordoned: set[str]) -> None:
        """No label paused, and no cordon but the users'."""

        async def is_unpaused() -> bool:
            nodes = await self.machines.nodes()
            return not any("paused" in value for node in nodes for value in node.metadata.labels.values())

        await self.machines.until(is_unpaused)
        nodes = await self.machines.nodes()
        assert {node.metadata.name for node in nodes if node.spec.unschedulable} == cordoned


@pytest.fixture(scope="module")
def plane() -> Iterator[GenuinePlane]:
    """Its API server keeps no history of Nodes but etcd's own, so that compaction is felt at once."""
    with own_folder() as folder, control_plane(folder, "--watch-cache-sizes=nodes#0") as plane:
        plane.programs.run_loops(of_manager=["--node-monitor-grace-period=1h"])
        asyncio.run(_install(plane.kubeconfig))
        yield plane


async def _install(kubeconfig: Path) -> None:
    """What the chart installs, but for the pods."""
    async with connect(kubeconfig) as api:
        for kind, namespace, body in platform_objects({}, kubeconfig, controller=True, drivers=True):
            if kind not in (DAEMON_SET, DEPLOYMENT):
                typed = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
                await api.create(kind, typed, namespace=namespace)

        async def are_served() -> bool:
            kinds = (NODE_GPU_STATUS, CLUSTER_POLICY, NVIDIA_DRIVER)
            return None not in [await or_none(api.list(kind)) for kind in kinds]

        await GenuineMachines(api).until(are_served)


@pytest.fixture
async def controlled(plane: GenuinePlane) -> AsyncIterator[Controlled]:
    """Nodes that a test makes, and both replicas. In the end no two have led at once, and none has ended."""
    with own_folder() as folder:
        async with connect(plane.kubeconfig) as api:
            machines = GenuineMachines(api)
            await machines.install()
            controlled = Controlled(plane, machines, folder)
            try:
                yield controlled
                for replica in controlled.replicas:
                    replica.check()
            finally:
                for replica in controlled.replicas:
                    await replica.end()
                await machines.close()
                await or_none(api.delete(LEASE, "tonnage-controller", namespace=AGENTS))
            terms = sorted(term for replica in controlled.replicas for term in replica.terms())
            assert [pair for pair in pairwise(terms) if pair[1][0] < pair[0][1]] == []


async def _start(controlled: Controlled) -> None:
    for replica in controlled.replicas:
        await replica.start()


async def test_leaders_are_killed_and_cut_off_amid_an_upgrade(controlled: Controlled) -> None:
    machines = controlled.machines
    for name in ("a", "b", "c"):
        await machines.machine(name)
    cordon: Any = {"spec": {"unschedulable": True}}
    await machines.api.patch(NODE, "b", cordon)
    await machines.drivers(OLD)
    await _start(controlled)
    await machines.until_at_rest()

    leader = await controlled.leader()
    await machines.drivers(NEW)
    leader.kill()
    await machines.node("late")
    await controlled.until_labelled("late")
    assert await controlled.holder() not in ("", leader.identity)
    await leader.start()

    both = controlled.replicas
    for replica in both:
        replica.cable.close()
    await machines.node("later")
    await asyncio.sleep(LEASE_S + 5)  # nobody holds the Lease any more
    assert PRESENT not in await machines.labels("later")
    for replica in both:
        await replica.cable.open()
    await controlled.until_labelled("later")
    await controlled.until_upgraded("a", "b", "c")
    await controlled.is_left_as_it_was(cordoned={"b"})


@asynccontextmanager
async def _cut_off(controlled: Controlled) -> AsyncIterator[None]:
    """For less time than a leader gives up in."""
    for replica in controlled.replicas:
        replica.cable.close()
    async with asyncio.timeout(8):
        yield
    for replica in controlled.replicas:
        await replica.cable.open()


async def test_the_history_of_nodes_is_compacted_away(controlled: Controlled) -> None:
    """The leader goes on as such, and lists anew what its watch may not be resumed from."""
    machines, api = controlled.machines, controlled.api
    await machines.machine("stays")
    await machines.machine("leaves")
    await machines.drivers(OLD)
    await _start(controlled)
    await machines.until_at_rest()
    leader = await controlled.leader()
    async with _cut_off(controlled):
        last = (await api.list(NODE)).resource_version
        await api.delete(NODE, "leaves")
        await machines.machine("comes")
        await _compact(controlled.plane, (await api.list(NODE)).resource_version)
        with pytest.raises(GoneError):
            await anext(aiter(api.watch(NODE, resource_version=last)))
    await controlled.until_labelled("comes")
    await machines.until_at_rest()

    async def is_ready() -> bool:
        return "all 2 GPU nodes are ready" in (await machines.condition("Ready"))["message"]

    await machines.until(is_ready)
    assert len(list(leader.terms())) == 1


def _etcd_url(plane: GenuinePlane) -> str:
    flags = Path(f"/proc/{plane.programs.pids['etcd']}/cmdline").read_text().split("\0")
    [url] = [flag.partition("=")[2] for flag in flags if flag.startswith("--listen-client-urls=")]
    return url


async def _compact(plane: GenuinePlane, revision: str) -> None:
    """Have etcd forget what was before."""
    files = plane.files
    trusted = ssl.create_default_context(cafile=str(files.certificate("ca")))
    trusted.load_cert_chain(files.certificate("etcd"), files.key("etcd"))
    async with httpx2.AsyncClient(verify=trusted, trust_env=False) as http:
        asked = {"revision": revision, "physical": True}
        answer = await http.post(f"{_etcd_url(plane)}/v3/kv/compaction", json=asked)
    assert answer.status_code == 200, answer.text


async def test_another_writer_of_labels_and_daemon_sets(controlled: Controlled) -> None:
    """It works against the controller every second; once it stops all is as the policy says."""
    machines, api = controlled.machines, controlled.api
    await machines.machine("a")
    await machines.drivers(OLD)
    await _start(controlled)
    await machines.until_at_rest()
    gone: Any = {"metadata": {"labels": {PRESENT: None, PLUGIN: None}}}
    theirs: Any = {
        "spec": {"template": {"spec": {"containers": [{"name": "nvidia-driver-ctr", "image": "theirs:1"}]}}}
    }
    for turn in range(10):
        await api.patch(NODE, "a", gone)
        await _rewrite_set(api, theirs, delete=turn % 2 == 0)
        await asyncio.sleep(1)
    await controlled.until_labelled("a")

    async def is_ours() -> bool:
        there = await or_none(api.get(DAEMON_SET, SET, OPERATOR))
        image = "" if there is None else there.spec.template["spec"]["containers"][0]["image"]
        running = await machines.running()
        return OLD in image and OLD in running.get("a", "")

    await machines.until(is_ours)
    await machines.until_at_rest()
    assert (await machines.labels("a"))[PLUGIN] == "true"
    await controlled.is_left_as_it_was(cordoned=set())


async def _rewrite_set(api: KubernetesApi, body: Any, *, delete: bool) -> None:
    if delete:
        await or_none(api.delete(DAEMON_SET, SET, namespace=OPERATOR))
    else:
        patch = api.patch(DAEMON_SET, SET, body, namespace=OPERATOR, patch_type=PatchType.STRATEGIC)
        await or_none(patch)


LEFT_ALONE = {UpgradeState.MAINTENANCE, UpgradeState.AFTER_MAINTENANCE}
CORDONED = {
    *(UpgradeState.JOBS, UpgradeState.POD_DELETION, UpgradeState.DRAIN, UpgradeState.RESTART),
    *(UpgradeState.VALIDATION, UpgradeState.UNCORDON, UpgradeState.FAILED),
}
"""States in which the controller has cordoned the node."""


async def test_nodes_reboot_in_each_state_of_the_upgrade(controlled: Controlled) -> None:
    """Each with its operands paused, as a driver's pod leaves them that was cut short."""
    machines = controlled.machines
    states = {state.value: state for state in UpgradeState if state.value}
    mine = {f"mine-{name}": state for name, state in states.items() if state not in LEFT_ALONE}
    for name in (*states, *mine, "bad"):
        await machines.machine(name)
    machines.bad = {"bad": {NEW}}
    await machines.drivers(OLD, upgradePolicy=EVERYTHING)
    await _start(controlled)
    await machines.until_at_rest()
    for replica in controlled.replicas:
        replica.cable.close()
    await machines.drivers(NEW, upgradePolicy=EVERYTHING)
    for name, state in {**states, **mine}.items():
        await _put(machines.api, name, state, users=name in mine)
        await machines.go_away(name)
    for replica in controlled.replicas:
        await replica.cable.open()
    await asyncio.sleep(LEASE_S)  # a leader looks at nodes that are away
    for name in (*states, *mine):
        await machines.come_back(name)
    ended = {name for name, state in {**states, **mine}.items() if state not in LEFT_ALONE}
    await controlled.until_upgraded(*sorted(ended))

    async def has_failed() -> bool:
        return (await machines.states())["bad"] == "upgrade-failed"

    await machines.until(has_failed)
    assert "restarted" in (await machines.condition("tonnage.dev/DriverUpgrade"))["message"]
    kept = {name: state for name, state in (await machines.states()).items() if name not in {*ended, "bad"}}
    assert kept == {state.value: state.value for state in LEFT_ALONE}
    await controlled.is_left_as_it_was(cordoned={*mine, "bad"})


async def _put(api: KubernetesApi, name: str, state: UpgradeState, *, users: bool) -> None:
    """The node's upgrade is in that state, with the cordon and the notes that belong to it."""
    labels: Any = {STATE: state.value, "nvidia.com/gpu.deploy.dcgm-exporter": PAUSED}
    patch: Any = {"metadata": {"labels": labels}}
    if state in CORDONED:
        patch["metadata"]["annotations"] = {USERS_CORDON if users else OUR_CORDON: "true"}
    if state in CORDONED or users:
        patch["spec"] = {"unschedulable": True}
    await api.patch(NODE, name, patch)
