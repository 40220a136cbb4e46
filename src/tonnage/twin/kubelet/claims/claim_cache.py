"""dra_manager_state, kubelet's checkpoint of claims: whose they are, and which devices drivers prepared.

Source: Kubernetes 1.35, pkg/kubelet/cm/dra/state.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from typing import Final

import msgspec

from tonnage.wire.decode import decoded_json

_KIND: Final = "DRACheckpoint"
_VERSION: Final = "checkpoint.dra.kubelet.k8s.io/v1"


class ClaimedDevice(msgspec.Struct, rename="pascal", frozen=True):
    """What a driver said of a device. No request names: it is of every request."""

    pool_name: str
    device_name: str
    request_names: tuple[str, ...] | None = ()
    cdi_device_ids: tuple[str, ...] | None = msgspec.field(name="CDIDeviceIDs", default=())
    share_id: str | None = msgspec.field(name="ShareID", default=None)


class DriverState(msgspec.Struct, rename="pascal", frozen=True):
    """The devices that one driver prepared for a claim."""

    devices: tuple[ClaimedDevice, ...] | None = ()


class ClaimInfo(msgspec.Struct, rename="pascal", frozen=True):
    """A claim on this node and the pods that use it. `driver_state` has every driver from the beginning."""

    claim_uid: str = msgspec.field(name="ClaimUID")
    claim_name: str
    namespace: str
    pod_uids: tuple[str, ...] = msgspec.field(name="PodUIDs")
    driver_state: dict[str, DriverState]

    @property
    def key(self) -> tuple[str, str]:
        """(namespace, name)."""
        return self.namespace, self.claim_name

    def cdi_devices(self, request: str) -> list[str]:
        """Names for the container runtime; an empty request: of all."""
        return [
            name
            for driver in self.driver_state.values()
            for device in driver.devices or ()
            if not request or not device.request_names or request in device.request_names
            for name in device.cdi_device_ids or ()
        ]


class _Claims(msgspec.Struct, rename="camel", frozen=True):
    kind: str
    api_version: str
    claim_info_state_list: list[ClaimInfo] | None = None


class _File(msgspec.Struct, rename="pascal", frozen=True):
    payload: str = msgspec.field(name="Data")
    checksum: int


def encode_claims(claims: Iterable[ClaimInfo]) -> bytes:
    """The file's content."""
    inner = msgspec.json.encode(_Claims(_KIND, _VERSION, list(claims))).decode()
    return msgspec.json.encode(_File(inner, zlib.crc32(inner.encode())))


def decode_claims(content: bytes) -> tuple[ClaimInfo, ...]:
    """Read the file back.

    Raises:
        ValueError: the content is no checkpoint of claims, or its checksum is wrong.
    """
    file: _File = decoded_json(content, _File)
    if zlib.crc32(file.payload.encode()) != file.checksum:
        raise ValueError("checkpoint is corrupted")
    inner: _Claims = decoded_json(file.payload, _Claims)
    return tuple(inner.claim_info_state_list or ())
