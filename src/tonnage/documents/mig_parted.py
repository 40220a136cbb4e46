"""mig-parted's configuration, version v1: from text to named layouts.

Source: NVIDIA/mig-parted v0.15, api/spec/v1.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from tonnage.documents.source import FieldError, parse_document
from tonnage.model.mig import MigConfigs, MigEntry

_PROFILE: Final = re.compile(r"(?:([1-7])c\.)?([1-8])g\.[0-9]{1,3}gb(?:\+[a-z.]+(?:,[a-z.]+)*|-[a-z.]+)?")
_FILTER: Final = re.compile(r"0x([0-9A-Fa-f]{4})10[Dd][Ee](?::0x[0-9A-Fa-f]+)?")
_MOST_DEVICES: Final = 64
_MOST_CONFIGS: Final = 1000


class _Strict(BaseModel):
    """Keys as they stand, unknown ones refused, nothing converted."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-")
    )


def _profile(text: str) -> str:
    match = _PROFILE.fullmatch(text)
    if match is None:
        raise FieldError(f"{text[:60]} is no MIG profile", remedy="write one such as 1g.10gb")
    if match[1] and match[1] >= match[2]:
        raise FieldError(
            f"{text} has no fewer compute slices than its GPU instance", remedy=text.partition(".")[2]
        )
    return text


def _filter(text: str) -> str:
    if not _FILTER.fullmatch(text):
        why = "a device filter is 0x, the PCI device id and the vendor's 10DE"
        raise FieldError(f"{text[:60]} is no device filter", why=why, remedy="write one such as 0x20B210DE")
    return text


_Filter = Annotated[str, AfterValidator(_filter)]
_Index = Annotated[int, Field(ge=0, lt=_MOST_DEVICES)]
_Profile = Annotated[str, AfterValidator(_profile)]


class _Entry(_Strict):
    device_filter: _Filter | Annotated[tuple[_Filter, ...], Field(max_length=_MOST_DEVICES)] = ()
    devices: Literal["all"] | Annotated[tuple[_Index, ...], Field(max_length=_MOST_DEVICES)]
    mig_enabled: bool
    mig_devices: dict[_Profile, Annotated[int, Field(ge=0, le=_MOST_DEVICES)]] | None = None

    @model_validator(mode="after")
    def _meant(self) -> _Entry:
        if not self.mig_enabled and self.mig_devices:
            raise FieldError("mig-devices without mig-enabled", remedy="write mig-enabled: true")
        if self.mig_enabled and self.mig_devices is None:
            raise FieldError("mig-devices is missing", remedy="name the profiles; {} for none")
        if self.mig_devices and not any(self.mig_devices.values()):
            raise FieldError("every number is 0", remedy="write {} for no devices")
        return self

    def entry(self) -> MigEntry:
        """As the model has it."""
        filters = (self.device_filter,) if isinstance(self.device_filter, str) else self.device_filter
        return MigEntry(
            None if self.devices == "all" else tuple(sorted(set(self.devices))),
            self.mig_enabled,
            {name: count for name, count in (self.mig_devices or {}).items() if count},
            tuple(text[2:6].lower() for text in filters),
        )


class _MigParted(_Strict):
    version: Literal["v1"]
    mig_configs: Annotated[
        dict[str, Annotated[tuple[_Entry, ...], Field(max_length=_MOST_DEVICES)]],
        Field(max_length=_MOST_CONFIGS),
    ]

    @model_validator(mode="after")
    def _some(self) -> _MigParted:
        empty = [name for name, entries in self.mig_configs.items() if not entries]
        if empty or not self.mig_configs:
            what = f"{empty[0][:60]} has no entries" if empty else "there are no configurations"
            raise FieldError(what, remedy="write - devices: all, and what they shall be")
        return self


def parse_mig_parted(text: str, *, source: str) -> MigConfigs:
    """The layouts of a configuration, by name.

    Raises:
        ConfigError: every problem at once, each with file, line and column.
    """
    read = parse_document(text, _MigParted, source=source)
    return {name: tuple(entry.entry() for entry in entries) for name, entries in read.mig_configs.items()}
