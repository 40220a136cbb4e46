"""A change of a node's MIG layout: where it leads, what is done next, and who is in the way.

What comes next follows from the change and from the GPUs as they are, and from nothing that was done before:
whoever takes over after a crash goes on where it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from tonnage.decide.node.mig_compute import Split
from tonnage.decide.node.mig_geometry import Spot
from tonnage.decide.node.mig_goal import GpuGoal, MigGpu
from tonnage.decide.node.mig_plan import Instance
from tonnage.model.mig import (
    CreateComputeInstance,
    CreateGpuInstance,
    DestroyComputeInstance,
    DestroyGpuInstance,
    DividedGpu,
    GpuInstance,
    MigStep,
    ResetGpu,
    SetMigMode,
)
from tonnage.model.names import parse_device_id
from tonnage.model.sharing import Hold


@dataclass(frozen=True, slots=True)
class Part:
    """A GPU instance that shall be there, with compute instances of these sizes, sorted."""

    profile: str
    start: int
    slices: tuple[int, ...]

    @property
    def spot(self) -> Spot:
        return self.profile, self.start


@dataclass(frozen=True, slots=True)
class GpuShape:
    """What a GPU is divided into; not `enabled`: it is whole."""

    uuid: str
    enabled: bool
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class MigChange:
    """A change under way, of the GPUs that are not yet as configuration `config` wants them.

    `kept` are the ids of GPU instances that the change leaves alone, by GPU. It goes forward to `goal` until
    there is a reason (`why`) to go back to what was `before`. Not `begun`: the devices are withdrawn, nothing
    else is done, and somebody may have been quicker. `resumed`: so many agents ended during it.
    """

    config: str
    goal: tuple[GpuShape, ...]
    before: tuple[GpuShape, ...]
    kept: dict[str, tuple[int, ...]]
    why: str = ""
    begun: bool = False
    resumed: int = 0

    @property
    def target(self) -> tuple[GpuShape, ...]:
        """Where it leads now."""
        return self.before if self.why else self.goal

    def spots(self, uuid: str) -> frozenset[Spot]:
        """Where on a GPU instances are the change's to destroy; any others are somebody else's."""
        shapes = (shape for shape in (*self.goal, *self.before) if shape.uuid == uuid)
        return frozenset(part.spot for shape in shapes for part in shape.parts)


def gpu_of(gpu: DividedGpu, holds: Iterable[Hold]) -> MigGpu:
    """The GPU as plans are made for it."""
    holders = _holders(gpu, holds)
    now = tuple(
        Instance(one.profile, one.start, "", tuple(sorted(holders.get(one.id, ()))), _split(one))
        for one in gpu.instances
    )
    return MigGpu(gpu.index, gpu.product, gpu.uuid, now, gpu.enabled)


def _split(instance: GpuInstance) -> Split:
    """As plans have it: nothing where one compute instance has all slices, or none is made yet."""
    whole = instance.slices in ((), (_slices(instance.profile),))
    return () if whole else tuple(sorted(instance.slices, reverse=True))


def _slices(profile: str) -> int:
    """The compute slices that a GPU instance has.

    >>> _slices("1g.10gb+me")
    1
    """
    return int(profile.partition("g.")[0])


def change_to(config: str, goals: Iterable[GpuGoal], gpus: Iterable[DividedGpu]) -> MigChange | None:
    """The change that brings the goals about; None: everything is so already. No goal is a refusal."""
    there = {gpu.uuid: gpu for gpu in gpus}
    goal: list[GpuShape] = []
    before: list[GpuShape] = []
    kept: dict[str, tuple[int, ...]] = {}
    for each in goals:
        gpu = there.get(each.gpu.uuid)
        if each.plan is None or gpu is None:
            continue
        enabled = (each.gpu.enabled or bool(each.gpu.now)) != each.mode
        splits = {one.spot: one.split for one in each.plan.keep}
        splits |= {spot: each.plan.splits.get(spot, ()) for spot in each.plan.create}
        spots = sorted(splits, key=lambda spot: spot[1])
        parts = (Part(*spot, tuple(sorted(splits[spot])) or (_slices(spot[0]),)) for spot in spots)
        shape = GpuShape(gpu.uuid, enabled, tuple(parts))
        own = frozenset((*spots, *((one.profile, one.start) for one in gpu.instances)))
        if _step(shape, gpu, own, ()) is None:
            continue
        goal.append(shape)
        before.append(shape_of(gpu))
        touched = {one.id for one in _touched(shape, gpu)}
        kept[gpu.uuid] = tuple(one.id for one in gpu.instances if one.id not in touched)
    return MigChange(config, tuple(goal), tuple(before), kept) if goal else None


def shape_of(gpu: DividedGpu) -> GpuShape:
    """What the GPU is divided into now."""
    parts = tuple(Part(one.profile, one.start, one.slices) for one in gpu.instances)
    return GpuShape(gpu.uuid, gpu.enabled, parts)


def next_step(change: MigChange, gpus: Iterable[DividedGpu]) -> MigStep | str | None:
    """What is to be done now; None: nothing, it is as it shall be. A text: why nothing can be done."""
    there = {gpu.uuid: gpu for gpu in gpus}
    for shape in change.target:
        gpu = there.get(shape.uuid)
        if gpu is None:
            return f"{shape.uuid} does not answer, or is gone"
        step = _step(shape, gpu, change.spots(shape.uuid), change.kept.get(shape.uuid, ()))
        if step is not None:
            return step
    return None


def _step(shape: GpuShape, gpu: DividedGpu, own: frozenset[Spot], kept: tuple[int, ...]) -> MigStep | None:
    for one in _touched(shape, gpu):
        if one.id in kept or (one.profile, one.start) not in own:
            continue
        if one.computes:
            return DestroyComputeInstance(gpu.uuid, one, one.computes[-1].id)
        return DestroyGpuInstance(gpu.uuid, one)
    if gpu.pending != shape.enabled:
        return SetMigMode(gpu.uuid, shape.enabled)
    if gpu.enabled != shape.enabled:
        return ResetGpu(gpu.uuid)
    return _missing(shape, gpu)


def _missing(shape: GpuShape, gpu: DividedGpu) -> MigStep | None:
    there = {(one.profile, one.start): one for one in gpu.instances}
    for part in shape.parts:
        one = there.get(part.spot)
        if one is None:
            return CreateGpuInstance(gpu.uuid, part.profile, part.start)
        missing = Counter(part.slices) - Counter(one.slices)
        if missing:
            return CreateComputeInstance(gpu.uuid, one, max(missing))
    return None


def _touched(shape: GpuShape, gpu: DividedGpu) -> Iterator[GpuInstance]:
    """Instances that are not as the shape has them, or not at all in it."""
    want = {part.spot: Counter(part.slices) for part in shape.parts}
    for one in gpu.instances:
        left = want.get((one.profile, one.start))
        if left is None or not Counter(one.slices) <= left:
            yield one


@dataclass(frozen=True, slots=True)
class MigUser:
    """Who is in the way of a change: a pod (namespace and name, as far as they are known), or a process."""

    device: str
    pod: tuple[str, str] | None = None
    pid: int = 0

    def __str__(self) -> str:
        if self.pod is None:
            return f"{self.device} is used by process {self.pid}"
        return f"{self.device} is used by {'/'.join(filter(None, self.pod)) or 'a container'}"


def in_the_way(change: MigChange, gpus: Iterable[DividedGpu], holds: Iterable[Hold]) -> tuple[MigUser, ...]:
    """Who uses what the change would destroy, or a GPU that it would turn: pods, and processes of nobody."""
    there, holds = {gpu.uuid: gpu for gpu in gpus}, tuple(holds)
    found: dict[MigUser, None] = {}
    for shape in change.goal:
        if (gpu := there.get(shape.uuid)) is not None:
            found |= dict.fromkeys(_in_the_way(shape, gpu, holds))
    return tuple(found)


def _in_the_way(shape: GpuShape, gpu: DividedGpu, holds: tuple[Hold, ...]) -> Iterator[MigUser]:
    turned = gpu.enabled != shape.enabled
    touched = gpu.instances if turned else tuple(_touched(shape, gpu))
    for one in touched:
        name = one.computes[0].uuid if one.computes else f"{one.profile} of {gpu.uuid}"
        uuids = {each.uuid for each in one.computes}
        yield from _users(name, _of(holds, uuids), [pid for gi, pid in gpu.users if gi == one.id])
    if turned or touched:
        pids = [pid for gi, pid in gpu.users if gi is None]
        yield from _users(gpu.uuid, _of(holds, {gpu.uuid}), pids)


def _users(device: str, pods: tuple[tuple[str, str], ...], pids: Iterable[int]) -> Iterator[MigUser]:
    """Processes count only where no pod is known that they may be of."""
    yield from (MigUser(device, pod) for pod in pods)
    if not pods:
        yield from (MigUser(device, pid=pid) for pid in pids)


def _holders(gpu: DividedGpu, holds: Iterable[Hold]) -> dict[int, tuple[str, ...]]:
    """Pods, as `namespace/name`, by the id of the GPU instance that they use."""
    holds = tuple(holds)
    return {
        one.id: tuple("/".join(filter(None, pod)) for pod in _of(holds, {each.uuid for each in one.computes}))
        for one in gpu.instances
    }


def _of(holds: Iterable[Hold], uuids: set[str]) -> tuple[tuple[str, str], ...]:
    """Who holds one of these devices."""
    found = (
        (hold.namespace, hold.pod)
        for hold in holds
        if any(parse_device_id(text).uuid in uuids for text in hold.ids)
    )
    return tuple(dict.fromkeys(found))
