"""A node as far as its driver is concerned, and the pod that brings the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

GROUP_LABEL: Final = "tonnage.dev/driver-group"
"""On a node: the DaemonSet that brings its driver."""
OWNER_LABEL: Final = "nvidia.com/gpu-operator.driver.owner"
DEPLOY_DRIVER: Final = "nvidia.com/gpu.deploy.driver"
DIGEST: Final = "tonnage.dev/driver-digest"
"""On a DaemonSet and its pods: the template that they were made from."""
MODULE_DIGEST: Final = "tonnage.dev/kernel-module-config"
"""On a driver's pods: the parameters of the kernel module that they were made for."""


@dataclass(frozen=True, slots=True)
class HostSystem:
    """What the node's agent reads of its host. None and empty: it could not see it.

    `driver_owner` is `host`, `container` or `none`; `module` the version of NVIDIA's module that is loaded.
    """

    system_id: str = ""
    system_version: str = ""
    kernel: str = ""
    headers: bool | None = None
    gpus_on_bus: int | None = None
    nouveau_bound: int | None = None
    secure_boot: bool | None = None
    module: str = ""
    driver_owner: str = ""
    driver_version: str = ""


@dataclass(frozen=True, slots=True)
class DriverPod:
    """A pod of a driver's DaemonSet. `trouble` is why its container does not run, in kubelet's words."""

    namespace: str
    name: str
    uid: str
    node: str
    group: str = ""
    digest: str = ""
    ready: bool = False
    restarts: int = 0
    terminating: bool = False
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class DriverNode:
    """A node with GPUs. `waits` is why its GPUs are not ready, empty when they are; `devices` as reported."""

    name: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    unschedulable: bool = False
    ready: bool = True
    kernel: str = ""
    system_image: str = ""
    host: HostSystem | None = None
    devices: int | None = None
    waits: str = ""
    resource_version: str = ""

    @property
    def group(self) -> str:
        """The group that its label names; empty: none."""
        return self.labels.get(GROUP_LABEL, "")
