"""The fields of a device-plugin configuration v1, each checked by itself.

Source: NVIDIA/k8s-device-plugin v0.20, api/config/v1, with the texts of its refusals.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, field_validator

from tonnage.documents.device_plugin.health import Health
from tonnage.documents.durations import seconds_of
from tonnage.documents.yaml.source import Document, DocumentFieldError
from tonnage.model.devices.sharing import DeviceIdStrategy, DeviceListStrategy, SharedPolicy
from tonnage.model.names import parse_resource_name
from tonnage.model.node.plugin_settings import (
    CDI_FEATURES,
    CDI_HOOKS,
    DRIVER_ROOT_IN_CONTAINER,
    CdiSettings,
    FeatureSettings,
    MigStrategy,
)

MAX_REPLICAS: Final = 512
"""More could outgrow the 4 MiB that kubelet accepts in a message; no GPU serves so many anyway."""
_MAX_ENTRIES: Final = 256
_MAX_SHARES: Final = 128
_LONGEST_PATH: Final = 1024

_SELECTOR: Final = re.compile(r"[0-9]{1,4}(:[0-9]{1,3})?|GPU-[\w-]{1,95}|MIG-[\w-]{1,95}(/[0-9]{1,3}){0,2}")
_WHOLE: Final = re.compile(r"[0-9]{1,4}|GPU-[\w-]{1,95}")
_PREFIX: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?/([A-Za-z0-9][A-Za-z0-9._-]{0,25})?")
_OTHER_FEATURES: Final = ("enable-coherent-annotations", "enable-explicit-driver-libraries")
_CDI: Final = CdiSettings()
_FEATURES: Final = FeatureSettings()


def _name(text: str) -> str:
    try:
        return parse_resource_name(text)
    except ValueError as error:
        raise DocumentFieldError(str(error)) from None


def _one_of(value: str, choices: list[str], problem: str) -> str:
    if value not in choices:
        raise DocumentFieldError(f"{problem}: {value[:60]}", remedy=f"one of {', '.join(choices)}")
    return value


def _folder(path: str) -> str:
    parts = path.split("/")
    if not path.startswith("/") or len(path) > _LONGEST_PATH or ".." in parts or not path.isprintable():
        raise DocumentFieldError(
            f"{path[:60]!r} is not an absolute path", remedy="write one that begins with /"
        )
    return "/" + "/".join(part for part in parts if part not in ("", "."))


Name = Annotated[str, AfterValidator(_name)]
Folder = Annotated[str, AfterValidator(_folder)]
FolderOrNone = Annotated[str, AfterValidator(lambda path: path and _folder(path))]
Root = Annotated[str, AfterValidator(lambda path: _folder(path or "/"))]


class ReplicatedResource(Document):
    name: Name
    replicas: int
    rename: Name | None = None
    devices: Literal["all"] | int | Annotated[list[int | str], Field(max_length=_MAX_ENTRIES)] = "all"

    @field_validator("replicas")
    @classmethod
    def _replicas(cls, replicas: int) -> int:
        if replicas < 2:
            raise DocumentFieldError(
                f"number of replicas must be >= 2, found {replicas}",
                remedy="leave the sharing section out for exclusive use",
            )
        if replicas > MAX_REPLICAS:
            raise DocumentFieldError(
                f"number of replicas must be <= {MAX_REPLICAS}, found {replicas}",
                why="kubelet accepts a list of 4 MiB at most",
                remedy="use as many replicas as workloads fit into the device's memory",
            )
        return replicas

    @field_validator("devices")
    @classmethod
    def _devices(cls, devices: str | int | list[int | str]) -> str | int | list[int | str]:
        if isinstance(devices, int) and devices < 1:
            raise DocumentFieldError(
                f"number of devices must be > 0, found {devices}", remedy="write a number above 0, or all"
            )
        if devices == []:
            raise DocumentFieldError("the list of devices is empty", remedy="name devices, or write all")
        for device in devices if isinstance(devices, list) else []:
            if not _SELECTOR.fullmatch(str(device)):
                raise DocumentFieldError(
                    f"{str(device)[:60]!r} does not name a device",
                    remedy="write an index (0; 0:1 for a MIG device) or a UUID (GPU-8a1e…, MIG-5c8f…)",
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
    device_list_strategy: str | list[str] = DeviceListStrategy.ENVVAR.value
    device_id_strategy: str = Field(default=DeviceIdStrategy.UUID.value, alias="deviceIDStrategy")
    cdi_annotation_prefix: str = _CDI.annotation_prefix
    nvidia_ctk_path: Folder = Field(default=_CDI.hook_path, alias="nvidiaCTKPath")
    container_driver_root: Folder = DRIVER_ROOT_IN_CONTAINER
    shared_devices_allocation_policy: str = SharedPolicy.DISTRIBUTED.value
    cdi_feature_flags: Annotated[list[str], Field(max_length=_MAX_ENTRIES)] = Field(default_factory=list)
    cdi_disable_hooks: Annotated[list[str], Field(max_length=_MAX_ENTRIES)] = Field(default_factory=list)

    @field_validator("device_list_strategy")
    @classmethod
    def _lists(cls, value: str | list[str]) -> str | list[str]:
        choices = [strategy.value for strategy in DeviceListStrategy]
        strategies = value.split(",") if isinstance(value, str) else value
        if not strategies:
            raise DocumentFieldError(
                "no --device-list-strategy option", remedy=f"one of {', '.join(choices)}"
            )
        for name in strategies:
            _one_of(name, choices, "invalid --device-list-strategy option: invalid strategy")
        if DeviceListStrategy.AUTO in strategies and len(set(strategies)) > 1:
            remedy = "write auto alone, or the others without it"
            raise DocumentFieldError("auto cannot be combined with another deviceListStrategy", remedy=remedy)
        return value

    @field_validator("device_id_strategy")
    @classmethod
    def _ids(cls, value: str) -> str:
        choices = [strategy.value for strategy in DeviceIdStrategy]
        return _one_of(value, choices, "invalid --device-id-strategy option")

    @field_validator("shared_devices_allocation_policy")
    @classmethod
    def _policy(cls, value: str) -> str:
        choices = [policy.value for policy in SharedPolicy]
        return _one_of(value, choices, "invalid --shared-devices-allocation-policy option")

    @field_validator("cdi_annotation_prefix")
    @classmethod
    def _prefix(cls, value: str) -> str:
        if not _PREFIX.fullmatch(value):
            remedy = "write a domain and a slash, such as nvidia.cdi.k8s.io/"
            raise DocumentFieldError(f"{value[:60]!r} is not the prefix of an annotation", remedy=remedy)
        return value

    @field_validator("cdi_feature_flags")
    @classmethod
    def _features(cls, value: list[str]) -> list[str]:
        for word in value:
            if word in _OTHER_FEATURES:
                raise DocumentFieldError(
                    f"Tonnage's CDI specs do not have the feature {word}", remedy="leave it out"
                )
            _one_of(word, [*CDI_FEATURES], "unknown feature of CDI specs")
        return value

    @field_validator("cdi_disable_hooks")
    @classmethod
    def _hooks(cls, value: list[str]) -> list[str]:
        for word in value:
            _one_of(word, [*CDI_HOOKS], "unknown hook of CDI specs")
        return value


class GfdFlags(Document):
    """Feature discovery's own settings."""

    oneshot: bool = False
    no_timestamp: bool = False
    sleep_interval: str | int = "60s"
    output_file: FolderOrNone = _FEATURES.output_file
    machine_type_file: Folder = _FEATURES.machine_type_file

    @field_validator("sleep_interval")
    @classmethod
    def _interval(cls, value: str | int) -> str | int:
        try:
            seconds_of(value)
        except ValueError as error:
            raise DocumentFieldError(str(error), remedy="write 60s, 5m or infinite") from None
        return value


