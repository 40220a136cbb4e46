"""MIG-1, MIG-2, MIG-3, MIG-5: mig-parted configurations: what the agent refuses, and what no GPU can do.

Of a document with mistakes in its form the rest is looked at all the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from tonnage.decide.node.mig.goal import INSTEAD
from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, mapping, mappings, sequence
from tonnage.diagnose.lint.reader_problems import refused
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.mig.layouts import MOST_DEVICES, MigParted, filtered_device, is_filter
from tonnage.documents.yaml.reader import Path
from tonnage.documents.yaml.source import validate
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.mig import MigModel, mig_models, mig_profiles
from tonnage.model.errors import ConfigError
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.mig.placements import layout_refusal
from tonnage.model.mig.profile_names import nearest_profile, parse_profile
from tonnage.model.reasons.gpu.mig import MigLayoutReason
from tonnage.model.reasons.lint.configurations import MigConfigInvalid, MigLayoutImpossible, MigProfileUnknown
from tonnage.model.severity import Severity

_KEY: Final = "mig-configs"
_DEVICES: Final = "mig-devices"
_EXPECTED: Final[Mapping[str | int, str]] = {
    "device-filter": "write device-filter: 0x20B210DE, or a list of such",
    "devices": "write devices: all, or a list of indices",
    "mig-enabled": "write true or false",
    _DEVICES: 'name profiles with their number: "1g.10gb": 7',
}


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on a document with `mig-configs`, or that should have them."""
    if manifest.path or not is_config(manifest, inputs):
        return
    try:
        validate(manifest.sheet.documents[manifest.document], MigParted)
    except ConfigError as error:
        for draft in refused(error, manifest, MigParted, MigConfigInvalid):
            on_key = draft.at is None and draft.path[-1:] != () and isinstance(draft.path[-1], str)
            reason = replace(draft.reason, remedy=draft.reason.remedy or _remedy(draft.path))
            yield replace(draft, reason=reason, on_key=on_key)
    for name, entries in mapping(manifest.value.get(_KEY)).items():
        earlier: list[tuple[int, JsonObject]] = []
        for index, entry in mappings(entries):
            at: Path = (_KEY, name, index)
            yield from _entry(entry, at)
            for place, other in earlier:
                if _differ(entry, other) and _meet(entry, other):
                    yield _twice(at, place)
                    break
            earlier.append((index, entry))


def is_config(manifest: ManifestObject, inputs: RuleInputs) -> bool:
    """Whether a document looks like such a configuration, or shall be one."""
    return not manifest.kind and (_is_meant(manifest, inputs) or _is_misspelt(manifest.value))


def _is_meant(manifest: ManifestObject, inputs: RuleInputs) -> bool:
    """A patch of a ConfigMap has no kind either."""
    named = manifest.sheet.host is None and manifest.sheet.name in inputs.mig_parted
    return _KEY in manifest.value or (named and not mapping(manifest.value.get("data")))


def _is_misspelt(value: JsonObject) -> bool:
    return "version" in value and any(key.replace("_", "-").lower() == _KEY for key in value)


def _remedy(path: Path) -> str:
    """What is expected there, for what has not the right type."""
    return next(
        (_EXPECTED[step] for step in path[::-1] if step in _EXPECTED), "begin each entry with - devices:"
    )


def _entry(entry: JsonObject, at: Path) -> Iterator[Draft]:
    filters = _filters(entry)
    for device in filters:
        product = next((m.product for m in gpu_models().values() if m.pci_device == device and not m.mig), "")
        if product and entry.get("mig-enabled") is True:
            remedy = f"leave it out; known models are {' or '.join(INSTEAD)}"
            reason = MigConfigInvalid(message=f"{product} has no MIG", remedy=remedy)
            yield Draft(reason, (*at, "device-filter"), on_key=True)
    named = [index for index in sequence(entry.get("devices")) if isinstance(index, int)]
    if double := sorted({index for index in named if named.count(index) > 1}):
        text = f"GPU {', '.join(map(str, double))} is named twice"
        reason = MigConfigInvalid(message=text, remedy="name it once")
        yield Draft(reason, (*at, "devices"), severity=Severity.WARNING, on_key=True)
    counts = {
        name: count
        for name, count in mapping(entry.get(_DEVICES)).items()
        if isinstance(count, int) and not isinstance(count, bool) and count >= 0 and _is_name(name)
    }
    models = tuple(model for model in mig_models() if filters & {*model.devices}) if filters else mig_models()
    devices = {device for model in mig_models() for device in model.devices}
    if not devices >= filters:
        return  # a board that nobody knows yet
    instances = {name: parse_profile(name).gpu_instance for name in counts}
    strange = [name for name in counts if not any(instances[name] in model.profiles for model in models)]
    for name in strange:
        yield _unknown(instances[name], (*at, _DEVICES, name), models)
    if counts and not strange and max(counts.values()) <= MOST_DEVICES:
        yield from _room(counts, instances, (*at, _DEVICES), models, named=bool(filters))


