"""Parts of GPUs as HAMi's scheduler counts them: out of what its components noted on nodes and pods.

HAMi's device plugin lists a node's devices in an annotation, its scheduler notes on each pod what it gave it,
and whether a pod fits is decided by those alone: to Kubernetes its resources are names without amounts.

Source: HAMi 2.5 to 2.10, pkg/device/devices.go, pkg/device/nvidia/device.go (Fit), pkg/device/common.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from tonnage.model.json import parsed_json
from tonnage.model.kubernetes.cluster import Container, Pod
from tonnage.model.kubernetes.selectors import Labels
from tonnage.model.whole_numbers import whole_number

SCHEDULER: Final = "hami-scheduler"
REGISTER: Final = "node-nvidia-register"
HANDSHAKE: Final = "node-handshake"
ALLOCATED: Final = "vgpu-devices-allocated"
COUNT, MEMORY, PERCENTAGE, CORES = (
    "nvidia.com/gpu",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
)
RESOURCES: Final = frozenset((COUNT, MEMORY, PERCENTAGE, CORES, "nvidia.com/priority"))
"""What its webhook hides from the rest of the scheduler, by the names that its chart gives."""
_FIELDS: Final = (7, 9)
_MOST: Final = 1024


@dataclass(frozen=True, slots=True)
class SharedGpu:
    """A GPU that `count` pods may share; memory in MiB, cores in hundredths of it."""

    id: str
    count: int
    memory_mib: int
    cores: int
    type: str = ""
    healthy: bool = True
    used: int = 0
    used_mib: int = 0
    used_cores: int = 0

    @property
    def left_mib(self) -> int:
        """What no pod was given."""
        return self.memory_mib - self.used_mib


@dataclass(frozen=True, slots=True)
class HamiRequest:
    """What a container asks of each of `gpus` GPUs; `percentage` of the memory where `memory_mib` is 0."""

    gpus: int
    memory_mib: int = 0
    percentage: int = 100
    cores: int = 0

    def on(self, gpu: SharedGpu) -> int:
        """MiB of one GPU."""
        return self.memory_mib or gpu.memory_mib * self.percentage // 100


def devices_of(notes: Labels, pods: Iterable[Pod]) -> tuple[SharedGpu, ...] | None:
    """A node's GPUs with what its pods have of them; None where HAMi lists none, or nobody can read it."""
    listed = _listed(notes.get(REGISTER, ""))
    if listed is None:
        return None
    used: dict[str, list[int]] = {}
    for pod in pods:
        for uuid, memory, cores in _assigned_shares(pod.hami.get(ALLOCATED, "")):
            row = used.setdefault(uuid, [0, 0, 0])
            row[0], row[1], row[2] = row[0] + 1, row[1] + memory, row[2] + cores
    return tuple(_with(gpu, used.get(gpu.id, [0, 0, 0])) for gpu in listed)


def parts_of(pod: Pod) -> Iterator[HamiRequest]:
    """What each container asks."""
    for container in pod.containers:
        part = _part(container)
        if part.gpus > 0:
            yield part


def without_parts(pod: Pod) -> tuple[Container, ...]:
    """The containers as the rest of the scheduler sees them, which leaves HAMi's resources alone."""
    return tuple(
        Container(
            name=c.name,
            image=c.image,
            requests={name: n for name, n in c.requests.items() if name not in RESOURCES},
            limits={name: n for name, n in c.limits.items() if name not in RESOURCES},
            requested=c.requested - RESOURCES,
            sidecar=c.sidecar,
            env=c.env,
        )
        for c in pod.containers
    )


