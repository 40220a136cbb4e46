"""What lint's list of rules says of a code, whatever the finding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VALIDATION: Final = "API server, validation"
POD_VALIDATION: Final = "API server, pod validation"
DECODING: Final = "API server, strict decoding"
REFERENCES: Final = "API server, admission"
CLAIMS: Final = "API server, resource.k8s.io"
LIMIT_RANGES: Final = "API server, LimitRange"
QUOTAS: Final = "Kubernetes ResourceQuota, pod evaluator"
SCHEDULER: Final = "kube-scheduler"
DEVICE_PLUGIN: Final = "NVIDIA/k8s-device-plugin, api/config/v1"
MIG_PARTED: Final = "NVIDIA/mig-parted, api/spec/v1"
KUBELET: Final = "kubelet, validation of its configuration"
DCGM_EXPORTER: Final = "NVIDIA/dcgm-exporter, its CSV of counters"
GPU_OPERATOR: Final = "NVIDIA/gpu-operator, nvidia.com/v1"

PROMETHEUS_OPERATOR: Final = "prometheus-operator, monitoring.coreos.com/v1"


@dataclass(frozen=True, slots=True)
class LintRule:
    """A code in one line, and what makes it so: a component, or a format. SARIF: `reportingDescriptor`."""

    summary: str
    source: str
