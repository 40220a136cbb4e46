"""From the MIG instances that a GPU has to those that it shall have, with as little disturbance as can be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from tonnage.decide.node.mig_geometry import Spot
from tonnage.decide.node.mig_layouts import NoLayout, conflict, placements
from tonnage.model.catalog.mig import MigBoard


@dataclass(frozen=True, slots=True)
class Instance:
    """A GPU instance that is there; `holders` are the pods that use it, as `namespace/name`."""

    profile: str
    start: int
    uuid: str = ""
    holders: tuple[str, ...] = ()

    @property
    def spot(self) -> Spot:
        return self.profile, self.start


@dataclass(frozen=True, slots=True)
class MigPlan:
    """What stays as it is, what is destroyed, and what is made where, in the order of slices."""

    keep: tuple[Instance, ...] = ()
    destroy: tuple[Instance, ...] = ()
    create: tuple[Spot, ...] = ()

    @property
    def holders(self) -> tuple[str, ...]:
        """Who must go before this can be done, sorted."""
        return tuple(sorted({holder for instance in self.destroy for holder in instance.holders}))

    @property
    def nothing(self) -> bool:
        """Whether the GPU is as it shall be."""
        return not self.destroy and not self.create


def plan_gpu(board: MigBoard, now: tuple[Instance, ...], wanted: Mapping[str, int]) -> MigPlan | NoLayout:
    """The way to `wanted` that evicts the fewest holders, then destroys the fewest instances.

    Every choice of instances to keep is looked at, best first, so nothing better is overlooked. An instance
    that the board does not know is destroyed: nobody can tell what fits beside it.
    """
    goal = tuple(sorted((name, count) for name, count in wanted.items() if count))
    if placements(board, dict(goal)) is None:
        return conflict(board, dict(goal))
    numbers: dict[str, int] = {}
    users = (sum({1 << numbers.setdefault(one, len(numbers)) for one in each.holders}) for each in now)
    places, made = _kept(
        board, tuple((*each.spot, user) for each, user in zip(now, users, strict=True)), goal
    )
    gone = tuple(each for place, each in enumerate(now) if place not in places)
    return MigPlan(tuple(now[place] for place in places), gone, made)


@lru_cache(maxsize=4096)
def _kept(
    board: MigBoard, now: tuple[tuple[str, int, int], ...], goal: tuple[Spot, ...]
) -> tuple[tuple[int, ...], tuple[Spot, ...]]:
    """(places in `now` to keep, what is made beside them). `now` is profile, start, and holders as bits.

    Fleets have few patterns and many GPUs, so answers are remembered.
    """
    wanted = Counter(dict(goal))
    useful = [place for place, (name, start, _) in enumerate(now) if _is_useful(board, name, start, wanted)]
    choices = [one for size in range(len(useful), -1, -1) for one in combinations(useful, size)]
    for places in sorted(choices, key=lambda one: _evicted(now, one)):  # of equals the larger stays first
        kept = Counter(now[place][0] for place in places)
        if kept <= wanted:
            made = placements(board, wanted - kept, beside=[now[place][:2] for place in places])
            if made is not None:
                spots = ((profile.name, start) for profile, start in made)
                return places, tuple(sorted(spots, key=lambda spot: spot[1]))
    raise AssertionError("to keep nothing is a choice, and the goal alone fits")


def _evicted(now: tuple[tuple[str, int, int], ...], kept: tuple[int, ...]) -> int:
    """How many holders lose an instance."""
    lost = 0
    for place, (_, _, users) in enumerate(now):
        if place not in kept:
            lost |= users
    return lost.bit_count()


def _is_useful(board: MigBoard, name: str, start: int, wanted: Mapping[str, int]) -> bool:
    """An instance that the goal has, too."""
    return bool(wanted.get(name)) and name in board.profiles and start in board.profiles[name].starts
