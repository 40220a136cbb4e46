"""From the MIG instances that a GPU has to those that it shall have, with as little disturbance as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations

from tonnage.model.catalog.mig import MigModel
from tonnage.model.mig.compute import Split, splits_for
from tonnage.model.mig.geometry import Spot
from tonnage.model.mig.placements import conflict, placements
from tonnage.model.reasons.gpu.mig import MigLayoutReason


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance that is there; `holders` are the pods that use it, as `namespace/name`.

    `split`: the compute slices of its compute instances, where not one has them all.
    """

    profile: str
    start: int
    uuid: str = ""
    holders: tuple[str, ...] = ()
    split: Split = ()

    @property
    def spot(self) -> Spot:
        return self.profile, self.start


@dataclass(frozen=True, slots=True)
class MigPlan:
    """What stays as it is, what is destroyed, and what is made where, in the order of slices.

    `splits`: the compute instances of those made that get several, or one that is smaller.
    """

    keep: tuple[Instance, ...] = ()
    destroy: tuple[Instance, ...] = ()
    create: tuple[Spot, ...] = ()
    splits: Mapping[Spot, Split] = field(default_factory=dict)

    @property
    def holders(self) -> tuple[str, ...]:
        """Who must go before this can be done, sorted."""
        return tuple(sorted({holder for instance in self.destroy for holder in instance.holders}))

    @property
    def nothing(self) -> bool:
        """Whether the GPU is as it shall be."""
        return not self.destroy and not self.create


@dataclass(frozen=True, slots=True, order=True)
class _Kind:
    """What makes a GPU instance as good as another: its profile, and its compute instances."""

    profile: str
    split: Split = ()


def plan_gpu(
    model: MigModel, now: tuple[Instance, ...], demand: Mapping[str, int]
) -> MigPlan | MigLayoutReason:
    """The way to `demand` that evicts the fewest holders, then destroys the fewest instances.

    Every choice of instances to keep is looked at, best first, so nothing better is overlooked; but which
    smaller compute instances stand together is settled before, by what is held most. An instance that the
    model does not know is destroyed: nobody can tell what fits beside it.
    """
    held = sorted(now, key=lambda instance: -len(instance.holders))
    splits = splits_for(demand, [(instance.profile, instance.split) for instance in held])
    if isinstance(splits, MigLayoutReason):
        return splits
    counts = {name: len(instance_splits) for name, instance_splits in splits.items()}
    if placements(model, counts) is None:
        return conflict(model, counts)
    kinds = Counter(
        _Kind(name, split) for name, instance_splits in splits.items() for split in instance_splits
    )
    # Holders as bits, not names: GPUs that are used alike then share an answer of `_kept_places`.
    numbers: dict[str, int] = {}
    holder_bits = (
        sum({1 << numbers.setdefault(holder, len(numbers)) for holder in instance.holders})
        for instance in now
    )
    instances = (
        (_Kind(instance.profile, instance.split), instance.start, bits)
        for instance, bits in zip(now, holder_bits, strict=True)
    )
    places, made = _kept_places(model, tuple(instances), tuple(sorted(kinds.items())))
    gone = tuple(instance for place, instance in enumerate(now) if place not in places)
    return MigPlan(
        tuple(now[place] for place in places),
        gone,
        tuple((kind.profile, start) for kind, start in made),
        {(kind.profile, start): kind.split for kind, start in made if kind.split},
    )


@lru_cache(maxsize=4096)
def _kept_places(
    model: MigModel, now: tuple[tuple[_Kind, int, int], ...], goal: tuple[tuple[_Kind, int], ...]
) -> tuple[tuple[int, ...], tuple[tuple[_Kind, int], ...]]:
    """(places in `now` to keep, what is made beside them). `now` is kind, start, and holders as bits.

    Fleets have few patterns and many GPUs, so answers are remembered.
    """
    demand = Counter(dict(goal))
    useful = [place for place, (kind, start, _) in enumerate(now) if _is_useful(model, kind, start, demand)]
    choices = [choice for size in range(len(useful), -1, -1) for choice in combinations(useful, size)]
    # `choices` begin with the largest, and the sort is stable: of equals the one that keeps more comes first.
    for places in sorted(choices, key=lambda choice: _evicted(now, choice)):
        kinds = Counter(now[place][0] for place in places)
        if kinds <= demand:
            made = _made(model, demand - kinds, [(now[place][0].profile, now[place][1]) for place in places])
            if made is not None:
                return places, made
    raise AssertionError("to keep nothing is a choice, and the goal alone fits")


def _made(model: MigModel, kinds: Counter[_Kind], beside: list[Spot]) -> tuple[tuple[_Kind, int], ...] | None:
    """Where each goes, in the order of slices; those of a profile may change places among them."""
    counts: Counter[str] = Counter()
    for kind, count in kinds.items():
        counts[kind.profile] += count
    placed = placements(model, counts, beside=beside)
    if placed is None:
        return None
    left = sorted(kinds.elements(), reverse=True)
    made: list[tuple[_Kind, int]] = []
    for profile, start in sorted(placed, key=lambda placement: placement[1]):
        kind = next(kind_left for kind_left in left if kind_left.profile == profile.name)
        left.remove(kind)
        made.append((kind, start))
    return tuple(made)


def _evicted(now: tuple[tuple[_Kind, int, int], ...], places: tuple[int, ...]) -> int:
    """How many holders lose an instance."""
    lost = 0
    for place, (_, _, users) in enumerate(now):
        if place not in places:
            lost |= users
    return lost.bit_count()


def _is_useful(model: MigModel, kind: _Kind, start: int, demand: Mapping[_Kind, int]) -> bool:
    """An instance that the goal has, too."""
    name = kind.profile
    return bool(demand.get(kind)) and name in model.profiles and start in model.profiles[name].starts