class PluginFlagsSection(Document):
    mig_strategy: str = MigStrategy.NONE.value
    fail_on_init_error: bool = False
    mps_root: str = ""
    nvidia_driver_root: Root = "/"
    nvidia_dev_root: Root | None = None
    gdrcopy_enabled: bool = False
    gds_enabled: bool = False
    mofed_enabled: bool = False
    use_node_feature_api: bool | None = Field(default=None, alias="useNodeFeatureAPI")
    device_discovery_strategy: str = "auto"
    plugin: PluginFlags = PluginFlags()
    gfd: GfdFlags = GfdFlags()

    @field_validator("mig_strategy")
    @classmethod
    def _strategy(cls, value: str) -> str:
        return _one_of(value, [strategy.value for strategy in MigStrategy], "unknown MIG strategy")

    @field_validator("mps_root")
    @classmethod
    def _mps_root(cls, value: str) -> str:
        return value and _folder(value)

    @field_validator("device_discovery_strategy")
    @classmethod
    def _discovery(cls, value: str) -> str:
        choices = ["auto", "nvml", "tegra", "vfio"]
        return _one_of(value, choices, "invalid device discovery strategy")


class ResourcePattern(Document):
    pattern: Annotated[str, Field(min_length=1, max_length=200)]
    name: Name


