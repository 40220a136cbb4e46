"""Claims on a genuine node: an agent that offers GPUs as claims, pods that claim, and what each has of it."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from support.accounts import nodes_of, visible_devices
from support.agent_additions import CHANGES, agent_with_programs
from support.container_view import DENIED, NO_DRIVER, look
from support.genuine_cluster import GenuineCluster
from support.genuine_node import until
from support.installed_agent import (
    CONTROL,
    GPU,
    MAJOR,
    InstalledAgent,
    make_device_nodes,
    make_node,
)
from support.nvml.changes import forget_instances
from support.nvml.state import DriverState, FakeGpu, FakeMig
from tonnage.adapters.checkpoints import peek
from tonnage.agent.holds.claim_file import claims_in
from tonnage.model.kubernetes.feature_gates import FeatureGates

MPS_ROOT: Final = "/run/nvidia/mps"
ROOTS: Final[Mapping[int, str]] = {0: "pci0000:10", 1: "pci0000:20", 2: "pci0000:30", 3: "pci0000:30"}
"""By slot. The first two GPUs are near one NUMA node, the others near another and below one root."""
FOUR_GPUS: Final = DriverState(tuple(FakeGpu(slot, "A100-80", numa=slot // 2) for slot in range(4)))
WHOLE: Final = ("gpu-0", "gpu-1", "gpu-2", "gpu-3")
"""Their names in claims."""
SURGE: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
VALUES: Final[Mapping[str, object]] = {
    "claims": {"enabled": True},
    "updateStrategy": SURGE,
    "mps": {"root": MPS_ROOT},
    "migManager": {"enabled": True},
}
CAPS_MAJOR: Final = 511
CAPABILITIES: Final[Mapping[str, int]] = {
    f"gi{instance}{part}/access": 10 + 2 * instance + place
    for instance in range(15)
    for place, part in enumerate(("", "/ci0"))
}
"""Numbers of the capabilities of one GPU, by instance: a table of the driver's, whether or not they exist."""
STATE: Final = "/var/lib/kubelet/dra_manager_state"
"""What kubelet remembers of claims."""


