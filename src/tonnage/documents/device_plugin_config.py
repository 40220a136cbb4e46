"""Device-plugin configuration v1, read strictly: what is understood is honoured, everything else refused.

Source: NVIDIA/k8s-device-plugin, api/config/v1; its `devices` and `rename`, which it parses and then ignores,
count here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import Field, field_validator

from tonnage.documents.source import Document, FieldError, Located, Path, parse_yaml, validate
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.names import GPU, SHARED_SUFFIX, ResourceName, parse_resource_name
from tonnage.model.sharing import (
    DeviceIdStrategy,
    DeviceListStrategy,
    PluginConfig,
    SharedPolicy,
    SharedResource,
)

MAX_REPLICAS: Final = 512
"""More could outgrow the 4 MiB that kubelet accepts in a message; no GPU serves so many anyway."""
_MAX_ENTRIES: Final = 256

_LATER: Final = "not supported by this version of Tonnage"


def _resource_name(text: str) -> str:
    try:
        return parse_resource_name(text)
    except ValueError as error:
        raise FieldError(str(error)) from None


class ReplicatedResource(Document):
    name: str
    replicas: int
    rename: str | None = None
    devices: Literal["all"] | int | Annotated[list[int | str], Field(max_length=_MAX_ENTRIES)] = "all"

    @field_validator("name", "rename")
    @classmethod
    def _full_name(cls, name: str | None) -> str | None:
        return None if name is None else _resource_name(name)

    @field_validator("replicas")
    @classmethod
    def _replicas(cls, replicas: int) -> int:
        if replicas < 2:
            raise FieldError(
                f"number of replicas must be >= 2, found {replicas}",
                remedy="leave the sharing section out for exclusive use",
            )
        if replicas > MAX_REPLICAS:
            raise FieldError(
                f"number of replicas must be <= {MAX_REPLICAS}, found {replicas}",
                why="kubelet accepts a list of at most 4 MiB, and every replica shares one device's memory",
                remedy="use as many replicas as workloads fit into the device's memory",
            )
        return replicas

    @field_validator("devices")
    @classmethod
    def _devices(cls, devices: str | int | list[int | str]) -> str | int | list[int | str]:
        if isinstance(devices, int) and devices < 1:
            raise FieldError(f"number of devices must be > 0, found {devices}")
        for device in devices if isinstance(devices, list) else []:
            text = str(device)
            if ":" in text or text.startswith("MIG-"):
                raise FieldError(f"MIG devices in a selector are {_LATER}", remedy="select whole GPUs")
            if not (text.isdigit() or text.startswith("GPU-")) or (isinstance(device, int) and device < 0):
                raise FieldError(
                    f"{text[:60]!r} selects no device", remedy="use an index, or a uuid such as GPU-8a1e…"
                )
        return devices


class ReplicatedResources(Document):
    rename_by_default: bool = False
    fail_requests_greater_than_one: bool | None = None
    resources: Annotated[list[ReplicatedResource], Field(max_length=_MAX_ENTRIES)] = Field(
        default_factory=list
    )


class Sharing(Document):
    time_slicing: ReplicatedResources | None = None
    mps: ReplicatedResources | None = None


class PluginFlags(Document):
    pass_device_specs: bool = False
    device_list_strategy: str | list[str] = "envvar"
    device_id_strategy: str = Field(default="uuid", alias="deviceIDStrategy")
    cdi_annotation_prefix: str = "cdi.k8s.io/"
    nvidia_ctk_path: str = Field(default="/usr/bin/nvidia-ctk", alias="nvidiaCTKPath")
    container_driver_root: str = "/driver-root"
    shared_devices_allocation_policy: str = "distributed"

    @field_validator("device_list_strategy")
    @classmethod
    def _lists(cls, value: str | list[str]) -> str | list[str]:
        known = [strategy.value for strategy in DeviceListStrategy]
        for name in value.split(",") if isinstance(value, str) else value:
            if name not in known:
                raise FieldError(
                    f"invalid device-list strategy: {name[:60]}", remedy=f"one of {', '.join(known)}"
                )
        return value

    @field_validator("device_id_strategy")
    @classmethod
    def _ids(cls, value: str) -> str:
        return _one_of(value, [strategy.value for strategy in DeviceIdStrategy], "device-id strategy")

    @field_validator("shared_devices_allocation_policy")
    @classmethod
    def _policy(cls, value: str) -> str:
        return _one_of(value, [policy.value for policy in SharedPolicy], "shared-devices allocation policy")


class GfdFlags(Document):
    """Feature discovery's own settings: checked, and left to it."""

    oneshot: bool = False
    no_timestamp: bool = False
    sleep_interval: str | int = "60s"
    output_file: str = ""
    machine_type_file: str = ""