class Resources(Document):
    gpus: Annotated[list[ResourcePattern], Field(max_length=_MAX_ENTRIES)] = Field(default_factory=list)
    mig: Annotated[list[ResourcePattern], Field(max_length=_MAX_ENTRIES)] = Field(default_factory=list)


class Imex(Document):
    channel_ids: list[int] = Field(default_factory=list, alias="channelIDs")
    required: bool = False

    @field_validator("channel_ids")
    @classmethod
    def _channels(cls, value: list[int]) -> list[int]:
        if value not in ([], [0]):
            raise DocumentFieldError(
                f"invalid IMEX config: channelIDs must be [] or [0]; found {str(value)[:60]}"
            )
        return value


class ClaimsSection(Document):
    """The GPUs that ResourceClaims get, and no extended resource; Tonnage's own section.

    With dynamicMig MIG devices are made for claims on GPUs that are in MIG mode. With consumableShares
    several claims may have parts of a GPU, or of a MIG device that exists, at once.
    """

    devices: Literal["all"] | Annotated[list[int | str], Field(max_length=_MAX_ENTRIES)] = "all"
    dynamic_mig: bool = False
    consumable_shares: Literal["memory", "unlimited"] | Annotated[int, Field(ge=2, le=_MAX_SHARES)] | None = (
        None
    )

    @field_validator("devices")
    @classmethod
    def _devices(cls, devices: str | list[int | str]) -> str | list[int | str]:
        if devices == []:
            raise DocumentFieldError("no device is selected", remedy="name GPUs, or write all")
        for device in devices if isinstance(devices, list) else []:
            if not _WHOLE.fullmatch(str(device)):
                raise DocumentFieldError(
                    f"{str(device)[:60]!r} selects no GPU",
                    why="a GPU is claimed with all its MIG devices, or not at all",
                    remedy="use an index (0), or a uuid (GPU-8a1e…)",
                )
        return devices


class DevicePluginConfig(Document):
    version: str = ""
    flags: PluginFlagsSection = PluginFlagsSection()
    resources: Resources = Resources()
    sharing: Sharing = Sharing()
    imex: Imex = Imex()
    health: Health = Health()
    claims: ClaimsSection | None = None

    @field_validator("version")
    @classmethod
    def _version(cls, value: str) -> str:
        if value not in ("", "v1"):
            raise DocumentFieldError(f"unknown version: {value[:60]}", remedy="write version: v1")
        return value
