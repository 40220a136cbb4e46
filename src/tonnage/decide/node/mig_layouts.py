"""MIG layouts of one GPU: which profiles fit on it together, and where.

Source: NVIDIA MIG user guide, placements by memory slices; mig-parted's names of layouts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

from tonnage.model.catalog.mig import MigBoard, MigProfile

DISABLED: Final = "all-disabled"
ENABLED: Final = "all-enabled"
BALANCED: Final = "all-balanced"
_ALL: Final = "all-"
_ITEM: Final = re.compile(r"(?P<name>[0-9a-z.+-]{1,24}?)\s*[:=x*]\s*(?P<count>[0-9]{1,3})")
_MOST_ALTERNATIVES: Final = 4


@dataclass(frozen=True, slots=True)
class Layout:
    """What a GPU is divided into: `placed` are profile and first slice. `whole`: MIG is disabled."""

    placed: tuple[tuple[MigProfile, int], ...] = ()
    whole: bool = False

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names of the profiles, in the order of their slices."""
        return tuple(profile.name for profile, _ in sorted(self.placed, key=lambda one: one[1]))


@dataclass(frozen=True, slots=True)
class NoLayout:
    """Why a layout cannot be made, and what could be made instead."""

    why: str
    instead: tuple[str, ...] = ()


def layout_of(board: MigBoard, text: str) -> Layout | NoLayout:
    """The layout that a text names, on this board.

    `all-disabled`, `all-enabled`, `all-balanced`, `all-<profile>` (as many as fit), or profiles with their
    number: `1g.10gb:2,3g.40gb:1`. A profile may be named by its slices alone (`3g`) or with `.` for `+`.
    """
    if text == DISABLED:
        return Layout(whole=True)
    if text == ENABLED:
        return Layout()
    wanted = _wanted(board, text)
    if isinstance(wanted, NoLayout):
        return wanted
    placed = placements(board, wanted)
    if placed is None:
        told = written(wanted)
        return NoLayout(f"{told} do not fit together on one GPU: {_reason(board, wanted)}",
                        nearest_layouts(board, wanted))  # fmt: skip
    return Layout(placed)


def placements(board: MigBoard, wanted: Mapping[str, int]) -> tuple[tuple[MigProfile, int], ...] | None:
    """Where each device goes, or None when they do not fit together.

    >>> from tonnage.model.catalog.mig import mig_board
    >>> a100 = mig_board("NVIDIA A100-SXM4-80GB")
    >>> [(p.name, at) for p, at in placements(a100, {"3g.40gb": 1, "2g.20gb": 1, "1g.10gb": 2})]
    [('3g.40gb', 4), ('2g.20gb', 0), ('1g.10gb', 2), ('1g.10gb', 3)]
    """
    table = board.profiles
    if any(count > table[name].most for name, count in wanted.items()):
        return None
    order = sorted(wanted, key=lambda name: (len(table[name].starts), -table[name].memory, name))
    return _placed([table[name] for name in order for _ in range(wanted[name])], 0, ())


def _placed(
    left: list[MigProfile], taken: int, found: tuple[tuple[MigProfile, int], ...]
) -> tuple[tuple[MigProfile, int], ...] | None:
    if not left:
        return found
    one, *others = left
    least = found[-1][1] if found and found[-1][0] is one else -1
    for start in one.starts:
        mask = ((1 << one.memory) - 1) << start
        if start > least and not taken & mask:
            answer = _placed(others, taken | mask, (*found, (one, start)))
            if answer is not None:
                return answer
    return None


def nearest_layouts(board: MigBoard, wanted: Mapping[str, int]) -> tuple[str, ...]:
    """The largest parts of what is wanted that fit, those that keep most devices first."""
    names = list(wanted)
    most = [range(min(wanted[name], board.profiles[name].most), -1, -1) for name in names]
    found: list[dict[str, int]] = []
    for counts in sorted(product(*most), key=lambda counts: -sum(counts)):
        one = dict(zip(names, counts, strict=True))
        covered = any(all(one[n] <= other[n] for n in names) for other in found)
        if sum(counts) and not covered and placements(board, one) is not None:
            found.append(one)
            if len(found) == _MOST_ALTERNATIVES:
                break
    return tuple(written(one) for one in found)


def written(counts: Mapping[str, int]) -> str:
    """Profiles with their number, as they are asked for.

    >>> written({"1g.10gb": 2, "3g.40gb": 1})
    '1g.10gb:2,3g.40gb:1'
    """
    return ",".join(f"{name}:{count}" for name, count in counts.items() if count)


def _wanted(board: MigBoard, text: str) -> dict[str, int] | NoLayout:
    if text == BALANCED:
        return dict(board.balanced)
    known = tuple(board.profiles)
    layouts = (DISABLED, BALANCED, *(f"{_ALL}{name}" for name in known))
    if text.startswith(_ALL):
        name = profile_named(board, text.removeprefix(_ALL))
        if name is None:
            return NoLayout(f"{board.name}: no layout {text[:60]}", layouts)
        return {
            name: next(n for n in range(board.profiles[name].most, 0, -1) if placements(board, {name: n}))
        }
    wanted: dict[str, int] = {}
    for part in text.split(","):
        match = _ITEM.fullmatch(part.strip())
        if match is None:
            why = f"{part.strip()[:60] or 'nothing'} is no profile with a number"
            return NoLayout(why, (f"{known[0]}:2,{known[-2]}:1", *layouts[:3]))
        name = profile_named(board, match["name"])
        if name is None:
            return NoLayout(f"{board.name}: no profile {match['name']}", known)
        wanted[name] = wanted.get(name, 0) + int(match["count"])
    return wanted if any(wanted.values()) else NoLayout("no device is asked for", layouts[:3])


def profile_named(board: MigBoard, text: str) -> str | None:
    """The driver's name of a profile; `.me` and `+me` are one, and `3g` names the only one of its slices."""
    spelt = text.removeprefix("mig-").removesuffix(".me")
    name = spelt + "+me" if text.endswith(".me") else spelt
    if name in board.profiles:
        return name
    return next((known for known in board.profiles if known.partition(".")[0] == name), None)


def _reason(board: MigBoard, wanted: Mapping[str, int]) -> str:
    for name, count in wanted.items():
        if count > board.profiles[name].most:
            return f"it takes at most {board.profiles[name].most} of {name}"
    width = sum(board.profiles[name].memory * count for name, count in wanted.items())
    if width > board.memory:
        return f"they take {width} memory slices, it has {board.memory}"
    return "each may begin at certain memory slices only, and they overlap"
