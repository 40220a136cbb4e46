"""Do the Node's labels say what GPUs it has?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from tonnage.decide.node.labels.gpu import gpu_labels
from tonnage.decide.node.share import share
from tonnage.diagnose.doctor.finding import Judgement, NodeFinding, counted, finding, listed
from tonnage.model.devices.inventory import Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.layer import NodeLayer
from tonnage.model.node.machine import Machine
from tonnage.model.reasons.node.labels import LabelDrifted

_LAYER: Final = NodeLayer.LABELS
_PREFIX: Final = "nvidia.com/"
_SIGN: Final = "nvidia.com/gpu.product"
"""Who publishes labels publishes this one."""
_BY_HAND: Final = frozenset({"nvidia.com/gpu.present", "nvidia.com/gfd.timestamp"})
_FAMILIES: Final = (
    "nvidia.com/gpu.",
    "nvidia.com/cuda.",
    "nvidia.com/mig.",
    "nvidia.com/mig-",
    "nvidia.com/mps.",
)
_OF_HARDWARE: Final = (
    *("nvidia.com/gpu.count", "nvidia.com/gpu.memory", "nvidia.com/gpu.family", "nvidia.com/gpu.compute."),
    "nvidia.com/cuda.driver",
)
_NOT_OURS: Final = ("nvidia.com/mig.config", "nvidia.com/gpu.deploy.")


def judge_labels(
    labels: Mapping[str, str], inventory: Inventory, config: PluginConfig | None, machine: Machine
) -> Judgement:
    """The Node's labels against those that its hardware gives under the configuration it runs.

    Without one another plugin shares the GPUs, maybe: then only what no configuration changes is compared.
    """
    if _SIGN not in labels:
        why = "the node has no labels of GPU feature discovery" if inventory.devices else "none, and no GPU"
        return Judgement(_LAYER, because=f"{why} (tonnage node --labels)")
    used = config or PluginConfig()
    of_hardware = gpu_labels(inventory, used, share(inventory, used), machine)
    expected = {
        key: value
        for key, value in of_hardware.items()
        if key.startswith(_PREFIX if config is not None else _OF_HARDWARE) and key not in _BY_HAND
    }
    product = of_hardware.get(_SIGN, "")
    if not f"{labels[_SIGN]}-".startswith(f"{product}-"):  # what follows says how another plugin shares it
        expected[_SIGN] = product
    findings = tuple(_drift(labels, expected, strange=config is not None))
    return Judgement(_LAYER, findings, _summary(labels, expected))


def _summary(labels: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """How many of the expected labels the Node has; an older GPU feature discovery publishes fewer."""
    missing = sorted(set(expected) - set(labels))
    there = counted(len(expected) - len(missing), "label")
    return f"{there}, not published: {listed(missing, 3)}" if missing else there


def _drift(labels: Mapping[str, str], expected: Mapping[str, str], *, strange: bool) -> Iterator[NodeFinding]:
    """`strange`: also labels that nothing there gives."""
    differing = {
        key: f"{key}={labels[key]}, it is {value}"
        for key, value in sorted(expected.items())
        if key in labels and labels[key] != value
    }
    unfounded = {
        key: f"{key}={value}, which the node does not have"
        for key, value in sorted(labels.items())
        if strange
        and key.startswith(_FAMILIES)
        and not key.startswith(_NOT_OURS)
        and key not in expected
        and key not in _BY_HAND
    }
    if differing or unfounded:
        yield finding(
            LabelDrifted(
                message=f"{counted(len(differing) + len(unfounded), 'label')} drifted from the hardware:"
                f" {listed([*differing.values(), *unfounded.values()], 3)}",
                remedy="tonnage node --labels=direct (chart: features.publish) corrects them at once;"
                " with GPU feature discovery, restart its pod",
                differing=tuple(differing),
                unfounded=tuple(unfounded),
            ),
            where="the Node's labels",
            why="pods that select nodes by them get the wrong GPUs, or none",
        )
