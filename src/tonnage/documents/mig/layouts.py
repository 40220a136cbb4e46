"""mig-parted's configuration, version v1: from text to named layouts.

Source: NVIDIA/mig-parted v0.15, api/spec/v1.
"""

from __future__ import annotations

import re
from collections.abc import Sized
from typing import Annotated, Final, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    Tag,
    ValidationInfo,
    field_validator,
)

from tonnage.documents.yaml.bounds import AGENT_VALUES
from tonnage.documents.yaml.source import DocumentFieldError, read_document
from tonnage.model.catalog.mig import mig_models, mig_profiles
from tonnage.model.mig.layouts import MigConfigs, MigEntry
from tonnage.model.mig.profile_names import nearest_profile, parse_profile

_VERSION: Final = "v1"
_WITHOUT_MEMORY: Final = re.compile(r"(?:[1-7]c\.)?([1-8]g)(?:[+.-][a-z.]+)?")
_FILTER: Final = re.compile(r"0x([0-9A-Fa-f]{4})10[Dd][Ee](?::0x[0-9A-Fa-f]+)?")
MOST_DEVICES: Final = 64
_MOST_CONFIGS: Final = 1000

_T = TypeVar("_T", bound=Sized)

_ONE_OR_MANY: Final = Discriminator(lambda value: "many" if isinstance(value, list | tuple) else "one")
"""Only what is meant is complained about."""


class _Strict(BaseModel):
    """Keys as they stand, unknown ones refused, nothing converted."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-")
    )


def _profile(text: str) -> str:
    try:
        parse_profile(text)
    except ValueError as error:
        if slices := _WITHOUT_MEMORY.fullmatch(text):
            raise DocumentFieldError(
                f"{text} is not a whole MIG profile", remedy=_with_memory(slices[1])
            ) from None
        near = nearest_profile(text.partition("c.")[2] or text, mig_profiles())
        remedy = f"use {near} if you meant that" if near else "write one such as 1g.10gb"
        raise DocumentFieldError(str(error), remedy=remedy) from None
    return text


def _with_memory(slices: str) -> str:
    """The profiles of so many slices, by the boards that have them."""
    boards: dict[str, list[str]] = {}
    for board in mig_models():
        if name := next((profile for profile in board.profiles if profile.partition(".")[0] == slices), ""):
            boards.setdefault(name, []).append(board.name)
    named = "; ".join(f"{name} on {', '.join(names)}" for name, names in boards.items())
    return f"write it with its memory: {named}" if named else "write one such as 1g.10gb"


def _version(text: str) -> str:
    if text != _VERSION:
        problem = f"unknown version: {text[:60]}" if text else "unable to parse with missing 'version' field"
        raise DocumentFieldError(problem, remedy=f"write version: {_VERSION}")
    return text


def _some(entries: _T) -> _T:
    if not entries:
        raise DocumentFieldError(
            "the configuration is empty",
            remedy="write entries, such as: - {devices: all, mig-enabled: false}",
        )
    return entries


def is_filter(text: str) -> bool:
    """Whether a text is a device filter."""
    return _FILTER.fullmatch(text) is not None


def filtered_device(text: str) -> str:
    """The PCI device id of a filter, four digits in lower case."""
    return text[2:6].lower()


def _filter(text: str) -> str:
    if not is_filter(text):
        why = "a device filter is 0x, the PCI device id and the vendor's 10DE"
        raise DocumentFieldError(
            f"{text[:60]} is not a device filter", why=why, remedy="write one such as 0x20B210DE"
        )
    return text


_Filter = Annotated[str, AfterValidator(_filter)]
_Index = Annotated[int, Field(ge=0, lt=MOST_DEVICES)]
_Profile = Annotated[str, AfterValidator(_profile)]


class _Entry(_Strict):
    device_filter: Annotated[
        Annotated[_Filter, Tag("one")]
        | Annotated[tuple[_Filter, ...], Field(max_length=MOST_DEVICES), Tag("many")],
        _ONE_OR_MANY,
    ] = ()
    devices: Annotated[
        Annotated[Literal["all"], Tag("one")]
        | Annotated[tuple[_Index, ...], Field(max_length=MOST_DEVICES), Tag("many")],
        _ONE_OR_MANY,
    ]
    mig_enabled: bool
    mig_devices: Annotated[
        dict[_Profile, Annotated[int, Field(ge=0, le=MOST_DEVICES)]] | None, Field(validate_default=True)
    ] = None

    @field_validator("mig_devices")
    @classmethod
    def _meant(cls, profiles: dict[str, int] | None, validation: ValidationInfo) -> dict[str, int] | None:
        enabled = validation.data.get("mig_enabled")
        if enabled is False and profiles:
            raise DocumentFieldError("mig-devices without mig-enabled", remedy="write mig-enabled: true")
        if enabled is True and profiles is None:
            raise DocumentFieldError("mig-devices is missing", remedy="name the profiles; {} for none")
        if profiles and not any(profiles.values()):
            raise DocumentFieldError("every number is 0", remedy="write {} for no devices")
        return profiles

    def entry(self, where: str) -> MigEntry:
        """As the model has it."""
        filters = (self.device_filter,) if isinstance(self.device_filter, str) else self.device_filter
        return MigEntry(
            None if self.devices == "all" else tuple(sorted(set(self.devices))),
            self.mig_enabled,
            {name: count for name, count in (self.mig_devices or {}).items() if count},
            tuple(filtered_device(text) + text[10:].lower() for text in filters),
            where,
        )


class MigParted(_Strict):
    """A whole document."""

    version: Annotated[str, AfterValidator(_version), Field(validate_default=True)] = ""
    mig_configs: Annotated[
        dict[str, Annotated[tuple[_Entry, ...], AfterValidator(_some), Field(max_length=MOST_DEVICES)]],
        AfterValidator(_some),
        Field(max_length=_MOST_CONFIGS),
    ]


def parse_mig_parted(text: str, *, source: str) -> MigConfigs:
    """The layouts of a configuration, by name.

    Raises:
        ConfigError: every problem at once, each with file, line and column.
    """
    document, read = read_document(text, MigParted, source=source, most_values=AGENT_VALUES)
    return {
        name: tuple(
            entry.entry(document.where(("mig-configs", name, index))) for index, entry in enumerate(entries)
        )
        for name, entries in read.mig_configs.items()
    }
