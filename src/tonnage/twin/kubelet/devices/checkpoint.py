"""kubelet_internal_checkpoint of the device manager: which container holds which devices.

Source: Kubernetes 1.36, pkg/kubelet/cm/devicemanager/checkpoint. The checksum is 32-bit FNV-1a over the text
that Go's spew library prints for the data.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from tonnage.wire.decode import decoded_json

_PRIME: Final = 0x01000193
_OFFSET: Final = 0x811C9DC5
NO_NUMA: Final = -1


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """Devices of one resource in one container, by NUMA node (-1: none), and the plugin's encoded answer."""

    pod_uid: str
    container: str
    resource: str
    devices: Mapping[int, tuple[str, ...]]
    response: bytes

    @property
    def ids(self) -> frozenset[str]:
        return frozenset(device for group in self.devices.values() for device in group)


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Everything the device manager remembers over a restart. `registered` are the healthy devices."""

    entries: tuple[CheckpointEntry, ...] = ()
    registered: Mapping[str, Sequence[str]] = field(default_factory=dict)


class _EntryFile(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    pod_uid: str = msgspec.field(name="PodUID")
    container_name: str
    resource_name: str
    device_ids: dict[str, list[str]] | None = msgspec.field(name="DeviceIDs")
    alloc_resp: str


class _DataFile(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    pod_device_entries: list[_EntryFile] | None
    registered_devices: dict[str, list[str]] | None


class _File(msgspec.Struct, rename="pascal", forbid_unknown_fields=True):
    data: _DataFile
    checksum: int


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """The file's content."""
    entries = [
        _EntryFile(
            entry.pod_uid,
            entry.container,
            entry.resource,
            {str(numa): list(ids) for numa, ids in entry.devices.items()},
            base64.b64encode(entry.response).decode(),
        )
        for entry in checkpoint.entries
    ]
    registered = {name: list(ids) for name, ids in sorted(checkpoint.registered.items())}
    return msgspec.json.encode(_File(_DataFile(entries, registered), checksum_of(checkpoint)))


def decode_checkpoint(content: bytes) -> Checkpoint:
    """Read the file back.

    Raises:
        ValueError: the content is no checkpoint, or its checksum is wrong (`checkpoint is corrupted`).
    """
    file = decoded_json(content, _File)
    entries = tuple(
        CheckpointEntry(
            entry.pod_uid,
            entry.container_name,
            entry.resource_name,
            {int(numa): tuple(ids) for numa, ids in (entry.device_ids or {}).items()},
            base64.b64decode(entry.alloc_resp, validate=True),
        )
        for entry in file.data.pod_device_entries or ()
    )
    checkpoint = Checkpoint(entries, file.data.registered_devices or {})
    if checksum_of(checkpoint) != file.checksum:
        raise ValueError("checkpoint is corrupted")
    return checkpoint


def checksum_of(checkpoint: Checkpoint) -> int:
    """The kubelet's checksum of a checkpoint."""
    value = _OFFSET
    for byte in _spew(checkpoint).encode():
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value


def _spew(checkpoint: Checkpoint) -> str:
    entries = " ".join(
        f"{{PodUID:(string){entry.pod_uid} ContainerName:(string){entry.container}"
        f" ResourceName:(string){entry.resource}"
        f" DeviceIDs:(checkpoint.DevicesPerNUMA)map[{_spew_map(entry.devices)}]"
        f" AllocResp:([]uint8)[{' '.join(map(str, entry.response))}]}}"
        for entry in checkpoint.entries
    )
    return (
        f"(checkpoint.checkpointData){{PodDeviceEntries:([]checkpoint.PodDevicesEntry)[{entries}]"
        f" RegisteredDevices:(map[string][]string)map[{_spew_map(checkpoint.registered)}]}}"
    )


def _spew_map(groups: Mapping[int, Sequence[str]] | Mapping[str, Sequence[str]]) -> str:
    return " ".join(f"{key}:[{' '.join(ids)}]" for key, ids in sorted(groups.items()))
