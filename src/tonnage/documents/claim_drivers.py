"""Drivers of other vendors that a scenario's nodes pretend to have, with devices as in a ResourceSlice.

claimDrivers:
- name: gpu.example.com
  devices:
  - name: card-0
    attributes: {model: {string: X1}, memoryGiB: {int: 96}}
    capacity: {memory: {value: 96Gi}}
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import Field, field_validator, model_validator

from tonnage.documents.quantities import Quantity
from tonnage.documents.yaml.source import Document, DocumentFieldError
from tonnage.documents.yaml.spelling import DEVICE_NAME, DRIVER_NAME, VERSION
from tonnage.model.devices.claims import DRIVER
from tonnage.model.json import JsonObject

MOST_DRIVERS: Final = 4
MOST_DEVICES: Final = 128
"""In a ResourceSlice: a pretended driver publishes one."""
_MOST_FACTS: Final = 32
_LONGEST_TEXT: Final = 64
_FACT: Final = re.compile(r"([a-z0-9]([a-z0-9.-]{0,61}[a-z0-9])?/)?[A-Za-z_][A-Za-z0-9_]{0,31}")


def first_repeated(names: Iterable[str]) -> str:
    """A name that is there twice; empty: none is.

    >>> first_repeated(["a", "b", "a"])
    'a'
    """
    return next((name for name, count in Counter(names).items() if count > 1), "")


class VendorAttribute(Document):
    """The value of an attribute, under the name of its type."""

    whole: Annotated[int | None, Field(alias="int", ge=-(1 << 63), lt=1 << 63)] = None
    truth: Annotated[bool | None, Field(alias="bool")] = None
    text: Annotated[str | None, Field(alias="string", max_length=_LONGEST_TEXT)] = None
    version: Annotated[str | None, Field(pattern=VERSION, max_length=_LONGEST_TEXT)] = None

    @model_validator(mode="after")
    def _has_one_value(self) -> VendorAttribute:
        if sum(value is not None for value in (self.whole, self.truth, self.text, self.version)) != 1:
            raise DocumentFieldError(
                "an attribute has exactly one value", remedy="write one of int, bool, string and version"
            )
        return self


class VendorCapacity(Document):
    """How much of something a device has."""

    value: Quantity


class VendorDevice(Document):
    """A device as a ResourceSlice describes it."""

    name: Annotated[str, Field(pattern=DEVICE_NAME)]
    attributes: Annotated[dict[str, VendorAttribute], Field(max_length=_MOST_FACTS)] = Field(default={})
    capacity: Annotated[dict[str, VendorCapacity], Field(max_length=_MOST_FACTS)] = Field(default={})

    @model_validator(mode="after")
    def _has_few_facts_with_names(self) -> VendorDevice:
        facts = [*self.attributes, *self.capacity]
        if len(facts) > _MOST_FACTS:
            raise DocumentFieldError(
                f"{len(facts)} attributes and capacities", why=f"a device has at most {_MOST_FACTS}"
            )
        for name in facts:
            if not _FACT.fullmatch(name):
                raise DocumentFieldError(
                    f"{name[:100]!r} is no name of an attribute or capacity",
                    remedy="write memoryGiB or example.com/memoryGiB, at most 32 letters, digits and '_'",
                )
        return self


class VendorDriver(Document):
    """A driver with the devices that it offers on each node of the group."""

    name: Annotated[str, Field(pattern=DRIVER_NAME, max_length=63)]
    devices: Annotated[tuple[VendorDevice, ...], Field(max_length=MOST_DEVICES)]

    @field_validator("name")
    @classmethod
    def _of_another_vendor(cls, name: str) -> str:
        if name == DRIVER:
            raise DocumentFieldError(
                f"{DRIVER} cannot be pretended", why="the agent is that driver", remedy="use another name"
            )
        return name

    @model_validator(mode="after")
    def _devices_differ(self) -> VendorDriver:
        if repeated := first_repeated(device.name for device in self.devices):
            raise DocumentFieldError(f"two devices are named {repeated}", remedy="rename one")
        return self

    def slice_devices(self) -> list[JsonObject]:
        """The devices as a ResourceSlice has them."""
        return [_slice_device(device) for device in self.devices]


def _slice_device(device: VendorDevice) -> JsonObject:
    body: JsonObject = {"name": device.name}
    if device.attributes:
        body["attributes"] = {
            name: attribute.model_dump(mode="json", by_alias=True, exclude_none=True)
            for name, attribute in device.attributes.items()
        }
    if device.capacity:
        body["capacity"] = {name: {"value": str(part.value)} for name, part in device.capacity.items()}
    return body
