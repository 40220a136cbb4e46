"""Do containers have the GPUs that they were given, and no others?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from tonnage.decide.node.claims.claim_holders import claim_names, named_holds
from tonnage.diagnose.doctor.containers.images import image_findings
from tonnage.diagnose.doctor.finding import Judgement, NodeFinding, counted, finding, listed
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import Hold, HoldKind
from tonnage.model.layer import NodeLayer
from tonnage.model.names import NVIDIA, parse_device_id
from tonnage.model.node.facts import DriverAnswer, GpuContainer, WorkloadFacts
from tonnage.model.node.gpu_status import ClaimReport
from tonnage.model.reasons.node.workload import (
    ContainerWithForeignGpu,
    ContainerWithoutGpu,
    CudaVisibleDevicesMismatch,
    GpuMemoryCrowded,
    VisibleDevicesMismatch,
)
from tonnage.model.severity import Severity

_LAYER: Final = NodeLayer.WORKLOAD
_CROWDED: Final = 0.9
_SCREENS: Final = frozenset({"void", "none", ""})


@dataclass(frozen=True, slots=True)
class ContainerDevices:
    """A container that runs, what it is called here, and the devices that kubelet gave it, in order."""

    container: GpuContainer
    name: str
    uuids: tuple[str, ...]


def judge_workload(
    facts: WorkloadFacts, answer: DriverAnswer, target: str = "", claims: ClaimReport | None = None
) -> Judgement:
    """Every container that has GPUs or seems to; `target`: those of a pod (name, uid), or one by its id.

    `claims`: what the node offers as claims.
    """
    if facts.holds is None:
        return Judgement(_LAYER, because=f"doctor cannot tell which container has which GPU: {facts.trouble}")
    holds = tuple(_by_uuid(facts.holds, answer.inventory))
    facts = replace(facts, holds=holds)
    named = {container.pod_uid for container in facts.containers if container.container}
    containers = [grant for grant in facts.containers if grant.container or grant.pod_uid not in named]
    grants = [grant for container in containers if (grant := _grant(container, facts)) is not None]
    chosen = [grant for grant in grants if not target or _is(grant, target)]
    if target and not chosen:
        return Judgement(_LAYER, because=f"no container of {target[:100]} runs here")
    claimed = _minors(claims) if claims is not None and facts.by_uid else frozenset()
    findings = [finding for grant in chosen for finding in _findings(grant, answer.inventory, claimed)]
    findings += _crowded(facts, answer, grants, target)
    using = sum(bool(grant.uuids) for grant in chosen)
    held = sum(_is_gpu(hold) for hold in holds)
    unseen = f", {counted(held - using, 'container')} not among the processes" if held > using else ""
    return Judgement(
        _LAYER, tuple(findings), f"{counted(using, 'container')} with GPUs{unseen if not target else ''}"
    )


def _by_uuid(holds: Iterable[Hold], inventory: Inventory | None) -> Iterator[Hold]:
    """The holds; those by claims with uuids in the place of names."""
    names = claim_names(inventory) if inventory is not None else {}
    for hold in holds:
        yield from named_holds([hold], names) if hold.kind is HoldKind.CLAIM else [hold]


def _minors(claims: ClaimReport) -> frozenset[int]:
    """The GPUs that containers may have by claims, of which kubelet's checkpoint of devices does not tell."""
    parts = (name.split("-") for name in claims.devices)
    return frozenset(int(part[1]) for part in parts if len(part) > 1 and part[1].isdecimal())


def _grant(container: GpuContainer, facts: WorkloadFacts) -> ContainerDevices | None:
    """The container with its devices; None for one that cannot be told from others of its pod.

    In a pod whose containers have names the one without is the sandbox, which has no log.
    """
    of_pod = [
        hold
        for hold in facts.holds or ()
        if _is_gpu(hold) and _same_pod(hold, container, by_uid=facts.by_uid)
    ]
    if container.container:
        of_pod = [hold for hold in of_pod if hold.container == container.container]
    elif len({hold.container for hold in of_pod}) > 1:
        return None
    uuids = dict.fromkeys(parse_device_id(device_id).uuid for hold in of_pod for device_id in hold.ids)
    pod = f"{container.namespace}/{container.pod}" if container.pod else f"pod {container.pod_uid}"
    name = f"{pod} ({container.container or container.container_id[:12]})"
    return ContainerDevices(container, name, tuple(uuids))


def _is_gpu(hold: Hold) -> bool:
    if hold.kind is HoldKind.CLAIM:
        return True
    return hold.resource.startswith(f"{NVIDIA}/") and "/imex" not in hold.resource