class Flags(Document):
    mig_strategy: str = "none"
    fail_on_init_error: bool = True
    mps_root: str = ""
    nvidia_driver_root: str = "/"
    nvidia_dev_root: str = "/"
    gdrcopy_enabled: bool = False
    gds_enabled: bool = False
    mofed_enabled: bool = False
    use_node_feature_api: bool = Field(default=True, alias="useNodeFeatureAPI")
    device_discovery_strategy: str = "auto"
    plugin: PluginFlags = PluginFlags()
    gfd: GfdFlags = GfdFlags()

    @field_validator("mig_strategy")
    @classmethod
    def _strategy(cls, value: str) -> str:
        return _one_of(value, ["none", "single", "mixed"], "MIG strategy")


class ResourcePattern(Document):
    pattern: str
    name: str


class Resources(Document):
    gpus: Annotated[list[ResourcePattern], Field(max_length=_MAX_ENTRIES)] = Field(default_factory=list)
    mig: Annotated[list[ResourcePattern], Field(max_length=_MAX_ENTRIES)] = Field(default_factory=list)


class Imex(Document):
    channel_ids: list[int] = Field(default_factory=list, alias="channelIDs")
    required: bool = False


class DevicePluginConfig(Document):
    version: str = ""
    flags: Flags = Flags()
    resources: Resources = Resources()
    sharing: Sharing = Sharing()
    imex: Imex = Imex()

    @field_validator("version")
    @classmethod
    def _version(cls, value: str) -> str:
        if value not in ("", "v1"):
            raise FieldError(f"unknown version: {value[:60]}", remedy="write version: v1")
        return value


_ONLY_DEFAULT: Final = (
    "mig_strategy",
    "mps_root",
    "nvidia_driver_root",
    "nvidia_dev_root",
    "gdrcopy_enabled",
    "gds_enabled",
    "mofed_enabled",
)
_ONLY_DEFAULT_PLUGIN: Final = (
    "pass_device_specs",
    "cdi_annotation_prefix",
    "nvidia_ctk_path",
    "container_driver_root",
)


def parse_device_plugin_config(text: str, *, source: str) -> PluginConfig:
    """What the configuration decides; empty text is every default.

    Raises:
        ConfigError: every problem, each with file, line and field.
    """
    located = parse_yaml(text, source=source)
    if located.value is None:
        return PluginConfig()
    document = validate(located, DevicePluginConfig)
    problems = [*_unsupported(document, located), *_sharing_problems(document.sharing, located)]
    if problems:
        raise ConfigError(*problems)
    plugin, sliced = document.flags.plugin, document.sharing.time_slicing
    names = plugin.device_list_strategy
    return PluginConfig(
        shared=tuple(_shared(entry, sliced) for entry in sliced.resources) if sliced else (),
        fail_requests_greater_than_one=bool(sliced and sliced.fail_requests_greater_than_one),
        device_list=tuple(
            DeviceListStrategy(name) for name in (names.split(",") if isinstance(names, str) else names)
        ),
        device_id=DeviceIdStrategy(plugin.device_id_strategy),
        shared_policy=SharedPolicy(plugin.shared_devices_allocation_policy),
    )


def _one_of(value: str, known: list[str], what: str) -> str:
    if value not in known:
        raise FieldError(f"unknown {what}: {value[:60]}", remedy=f"one of {', '.join(known)}")
    return value


