"""How many GPU instances it takes for compute instances that have less than all of one (`1c.3g.40gb`).

Source: NVIDIA MIG user guide, compute instances; mig-parted makes several in one GPU instance, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tonnage.model.mig.profile_names import parse_profile
from tonnage.model.reasons.gpu.mig import MigLayoutReason, MigProfileNotOffered

Split = tuple[int, ...]
"""Compute slices of the compute instances in a GPU instance, the largest first; (): one has them all."""

_SIZES: Final[Mapping[int, tuple[int, ...]]] = {2: (1,), 3: (1, 2), 4: (1, 2), 7: (1, 2, 3, 4)}
"""What compute instances may have of a GPU instance's slices. Those that sum up to no more fit together."""


def gpu_instances(demand: Mapping[str, int]) -> dict[str, int] | MigLayoutReason:
    """The fewest GPU instances, by profile, that what is wanted takes.

    >>> gpu_instances({"1c.3g.40gb": 6}), gpu_instances({"1c.3g.40gb": 1, "2c.3g.40gb": 1, "1g.10gb": 1})
    ({'3g.40gb': 2}, {'3g.40gb': 1, '1g.10gb': 1})
    """
    splits = splits_for(demand)
    return (
        splits
        if isinstance(splits, MigLayoutReason)
        else {name: len(instance_splits) for name, instance_splits in splits.items()}
    )


def splits_for(
    demand: Mapping[str, int], there: Iterable[tuple[str, Split]] = ()
) -> dict[str, tuple[Split, ...]] | MigLayoutReason:
    """How each GPU instance is split, by profile; as few as can be.

    Those that are `there`, in the order in which they are worth keeping, are used again where that takes no
    more GPU instances.
    """
    parts: dict[str, Counter[int]] = {}
    by_profile: dict[str, tuple[Split, ...]] = {}
    for text, count in demand.items():
        if not count:
            continue
        name = _parsed(text)
        if isinstance(name, MigLayoutReason):
            return name
        instance, compute = name
        by_profile.setdefault(instance, ())
        if compute is None:
            by_profile[instance] += ((),) * count
        else:
            parts.setdefault(instance, Counter())[compute] += count
    for instance, sizes in parts.items():
        able = [split for profile, split in there if profile == instance and split]
        by_profile[instance] += _splits(_slices(instance), sizes, able)
    return by_profile


def compute_sizes(slices: int) -> tuple[int, ...]:
    """What compute instances may have of a GPU instance of so many slices, where not all of them.

    >>> compute_sizes(3), compute_sizes(1)
    ((1, 2), ())
    """
    return _SIZES.get(slices, ())


def _parsed(text: str) -> tuple[str, int | None] | MigLayoutReason:
    """The GPU instance's profile and the compute slices; None: all of them."""
    try:
        name = parse_profile(text)
    except ValueError as error:
        return MigProfileNotOffered(subject=f"MIG profile {text}", message=str(error))
    able = compute_sizes(name.slices)
    if name.compute is not None and name.compute not in able:
        instead = tuple(f"{size}c.{name.gpu_instance}" for size in able)
        message = f"a {name.gpu_instance} has no compute instances of {name.compute}"
        return MigProfileNotOffered(subject=f"MIG profile {text}", message=message, instead=instead)
    return name.gpu_instance, name.compute


def _slices(instance: str) -> int:
    return parse_profile(instance).slices


def _splits(slices: int, sizes: Counter[int], there: list[Split]) -> tuple[Split, ...]:
    fewest = len(_first_fit(slices, sizes))
    reused: list[Split] = []
    left = Counter(sizes)
    for split in there:
        rest = left - Counter(split)
        if Counter(split) <= left and len(reused) + 1 + len(_first_fit(slices, rest)) <= fewest:
            reused.append(split)
            left = rest
    return (*reused, *_first_fit(slices, left))


def _first_fit(slices: int, sizes: Counter[int]) -> tuple[Split, ...]:
    """The largest first. Of four slices at most, or of seven with one GPU instance, nothing takes fewer."""
    bins: list[list[int]] = []
    for size in sorted(sizes.elements(), reverse=True):
        room = next((sizes_of_bin for sizes_of_bin in bins if sum(sizes_of_bin) + size <= slices), None)
        if room is None:
            bins.append([size])
        else:
            room.append(size)
    return tuple(tuple(sizes_of_bin) for sizes_of_bin in bins)