@dataclass(frozen=True, slots=True)
class ClaimNode:
    """The node, its agent, and who has what."""

    agent: InstalledAgent

    @property
    def cluster(self) -> GenuineCluster:
        return self.agent.cluster

    def configure(self, claims: Mapping[str, object], **sections: object) -> None:
        """Have the node run a configuration with this section `claims`, and others."""
        assert self.agent.configure(json.dumps({"version": "v1", "claims": claims, **sections})) == ""

    def offer(self, *devices: str) -> None:
        """Have the node offer all GPUs as claims, and wait until slices have just these devices.

        Kubelet says a while longer that it has them as a resource, and the scheduler believes it.
        """
        self.configure({"devices": "all"})
        until(lambda: self.devices() == [*devices] and self.cluster.allocatable(GPU) <= 0)

    def devices(self) -> list[str]:
        """What the slices have."""
        return [device["name"] for device in self.published()]

    def published(self) -> list[Any]:
        """The devices of the slices, whole."""
        slices = self.cluster.get("resourceslices").get("items", [])
        return [device for obj in slices for device in obj["spec"].get("devices") or ()]

    def slice_uids(self) -> set[str]:
        return {obj["metadata"]["uid"] for obj in self.cluster.get("resourceslices").get("items", ())}

    def specs(self) -> list[str]:
        """The specs of claims; the node's /run is seen by its own processes alone."""
        folder = Path(f"/proc/{self.cluster.node.pid('kubelet')}/root/run/cdi")
        return sorted(file.name for file in folder.glob("*claim_*")) if folder.is_dir() else []

    def noted(self) -> dict[str, list[str]]:
        """By the agent's own file: the devices of each claim, by `namespace/name`."""
        payload = peek(self.cluster.node.root.at("/var/lib/tonnage/claims"))
        claims = claims_in(payload) if payload else ()
        return {str(noted.claim): [device.device for device in noted.devices] for noted in claims}

    def boots(self) -> set[str]:
        """By the agent's file: the boots of the node in which claims were prepared."""
        payload = peek(self.cluster.node.root.at("/var/lib/tonnage/claims"))
        return {noted.boot for noted in claims_in(payload)} if payload else set()

    def remembered(self) -> list[str]:
        """By kubelet's file: the claims of which it knows."""
        file = self.cluster.node.root.at(STATE)
        content = json.loads(json.loads(file.read_text())["Data"]) if file.exists() else {}
        entries = content.get("ClaimInfoStateList", ())
        return sorted(f"{entry['Namespace']}/{entry['ClaimName']}" for entry in entries)

    def allocated(self) -> dict[str, list[str]]:
        """By the API server: the devices of each claim that has some, by `namespace/name`."""
        claims = self.cluster.get("resourceclaims", "-A").get("items", [])
        return {
            f"{claim['metadata']['namespace']}/{claim['metadata']['name']}": [
                entry["device"] for entry in claim["status"]["allocation"]["devices"]["results"]
            ]
            for claim in claims
            if claim.get("status", {}).get("allocation")
        }

    def disagreements(self) -> list[str]:
        """Where the accounts of who has which GPU differ, in words: the API server's, kubelet's, the agent's,
        what its status says, and what containers have. Empty when all is well.
        """
        claims = [
            found
            for found in self.cluster.get("resourceclaims", "-A").get("items", [])
            if found.get("status", {}).get("allocation")
        ]
        allocated, noted, remembered = self.allocated(), self.noted(), self.remembered()
        given: dict[str, set[str]] = {}
        for found in claims:
            for consumer in found["status"].get("reservedFor", ()):
                entries = found["status"]["allocation"]["devices"]["results"]
                names = {f"nvidia{entry['device'].removeprefix('gpu-')}" for entry in entries}
                given.setdefault(consumer["uid"], set()).update(names)
        seen: dict[str, set[str]] = {}
        for uid, _, nodes, _ in visible_devices(self.cluster, nodes_of):
            seen.setdefault(uid, set()).update(nodes)
        published = {uuid for uuids in self.agent.holders().values() for uuid in uuids}
        gpus = {
            uuid
            for number, uuid in enumerate(self.agent.uuids)
            if f"nvidia{number}" in set().union(*given.values())
        }
        devices = [device for names in allocated.values() for device in names]
        pairs = {
            "devices of claims, each once": (sorted(devices), sorted(set(devices))),
            "claims of the agent and of the API server": (noted, allocated),
            "claims of kubelet and of the API server": (remembered, sorted(allocated)),
            "specs and claims": (len(self.specs()), len(allocated)),
            "GPUs of pods and of their claims": (seen, given),
            "UUIDs of the status and of claims": (published, gpus),
        }
        return [f"{what}: {one} and {other}" for what, (one, other) in pairs.items() if one != other]

    def agrees(self) -> None:
        """Wait until all accounts agree; AssertionError with where they do not."""
        problems: list[str] = []

        def is_so() -> bool:
            problems[:] = self.disagreements()
            return not problems

        try:
            until(is_so)
        except AssertionError:
            raise AssertionError("\n".join(problems)) from None

    def gpus(self, pod: str, container: str = "main") -> set[int]:
        """Which GPUs a container has: by device nodes, by what opening each by its number is told, and by the
        UUIDs that the driver's program lists there.
        """
        count = len(self.agent.uuids)
        seen = look(self.cluster, pod, container, gpus=count)
        gpus = {number for number in range(count) if f"/dev/nvidia{number}" in seen.nodes}
        assert seen.nodes == {
            **{f"/dev/nvidia{number}": (MAJOR, number) for number in gpus},
            **{f"/dev/{name}": number for name, number in CONTROL.items()},
        }
        assert seen.opened == {number: NO_DRIVER if number in gpus else DENIED for number in range(count)}
        assert seen.uuids == {self.agent.uuids[number] for number in gpus}
        assert seen.visible == "void"
        return gpus

    def is_held(self, pod: str, *gpus: int) -> bool:
        """Whether the node's status says that the pod has just these."""
        held = self.agent.holders().get(("default", pod), set())
        return held == {self.agent.uuids[number] for number in gpus}

    def refusals(self, pod: str = "") -> str:
        """What kubelet said of preparations that failed, for one pod or any."""
        chosen = "reason=FailedPrepareDynamicResources" + (f",involvedObject.name={pod}" if pod else "")
        events = self.cluster.get("events", "--field-selector", chosen).get("items", ())
        return "\n".join(event["message"] for event in events)

    def nothing_is_held(self) -> bool:
        """Whether everybody has forgotten every claim."""
        return not (self.specs() or self.noted() or self.remembered() or self.agent.holders())

    def divide(self, slot: int, *migs: FakeMig, enabled: bool = True) -> None:
        """Have a GPU these MIG devices; the driver has numbers for the capabilities of all that may be."""
        driver = self.agent.driver
        forget_instances(self.cluster.node.root.at(CHANGES), slot)
        driver.divide(slot, *migs, enabled=enabled)
        folder = driver.root / "dev/nvidia-caps"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        for number in CAPABILITIES.values():
            make_node(folder / f"nvidia-cap{number}", (CAPS_MAJOR, number))
        names = "".join(
            f"gpu{gpu.minor_number}/{name} {number}\n"
            for gpu in driver.state.gpus
            for name, number in CAPABILITIES.items()
            if gpu.slot == slot
        )
        (driver.root / "proc/driver/nvidia-caps/mig-minors").write_text(names)
        make_device_nodes((driver.root / "dev",), driver.state)

    def capabilities(self, pod: str, container: str = "main") -> set[int]:
        """The numbers of the capabilities of MIG devices that a container has."""
        seen = look(self.cluster, pod, container, gpus=len(self.agent.uuids))
        caps = {path: number for path, number in seen.nodes.items() if path.startswith("/dev/nvidia-caps/")}
        assert all(path.endswith(f"cap{minor}") for path, (_, minor) in caps.items())
        assert {major for major, _ in caps.values()} <= {CAPS_MAJOR}
        return {minor for _, minor in caps.values()}

    @contextmanager
    def more_gpus(self, count: int) -> Iterator[None]:
        """So many for a while, all of them offered."""
        driver, before = self.agent.driver, self.agent.driver.state
        more = tuple(FakeGpu(slot, "A100-80", numa=0) for slot in range(len(before.gpus), count))
        driver.become(replace(before, gpus=(*before.gpus, *more)))
        make_device_nodes((driver.root / "dev",), driver.state)
        until(lambda: len(self.devices()) == count)
        try:
            yield
        finally:
            driver.become(before)

    def clear(self) -> None:
        """Delete pods, claims and templates, and wait until nothing is held."""
        for kind in ("pods", "resourceclaims", "resourceclaimtemplates"):
            self.cluster.kubectl("delete", kind, "--all", "--now")
        until(self.nothing_is_held)


