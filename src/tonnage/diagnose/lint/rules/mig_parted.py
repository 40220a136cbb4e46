"""MIG-1, MIG-2, MIG-3: mig-parted configurations: form, profiles that exist, and room on one GPU.

Source: NVIDIA/mig-parted v0.15, api/spec/v1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from tonnage.decide.node.mig_layouts import conflict, placements
from tonnage.diagnose.lint.finding import Draft, LintCode
from tonnage.diagnose.lint.items import Item, sequence
from tonnage.diagnose.lint.world import World
from tonnage.documents.nearest import nearest
from tonnage.documents.source import Path
from tonnage.model.catalog.mig import MigBoard, mig_boards, mig_profiles
from tonnage.model.json import JsonObject, JsonValue

_TOP: Final = ("version", "mig-configs")
_ENTRY: Final = ("device-filter", "devices", "mig-enabled", "mig-devices")
_PROFILE: Final = re.compile(r"(?:([1-7])c\.)?([1-8])g\.[0-9]{1,3}gb(?:\+[a-z.]+(?:,[a-z.]+)*|-[a-z.]+)?")
_FILTER: Final = re.compile(r"0x([0-9A-Fa-f]{4})10[Dd][Ee](?::0x[0-9A-Fa-f]+)?")


def of_item(item: Item, world: World) -> Iterator[Draft]:
    """Findings on a document with `mig-configs`."""
    if item.kind or item.path or not ("mig-configs" in item.value or _is_misspelt(item.value)):
        return
    for key in item.value:
        if key not in _TOP:
            yield _invalid((key,), f"unknown field {key[:100]}", nearest(key, [*_TOP]), on_key=True)
    version = item.value.get("version")
    if version is None:
        yield _invalid((), "unable to parse with missing 'version' field", "write version: v1")
    elif version != "v1":
        yield _invalid(("version",), f"unknown version: {str(version)[:60]}", "write version: v1")
    configs = item.value.get("mig-configs", {})
    if not isinstance(configs, dict):
        yield _invalid(("mig-configs",), "a mapping of names to lists is expected")
        return
    for name, entries in configs.items():
        at: Path = ("mig-configs", name)
        if not isinstance(entries, list) or not entries:
            yield _invalid(at, f"{name[:100]} is no list of entries", "begin each entry with - devices:")
        for index, entry in enumerate(sequence(entries)):
            if isinstance(entry, dict):
                yield from _entry(entry, (*at, index))
            else:
                yield _invalid((*at, index), "an entry is a mapping", "write - devices: all")


def _is_misspelt(value: JsonObject) -> bool:
    return "version" in value and any(key.replace("_", "-").lower() == "mig-configs" for key in value)


def _invalid(path: Path, message: str, remedy: str = "", *, on_key: bool = False) -> Draft:
    return Draft(LintCode.MIG_CONFIG, path, message, remedy, on_key=on_key)


def _entry(entry: JsonObject, at: Path) -> Iterator[Draft]:
    for key in entry:
        if key not in _ENTRY:
            remedy = nearest(key.replace("_", "-"), [*_ENTRY])
            yield _invalid((*at, key), f"unknown field {key[:100]}", remedy, on_key=True)
    devices, enabled = entry.get("devices"), entry.get("mig-enabled")
    if devices is None:
        yield _invalid(at, "devices is missing", "write devices: all, or a list of indices")
    elif devices != "all" and not _indices(devices):
        yield _invalid((*at, "devices"), "devices is all, or a list of indices", "write devices: [0, 1]")
    if not isinstance(enabled, bool):
        where = (*at, "mig-enabled") if "mig-enabled" in entry else at
        yield _invalid(where, "mig-enabled is true or false", "write mig-enabled: true")
    wanted = entry.get("mig-devices")
    if enabled is False and wanted:
        yield _invalid(
            (*at, "mig-devices"), "mig-devices without mig-enabled", "write mig-enabled: true", on_key=True
        )
    elif enabled is True and "mig-devices" not in entry:
        yield _invalid(at, "mig-devices is missing", "name the profiles; {} for none")
    if wanted is not None:
        yield from _profiles(wanted, (*at, "mig-devices"), _boards(entry.get("device-filter")))


def _indices(devices: JsonValue) -> bool:
    return isinstance(devices, list) and all(
        isinstance(index, int) and not isinstance(index, bool) and index >= 0 for index in devices
    )


def _boards(device_filter: JsonValue) -> tuple[MigBoard, ...]:
    """The boards that a filter leaves; every known one where it has ids that nobody knows."""
    given = [device_filter] if isinstance(device_filter, str) else sequence(device_filter)
    found = [match[1].lower() for one in given if (match := _FILTER.fullmatch(str(one)))]
    known = {device for board in mig_boards() for device in board.devices}
    if not found or not known.issuperset(found):
        return mig_boards()
    return tuple(board for board in mig_boards() if set(board.devices) & set(found))


def _profiles(wanted: JsonValue, at: Path, boards: tuple[MigBoard, ...]) -> Iterator[Draft]:
    if not isinstance(wanted, dict):
        yield _invalid(at, "mig-devices is a mapping of profiles to numbers", 'write "1g.10gb": 7')
        return
    counts: dict[str, int] = {}
    known = True
    for name, count in wanted.items():
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            yield _invalid((*at, name), f"{str(count)[:60]} is no number of devices", "write 0 or more")
            known = False
        elif not _PROFILE.fullmatch(name):
            yield _invalid((*at, name), f"{name[:60]} is no MIG profile", _like(name, boards), on_key=True)
            known = False
        elif _instance(name) not in {profile for board in boards for profile in board.profiles}:
            yield _unknown(name, (*at, name), boards)
            known = False
        else:
            counts[_instance(name)] = counts.get(_instance(name), 0) + (0 if _is_part(name) else count)
    if known and wanted and not any(wanted.values()):
        yield _invalid(at, "every number is 0", "remove the entry, or write {}")
    elif known:
        yield from _room(counts, at, boards)


def _is_part(name: str) -> bool:
    """A compute instance in a GPU instance: how many of those it takes is not in the text."""
    return "c." in name


def _instance(name: str) -> str:
    return name.partition("c.")[2] if _is_part(name) else name


def _like(name: str, boards: tuple[MigBoard, ...]) -> str:
    near = get_close_matches(name.lower(), {p for board in boards for p in board.profiles}, n=1, cutoff=0.5)
    return f"did you mean {near[0]}?" if near else "write one such as 1g.10gb"


def _unknown(name: str, path: Path, boards: tuple[MigBoard, ...]) -> Draft:
    if len(boards) == len(mig_boards()):
        return Draft(
            LintCode.MIG_PROFILE,
            path,
            f"no known GPU has the profile {name}",
            _like(name, boards),
            on_key=True,
        )
    names = "; ".join(board.name for board in boards)
    offered = ", ".join(sorted({profile for board in boards for profile in board.profiles}))
    elsewhere = "" if name not in mig_profiles() else ", other GPUs have"
    return Draft(
        LintCode.MIG_PROFILE,
        path,
        f"{names} has no profile {name}{elsewhere}",
        f"{_like(name, boards)} It has {offered}",
        on_key=True,
    )


def _room(counts: dict[str, int], at: Path, boards: tuple[MigBoard, ...]) -> Iterator[Draft]:
    """Nothing where one board that has all the profiles has room for them."""
    able = [board for board in boards if counts.keys() <= board.profiles.keys()]
    if not able:
        told = f"no GPU has all of {', '.join(sorted(counts))}"
        yield Draft(
            LintCode.MIG_LAYOUT,
            at,
            told,
            "give each model an entry of its own with a device-filter",
            on_key=True,
        )
        return
    if all(placements(board, counts) is None for board in able):
        no = conflict(able[0], counts)
        names = "; ".join(board.name for board in able)
        remedy = (
            f"these fit: {' or '.join(no.instead[:2])}" if no.instead else "ask for fewer, or smaller ones"
        )
        yield Draft(LintCode.MIG_LAYOUT, at, no.why, remedy, f"on {names}", on_key=True)
