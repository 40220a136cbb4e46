"""Which MIG profiles fit on a GPU together, and where; what a GPU cannot have, with the nearest that it can.

Planning, pretending and linting ask this module. Source: NVIDIA MIG user guide, placements by memory slices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tonnage.model.catalog.mig import MigModel, MigProfile
from tonnage.model.mig.compute import gpu_instances
from tonnage.model.mig.profile_names import nearest_profile
from tonnage.model.reasons.gpu.mig import MigLayoutReason, MigLayoutTooLarge, MigProfileNotOffered

_MOST_ALTERNATIVES: Final = 4


def layout_refusal(model: MigModel, counts: Mapping[str, int]) -> MigLayoutReason | None:
    """Why no GPU of the model can have these devices at once; None: it can.

    A profile may be that of a compute instance. Those of a GPU instance share one where they can.

    >>> from tonnage.model.catalog.mig import mig_model
    >>> a100 = mig_model("NVIDIA A100-SXM4-80GB")
    >>> layout_refusal(a100, {"1c.3g.40gb": 3, "1g.10gb": 4}), layout_refusal(a100, {"1g.10gb": 8}).instead
    (None, ('1g.10gb:7',))
    """
    instances = gpu_instances(counts)
    if isinstance(instances, MigLayoutReason):
        return instances
    return conflict(model, instances) if placements(model, instances) is None else None


def placements(
    model: MigModel, demand: Mapping[str, int], *, beside: Iterable[tuple[str, int]] = ()
) -> tuple[tuple[MigProfile, int], ...] | None:
    """Where each device goes, or None when they do not fit together, or `beside` (profile, first slice).

    >>> from tonnage.model.catalog.mig import mig_model
    >>> a100 = mig_model("NVIDIA A100-SXM4-80GB")
    >>> [(p.name, at) for p, at in placements(a100, {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2})]
    [('3g.40gb', 4), ('2g.20gb', 0), ('1g.10gb', 2), ('1g.10gb', 3)]
    """
    table = model.profiles
    beside = tuple(beside)
    if any(name not in table or count > table[name].most for name, count in demand.items()):
        return None
    if _lacking(model, Counter(demand) + Counter(name for name, _ in beside)):
        return None
    order = sorted(demand, key=lambda name: (len(table[name].starts), -table[name].memory, name))
    occupied = sum(_mask(table[name], start) for name, start in beside)
    return _placed([table[name] for name in order for _ in range(demand[name])], occupied, ())


def _lacking(model: MigModel, demand: Mapping[str, int]) -> str:
    """The engines of which the model has too few; empty where there are enough, or they limit nothing."""
    media = sum(model.profiles[name].media * count for name, count in demand.items())
    flow = sum(model.profiles[name].flow * count for name, count in demand.items())
    for engine, used, has in (("media", media, model.media), ("flow", flow, model.flow)):
        if used > has:
            return f"they take {used} {engine} engines, it has {has}"
    return ""


def _mask(profile: MigProfile, start: int) -> int:
    """The memory slices of a device, a bit each."""
    return ((1 << profile.memory) - 1) << start


def _placed(
    left: list[MigProfile], occupied: int, placed: tuple[tuple[MigProfile, int], ...]
) -> tuple[tuple[MigProfile, int], ...] | None:
    if not left:
        return placed
    profile, *others = left
    least = placed[-1][1] if placed and placed[-1][0] is profile else -1
    for start in profile.starts:
        mask = _mask(profile, start)
        if start > least and not occupied & mask:
            answer = _placed(others, occupied | mask, (*placed, (profile, start)))
            if answer is not None:
                return answer
    return None


def conflict(model: MigModel, demand: Mapping[str, int]) -> MigLayoutReason:
    """Why these do not fit together on one GPU, and the largest parts of them that do."""
    unknown = [name for name in demand if name not in model.profiles]
    if unknown:
        message = f"profile {' and no '.join(unknown)} does not exist"
        return MigProfileNotOffered(
            subject=model.name, message=message, instead=offered_profiles(model, unknown)
        )
    return MigLayoutTooLarge(
        subject=model.name,
        message=f"{written(demand)} do not fit together on one GPU: {_reason(model, demand)}",
        instead=nearest_layouts(model, demand),
        profiles=dict(demand),
    )


def offered_profiles(model: MigModel, unknown: Iterable[str]) -> tuple[str, ...]:
    """The model's profiles, those first that are most like what is asked for."""
    near = {nearest_profile(name, model.profiles) for name in unknown}
    return tuple(sorted(model.profiles, key=lambda name: name not in near))


