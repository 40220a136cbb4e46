"""Device-plugin configuration v1, read strictly: what is understood is honoured, everything else refused.

Source: NVIDIA/k8s-device-plugin, api/config/v1; its `resources`, `rename` and `devices`, which it parses and
then ignores, count here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from typing import Final

from tonnage.documents.device_plugin.health import health_policy
from tonnage.documents.device_plugin.rules import chosen_block, offered_name, problems_of
from tonnage.documents.device_plugin.schema import (
    ClaimsSection,
    DevicePluginConfig,
    PluginFlagsSection,
    ReplicatedResource,
    ReplicatedResources,
    ResourcePattern,
)
from tonnage.documents.durations import seconds_of
from tonnage.documents.yaml.bounds import AGENT_VALUES
from tonnage.documents.yaml.reader import MarkedDocument, Path, parse_yaml
from tonnage.documents.yaml.source import unknown_fields, validate
from tonnage.model.devices.sharing import (
    ALL,
    DeviceIdStrategy,
    DeviceListStrategy,
    PluginConfig,
    SharedPolicy,
    SharedResource,
)
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonValue
from tonnage.model.names import ResourceName
from tonnage.model.node.plugin_settings import (
    CdiSettings,
    ExtraDevice,
    FeatureSettings,
    ImexSettings,
    MigStrategy,
    NamePattern,
    Override,
    SharingKind,
)

_MOST_REMARKS: Final = 32
_MOST_KIB: Final = 256
"""A ConfigMap may have four times as much; to read that takes seconds, and no node needs it."""


def parse_device_plugin_config(
    text: str,
    *,
    source: str,
    overrides: Iterable[Override] = (),
    lenient: bool = False,
) -> PluginConfig:
    """What the configuration decides; empty text is every default, as is a key without value.

    `overrides` win over the text. `lenient` reads as NVIDIA's plugin does: keys of another case are taken,
    unknown ones are left out with a remark, and MPS wins over time-slicing.

    Raises:
        ConfigError: every problem, each with file, line and field, or with the flag that says it.
    """
    if len(text) > _MOST_KIB << 10:
        why, remedy = f"more than {_MOST_KIB} KiB", "give each kind of node a configuration of its own"
        raise ConfigError(Problem("the configuration is too large", source, why, remedy))
    located = _overridden(_with_values(parse_yaml(text, source=source, most_values=AGENT_VALUES)), overrides)
    remarks: tuple[str, ...] = ()
    if lenient:
        located, remarks = _without_unknown(located)
    document = validate(located, DevicePluginConfig)
    if problems := tuple(problems_of(document, located, lenient=lenient)):
        raise ConfigError(*problems)
    if document.sharing.mps is not None and document.sharing.time_slicing is not None:
        remarks += (f"{located.where(('sharing', 'timeSlicing'))}: left out, mps is given too",)
    return replace(_decided(document), remarks=remarks[:_MOST_REMARKS])


def _with_values(located: MarkedDocument) -> MarkedDocument:
    """The document without keys that have no value; one without any content is every default.

    Unknown keys stay, to be complained about.
    """
    if located.value is None:
        return replace(located, value={})
    unknown_paths = (
        {path for path, _ in unknown_fields(located, DevicePluginConfig)} if _empty(located.value) else set()
    )
    return replace(located, value=_pruned(located.value, (), unknown_paths))


def _empty(value: JsonValue) -> bool:
    """Whether anything in it has no value."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return value is None or any(map(_empty, parts))


def _pruned(value: JsonValue, path: Path, unknown_paths: Set[Path]) -> JsonValue:
    if isinstance(value, dict):
        return {
            key: _pruned(part, (*path, key), unknown_paths)
            for key, part in value.items()
            if part is not None or (*path, key) in unknown_paths
        }
    if isinstance(value, list):
        return [_pruned(part, (*path, place), unknown_paths) for place, part in enumerate(value)]
    return value


def _overridden(located: MarkedDocument, overrides: Iterable[Override]) -> MarkedDocument:
    """The document with what flags and variables say in the place of what it says itself."""
    value, elsewhere = located.value, dict[Path, str]()
    for override in overrides:
        changed = _with(value, override.path, override.value)
        if changed is not None:
            value, elsewhere[override.path] = changed, override.where
    return replace(located, value=value, elsewhere=elsewhere)


def _with(value: JsonValue, path: Path, new: JsonValue) -> JsonValue:
    """The value with `new` at the path; None where something that is no mapping is in the way."""
    if not path:
        return new
    if not isinstance(value, Mapping):
        return None
    inner = _with(value.get(str(path[0]), {}), path[1:], new)
    return None if inner is None else {**value, str(path[0]): inner}


