"""A change of a node's MIG layout: where it leads, what was before, and what a GPU lacks or has too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.mig.goal import GpuGoal, MigGpu
from tonnage.decide.node.mig.plan import Instance
from tonnage.model.actions.devices import (
    CreateComputeInstance,
    CreateGpuInstance,
    MigStep,
    ResetGpu,
    SetMigMode,
)
from tonnage.model.mig.compute import Split
from tonnage.model.mig.geometry import Spot
from tonnage.model.mig.hooks import HostWork
from tonnage.model.mig.layouts import DividedGpu, GpuInstance
from tonnage.model.reasons.gpu.mig import MigObstacle


@dataclass(frozen=True, slots=True)
class MigPart:
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
    parts: tuple[MigPart, ...] = ()


@dataclass(frozen=True, slots=True)
class MigChange:
    """A change under way, of the GPUs that are not yet as configuration `config` wants them.

    `kept`: ids of the GPU instances that it leaves alone, by GPU; all else of these GPUs is withheld. It
    goes on to `goal` until it is refused, and then back to what was `before`. Not `begun`: the devices are
    withdrawn, nothing else is done, and somebody may have been quicker. `resumed`: so many agents ended
    during it. `resets`: GPUs that take another mode by a reset, each with all that are reset with it; those
    are in `goal`, too.
    It goes back on account of the `stubborn`, which want a reset that is not in `resets`. `host`: what the
    node's host does around it. `rebooted`: the boot (its id) in which the node was told to restart for it.
    """

    config: str
    goal: tuple[GpuShape, ...]
    before: tuple[GpuShape, ...]
    kept: dict[str, tuple[int, ...]]
    refusal: MigObstacle | None = None
    begun: bool = False
    resumed: int = 0
    resets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stubborn: tuple[str, ...] = ()
    host: HostWork = field(default_factory=HostWork)
    rebooted: str = ""

    @property
    def target(self) -> tuple[GpuShape, ...]:
        """Where it leads now."""
        return self.before if self.refusal else self.goal

    def spots(self, uuid: str) -> frozenset[Spot]:
        """Where on a GPU instances are the change's to destroy; any others are somebody else's."""
        shapes = (shape for shape in (*self.goal, *self.before) if shape.uuid == uuid)
        return frozenset(part.spot for shape in shapes for part in shape.parts)


def gpu_of(gpu: DividedGpu, held: DeviceHolds) -> MigGpu:
    """The GPU that the driver shows, as goals and plans are made for it: with the pods in each instance."""
    holders = _holders(gpu, held)
    now = tuple(
        Instance(
            instance.profile,
            instance.start,
            "",
            tuple(sorted(holders.get(instance.id, ()))),
            _split(instance),
        )
        for instance in gpu.instances
    )
    return MigGpu(gpu.index, gpu.product, gpu.uuid, now, gpu.enabled, gpu.device, profiles=gpu.profiles)


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


def change_to(
    config: str,
    goals: Iterable[GpuGoal],
    gpus: Iterable[DividedGpu],
    resets: Mapping[str, tuple[str, ...]] | None = None,
    stubborn: Set[str] = frozenset(),
) -> MigChange | None:
    """The change that brings the goals about; None: everything is so already. No goal is a refusal.

    `resets`: see `reset_groups.resets_of`. Most drivers turn a GPU that nobody uses and leave the others of
    its board alone, so these are reset with it only where it was `stubborn` before, or where all of them
    are turned. Who is reset beside is part of the change, and gets back what it has.
    """
    gpu_by_uuid = {gpu.uuid: gpu for gpu in gpus}
    goal: dict[str, GpuShape] = {}
    instances_left: dict[str, tuple[int, ...]] = {}
    for gpu_goal in goals:
        gpu = gpu_by_uuid.get(gpu_goal.gpu.uuid)
        if gpu_goal.plan is None or gpu is None:
            continue
        enabled = (gpu_goal.gpu.enabled or bool(gpu_goal.gpu.now)) != gpu_goal.mode
        splits = {instance.spot: instance.split for instance in gpu_goal.plan.keep}
        splits |= {spot: gpu_goal.plan.splits.get(spot, ()) for spot in gpu_goal.plan.create}
        spots = sorted(splits, key=lambda spot: spot[1])
        parts = (MigPart(*spot, tuple(sorted(splits[spot])) or (_slices(spot[0]),)) for spot in spots)
        shape = GpuShape(gpu.uuid, enabled, tuple(parts))
        touched = {instance.id for instance in surplus(shape, gpu)}
        if not touched and mode_step(shape, gpu) is None and create_step(shape, gpu) is None:
            continue
        goal[gpu.uuid] = shape
        instances_left[gpu.uuid] = tuple(
            instance.id for instance in gpu.instances if instance.id not in touched
        )
    turned = {uuid for uuid, shape in goal.items() if gpu_by_uuid[uuid].enabled != shape.enabled}
    together = {
        uuid: group
        for uuid, group in (resets or {}).items()
        if uuid in turned and (turned.issuperset(group) or not stubborn.isdisjoint(group))
    }
    # A reset takes every instance of the group: GPUs beside are part of the change, and have a `before`.
    for uuid in (uuid for group in together.values() for uuid in group):
        instances_left[uuid] = ()
        if uuid in gpu_by_uuid:
            goal.setdefault(uuid, shape_of(gpu_by_uuid[uuid]))
    before = tuple(shape_of(gpu_by_uuid[uuid]) for uuid in goal)
    return MigChange(config, tuple(goal.values()), before, instances_left, resets=together) if goal else None


def shape_of(gpu: DividedGpu) -> GpuShape:
    """What the GPU is divided into now."""
    parts = tuple(MigPart(instance.profile, instance.start, instance.slices) for instance in gpu.instances)
    return GpuShape(gpu.uuid, gpu.enabled, parts)


def mode_step(shape: GpuShape, gpu: DividedGpu) -> MigStep | None:
    """To the mode that it shall have; None: it has it, and none that waits."""
    if gpu.pending != shape.enabled:
        return SetMigMode(gpu.uuid, shape.enabled)
    return ResetGpu(gpu.uuid) if gpu.enabled != shape.enabled else None


def create_step(shape: GpuShape, gpu: DividedGpu) -> MigStep | None:
    """Make the first instance that the GPU lacks; None: it lacks none."""
    by_spot = {(instance.profile, instance.start): instance for instance in gpu.instances}
    for part in shape.parts:
        instance = by_spot.get(part.spot)
        if instance is None:
            return CreateGpuInstance(gpu.uuid, part.profile, part.start)
        missing = Counter(part.slices) - Counter(instance.slices)
        if missing:
            return CreateComputeInstance(gpu.uuid, instance, max(missing))
    return None


def surplus(shape: GpuShape, gpu: DividedGpu) -> Iterator[GpuInstance]:
    """Instances that are not as the shape has them, or not at all in it."""
    goal_slices = {part.spot: Counter(part.slices) for part in shape.parts}
    for instance in gpu.instances:
        slices = goal_slices.get((instance.profile, instance.start))
        if slices is None or not Counter(instance.slices) <= slices:
            yield instance


def _holders(gpu: DividedGpu, held: DeviceHolds) -> dict[int, tuple[str, ...]]:
    """Pods, as `namespace/name`, by the id of the GPU instance that they use."""
    return {
        instance.id: tuple(
            "/".join(filter(None, pod))
            for pod in pods_with(held, {compute.uuid for compute in instance.computes})
        )
        for instance in gpu.instances
    }


def pods_with(held: DeviceHolds, uuids: set[str]) -> tuple[tuple[str, str], ...]:
    """Who holds one of these devices."""
    return tuple(dict.fromkeys((hold.namespace, hold.pod) for hold in held.with_devices(uuids)))
