"""Requirements on a node's GPU labels as CEL clauses about a device, which select the same GPUs.

A label says of a node what is so of its GPUs; a clause says it of the device. What says something else
(how many GPUs, how they are shared) stays with the node.

Source: NVIDIA GPU Feature Discovery's labels; attributes and capacities of dra-driver-nvidia-gpu v0.5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from tonnage.decide.node.labels.syntax import sanitised
from tonnage.model.devices.claims import DRIVER
from tonnage.model.kubernetes.selectors import Requirement
from tonnage.model.names import PRODUCT_LABEL

MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
_FAMILY_LABEL: Final = "nvidia.com/gpu.family"
_COMPUTE_LABELS: Final = {
    "nvidia.com/gpu.compute.major": "major",
    "nvidia.com/gpu.compute.minor": "minor",
}
CONVERTIBLE: Final = frozenset({PRODUCT_LABEL, MEMORY_LABEL, _FAMILY_LABEL, *_COMPUTE_LABELS})
"""Labels that say something of each GPU."""
_NUMBER: Final = re.compile(r"[0-9]{1,15}")
_SHARED: Final = "-SHARED"
_MIG: Final = re.compile(r"-MIG-([0-9]g\.[0-9a-z.+]+)")
_STRATEGY_LABEL: Final = "nvidia.com/gpu.sharing-strategy"
_STRATEGIES: Final = frozenset({"time-slicing", "mps"})
_ATTRIBUTES: Final = f"device.attributes['{DRIVER}']"
_MEMORY: Final = f"device.capacity['{DRIVER}'].memory"
_COMPARISONS: Final = {"Gt": ">", "Lt": "<"}
OF_DRIVER: Final = f"device.driver == '{DRIVER}'"
IS_WHOLE: Final = f"{_ATTRIBUTES}.type == 'gpu'"
IS_MIG: Final = f"{_ATTRIBUTES}.type == 'mig'"
WHOLE_GPUS: Final = f"{OF_DRIVER} && {IS_WHOLE}"
MIG_DEVICES: Final = f"{OF_DRIVER} && {IS_MIG}"


def clause_of(requirement: Requirement, products: Iterable[str]) -> str | None:
    """The clause of a requirement; empty: every GPU meets it; None: it cannot be said of a device.

    `products` are names as the driver says them, of which labels are made.

    >>> clause_of(Requirement("nvidia.com/gpu.product", "In", ("Tesla-T4",)), ["Tesla T4"])
    "device.attributes['gpu.nvidia.com'].productName == 'Tesla T4'"
    >>> clause_of(Requirement("nvidia.com/gpu.memory", "Gt", ("40000",)), [])
    "device.capacity['gpu.nvidia.com'].memory.isGreaterThan(quantity('40000Mi'))"
    """
    key, operator, values = requirement.key, requirement.operator, requirement.values
    if key not in CONVERTIBLE or operator == "DoesNotExist":
        return None
    if operator == "Exists":
        return ""
    if key == PRODUCT_LABEL:
        return _product(operator, values, products)
    if key == _FAMILY_LABEL:
        names = [" ".join(word.title() for word in value.split("-")) for value in values]
        return _membership(f"{_ATTRIBUTES}.architecture", operator, names)
    if not all(_NUMBER.fullmatch(value) for value in values):
        return None
    if key == MEMORY_LABEL:
        return _memory(operator, values)
    number = f"{_ATTRIBUTES}.cudaComputeCapability.{_COMPUTE_LABELS[key]}()"
    if operator in _COMPARISONS:
        return f"{number} {_COMPARISONS[operator]} {int(values[0])}"
    return _joined(operator, [f"{number} == {int(value)}" for value in values])


def part_of_gpu(requirement: Requirement) -> str | None:
    """What `nvidia.com/gpu` is on nodes that the requirement picks: a MIG profile, or empty for a share.

    None: a whole GPU, as far as it says.

    >>> part_of_gpu(Requirement("nvidia.com/gpu.product", "In", ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb",)))
    '1g.5gb'
    >>> part_of_gpu(Requirement("nvidia.com/gpu.product", "In", ("Tesla-T4-SHARED",)))
    ''
    """
    if requirement.operator != "In":
        return None
    if requirement.key == _STRATEGY_LABEL:
        return "" if _STRATEGIES.intersection(requirement.values) else None
    for value in requirement.values if requirement.key == PRODUCT_LABEL else ():
        if value.endswith(_SHARED):
            return ""
        if match := _MIG.search(value):
            return match[1]
    return None


def _product(operator: str, values: Sequence[str], products: Iterable[str]) -> str | None:
    """By the driver's name where it is known; else by what the label makes of a name."""
    if any(value.endswith(_SHARED) or _MIG.search(value) for value in values):
        return None
    by_label: dict[str, list[str]] = {}
    for product in sorted(set(products)):
        by_label.setdefault(sanitised(product), []).append(product)
    name = f"{_ATTRIBUTES}.productName"
    if all(value in by_label for value in values):
        return _membership(name, operator, [product for value in values for product in by_label[value]])
    return _membership(f"{name}.replace(' ', '-')", operator, values)


def _memory(operator: str, values: Sequence[str]) -> str | None:
    """A label counts MiB. Memory is a capacity, whose quantities no operator compares."""
    quantities = [f"quantity('{int(value)}Mi')" for value in values]
    if operator == "Gt":
        return f"{_MEMORY}.isGreaterThan({quantities[0]})"
    if operator == "Lt":
        return f"{_MEMORY}.isLessThan({quantities[0]})"
    return _joined(operator, [f"{_MEMORY}.compareTo({quantity}) == 0" for quantity in quantities])


def _membership(subject: str, operator: str, names: Sequence[str]) -> str | None:
    """`In` or `NotIn` as a clause of CEL; None for other operators, and for no names."""
    if operator not in ("In", "NotIn") or not names:
        return None
    quoted = ["'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'" for name in names]
    if len(quoted) == 1:
        return f"{subject} {'==' if operator == 'In' else '!='} {quoted[0]}"
    listed = f"{subject} in [{', '.join(quoted)}]"
    return listed if operator == "In" else f"!({listed})"


def _joined(operator: str, equalities: Sequence[str]) -> str | None:
    if operator not in ("In", "NotIn") or not equalities:
        return None
    joined = " || ".join(equalities)
    if operator == "NotIn":
        return f"!({joined})"
    return joined if len(equalities) == 1 else f"({joined})"