def _shared(entry: ReplicatedResource, block: ReplicatedResources) -> SharedResource:
    offered = entry.rename or (entry.name + SHARED_SUFFIX if block.rename_by_default else entry.name)
    devices: int | tuple[str, ...] | None = None
    if isinstance(entry.devices, list):
        devices = tuple(str(device) for device in entry.devices)
    elif isinstance(entry.devices, int):
        devices = entry.devices
    return SharedResource(ResourceName(entry.name), ResourceName(offered), entry.replicas, devices)


def _unsupported(document: DevicePluginConfig, located: Located) -> Iterator[Problem]:
    """A setting that is known but has no effect yet is refused rather than ignored."""
    flags = document.flags
    fields: list[tuple[Path, Document, str]] = [(("flags",), flags, name) for name in _ONLY_DEFAULT]
    fields += [(("flags", "plugin"), flags.plugin, name) for name in _ONLY_DEFAULT_PLUGIN]
    for parent, holder, name in fields:
        field = type(holder).model_fields[name]
        value = getattr(holder, name)
        if value not in (field.default, ""):
            path = (*parent, field.alias or name)
            remedy = f"leave it out (default {_shown(field.default)})"
            yield Problem(f"{_shown(value)} is {_LATER}", located.where(path), remedy=remedy)
    if flags.device_discovery_strategy not in ("auto", "nvml"):
        where = located.where(("flags", "deviceDiscoveryStrategy"))
        yield Problem(f"{flags.device_discovery_strategy[:60]} is {_LATER}", where, remedy="use auto")
    if document.resources.mig:
        yield Problem(f"MIG resources are {_LATER}", located.where(("resources", "mig")), remedy="remove it")
    if any((entry.pattern, _bare(entry.name)) != ("*", "gpu") for entry in document.resources.gpus):
        where = located.where(("resources", "gpus"))
        yield Problem(
            f"names by pattern are {_LATER}", where, remedy="every GPU is nvidia.com/gpu; remove it"
        )
    if document.imex.channel_ids or document.imex.required:
        yield Problem(f"IMEX channels are {_LATER}", located.where(("imex",)), remedy="remove the section")


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)[:100] or '""'


def _bare(name: str) -> str:
    return name.removeprefix("nvidia.com/")


def _sharing_problems(sharing: Sharing, located: Located) -> Iterator[Problem]:
    if sharing.mps is not None:
        where = located.where(("sharing", "mps"))
        if sharing.time_slicing is not None:
            yield Problem("timeSlicing and mps exclude each other", where, remedy="keep one of them")
        else:
            yield Problem(f"MPS is {_LATER}", where, remedy="use timeSlicing, or leave sharing out")
    if sharing.time_slicing is None:
        return
    block, base = sharing.time_slicing, ("sharing", "timeSlicing", "resources")
    if not block.resources:
        remedy = "name a resource, or leave sharing out for exclusive use"
        yield Problem("no resources specified", located.where(base), remedy=remedy)
    offered: dict[str, int] = {}
    exhausted = False
    for index, entry in enumerate(block.resources):
        shared = _shared(entry, block)
        path = (*base, index)
        if shared.name != GPU:
            where = located.where((*path, "name"))
            yield Problem(f"{shared.name} is no resource of this node", where, remedy=f"share {GPU}")
            continue
        if exhausted:
            why = "an earlier entry takes every device"
            yield Problem("this entry can get no device", located.where(path), why, "select devices there")
        exhausted = exhausted or shared.devices is None
        if shared.offered_as in offered:
            where = located.where((*path, "rename" if entry.rename else "name"))
            why = f"entry {offered[shared.offered_as]} offers it too"
            yield Problem(f"{shared.offered_as} is offered twice", where, why, "give one of them a rename")
        offered.setdefault(shared.offered_as, index)
        if shared.devices is not None and shared.offered_as == GPU:
            yield Problem(
                f"shared and exclusive devices would both be {GPU}",
                located.where((*path, "devices")),
                "a pod could not know which it gets",
                "set rename, or renameByDefault: true",
            )