def _same_pod(hold: Hold, container: GpuContainer, *, by_uid: bool) -> bool:
    if by_uid:
        return hold.pod == container.pod_uid
    return (hold.namespace, hold.pod) == (container.namespace, container.pod)


def _is(grant: ContainerDevices, target: str) -> bool:
    container = grant.container
    names = (container.pod_uid, container.pod, f"{container.namespace}/{container.pod}")
    return target in names or (len(target) >= 8 and container.container_id.startswith(target))


def _findings(
    grant: ContainerDevices, inventory: Inventory | None, claimed: frozenset[int]
) -> Iterator[NodeFinding]:
    if grant.container.privileged:
        return  # it has every device by right
    yield from _nodes(grant, inventory, claimed)
    if grant.container.env is None:
        return
    yield from _visible(grant)
    if grant.uuids:
        yield from _cuda_visible(grant, grant.container.env.get("CUDA_VISIBLE_DEVICES"))
        yield from image_findings(
            grant.name, _where(grant), grant.container.env, _of(grant, inventory), inventory
        )


def _where(grant: ContainerDevices) -> str:
    return f"/proc/{grant.container.pid}/environ"


def _of(grant: ContainerDevices, inventory: Inventory | None) -> tuple[str, ...]:
    """Compute capabilities of the GPUs that it was given."""
    devices = inventory.devices if inventory is not None else ()
    return tuple(
        device.compute_capability
        for device in devices
        if device.uuid in grant.uuids or any(mig.uuid in grant.uuids for mig in device.migs)
    )


def _nodes(
    grant: ContainerDevices, inventory: Inventory | None, claimed: frozenset[int]
) -> Iterator[NodeFinding]:
    """Device nodes are what counts in the end, whatever variables say."""
    minors_there, devices = grant.container.minors, inventory.devices if inventory is not None else ()
    minors = {device.minor: device for device in devices if device.minor is not None}
    if minors_there is None or not minors:
        return
    own_minors = {
        number
        for number, device in minors.items()
        if device.uuid in grant.uuids or any(mig.uuid in grant.uuids for mig in device.migs)
    }
    foreign = sorted(minors_there & set(minors) - own_minors - claimed)
    lacking = sorted(own_minors - minors_there)
    if foreign:
        yield finding(
            ContainerWithForeignGpu(
                message=f"{grant.name} has {counted(len(foreign), 'GPU')} that it was not given:"
                f" {listed([f'/dev/nvidia{number}' for number in foreign])}",
                remedy="make another runtime than NVIDIA's the default, or use deviceListStrategy cdi-cri",
                container=grant.name,
                paths=tuple(f"/dev/nvidia{number}" for number in foreign),
            ),
            where=f"/proc/{grant.container.pid}/root/dev",
            why=f"kubelet gave it {listed(grant.uuids) or 'none'}; NVIDIA_VISIBLE_DEVICES of its image is"
            f" {_variable_text(grant, 'NVIDIA_VISIBLE_DEVICES')}, which NVIDIA's runtime follows",
        )
    if lacking:
        yield finding(
            ContainerWithoutGpu(
                message=f"{grant.name} was given {listed([f'/dev/nvidia{number}' for number in lacking])},"
                " but does not have it",
                remedy="correct those, then delete the pod",
                container=grant.name,
                paths=tuple(f"/dev/nvidia{number}" for number in lacking),
            ),
            where=f"/proc/{grant.container.pid}/root/dev",
            why="the GPU was not injected into the container: see the layers runtime and cdi",
        )


def _variable_text(grant: ContainerDevices, name: str) -> str:
    value = (grant.container.env or {}).get(name)
    return "not set" if value is None else repr(value[:100])


def _visible(grant: ContainerDevices) -> Iterator[NodeFinding]:
    """What NVIDIA's runtime was told. With CDI it is `void`, on purpose."""
    value = (grant.container.env or {}).get("NVIDIA_VISIBLE_DEVICES")
    entries = [part.strip() for part in (value or "").split(",") if part.strip() not in _SCREENS]
    other = [part for part in entries if part.startswith(("GPU-", "MIG-")) and part not in grant.uuids]
    if other and grant.uuids:
        yield finding(
            VisibleDevicesMismatch(
                message=f"{grant.name} asks the runtime for {listed(other)}, and was given"
                f" {listed(grant.uuids)}",
                remedy="remove NVIDIA_VISIBLE_DEVICES from the pod's env",
                container=grant.name,
                devices=tuple(other),
                given=grant.uuids,
            ),
            where=_where(grant),
            why="NVIDIA_VISIBLE_DEVICES in its manifest overrides what the device plugin answered",
        )
    elif "all" in entries and grant.container.minors is None and grant.uuids:
        yield finding(
            VisibleDevicesMismatch(
                message=f"{grant.name} asks the runtime for all GPUs, and was given {listed(grant.uuids)}",
                remedy="run doctor as root; remove NVIDIA_VISIBLE_DEVICES from the pod's env",
                container=grant.name,
                devices=("all",),
                given=grant.uuids,
            ),
            where=_where(grant),
            why="doctor needs root to see whether it has them",
            severity=Severity.WARNING,
        )


