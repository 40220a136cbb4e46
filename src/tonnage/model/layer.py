"""The layers in which a pod can be refused."""

from __future__ import annotations

from enum import StrEnum


class Layer(StrEnum):
    """The layers in the order in which a pod meets them."""

    ADMISSION = "admission"
    QUOTA = "quota"
    SCHEDULER = "scheduler"
    KUBELET = "kubelet"
    PLUGIN = "plugin"
    RUNTIME = "runtime"
    DRIVER = "driver"
    HARDWARE = "hardware"
    APPLICATION = "application"
