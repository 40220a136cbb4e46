"""SCH-8: GPUs that are held and hardly used are not free: Kubernetes counts what is allocated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from typing import Final

from tonnage.diagnose.case import Case
from tonnage.model.name_lists import listed
from tonnage.model.node.gpu_status import GpuDevice, GpuStatus
from tonnage.model.reasons.pod.pods import HeldAndIdle
from tonnage.model.reasons.pod.scheduling import InsufficientResource
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import NodeVerdict

_IDLE: Final = 50
"""A device of whose memory less than a fiftieth is used runs nothing to speak of."""
_MOST_NODES: Final = 256
_SOON: Final = timedelta(minutes=10)
"""A pod that has run for less may yet load what it works on."""


def reasons(case: Case) -> Iterator[Reason]:
    """One reason for all nodes that are short of devices, of which some are held and idle."""
    if case.decision.chosen is not None:
        return
    statuses = case.view.snapshot.gpu
    newly, idle = _newly_started(case), dict[str, tuple[GpuDevice, ...]]()
    for node_class in case.classes[:_MOST_NODES]:
        status, resource = statuses.get(node_class.first.node), _short_of(node_class.first)
        idle_devices = tuple(_idle(status, resource, newly)) if status is not None and resource else ()
        if idle_devices:
            idle[node_class.first.node] = idle_devices
    if not idle:
        return
    evidence = _evidence(case, idle.values())
    text = "; ".join(_holders_text(name, devices) for name, devices in sorted(idle.items())[:4])
    uuids = {name: tuple(d.uuid for d in devices) for name, devices in sorted(idle.items())}
    yield HeldAndIdle(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=f"GPUs are held but hardly used: {text}, {evidence}; they are not free: allocation "
        "counts, not use",
        remedy="check their use over time (DCGM_FI_DEV_GPU_UTIL); then ask their owners, or share such GPUs "
        "(time-slicing, MPS, MIG)",
        source="NodeGPUStatus",
        idle=uuids,
    )


def _evidence(case: Case, devices: Iterable[tuple[GpuDevice, ...]]) -> str:
    """How far one reading of the memory goes, by how long the newest pod has run."""
    now = case.view.snapshot.now
    keys = {(h.namespace, h.pod) for group in devices for device in group for h in device.holders}
    starts = [pod.status.start for pod in case.view.snapshot.pods if pod.key in keys]
    ages = [start for start in starts if start is not None]
    if now is None or not ages or len(ages) < len(keys):
        return "by one reading"
    minutes = int((now - max(ages)).total_seconds() // 60)
    hours = f"{minutes // 60} hours" if minutes >= 120 else f"{minutes} minutes"
    return f"by one reading {hours} after their start"


def _newly_started(case: Case) -> frozenset[tuple[str, str]]:
    """Pods that began so lately that nothing follows from what they use."""
    now = case.view.snapshot.now
    return frozenset(
        pod.key
        for pod in case.view.snapshot.pods
        if now is not None and pod.status.start is not None and now - pod.status.start < _SOON
    )


def _short_of(verdict: NodeVerdict) -> str:
    resources = (r.resource for r in verdict.reasons if isinstance(r, InsufficientResource))
    return next((name for name in resources if "/" in name), "")


def _idle(status: GpuStatus, resource: str, newly: Collection[tuple[str, str]]) -> Iterator[GpuDevice]:
    """Devices behind a resource whose memory is all but empty while pods hold them, none of which is new."""
    for device in status.devices:
        used = device.used_mib
        held = device.resource == resource and bool(device.holders)
        if any((holder.namespace, holder.pod) in newly for holder in device.holders):
            continue
        if held and used is not None and used * _IDLE < device.memory_mib:
            yield device


def _holders_text(name: str, devices: tuple[GpuDevice, ...]) -> str:
    holders = dict.fromkeys(f"{h.namespace}/{h.pod}" for device in devices for h in device.holders)
    used, memory = (sum(n) for n in zip(*((d.used_mib or 0, d.memory_mib) for d in devices), strict=True))
    return f"on {name} {len(devices)} by {listed(holders)} ({used} of {memory} MiB used)"
