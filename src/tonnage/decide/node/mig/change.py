"""A change of a node's MIG layout: where it leads, what is done next, and who is in the way.

What comes next follows from the change and from the GPUs as they are, and from nothing that was done before:
whoever takes over after a crash goes on where it stands.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field

from tonnage.decide.node.mig.compute import Split
from tonnage.decide.node.mig.geometry import Spot
from tonnage.decide.node.mig.goal import GpuGoal, MigGpu
from tonnage.decide.node.mig.plan import Instance
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
from tonnage.model.mig_hooks import HostWork
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
    else is done, and somebody may have been quicker. `resumed`: so many agents ended during it. `resets`:
    GPUs that take another mode by a reset, each with all that are reset with it; those are in `goal`, too.
    It goes back on account of the `stubborn`, which want a reset that is not in `resets`. `host`: what the
    node's host does around it. `rebooted`: the boot (its id) in which the node was told to start anew for it.
    """

    config: str
    goal: tuple[GpuShape, ...]
    before: tuple[GpuShape, ...]
    kept: dict[str, tuple[int, ...]]
    why: str = ""
    begun: bool = False
    resumed: int = 0
    resets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    stubborn: tuple[str, ...] = ()
    host: HostWork = field(default_factory=HostWork)
    rebooted: str = ""

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

    `resets`: see `mig_board.resets_of`. Most drivers turn a GPU that nobody uses and leave the others of its
    board alone, so these are reset with it only where it was `stubborn` before, or where all of them are
    turned. Who is reset beside is part of the change, and gets back what it has.
    """
    there = {gpu.uuid: gpu for gpu in gpus}
    goal: dict[str, GpuShape] = {}
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
        touched = {one.id for one in _touched(shape, gpu)}
        if not touched and _turned(shape, gpu) is None and _missing(shape, gpu) is None:
            continue
        goal[gpu.uuid] = shape
        kept[gpu.uuid] = tuple(one.id for one in gpu.instances if one.id not in touched)
    turned = {uuid for uuid, shape in goal.items() if there[uuid].enabled != shape.enabled}
    together = {
        uuid: board
        for uuid, board in (resets or {}).items()
        if uuid in turned and (turned.issuperset(board) or not stubborn.isdisjoint(board))
    }
    # A reset takes every instance of the board: GPUs beside are part of the change, and have a `before`.
    for uuid in (uuid for board in together.values() for uuid in board):
        kept[uuid] = ()
        if uuid in there:
            goal.setdefault(uuid, shape_of(there[uuid]))
    before = tuple(shape_of(there[uuid]) for uuid in goal)
    return MigChange(config, tuple(goal.values()), before, kept, resets=together) if goal else None


def shape_of(gpu: DividedGpu) -> GpuShape:
    """What the GPU is divided into now."""
    parts = tuple(Part(one.profile, one.start, one.slices) for one in gpu.instances)
    return GpuShape(gpu.uuid, gpu.enabled, parts)


def next_step(change: MigChange, gpus: Iterable[DividedGpu]) -> MigStep | str | None:
    """What is to be done now; None: nothing, it is as it shall be. A text: why nothing can be done.

    GPUs that are reset together are changed together, so that one reset does for all of them. A reset of one
    that is not in `resets` is not to be done: whose else it would be was not asked.
    """
    there = {gpu.uuid: gpu for gpu in gpus}
    shapes = {shape.uuid: shape for shape in change.target}
    for uuid in (*shapes, *(uuid for board in change.resets.values() for uuid in board)):
        if uuid not in there:
            return f"{uuid} does not answer, or is gone: the driver does not show its MIG instances"
    for uuid in shapes:
        board = next((board for board in change.resets.values() if uuid in board), (uuid,))
        step = _step(change, [(shapes[each], there[each]) for each in board if each in shapes])
        if step is not None:
            return step
    return None


def _step(change: MigChange, board: list[tuple[GpuShape, DividedGpu]]) -> MigStep | str | None:
    for shape, gpu in board:
        gone = [one for one in _touched(shape, gpu) if one.id not in change.kept.get(gpu.uuid, ())]
        own = [one for one in gone if (one.profile, one.start) in change.spots(gpu.uuid)]
        if own:
            return _destroyed(gpu, own[0])
    turns = [turn for shape, gpu in board if (turn := _turned(shape, gpu)) is not None]
    for turn in sorted(turns, key=lambda turn: isinstance(turn, ResetGpu)):
        if not isinstance(turn, ResetGpu):
            return turn
        if turn.uuid not in change.resets:
            return turn
        others = tuple(uuid for uuid in change.resets[turn.uuid] if uuid != turn.uuid)
        return _emptied(change, board) or ResetGpu(turn.uuid, others)
    return next((step for shape, gpu in board if (step := _missing(shape, gpu)) is not None), None)


def _emptied(change: MigChange, board: list[tuple[GpuShape, DividedGpu]]) -> MigStep | str | None:
    """What a reset would destroy is destroyed before, so that nobody's is; None: nothing is left of it."""
    for _, gpu in board:
        for one in gpu.instances:
            if (one.profile, one.start) not in change.spots(gpu.uuid):
                return (
                    f"{one.profile} at {one.start} of {gpu.uuid} is somebody else's, and a reset destroys it"
                )
            return _destroyed(gpu, one)
    return None


def _destroyed(gpu: DividedGpu, one: GpuInstance) -> MigStep:
    if one.computes:
        return DestroyComputeInstance(gpu.uuid, one, one.computes[-1].id)
    return DestroyGpuInstance(gpu.uuid, one)


def _turned(shape: GpuShape, gpu: DividedGpu) -> MigStep | None:
    """To the mode that it shall have; None: it has it, and none that waits."""
    if gpu.pending != shape.enabled:
        return SetMigMode(gpu.uuid, shape.enabled)
    return ResetGpu(gpu.uuid) if gpu.enabled != shape.enabled else None


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
    turned = {
        shape.uuid
        for shape in change.goal
        if shape.uuid in there and there[shape.uuid].enabled != shape.enabled
    }
    turned |= {each for uuid in turned for each in change.resets.get(uuid, ())}
    found: dict[MigUser, None] = {}
    for shape in change.goal:
        if (gpu := there.get(shape.uuid)) is not None:
            found |= dict.fromkeys(_in_the_way(shape, gpu, holds, turned=shape.uuid in turned))
    return tuple(found)


def _in_the_way(
    shape: GpuShape, gpu: DividedGpu, holds: tuple[Hold, ...], *, turned: bool
) -> Iterator[MigUser]:
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
