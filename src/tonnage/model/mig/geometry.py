"""Every layout of a GPU that there is, placed or by its numbers alone, and which of them are full.

Source: NVIDIA MIG user guide, whose 19 configurations of an A100 are its full layouts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from tonnage.model.catalog.mig import MigModel, MigProfile

Spot = tuple[str, int]
"""A profile and the memory slice at which it begins."""
Counts = tuple[tuple[str, int], ...]
"""Profiles in the model's order, each with its number, which is not 0."""


def is_valid(model: MigModel, placed: Collection[Spot]) -> bool:
    """Whether a GPU can have exactly these instances at once.

    >>> from tonnage.model.catalog.mig import mig_model
    >>> a100 = mig_model("NVIDIA A100-SXM4-80GB")
    >>> is_valid(a100, [("3g.40gb", 4), ("4g.40gb", 0)]), is_valid(a100, [("3g.40gb", 0), ("4g.40gb", 0)])
    (True, False)
    """
    state: _State | None = _State(model)
    for name, start in placed:
        profile = model.profiles.get(name)
        if state is None or profile is None or start not in profile.starts:
            return False
        state = state.plus(profile, start)
    return state is not None


def all_layouts(
    model: MigModel, names: Collection[str] = (), *, full: bool = False
) -> Iterator[tuple[Spot, ...]]:
    """Each set of instances that a GPU can have at once, one at least. `names`: of these profiles only.

    `full`: only those to which none of them can be added.
    """
    spots = _spots(model, names)
    for chosen, state in _further(spots, 0, (), _State(model)):
        if chosen and not (full and any(state.plus(*spot) for spot in spots)):
            yield tuple((profile.name, start) for profile, start in chosen)


def all_counts(model: MigModel, names: Collection[str] = (), *, full: bool = False) -> tuple[Counts, ...]:
    """The numbers of instances by profile that some layout has; as `all_layouts`, most instances first.

    `full`: only those of which none is part of another.
    """
    order = [name for name in model.profiles if not names or name in names]
    layouts = ([name for name, _ in layout] for layout in all_layouts(model, names))
    vectors = {tuple(layout.count(name) for name in order) for layout in layouts}
    if full:  # with some numbers all smaller ones are possible, so one more of each is enough to try
        vectors = {
            vector
            for vector in vectors
            if not any(_one_more(vector, place) in vectors for place in range(len(vector)))
        }
    ordered = sorted(vectors, key=lambda vector: (-sum(vector), vector))
    return tuple(tuple((n, c) for n, c in zip(order, vector, strict=True) if c) for vector in ordered)


def _one_more(counts: Sequence[int], place: int) -> tuple[int, ...]:
    return (*counts[:place], counts[place] + 1, *counts[place + 1 :])


class _State:
    """What some instances take of a GPU: slices as bits, numbers by profile, engines."""

    __slots__ = ("counts", "engines", "model", "occupied")

    def __init__(self, model: MigModel) -> None:
        self.model = model
        self.occupied = 0
        self.counts: dict[str, int] = {}
        self.engines = (0, 0)

    def plus(self, profile: MigProfile, start: int) -> _State | None:
        """With one more; None where there is no room for it."""
        mask = ((1 << profile.memory) - 1) << start
        count = self.counts.get(profile.name, 0) + 1
        media, flow = self.engines[0] + profile.media, self.engines[1] + profile.flow
        if self.occupied & mask or count > profile.most or media > self.model.media or flow > self.model.flow:
            return None
        other = _State(self.model)
        other.occupied, other.engines = self.occupied | mask, (media, flow)
        other.counts = {**self.counts, profile.name: count}
        return other


def _spots(model: MigModel, names: Collection[str]) -> list[tuple[MigProfile, int]]:
    chosen = [profile for name, profile in model.profiles.items() if not names or name in names]
    return [(profile, start) for profile in chosen for start in profile.starts]


def _further(
    spots: Sequence[tuple[MigProfile, int]],
    first: int,
    chosen: tuple[tuple[MigProfile, int], ...],
    state: _State,
) -> Iterator[tuple[tuple[tuple[MigProfile, int], ...], _State]]:
    yield chosen, state
    for place in range(first, len(spots)):
        more = state.plus(*spots[place])
        if more is not None:
            yield from _further(spots, place + 1, (*chosen, spots[place]), more)
