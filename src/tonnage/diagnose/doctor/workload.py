"""Do containers have the GPUs that they were given, and no others?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tonnage.diagnose.doctor.finding import Judgement, NodeFinding, counted, finding, listed
from tonnage.diagnose.doctor.images import image_findings
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import Hold
from tonnage.model.layer import NodeLayer
from tonnage.model.names import NVIDIA, parse_device_id
from tonnage.model.node.facts import DriverAnswer, GpuContainer, WorkloadFacts
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
class Given:
    """A container that runs, what it is called here, and the devices that kubelet gave it, in order."""

    container: GpuContainer
    name: str
    uuids: tuple[str, ...]


def judge_workload(facts: WorkloadFacts, answer: DriverAnswer, wanted: str = "") -> Judgement:
    """Every container that has GPUs or seems to; `wanted`: those of a pod (name, uid), or one by its id."""
    if facts.holds is None:
        return Judgement(_LAYER, because=f"who was given which GPU is not known: {facts.trouble}")
    named = {container.pod_uid for container in facts.containers if container.container}
    containers = [each for each in facts.containers if each.container or each.pod_uid not in named]
    given = [each for container in containers if (each := _given(container, facts)) is not None]
    chosen = [each for each in given if not wanted or _is(each, wanted)]
    if wanted and not chosen:
        return Judgement(_LAYER, because=f"no container of {wanted[:100]} runs here")
    findings = [finding for each in chosen for finding in _findings(each, answer.inventory)]
    findings += _crowded(facts, answer, given, wanted)
    using = sum(bool(each.uuids) for each in chosen)
    held = sum(_is_gpu(hold) for hold in facts.holds)
    unseen = f", {counted(held - using, 'container')} not seen among the processes" if held > using else ""
    return Judgement(
        _LAYER, tuple(findings), f"{counted(using, 'container')} with GPUs{unseen if not wanted else ''}"
    )


def _given(container: GpuContainer, facts: WorkloadFacts) -> Given | None:
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
    uuids = dict.fromkeys(parse_device_id(each).uuid for hold in of_pod for each in hold.ids)
    pod = f"{container.namespace}/{container.pod}" if container.pod else f"pod {container.pod_uid}"
    name = f"{pod} ({container.container or container.container_id[:12]})"
    return Given(container, name, tuple(uuids))


def _is_gpu(hold: Hold) -> bool:
    return hold.resource.startswith(f"{NVIDIA}/") and "/imex" not in hold.resource


def _same_pod(hold: Hold, container: GpuContainer, *, by_uid: bool) -> bool:
    if by_uid:
        return hold.pod == container.pod_uid
    return (hold.namespace, hold.pod) == (container.namespace, container.pod)


def _is(given: Given, wanted: str) -> bool:
    container = given.container
    names = (container.pod_uid, container.pod, f"{container.namespace}/{container.pod}")
    return wanted in names or (len(wanted) >= 8 and container.container_id.startswith(wanted))


def _findings(given: Given, inventory: Inventory | None) -> Iterator[NodeFinding]:
    if given.container.privileged:
        return  # it has every device by right
    yield from _nodes(given, inventory)
    if given.container.env is None:
        return
    yield from _visible(given)
    if given.uuids:
        yield from _cuda_visible(given, given.container.env.get("CUDA_VISIBLE_DEVICES"))
        yield from image_findings(
            given.name, _where(given), given.container.env, _of(given, inventory), inventory
        )


def _where(given: Given) -> str:
    return f"/proc/{given.container.pid}/environ"


def _of(given: Given, inventory: Inventory | None) -> tuple[str, ...]:
    """Compute capabilities of the GPUs that it was given."""
    devices = inventory.devices if inventory is not None else ()
    return tuple(
        device.compute_capability
        for device in devices
        if device.uuid in given.uuids or any(mig.uuid in given.uuids for mig in device.migs)
    )


def _nodes(given: Given, inventory: Inventory | None) -> Iterator[NodeFinding]:
    """Device nodes are what counts in the end, whatever variables say."""
    seen, devices = given.container.minors, inventory.devices if inventory is not None else ()
    minors = {device.minor: device for device in devices if device.minor is not None}
    if seen is None or not minors:
        return
    mine = {
        number
        for number, device in minors.items()
        if device.uuid in given.uuids or any(mig.uuid in given.uuids for mig in device.migs)
    }
    foreign, lacking = sorted(seen & set(minors) - mine), sorted(mine - seen)
    if foreign:
        yield finding(
            ContainerWithForeignGpu(
                message=f"{given.name} has {counted(len(foreign), 'GPU')} that it was not given:"
                f" {listed([f'/dev/nvidia{number}' for number in foreign])}",
                remedy="take NVIDIA's runtime from being the default, or use deviceListStrategy cdi-cri",
                container=given.name,
                paths=tuple(f"/dev/nvidia{number}" for number in foreign),
            ),
            where=f"/proc/{given.container.pid}/root/dev",
            why=f"kubelet gave it {listed(given.uuids) or 'none'}; NVIDIA_VISIBLE_DEVICES of its image is"
            f" {_said(given, 'NVIDIA_VISIBLE_DEVICES')}, and NVIDIA's runtime obeys that",
        )
    if lacking:
        yield finding(
            ContainerWithoutGpu(
                message=f"{given.name} was given {listed([f'/dev/nvidia{number}' for number in lacking])},"
                " and lacks it",
                remedy="correct those, then delete the pod",
                container=given.name,
                paths=tuple(f"/dev/nvidia{number}" for number in lacking),
            ),
            where=f"/proc/{given.container.pid}/root/dev",
            why="nothing brought the GPU into the container: see the layers runtime and cdi",
        )


def _said(given: Given, name: str) -> str:
    value = (given.container.env or {}).get(name)
    return "not set" if value is None else repr(value[:100])


def _visible(given: Given) -> Iterator[NodeFinding]:
    """What NVIDIA's runtime was told. With CDI it is `void`, on purpose."""
    value = (given.container.env or {}).get("NVIDIA_VISIBLE_DEVICES")
    asked = [part.strip() for part in (value or "").split(",") if part.strip() not in _SCREENS]
    other = [part for part in asked if part.startswith(("GPU-", "MIG-")) and part not in given.uuids]
    if other and given.uuids:
        yield finding(
            VisibleDevicesMismatch(
                message=f"{given.name} asks the runtime for {listed(other)}, and was given"
                f" {listed(given.uuids)}",
                remedy="take NVIDIA_VISIBLE_DEVICES out of the pod's env",
                container=given.name,
                devices=tuple(other),
                given=given.uuids,
            ),
            where=_where(given),
            why="NVIDIA_VISIBLE_DEVICES is set in its manifest, over what the device plugin answered",
        )
    elif "all" in asked and given.container.minors is None and given.uuids:
        yield finding(
            VisibleDevicesMismatch(
                message=f"{given.name} asks the runtime for all GPUs, and was given {listed(given.uuids)}",
                remedy="run doctor as root; take NVIDIA_VISIBLE_DEVICES out of the pod's env",
                container=given.name,
                devices=("all",),
                given=given.uuids,
            ),
            where=_where(given),
            why="whether it has got them cannot be seen: needs root",
            severity=Severity.WARNING,
        )


