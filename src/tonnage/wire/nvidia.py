"""Kinds of NVIDIA's operator, as the API server has them."""

from __future__ import annotations

from typing import Any

from msgspec import field

from tonnage.wire.objects import Object


class ClusterPolicy(Object):
    """nvidia.com/v1, cluster-scoped: what NVIDIA's operator is to do; the controller owns `status`."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


class GpuCluster(Object):
    """GPUCluster of nvidia.com/v1alpha1, cluster-scoped; the controller owns `status`."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


class NvidiaDriver(Object):
    """NVIDIADriver of nvidia.com/v1alpha1, cluster-scoped; the controller owns `status`."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)
