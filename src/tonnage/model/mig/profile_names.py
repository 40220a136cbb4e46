"""Names of MIG profiles, as NVIDIA's tools write them; no driver is asked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

_NAME: Final = re.compile(
    r"(?:(?P<compute>[1-7])c\.)?(?P<slices>[1-8])g\.(?P<gb>[0-9]{1,3})gb(?P<engines>\+[a-z.]+(?:,[a-z.]+)*|-[a-z.]+)?"
)
_LIKE: Final = re.compile(r"([0-9]{1,3})g\.?([0-9]{1,4})gb?")
_LONGEST: Final = 60


@dataclass(frozen=True, slots=True)
class ProfileName:
    """`[<compute>c.]<slices>g.<gb>gb[+engines|-engines]`; `compute` None: all of its GPU instance."""

    slices: int
    gb: int
    engines: str = ""
    compute: int | None = None

    def __str__(self) -> str:
        return f"{'' if self.compute is None else f'{self.compute}c.'}{self.gpu_instance}"

    @property
    def plain(self) -> str:
        """Its GPU instance's without what it has of engines: the memory is the same."""
        return f"{self.slices}g.{self.gb}gb"

    @property
    def gpu_instance(self) -> str:
        """The profile of the GPU instance that it is all or a part of."""
        return f"{self.plain}{self.engines}"


def parse_profile(text: str) -> ProfileName:
    """The parts of a profile's name.

    >>> parse_profile("1g.10gb+me"), parse_profile("1c.3g.40gb").gpu_instance
    (ProfileName(slices=1, gb=10, engines='+me', compute=None), '3g.40gb')

    Raises:
        ValueError: it is no such name, or a compute instance with no fewer slices than its GPU instance.
    """
    match = _NAME.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:_LONGEST]} is not a MIG profile")
    compute = int(match["compute"]) if match["compute"] else None
    name = ProfileName(int(match["slices"]), int(match["gb"]), match["engines"] or "", compute)
    if compute is not None and compute >= name.slices:
        raise ValueError(f"{text} has no fewer compute slices than its GPU instance {name.gpu_instance}")
    return name


def nearest_profile(text: str, profiles: Iterable[str]) -> str:
    """The known profile that is most like a text: of as many slices, then of most similar memory; or none.

    >>> known = ["1g.20gb", "1g.10gb", "1g.10gb+me"]
    >>> nearest_profile("1g.5gb", known), nearest_profile("1g10gb", known)
    ('1g.10gb', '1g.10gb')
    >>> nearest_profile("half", known), nearest_profile("9g.90gb", ["3g.40gb", "7g.80gb"])
    ('', '7g.80gb')
    """
    names = sorted(profiles)
    try:
        parsed = parse_profile(text)
    except ValueError:
        pass
    else:
        return _nearest(parsed, names)
    like = _LIKE.fullmatch(text.lower())
    if like is not None:
        return _nearest(ProfileName(int(like[1]), int(like[2])), names)
    return next(iter(get_close_matches(text.lower(), names, n=1, cutoff=0.5)), "")


def _nearest(profile: ProfileName, names: list[str]) -> str:
    def distance(name: str) -> tuple[int, int, bool, str]:
        candidate = parse_profile(name)
        return (
            abs(candidate.slices - profile.slices),
            abs(candidate.gb - profile.gb),
            candidate.engines != profile.engines,
            name,
        )

    return min(names, key=distance, default="")
