"""Names of the field: extended resources, replica ids, label keys, CDI devices."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NewType

ResourceName = NewType("ResourceName", str)
"""An extended resource, vendor prefix included, such as `nvidia.com/gpu.shared`."""

NVIDIA: Final = "nvidia.com"
GPU: Final = ResourceName("nvidia.com/gpu")
PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
SHARED_SUFFIX: Final = ".shared"
MIG_PREFIX: Final = "nvidia.com/mig-"
"""Before a MIG profile, in which `+` is written `.`."""
CONFIG_LABEL: Final = "nvidia.com/device-plugin.config"
MIG_CONFIG_LABEL: Final = "nvidia.com/mig.config"
MIG_STATE_LABEL: Final = "nvidia.com/mig.config.state"
MIG_REASON_ANNOTATION: Final = "nvidia.com/mig.config.state.reason"
"""Node label whose value is the key of the device-plugin configuration."""
AGENTS_CONFIG: Final = "device-plugin-config"
"""The ConfigMap that the agents watch."""
AGENTS_LAYOUTS: Final = "default-mig-parted-config"
"""The ConfigMap in which the agents look for MIG layouts."""
AGENTS_COUNTERS: Final = "device-metrics-counters"
"""The ConfigMap of the counters of the page of device metrics, where there is a controller."""
COPIED_FROM: Final = "tonnage.dev/copied-from"
"""Annotation of the agents' ConfigMap: the ConfigMap that it is a copy of, as namespace/name."""
AGENTS_LABELS: Final = "tonnage.dev/labels"
"""Annotation of a Node: the keys of labels that its agent wrote, with commas between."""
VALIDATED: Final = "tonnage.dev/validated"
"""Annotation of a Node: `true` once a workload has used its devices."""
CDI_VENDOR: Final = "k8s.device-plugin.nvidia.com"
CDI_GPU_KIND: Final = f"{CDI_VENDOR}/gpu"
CDI_IMEX_KIND: Final = f"{CDI_VENDOR}/imex-channel"
CDI_NVIDIA_KIND: Final = "nvidia.com/gpu"
CDI_MANAGEMENT_KIND: Final = "management.nvidia.com/gpu"

_LONGEST_RESOURCE: Final = 63
_LABEL: Final = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?"
_SUBDOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})*")
_LONGEST_SUBDOMAIN: Final = 253
_LONGEST_LABEL: Final = 63
_KEY: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
SYSTEM_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
"""The priority classes that every cluster has, with their values."""


def parse_resource_name(text: str) -> ResourceName:
    """The resource's full name; `nvidia.com/` is put before a bare one.

    >>> parse_resource_name("gpu"), parse_resource_name("nvidia.com/gpu.shared")
    ('nvidia.com/gpu', 'nvidia.com/gpu.shared')

    Raises:
        ValueError: more than 63 characters, or not DNS subdomains around one slash.
    """
    prefix, slash, suffix = text.rpartition("/")
    name = text if slash else f"{NVIDIA}/{text}"
    if len(name) > _LONGEST_RESOURCE:
        raise ValueError(f"a resource name has at most {_LONGEST_RESOURCE} characters, this has {len(name)}")
    if not _SUBDOMAIN.fullmatch(suffix) or (slash and not _SUBDOMAIN.fullmatch(prefix)):
        raise ValueError(
            f"{text[:_LONGEST_RESOURCE]!r} is not a resource name: lower-case letters, digits, '-' and '.',"
            " each part beginning and ending with a letter or digit"
        )
    return ResourceName(name)


def is_subdomain(text: str) -> bool:
    """Whether the text is a DNS subdomain (RFC 1123), as names of nodes and ConfigMaps are.

    >>> is_subdomain("a100-0"), is_subdomain("A100")
    (True, False)
    """
    return len(text) <= _LONGEST_SUBDOMAIN and _SUBDOMAIN.fullmatch(text) is not None


def is_namespace(text: str) -> bool:
    """Whether the text may be the name of a namespace (an RFC 1123 label).

    >>> is_namespace("ml-team"), is_namespace("ML"), is_namespace("ml.team")
    (True, False, False)
    """
    return "." not in text and len(text) <= _LONGEST_LABEL and is_subdomain(text)


def is_label_key(text: str) -> bool:
    """Whether the text is the key of a label, with or without a prefix.

    >>> is_label_key("nvidia.com/gpu.present"), is_label_key("a//b")
    (True, False)
    """
    prefix, slash, name = text.rpartition("/")
    return (is_subdomain(prefix) if slash else True) and _KEY.fullmatch(name) is not None


@dataclass(frozen=True, slots=True)
class DeviceId:
    """What a plugin advertises: a whole device, or its n-th replica."""

    uuid: str
    replica: int | None = None

    def __str__(self) -> str:
        return self.uuid if self.replica is None else f"{self.uuid}::{self.replica}"


def parse_device_id(text: str) -> DeviceId:
    """A device id as it travels; what does not end in `::<n>` is a whole device.

    >>> parse_device_id("GPU-1::3"), parse_device_id("GPU-1")
    (DeviceId(uuid='GPU-1', replica=3), DeviceId(uuid='GPU-1', replica=None))
    """
    uuid, separator, number = text.rpartition("::")
    if separator and uuid and number.isascii() and number.isdigit() and str(int(number[:9])) == number:
        return DeviceId(uuid, int(number))
    return DeviceId(text)


def cdi_device(name: str, kind: str = CDI_GPU_KIND) -> str:
    """A qualified CDI device name.

    >>> cdi_device("GPU-1")
    'k8s.device-plugin.nvidia.com/gpu=GPU-1'
    """
    return f"{kind}={name}"