def refused_by(gpu: SharedGpu, part: HamiRequest, wishes: Labels) -> str:
    """HAMi's word for why a GPU cannot take a part; empty: it can. `wishes` are the pod's annotations."""
    if not gpu.healthy:
        return "CardNotHealth"
    if not _is_of_type(gpu, wishes):
        return "CardTypeMismatch"
    if not _is_named(gpu, wishes):
        return "CardUuidMismatch"
    if gpu.used >= gpu.count:
        return "CardTimeSlicingExhausted"
    if gpu.left_mib < part.on(gpu):
        return "CardInsufficientMemory"
    if gpu.cores - gpu.used_cores < part.cores:
        return "CardInsufficientCore"
    if part.cores == gpu.cores and gpu.used > 0:
        return "ExclusiveDeviceAllocateConflict"
    return "CardComputeUnitsExhausted" if part.cores == 0 and gpu.used_cores >= gpu.cores > 0 else ""


def refused_on(gpus: tuple[SharedGpu, ...], part: HamiRequest, wishes: Labels) -> Mapping[str, int]:
    """How many GPUs of a node cannot take a part, by HAMi's word; empty: the node has enough that can."""
    if len(gpus) < part.gpus:
        return {"NodeInsufficientDevice": len(gpus)}
    words = [refused_by(gpu, part, wishes) for gpu in gpus]
    if words.count("") >= part.gpus:
        return {}
    counts = {word: words.count(word) for word in sorted({*words} - {""})}
    return {**counts, "AllocatedCardsInsufficientRequest": words.count("")} if "" in words else counts


def _listed(text: str) -> list[SharedGpu] | None:
    try:
        if text.lstrip().startswith("["):
            entries = cast(Any, parsed_json(text))  # whatever somebody wrote: it is tried
            return [_from_json(entry) for entry in entries[:_MOST]]
        entries = [entry.split(",") for entry in text.split(":") if entry][:_MOST]
        if not entries or any(len(entry) not in _FIELDS for entry in entries):
            return None
        return [
            SharedGpu(e[0], int(e[1]), int(e[2]), int(e[3]), e[4], e[6].lower() == "true") for e in entries
        ]
    except (ValueError, TypeError, AttributeError):
        return None


def _from_json(entry: Mapping[str, object]) -> SharedGpu:
    def number(key: str) -> int:
        value = entry.get(key, 0)
        return value if isinstance(value, int) else 0

    healthy = entry.get("health") is True
    kind, memory, cores = str(entry.get("type", "")), number("devmem"), number("devcore")
    return SharedGpu(str(entry.get("id", "")), number("count"), memory, cores, kind, healthy)


def _assigned_shares(text: str) -> Iterator[tuple[str, int, int]]:
    """`uuid,type,MiB,cores:` for each GPU of a container, `;` after each container."""
    for entry in text.replace(";", ":").split(":")[:_MOST]:
        fields = entry.split(",")
        memory, cores = (whole_number(field) for field in (*fields, "", "", "", "")[2:4])
        if len(fields) >= 4 and memory is not None and cores is not None:
            yield fields[0].partition("[")[0], memory, cores


def _with(gpu: SharedGpu, usage: list[int]) -> SharedGpu:
    used, memory, cores = usage
    return SharedGpu(gpu.id, gpu.count, gpu.memory_mib, gpu.cores, gpu.type, gpu.healthy, used, memory, cores)


def _part(container: Container) -> HamiRequest:
    amounts = {**container.requests, **container.limits}
    named = amounts.get(PERCENTAGE, 0)
    return HamiRequest(amounts.get(COUNT, 0), amounts.get(MEMORY, 0), named or 100, amounts.get(CORES, 0))


def _is_of_type(gpu: SharedGpu, wishes: Labels) -> bool:
    kind = gpu.type.upper()
    accepted, unwanted = (wishes.get(f"nvidia.com/{use}-gputype") for use in ("use", "nouse"))
    if accepted is not None and not any(word.upper() in kind for word in accepted.split(",")):
        return False
    return unwanted is None or not any(word.upper() in kind for word in unwanted.split(","))


def _is_named(gpu: SharedGpu, wishes: Labels) -> bool:
    accepted, unwanted = (wishes.get(f"nvidia.com/{use}-gpuuuid") for use in ("use", "nouse"))
    if accepted is not None:
        return gpu.id in accepted.split(",")
    return unwanted is None or gpu.id not in unwanted.split(",")