def _cuda_visible(grant: ContainerDevices, value: str | None) -> Iterator[NodeFinding]:
    """CUDA stops at the first entry that is no device of the container, and ignores those behind it."""
    if value is None or not value.strip():
        return
    entries = [part.strip() for part in value.split(",")]
    wrong = next((entry for entry in entries if not _is_own(entry, grant.uuids)), None)
    if wrong is None or wrong == "-1":
        return
    count = len(grant.uuids)
    yield finding(
        CudaVisibleDevicesMismatch(
            message=f"{grant.name} sets CUDA_VISIBLE_DEVICES={value[:100]}, but has {counted(count, 'GPU')}",
            remedy="remove CUDA_VISIBLE_DEVICES from the pod's env: it has only its own GPUs anyway",
            container=grant.name,
            value=value,
            gpus=count,
        ),
        where=_where(grant),
        why=f"{wrong!r} is not among them: a container counts its GPUs from 0;"
        " CUDA says 'no CUDA-capable device is detected' or 'invalid device ordinal'",
    )


def _is_own(entry: str, uuids: tuple[str, ...]) -> bool:
    """Whether CUDA finds the entry: an index, or the beginning of a uuid that fits one device."""
    if entry.isascii() and entry.isdecimal():
        return len(entry) < 6 and int(entry) < len(uuids)
    return sum(uuid.startswith(entry) for uuid in uuids) == 1 and len(entry) > 4


def _crowded(
    facts: WorkloadFacts, answer: DriverAnswer, grants: list[ContainerDevices], target: str
) -> Iterator[NodeFinding]:
    """APP-1: memory is full, and not by one alone."""
    holders: dict[str, list[str]] = {}
    for hold in facts.holds or ():
        name = f"{hold.namespace}/{hold.pod}" if hold.namespace else f"pod {hold.pod}"
        for uuid in dict.fromkeys(parse_device_id(entry).uuid for entry in hold.ids):
            holders.setdefault(uuid, []).append(f"{name} ({hold.container})")
    chosen = (
        {uuid for entry in grants if _is(entry, target) for uuid in entry.uuids} if target else set(holders)
    )
    for device in answer.inventory.devices if answer.inventory is not None else ():
        used, names = answer.used_mib.get(device.uuid), holders.get(device.uuid, [])
        if used is None or len(names) < 2 or device.uuid not in chosen:
            continue
        if used < _CROWDED * device.memory_mib or not device.memory_mib:
            continue
        parts = _parts(facts, answer, grants, device.uuid) or sorted(names)
        yield finding(
            GpuMemoryCrowded(
                message=f"GPU {device.index}: {counted(len(names), 'container')} use {used} of"
                f" {device.memory_mib} MiB",
                remedy="use fewer replicas, MIG, or memory limits (MPS). If yours has most: use a smaller"
                " batch or model, or less fragmentation (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)",
                device=device.uuid,
                used=used,
                memory=device.memory_mib,
                containers=tuple(names),
            ),
            where=device.uuid,
            why="the next that asks for more gets 'CUDA out of memory', whichever has most:"
            f" {listed(parts, 8)}",
        )


def _parts(
    facts: WorkloadFacts, answer: DriverAnswer, grants: list[ContainerDevices], uuid: str
) -> list[str]:
    """Who has how much of a device's memory, most first; nothing where the driver does not say."""
    names = {grant.container.container_id: grant.name for grant in grants}
    used: Counter[str] = Counter()
    for process in answer.processes:
        if process.uuid == uuid and process.memory_mib is not None:
            identity = facts.owners.get(process.pid, "")
            used[names.get(identity) or (identity[:12] if identity else f"process {process.pid}")] += (
                process.memory_mib
            )
    return [f"{name} {mib} MiB" for name, mib in used.most_common()]