def _cuda_visible(given: Given, value: str | None) -> Iterator[NodeFinding]:
    """CUDA stops at the first entry that is no device of the container, and ignores those behind it."""
    if value is None or not value.strip():
        return
    entries = [part.strip() for part in value.split(",")]
    wrong = next((entry for entry in entries if not _is_own(entry, given.uuids)), None)
    if wrong is None or wrong == "-1":
        return
    count = len(given.uuids)
    yield finding(
        CudaVisibleDevicesMismatch(
            message=f"{given.name} sets CUDA_VISIBLE_DEVICES={value[:100]}, and has {counted(count, 'GPU')}",
            remedy="take CUDA_VISIBLE_DEVICES out of the pod's env: it has only its own GPUs anyway",
            container=given.name,
            value=value,
            gpus=count,
        ),
        where=_where(given),
        why=f"{wrong!r} is none of them: inside a container they are counted from 0;"
        " CUDA says 'no CUDA-capable device is detected' or 'invalid device ordinal'",
    )


def _is_own(entry: str, uuids: tuple[str, ...]) -> bool:
    """Whether CUDA finds the entry: an index, or the beginning of a uuid that fits one device."""
    if entry.isascii() and entry.isdecimal():
        return len(entry) < 6 and int(entry) < len(uuids)
    return sum(uuid.startswith(entry) for uuid in uuids) == 1 and len(entry) > 4


def _crowded(
    facts: WorkloadFacts, answer: DriverAnswer, given: list[Given], wanted: str
) -> Iterator[NodeFinding]:
    """APP-1: memory is full, and not by one alone."""
    holders: dict[str, list[str]] = {}
    for hold in facts.holds or ():
        name = f"{hold.namespace}/{hold.pod}" if hold.namespace else f"pod {hold.pod}"
        for uuid in dict.fromkeys(parse_device_id(each).uuid for each in hold.ids):
            holders.setdefault(uuid, []).append(f"{name} ({hold.container})")
    chosen = {uuid for each in given if _is(each, wanted) for uuid in each.uuids} if wanted else set(holders)
    for device in answer.inventory.devices if answer.inventory is not None else ():
        used, names = answer.used_mib.get(device.uuid), holders.get(device.uuid, [])
        if used is None or len(names) < 2 or device.uuid not in chosen:
            continue
        if used < _CROWDED * device.memory_mib or not device.memory_mib:
            continue
        parts = _parts(facts, answer, given, device.uuid) or sorted(names)
        yield finding(
            GpuMemoryCrowded(
                message=f"GPU {device.index}: {counted(len(names), 'container')} use {used} of"
                f" {device.memory_mib} MiB",
                remedy="fewer replicas, MIG, or a limit of memory (MPS) for those. If yours has most: a"
                " smaller"
                " batch or model, or less fragmentation (PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True)",
                device=device.uuid,
                used=used,
                memory=device.memory_mib,
                containers=tuple(names),
            ),
            where=device.uuid,
            why=f"who asks for more gets 'CUDA out of memory', whoever has most: {listed(parts, 8)}",
        )


def _parts(facts: WorkloadFacts, answer: DriverAnswer, given: list[Given], uuid: str) -> list[str]:
    """Who has how much of a device's memory, most first; nothing where the driver does not say."""
    names = {each.container.container_id: each.name for each in given}
    used: Counter[str] = Counter()
    for process in answer.processes:
        if process.uuid == uuid and process.memory_mib is not None:
            identity = facts.owners.get(process.pid, "")
            used[names.get(identity) or (identity[:12] if identity else f"process {process.pid}")] += (
                process.memory_mib
            )
    return [f"{name} {mib} MiB" for name, mib in used.most_common()]
