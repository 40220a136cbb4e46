"""What a Node's labels say of its GPUs, held against what its agent reads of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from tonnage.decide.node.labels.syntax import sanitised
from tonnage.model.kubernetes.cluster import Node
from tonnage.model.names import PRODUCT_LABEL
from tonnage.model.node.gpu_status import GpuDevice
from tonnage.model.whole_numbers import whole_number

_COUNT: Final = "nvidia.com/gpu.count"
_MEMORY: Final = "nvidia.com/gpu.memory"
_MIG: Final = "-MIG-"
"""In the product of a node whose MIG devices go by the name of whole GPUs: count and memory are theirs."""
_TOLERANCE: Final = 50
"""Memory that differs by less than a fiftieth is the same: drivers reserve some of it."""


def product_of(node: Node, devices: Sequence[GpuDevice]) -> str:
    """The product by the label; by the agent where there is none or the agent reads another."""
    label = node.labels.get(PRODUCT_LABEL, "")
    return label if label and is_product(label, devices) else ", ".join(_products(devices)) or label


def divided(node: Node) -> bool:
    """Whether the product label says that MIG devices go by the name of whole GPUs."""
    return _MIG in node.labels.get(PRODUCT_LABEL, "")


def is_product(label: str, devices: Sequence[GpuDevice]) -> bool:
    """Whether a product label is of one of these devices, whatever it says of how they are shared or divided.

    >>> is_product("Tesla-T4-SHARED", [GpuDevice("GPU-1", "Tesla T4")])
    True
    """
    names = [sanitised(product) for product in _products(devices)]
    return not names or any(label == name or label.startswith(f"{name}-") for name in names)


def false_labels(node: Node, devices: Sequence[GpuDevice]) -> Iterator[str]:
    """Each label that is not what the agent reads, with both."""
    label, products = node.labels.get(PRODUCT_LABEL, ""), _products(devices)
    if not label or not products:
        return
    if not is_product(label, devices):
        yield f"label {PRODUCT_LABEL} says {label}, the agent reads {', '.join(products)}"
        return
    if len(products) > 1 or _MIG in label:
        return
    count = whole_number(node.labels.get(_COUNT, ""))
    if count is not None and count != len(devices):
        yield f"label {_COUNT} says {count}, the agent reads {len(devices)}"
    memory, read = whole_number(node.labels.get(_MEMORY, "")), devices[0].memory_mib
    if memory is not None and read and abs(memory - read) * _TOLERANCE > read:
        yield f"label {_MEMORY} says {memory} MiB, the agent reads {read} MiB"


def _products(devices: Sequence[GpuDevice]) -> list[str]:
    return sorted({device.product for device in devices if device.product})
