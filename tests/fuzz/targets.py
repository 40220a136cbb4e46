"""What is fuzzed: functions of bytes that return whatever they are given, and raise when something is wrong.

A target raises only for what must not happen: an exception that no caller expects, or a rule that is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Final

from fuzz import documents, driver, kubelet, memory

Target = Callable[[bytes], None]

TARGETS: Final[Mapping[str, Callable[[], AbstractContextManager[Target]]]] = MappingProxyType(
    {
        "device-plugin-config": lambda: nullcontext(documents.device_plugin_config),
        "config-kept-on-disk": lambda: nullcontext(memory.kept_config),
        "scenario": lambda: nullcontext(documents.scenario),
        "hardware": documents.hardware,
        "lab": lambda: nullcontext(documents.lab),
        "lab-command": lambda: nullcontext(documents.lab_command),
        "manifests": lambda: nullcontext(documents.manifests),
        "kubelet-checkpoint": lambda: nullcontext(kubelet.checkpoint),
        "pod-resources": lambda: nullcontext(kubelet.pod_resources),
        "allocate": kubelet.allocate,
        "prefer": kubelet.prefer,
        "mig-minors": driver.mig_minors,
        "nvml": lambda: nullcontext(driver.nvml),
        "health-kept-on-disk": lambda: nullcontext(memory.kept_health),
        "ledger-kept-on-disk": lambda: nullcontext(memory.kept_ledger),
    }
)
"""By name: what makes the target, and afterwards removes what it needed."""