@contextmanager
def claim_node(cluster: GenuineCluster, version: str) -> Iterator[ClaimNode]:
    """A node whose four GPUs are offered as claims; all that claims can need is there."""
    with agent_with_programs(cluster, version, state=FOUR_GPUS, values=VALUES, roots=ROOTS) as agent:
        yield ClaimNode(agent)


@contextmanager
def gates_on(cluster: GenuineCluster, *gates: str) -> Iterator[None]:
    """Every program of Kubernetes anew with these feature gates; afterwards without. etcd goes on."""
    _start_all_again(cluster, FeatureGates(chosen=tuple((gate, True) for gate in gates)))
    try:
        yield
    finally:
        _start_all_again(cluster, FeatureGates())


def _start_all_again(cluster: GenuineCluster, gates: FeatureGates) -> None:
    cluster.node.end("kubelet")
    for program in ("kube-scheduler", "kube-controller-manager", "kube-apiserver"):
        asyncio.run(cluster.plane.end(program))
    cluster.plane.start_again("kube-apiserver", *gates.server_flags)
    asyncio.run(cluster.plane.ready())
    for program in ("kube-controller-manager", "kube-scheduler"):
        cluster.plane.start_again(program, *gates.flags)
    cluster.node.start("kubelet", *gates.flags)
    until(cluster.is_ready)