def _is_name(name: str) -> bool:
    try:
        parse_profile(name)
    except ValueError:
        return False
    return True


def _filters(entry: JsonObject) -> set[str]:
    """PCI device ids of those filters that can be read."""
    written = entry.get("device-filter")
    texts = [written] if isinstance(written, str) else sequence(written)
    return {
        filtered_device(device_filter)
        for device_filter in texts
        if isinstance(device_filter, str) and is_filter(device_filter)
    }


def _differ(entry: JsonObject, other: JsonObject) -> bool:
    if not all(isinstance(entry_or_other.get("mig-enabled"), bool) for entry_or_other in (entry, other)):
        return False
    return any(entry.get(key) != other.get(key) for key in ("mig-enabled", _DEVICES))


def _meet(entry: JsonObject, other: JsonObject) -> bool:
    """Whether some GPU can be meant by both."""
    filters, others = _filters(entry), _filters(other)
    if filters and others and not filters & others:
        return False
    devices, more = (_indices(entry_or_other.get("devices")) for entry_or_other in (entry, other))
    return devices is None or more is None or bool(devices & more)


def _indices(devices: JsonValue) -> set[int] | None:
    """None: all."""
    return None if devices == "all" else {index for index in sequence(devices) if isinstance(index, int)}


def _twice(at: Path, place: int) -> Draft:
    text = f"entry {place} of {str(at[1])[:60]} gives some of the same GPUs another layout"
    remedy = "name each GPU in one entry: other devices, or another device-filter"
    reason = MigConfigInvalid(message=text, remedy=remedy)
    return Draft(reason, at, "one of them would undo the other")


def _unknown(name: str, path: Path, models: tuple[MigModel, ...]) -> Draft:
    meant = nearest_profile(name, {profile for model in models for profile in model.profiles})
    text, remedy = f"no known GPU has the profile {name}", f"use {meant} if you meant that"
    if len(models) != len(mig_models()):
        names = "; ".join(model.name for model in models)
        offered = ", ".join(sorted({profile for model in models for profile in model.profiles}))
        elsewhere = "" if name not in mig_profiles() else ", other GPUs have"
        text, remedy = f"{names} has no profile {name}{elsewhere}", f"{remedy}; it has {offered}"
    reason = MigProfileUnknown(message=text, remedy=remedy, profile=name, meant=meant)
    return Draft(reason, path, on_key=True)


def _room(
    counts: dict[str, int],
    instances: dict[str, str],
    at: Path,
    models: tuple[MigModel, ...],
    *,
    named: bool,
) -> Iterator[Draft]:
    """Boards that are `named` must all have room; else it is enough that one of them has."""
    able = [model for model in models if model.profiles.keys() >= {*instances.values()}]
    if not able:
        message = f"no GPU has all of {', '.join(sorted(counts))}"
        remedy = "give each model an entry of its own with a device-filter"
        reason = MigLayoutImpossible(message=message, remedy=remedy, profiles=counts, boards=())
        yield Draft(reason, at, on_key=True)
        return
    refusals = [(model, no) for model in able if (no := layout_refusal(model, counts)) is not None]
    if refusals and (named or len(refusals) == len(able)):
        yield _no_room(refusals, counts, at)


def _no_room(refusals: list[tuple[MigModel, MigLayoutReason]], counts: dict[str, int], at: Path) -> Draft:
    """Boards that refuse for the same reason are told together."""
    groups: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    for model, no in refusals:
        groups.setdefault((no.message, no.instead), []).append(model.name)
    fits = [(" or ".join(instead[:2]), names) for (_, instead), names in groups.items() if instead]
    if len(groups) == 1:
        (((text, _), names),) = groups.items()
        why = f"on {'; '.join(names)}"
        remedy = f"these fit: {fits[0][0]}" if fits else "ask for fewer, or smaller ones"
    else:
        text = next(iter(groups))[0].partition(": ")[0]
        why = "\n".join(
            f"on {'; '.join(names)}: {message.partition(': ')[2]}" for (message, _), names in groups.items()
        )
        fit = "; ".join(f"{layouts} on {', '.join(names)}" for layouts, names in fits)
        remedy = f"these fit: {fit}"
    boards = tuple(model.name for model, _ in refusals)
    reason = MigLayoutImpossible(message=text, remedy=remedy, profiles=counts, boards=boards)
    return Draft(reason, at, why, on_key=True)
