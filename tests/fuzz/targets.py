"""What is fuzzed: functions of bytes that return whatever they are given, and raise when something is wrong.

A target raises only for what must not happen: an exception that no caller expects, or a rule that is broken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import Final

from fuzz import api, documents, driver, kubelet, memory

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
        "api-body": api.bodies,
        "api-json-patch": api.patches("application/json-patch+json"),
        "api-merge-patch": api.patches("application/merge-patch+json"),
        "api-strategic-patch": api.patches("application/strategic-merge-patch+json"),
        "api-apply": api.patches("application/apply-patch+yaml", b"&fieldManager=f&force=1"),
        "api-label-selector": api.parameter("labelSelector"),
        "api-field-selector": api.parameter("fieldSelector"),
        "api-continue": api.parameter("continue"),
        "api-query": api.parameter(""),
        "api-request": api.requests,
        "api-rule": api.rules,
    }
)
"""By name: what makes the target, and afterwards removes what it needed."""
