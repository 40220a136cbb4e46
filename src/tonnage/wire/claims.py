"""What pods claim beside what they request: devices, and volumes. Their specs stay JSON objects.

Source: the Kubernetes API, resource.k8s.io v1, core v1, storage.k8s.io v1.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tonnage.wire.objects import Object


class ResourceSlice(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class DeviceClass(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class DeviceTaintRule(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class ResourceClaim(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class ResourceClaimTemplate(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class PersistentVolumeClaim(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class PersistentVolume(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: dict[str, Any] = msgspec.field(default_factory=dict)


class CSINode(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class CSIDriver(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class CSIStorageCapacity(Object):
    storage_class_name: str = ""
    capacity: str | int | None = None
    maximum_volume_size: str | int | None = None
    node_topology: dict[str, Any] | None = None


class VolumeAttachment(Object):
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class StorageClass(Object):
    provisioner: str = ""
    allowed_topologies: list[dict[str, Any]] = msgspec.field(default_factory=list)
    volume_binding_mode: str = ""
