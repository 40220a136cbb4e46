"""Labels that NVIDIA's operator keeps on nodes, which its operands and third parties select on.

Source: NVIDIA/gpu-operator, controllers/state_manager.go and nodelabeling_controller.go (v26.7).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.model.gpu_policy import GpuPolicy
from tonnage.model.names import AGENTS_LABELS, MIG_CONFIG_LABEL, NVIDIA, PRODUCT_LABEL
from tonnage.model.operands import DEPLOY, SWITCHED

PRESENT: Final = "nvidia.com/gpu.present"
OPERATOR_LABELS: Final = "tonnage.dev/operator-labels"
"""Annotation of a Node: labels of NVIDIA's that the controller has set there, with commas."""
WORKLOAD: Final = "nvidia.com/gpu.workload.config"
PROBED: Final = "tonnage.dev/pci-10de.present"
"""What a probe of the node's PCI bus has seen, where nobody else has looked."""
_OPERANDS: Final = f"{DEPLOY}operands"
_NFD: Final = "feature.node.kubernetes.io/"
_PCI: Final = tuple(f"{_NFD}pci-{device}.present" for device in ("10de", "0302_10de", "0300_10de"))
_MIG_CAPABLE: Final = "nvidia.com/mig.capable"
_VGPU_HOST: Final = "nvidia.com/vgpu.host-driver-version"
_DIVISIBLE: Final = ("h100", "a100", "a30")

_CONTAINER: Final = (
    *("driver", "gpu-feature-discovery", "container-toolkit", "device-plugin", "dcgm", "dcgm-exporter"),
    *("node-status-exporter", "operator-validator", "client"),
)
_PASSTHROUGH: Final = ("sandbox-validator", "vfio-manager", "kata-manager", "cc-manager", "client")
_VGPU: Final = (
    *("sandbox-device-plugin", "vgpu-manager", "vgpu-device-manager", "sandbox-validator"),
    *("cc-manager", "client"),
)
_MIG_MANAGER: Final = "mig-manager"
_ALL: Final = frozenset({*_CONTAINER, _MIG_MANAGER, *_PASSTHROUGH, *_VGPU, "kata-sandbox-device-plugin"})


def has_gpu(labels: Mapping[str, str], devices: int | None) -> bool | None:
    """Whether a node has a GPU of NVIDIA's; None: nobody has looked.

    `devices` is how many its agent reports, None without a report. It sees them through the driver, so that
    none says nothing of the hardware. Node feature discovery and the probe read the PCI bus.
    """
    if any(labels.get(label) == "true" for label in (*_PCI, PROBED)) or devices:
        return True
    return False if any(key.startswith((_NFD, PROBED)) for key in labels) else None


def labels_set(annotations: Mapping[str, str]) -> set[str]:
    """The labels of NVIDIA's that the controller has set on a node, by its note there."""
    names = annotations.get(OPERATOR_LABELS, "").split(",")
    return {label for name in names if is_noted(label := f"{NVIDIA}/{name}")}


def is_noted(label: str) -> bool:
    """Whether the controller notes that it has set the label.

    A MIG layout that was asked for stays on the GPUs, and so does its label.
    """
    return label == PRESENT or label.startswith(DEPLOY)


def label_changes(
    labels: Mapping[str, str],
    annotations: Mapping[str, str],
    policy: GpuPolicy,
    *,
    devices: int | None,
    divided: bool = True,
) -> dict[str, str | None]:
    """The labels to set on a node, and with None to remove, so that it has those that the operator keeps.

    A value that somebody set stays: `false` is a user's, and one that begins with `paused-` is that of a
    change under way. An empty one counts as absent. On a node without a GPU `gpu.present` stays where neither
    the controller nor the agent has set it, since it may be what brings the agent there. `divided`: a GPU has
    a MIG layout, or nobody knows; then the policy's default layout is not asked for.
    """
    gpu = has_gpu(labels, devices)
    if gpu is None:
        return {}
    if not gpu:
        gone: dict[str, str | None] = dict.fromkeys(_standing(labels))
        ours = PRESENT in labels_set(annotations) or PRESENT in annotations.get(AGENTS_LABELS, "").split(",")
        return gone | ({PRESENT: "false"} if ours and labels.get(PRESENT) == "true" else {})
    changes: dict[str, str | None] = {} if labels.get(PRESENT) == "true" else {PRESENT: "true"}
    if labels.get(_OPERANDS) == "false":
        return changes | dict.fromkeys(_standing(labels))
    operands = {f"{DEPLOY}{name}" for name in _operands(labels, policy)}
    changes |= {label: "true" for label in sorted(operands) if not labels.get(label)}
    layout = policy.mig_config.default
    if layout and not divided and f"{DEPLOY}{_MIG_MANAGER}" in operands and not labels.get(MIG_CONFIG_LABEL):
        changes[MIG_CONFIG_LABEL] = layout
    return changes | {label: None for label in _standing(labels) if label not in operands}


def parts_off(labels: Mapping[str, str], policy: GpuPolicy | None) -> str:
    """The parts that a node's agent leaves alone, with commas: by the policy, or by a user's label."""
    if policy is None:
        return ""
    serves = _workload(labels, policy) == "container" and labels.get(_OPERANDS) != "false"
    return ",".join(
        part
        for part in sorted(SWITCHED)
        if not serves or part not in policy.operands.parts or labels.get(f"{DEPLOY}{part}") == "false"
    )


def _standing(labels: Mapping[str, str]) -> list[str]:
    """The operator's labels that the node has, but for what a user opted out of."""
    ours = (f"{DEPLOY}{name}" for name in sorted(_ALL))
    return [label for label in ours if label in labels and labels[label] != "false"]


def _operands(labels: Mapping[str, str], policy: GpuPolicy) -> Iterator[str]:
    workload = _workload(labels, policy)
    if workload == "vm-passthrough":
        kata = policy.sandbox_mode == "kata"
        yield "kata-sandbox-device-plugin" if kata else "sandbox-device-plugin"
        yield from _PASSTHROUGH
    elif workload == "vm-vgpu":
        yield from _VGPU
    else:
        yield from _CONTAINER
        if _is_divisible(labels):
            yield _MIG_MANAGER


def _workload(labels: Mapping[str, str], policy: GpuPolicy) -> str:
    if not policy.sandboxes:
        return "container"
    own = labels.get(WORKLOAD, "")
    return own if own in ("container", "vm-passthrough", "vm-vgpu") else policy.default_workload


def _is_divisible(labels: Mapping[str, str]) -> bool:
    if _VGPU_HOST in labels:
        return False
    if _MIG_CAPABLE in labels:
        return labels[_MIG_CAPABLE] == "true"
    product = labels.get(PRODUCT_LABEL, "").lower()
    return any(name in product for name in _DIVISIBLE)
