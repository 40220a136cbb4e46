"""What each pod's processes have of a device: told by their control groups.

Source: kubelet's names of control groups, `pkg/kubelet/cm` (cgroupfs: `kubepods/burstable/pod<uid>/...`,
systemd: `kubepods-burstable-pod<uid with _>.slice/...`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tonnage.model.node.telemetry import HoldingContainer, PodIdentity, ProcessUse

_POD: Final = re.compile(
    r"pod(?P<uid>[0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12}|[0-9a-f]{32})(?![0-9a-f])"
)
_MIB: Final = 1 << 20

PodKey = tuple[str, str]
"""Namespace and name."""


def pod_uid_of(cgroup: str) -> str:
    """The uid of the pod whose a process with this `/proc/PID/cgroup` is; empty for a process of no pod.

    The uid of a static pod, which is a hash, has no hyphens.

    >>> pod_uid_of("0::/kubepods.slice/kubepods-podfc58e18c_f5ac_e14e_6e17_9ef851b4b07b.slice/cri.scope")
    'fc58e18c-f5ac-e14e-6e17-9ef851b4b07b'
    """
    match = _POD.search(cgroup)
    return match["uid"].replace("_", "-") if match else ""


def pod_uids_in(cgroup: str) -> tuple[str, ...]:
    """The uids of all pods in it, the outermost first: a node may itself run in a pod."""
    return tuple(dict.fromkeys(match["uid"].replace("_", "-") for match in _POD.finditer(cgroup)))


@dataclass(frozen=True, slots=True)
class HolderUse:
    """By pod, what its processes have of a device together, and its uid. A holder without process has 0."""

    memory_mib: Mapping[PodKey, int] = field(default_factory=dict)
    utilization: Mapping[PodKey, int] = field(default_factory=dict)
    uids: Mapping[PodKey, str] = field(default_factory=dict)


def holder_use(
    holders: Sequence[HoldingContainer],
    processes: Iterable[ProcessUse],
    uid_of_process: Mapping[int, str],
    pods: Mapping[PodKey, PodIdentity],
    *,
    measures_utilization: bool = True,
) -> HolderUse:
    """Sums over each holder's processes; what is not known is left out, since 0 would look like idle.

    That is all of a pod whose uid is not known, and memory where the driver does not tell that of one of its
    processes. Memory is cut to MiB for each process. Of a MIG device no process's utilisation is known.
    """
    uids = {
        (holder.namespace, holder.pod): identity.uid
        for holder in holders
        if (identity := pods.get((holder.namespace, holder.pod))) is not None and identity.uid
    }
    key_of = {uid: key for key, uid in uids.items()}
    memory = dict.fromkeys(uids, 0)
    utilization = dict.fromkeys(uids, 0)
    unknown: set[PodKey] = set()
    for process in processes:
        key = key_of.get(uid_of_process.get(process.pid, ""))
        if key is not None:
            utilization[key] += process.utilization or 0
            if process.memory_bytes is None:
                unknown.add(key)
            else:
                memory[key] += process.memory_bytes // _MIB
    memory = {key: amount for key, amount in memory.items() if key not in unknown}
    return HolderUse(memory, utilization if measures_utilization else {}, uids)