def nearest_layouts(model: MigModel, demand: Mapping[str, int]) -> tuple[str, ...]:
    """The largest parts of what is wanted that fit, those that keep most devices first."""
    return tuple(written(part) for part in _largest_parts(model, demand))


def _largest_parts(model: MigModel, demand: Mapping[str, int]) -> list[dict[str, int]]:
    names = list(demand)
    parts: list[dict[str, int]] = []
    for counts in sorted(_within(model, demand, names, model.memory), key=lambda counts: -sum(counts)):
        part = dict(zip(names, counts, strict=True))
        covered = any(all(part[n] <= other[n] for n in names) for other in parts)
        if sum(counts) and not covered and placements(model, part) is not None:
            parts.append(part)
            if len(parts) == _MOST_ALTERNATIVES:
                break
    return parts


def _within(
    model: MigModel, demand: Mapping[str, int], names: Sequence[str], memory: int
) -> Iterator[tuple[int, ...]]:
    """Parts of what is wanted that take no more memory slices, by the numbers of the profiles named."""
    if not names:
        yield ()
        return
    profile = model.profiles[names[0]]
    for count in range(min(demand[profile.name], profile.most, memory // profile.memory), -1, -1):
        for others in _within(model, demand, names[1:], memory - count * profile.memory):
            yield (count, *others)


def written(counts: Mapping[str, int]) -> str:
    """Profiles with their number, as they are asked for.

    >>> written({"1g.10gb": 2, "3g.40gb": 1})
    '1g.10gb:2,3g.40gb:1'
    """
    return ",".join(f"{name}:{count}" for name, count in counts.items() if count)


def _reason(model: MigModel, demand: Mapping[str, int]) -> str:
    """What is too much, and in whose way the slices are."""
    slices = _overlap(model, demand)
    for name, count in demand.items():
        if count > model.profiles[name].most:
            return f"a GPU holds at most {model.profiles[name].most} of {name}, not {count}; {slices}"
    width = sum(model.profiles[name].memory * count for name, count in demand.items())
    if width > model.memory:
        return f"they take {width} memory slices, it has {model.memory}; {slices}"
    engines = _lacking(model, demand)
    return f"{engines}; {slices}" if engines else slices


def _overlap(model: MigModel, demand: Mapping[str, int]) -> str:
    """Which device finds no place beside the others, and who has the slices at which it may begin."""
    size = {name: model.profiles[name].memory for name in demand}
    part = max(_largest_parts(model, demand), key=lambda part: sum(size[name] * part[name] for name in part))
    placed = placements(model, part) or ()
    left = model.profiles[next(name for name, count in demand.items() if count > part[name])]
    neighbours = ", ".join(
        f"{profile.name} on {_span(start, profile.memory)}"
        for profile, start in sorted(placed, key=lambda placement: placement[1])
    )
    occupied = sum(_mask(profile, start) for profile, start in placed)
    if any(not occupied & _mask(left, start) for start in left.starts):
        return (
            f"memory slices are free for one more {left.name} beside {neighbours}, "
            "compute slices or engines are not"
        )
    may = ", ".join(map(str, left.starts))
    return (
        f"{left.name} may begin at memory slice {may}, and there is no room for one more beside {neighbours}"
    )


def _span(start: int, size: int) -> str:
    return f"{start}" if size == 1 else f"{start}-{start + size - 1}"
