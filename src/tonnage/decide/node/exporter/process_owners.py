"""Whose the processes on a device are, by their control groups.

Source: kubelet's names, `pkg/kubelet/cm`, and runtimes', which end in the container's id. With cgroupfs
`kubepods/burstable/pod<uid>/<id>`, with systemd `kubepods-burstable-pod<uid>.slice/cri-containerd-<id>.scope`
where the uid has `_` for `-`. In a control group namespace a path of others begins with `/..`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.node.exporter.processes import PodKey, pod_uids_in
from tonnage.decide.node.exporter.shares import DeviceShare
from tonnage.decide.node.exporter.usage import ProcessActivity
from tonnage.model.devices.inventory import GpuProcess
from tonnage.model.node.pod_usage import DeviceUser
from tonnage.model.node.processes import NodeProcess, ProcessTable
from tonnage.model.node.telemetry import PodIdentity

_CONTAINER: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
_SERVER: Final = "nvidia-cuda-mps-server"[:15]
"""The kernel keeps as much of a program's name."""
_CLOCK_S: Final = 1.0
"""How far the driver's clock and the kernel's start times may be apart."""
_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class PodProcesses:
    """What the kernel and the API server say: `table`, and pods by uid, kubelet's for static pods.

    `listed_s` after boot the driver was asked: who began later has another's number.
    """

    table: ProcessTable
    listed_s: float
    pods: Mapping[str, tuple[PodKey, PodIdentity]]

    def process(self, pid: int) -> NodeProcess | None:
        """The process that the driver listed under that number, None: it has ended."""
        process = self.table.processes.get(pid)
        return None if process is None or process.started_s > self.listed_s else process

    def owner(self, pid: int) -> tuple[PodKey, str] | None:
        """Its pod and the container, whose name is empty where that is not known. None: no pod's.

        Of a pod inside another one, the innermost that this node's API server knows counts.
        """
        process = self.process(pid)
        if process is None:
            return None
        for uid in reversed(pod_uids_in(process.cgroup)):
            if uid in self.pods:
                key, identity = self.pods[uid]
                ids = _CONTAINER.findall(process.cgroup)
                return key, next(
                    (identity.containers[name] for name in ids if name in identity.containers), ""
                )
        return None

    def was_reading_of(self, process: GpuProcess) -> bool:
        """Whether the utilisation is that process's own, and not of one before it with the same number."""
        node_process = self.process(process.pid)
        if node_process is None:
            return False
        started_s = self.table.now_s - (self.table.uptime_s - node_process.started_s)
        return process.sampled_us == 0 or process.sampled_us / 1e6 >= started_s - _CLOCK_S


def pods_by_uid(pods: Mapping[str, PodIdentity]) -> Mapping[str, tuple[PodKey, PodIdentity]]:
    """By each uid that a control group may have, from `namespace/name`."""
    return {
        uid.replace("_", "-"): ((namespace, pod), identity)
        for name, identity in pods.items()
        for namespace, _, pod in [name.partition("/")]
        for uid in (identity.uid, identity.static_uid)
        if uid
    }


def by_clients(processes: Iterable[GpuProcess], owners: PodProcesses) -> Iterator[GpuProcess]:
    """The processes of one device, and what an MPS server has given to its clients, who run as its user.

    Where the driver tells what a client has, that is the client's own already; what is left of the server is
    divided among its clients.
    """
    in_order = sorted(processes, key=lambda process: process.through_mps)
    every = list({process.pid: process for process in in_order}.values())
    clients = [process for process in every if process.through_mps]
    for process in every:
        if process.through_mps:
            continue
        node_process = owners.process(process.pid)
        if node_process is None or node_process.program != _SERVER or not clients:
            yield process
            continue
        own = [client for client in clients if _user_of(client, owners) == node_process.user] or clients
        for client in own:
            yield replace(
                client,
                memory_mib=(process.memory_mib or 0) // len(own),
                utilization=None if process.utilization is None else process.utilization / len(own),
                sampled_us=0,
            )
    yield from clients


def _user_of(process: GpuProcess, owners: PodProcesses) -> int | None:
    node_process = owners.process(process.pid)
    return None if node_process is None else node_process.user


def activities_of(
    processes: Iterable[GpuProcess], owners: PodProcesses, shares: Sequence[DeviceShare]
) -> tuple[ProcessActivity, ...]:
    """The processes of one device, each with who of its users it is of; None of who does not hold it."""
    activities: list[ProcessActivity] = []
    for process in by_clients(processes, owners):
        users = _users(owners.owner(process.pid), shares)
        memory = None if process.memory_mib is None else process.memory_mib * _MIB
        percent = process.utilization
        if percent is not None and not owners.was_reading_of(process):
            activities.append(ProcessActivity(None, 0, percent / 100))
            percent = 0.0
        for user in users or (None,):
            parts = max(1, len(users))
            activities.append(
                ProcessActivity(
                    user,
                    None if memory is None else memory // parts,
                    None if percent is None else percent / 100 / parts,
                )
            )
    return tuple(activities)


def _users(owner: tuple[PodKey, str] | None, shares: Sequence[DeviceShare]) -> tuple[DeviceUser, ...]:
    """The container that it runs in, if that holds the device, else all of its pod that do."""
    if owner is None:
        return ()
    key, container = owner
    of_pod = tuple(share.user for share in shares if (share.user.namespace, share.user.pod) == key)
    return tuple(user for user in of_pod if user.container == container) or of_pod