def _without_unknown(located: MarkedDocument) -> tuple[MarkedDocument, tuple[str, ...]]:
    """(the document without unknown keys, a remark for each); a key that differs in case alone is taken."""
    remarks: list[str] = []
    while unknown := unknown_fields(located, DevicePluginConfig):
        for path, fields in unknown:
            name = str(path[-1])
            meant = next((key for key in fields if key.lower() == name.lower()), "")
            located, renamed = _renamed(located, path, meant)
            remark = f"read as {meant}" if renamed else "unknown, left out"
            remarks.append(f"{located.where(path)}: {remark}")
    return located, tuple(remarks)


def _renamed(located: MarkedDocument, path: Path, name: str) -> tuple[MarkedDocument, bool]:
    """(the document without that key, or with it under another name that is free; whether it has one)."""
    *parents, key = path
    value = holder = _copied(located.value)
    for step in parents:
        assert isinstance(holder, dict | list)
        holder = holder[step]  # type: ignore[index]
    assert isinstance(holder, dict)
    moved, renamed = holder.pop(str(key)), bool(name) and name not in holder
    marks = dict(located.marks)
    if renamed:
        holder[name] = moved
        new = (*parents, name)
        marks |= {(*new, *at[len(path) :]): mark for at, mark in marks.items() if at[: len(path)] == path}
    return replace(located, value=value, marks=marks), renamed


def _copied(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list) else value


def _decided(document: DevicePluginConfig) -> PluginConfig:
    flags, plugin = document.flags, document.flags.plugin
    kind, block = chosen_block(document)
    lists = plugin.device_list_strategy
    extras = {
        ExtraDevice.GDRCOPY: flags.gdrcopy_enabled,
        ExtraDevice.GDS: flags.gds_enabled,
        ExtraDevice.MOFED: flags.mofed_enabled,
    }
    return PluginConfig(
        shared=tuple(_shared(entry, block) for entry in block.resources) if block else (),
        fail_requests_greater_than_one=_fails_above_one(kind, block),
        device_list=tuple(
            DeviceListStrategy(name)
            for name in dict.fromkeys(lists.split(",") if isinstance(lists, str) else lists)
        ),
        device_id=DeviceIdStrategy(plugin.device_id_strategy),
        shared_policy=SharedPolicy(plugin.shared_devices_allocation_policy),
        sharing_kind=kind,
        mig_strategy=MigStrategy(flags.mig_strategy),
        gpu_names=_names(document.resources.gpus),
        mig_names=_names(document.resources.mig),
        pass_device_specs=plugin.pass_device_specs,
        driver_root=flags.nvidia_driver_root,
        dev_root=flags.nvidia_dev_root or flags.nvidia_driver_root,
        extras=tuple(extra for extra, enabled in extras.items() if enabled),
        cdi=CdiSettings(
            plugin.cdi_annotation_prefix,
            plugin.nvidia_ctk_path,
            tuple(plugin.cdi_feature_flags),
            tuple(plugin.cdi_disable_hooks),
        ),
        imex=ImexSettings(tuple(document.imex.channel_ids), document.imex.required),
        mps_root=flags.mps_root,
        features=_features(flags),
        health=health_policy(document.health),
        fail_on_init_error=flags.fail_on_init_error,
        claimed=_claimed(document.claims),
        partitioned=document.claims is not None and document.claims.dynamic_mig,
        claim_shares=_claim_shares(document.claims),
    )


def _claimed(section: ClaimsSection | None) -> tuple[str, ...]:
    if section is None:
        return ()
    return (ALL,) if isinstance(section.devices, str) else tuple(map(str, section.devices))


def _claim_shares(section: ClaimsSection | None) -> str:
    return "" if section is None or section.consumable_shares is None else str(section.consumable_shares)


def _fails_above_one(kind: SharingKind, block: ReplicatedResources | None) -> bool:
    """A client of MPS has a part of one device's threads and memory; several are none that is larger."""
    setting = block.fail_requests_greater_than_one if block else False
    return kind is SharingKind.MPS if setting is None else setting


def _features(flags: PluginFlagsSection) -> FeatureSettings:
    gfd = flags.gfd
    return FeatureSettings(
        gfd.oneshot,
        not gfd.no_timestamp,
        seconds_of(gfd.sleep_interval),
        gfd.output_file,
        gfd.machine_type_file,
        flags.use_node_feature_api,
    )


def _names(rules: Iterable[ResourcePattern]) -> tuple[NamePattern, ...]:
    return tuple(NamePattern(rule.pattern, ResourceName(rule.name)) for rule in rules)


def _shared(entry: ReplicatedResource, block: ReplicatedResources) -> SharedResource:
    devices: int | tuple[str, ...] | None = None
    if isinstance(entry.devices, list):
        devices = tuple(str(device) for device in entry.devices)
    elif isinstance(entry.devices, int):
        devices = entry.devices
    return SharedResource(ResourceName(entry.name), offered_name(entry, block), entry.replicas, devices)
