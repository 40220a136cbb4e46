"""The MIG layout that a text names on a GPU model, by mig-parted's names of layouts or by profiles."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tonnage.model.catalog.mig import MigModel, MigProfile
from tonnage.model.mig.placements import conflict, offered_profiles, placements
from tonnage.model.reasons.gpu.mig import MigLayoutInvalid, MigLayoutReason, MigProfileNotOffered

DISABLED: Final = "all-disabled"
ENABLED: Final = "all-enabled"
BALANCED: Final = "all-balanced"
_ALL: Final = "all-"
_PROFILE_COUNT: Final = re.compile(r"(?P<name>[0-9a-z.+-]{1,24}?)\s*[:=x*]\s*(?P<count>[0-9]{1,3})")


@dataclass(frozen=True, slots=True)
class Layout:
    """What a GPU is divided into: `placed` are profile and first slice. `whole`: MIG is disabled."""

    placed: tuple[tuple[MigProfile, int], ...] = ()
    whole: bool = False

    @property
    def profiles(self) -> tuple[str, ...]:
        """Names of the profiles, in the order of their slices."""
        return tuple(profile.name for profile, _ in sorted(self.placed, key=lambda placement: placement[1]))


def layout_of(model: MigModel, text: str) -> Layout | MigLayoutReason:
    """The layout that a text names, on this model.

    `all-disabled`, `all-enabled`, `all-balanced`, `all-<profile>` (as many as fit), or profiles with their
    number: `1g.10gb:2,3g.40gb:1`. A profile may be named by its slices alone (`3g`) or with `.` for `+`.
    """
    if text == DISABLED:
        return Layout(whole=True)
    if text == ENABLED:
        return Layout()
    demand = _demand_of(model, text)
    if isinstance(demand, MigLayoutReason):
        return demand
    placed = placements(model, demand)
    if placed is None:
        return conflict(model, demand)
    return Layout(placed)


def _demand_of(model: MigModel, text: str) -> dict[str, int] | MigLayoutReason:
    profiles = tuple(model.profiles)
    mixed = (BALANCED,) if model.balanced else ()
    layouts = (DISABLED, *mixed, *(f"{_ALL}{name}" for name in profiles))
    if text == BALANCED and model.balanced:
        return dict(model.balanced)
    if text.startswith(_ALL):
        name = profile_named(model, text.removeprefix(_ALL))
        if name is None:
            offered = tuple(
                f"{_ALL}{profile}" for profile in offered_profiles(model, [text.removeprefix(_ALL)])
            )
            message = f"{text[:60]} is not a layout of {model.name}"
            instead = (*offered, DISABLED, *mixed)
            return MigProfileNotOffered(subject=model.name, message=message, instead=instead)
        return {
            name: next(n for n in range(model.profiles[name].most, 0, -1) if placements(model, {name: n}))
        }
    demand: dict[str, int] = {}
    for part in text.split(","):
        match = _PROFILE_COUNT.fullmatch(part.strip())
        if match is None:
            message = (
                f"{part.strip()[:60]} is not a profile with a number"
                if part.strip()
                else "a profile is missing"
            )
            instead = (f"{profiles[0]}:2,{profiles[-2]}:1", *layouts[:3])
            return MigLayoutInvalid(subject=model.name, message=message, instead=instead)
        name = profile_named(model, match["name"])
        if name is None:
            return _no_profile(model, match["name"])
        demand[name] = demand.get(name, 0) + int(match["count"])
    if any(demand.values()):
        return demand
    return MigLayoutInvalid(subject=model.name, message="the layout has no devices", instead=layouts[:3])


def _no_profile(model: MigModel, text: str) -> MigLayoutReason:
    compute, dot, instance = text.partition(".")
    if dot and compute.endswith("c") and profile_named(model, instance) is not None:
        message = f"{text} is a compute instance of a {instance}, which a list of profiles cannot name"
        instead = (instance, "a mig-parted FILE, whose mig-devices may name it")
        return MigLayoutInvalid(subject=model.name, message=message, instead=instead)
    message = f"{model.name} has no profile {text}"
    return MigProfileNotOffered(subject=model.name, message=message, instead=offered_profiles(model, [text]))


def profile_named(model: MigModel, text: str) -> str | None:
    """The driver's name of a profile; `.me` and `+me` are one, and `3g` names the first of its slices."""
    name = text.removeprefix("mig-").replace("+", ".")
    same = (profile for profile in model.profiles if profile.replace("+", ".") == name)
    return next(
        same, next((profile for profile in model.profiles if profile.partition(".")[0] == name), None)
    )
