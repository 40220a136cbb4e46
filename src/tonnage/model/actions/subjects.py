"""What actions change that must look first: a look at one subject permits no change of another."""

from __future__ import annotations

from typing import Final

MIG_LAYOUT: Final = "the node's MIG layout"
"""Of all GPUs: a step on one may depend on another, of the same board."""

SLICES: Final = "the node's ResourceSlices"
"""All of them: what one must say depends on the others."""


def pod_subject(namespace: str, name: str) -> str:
    """A pod."""
    return f"pod {namespace}/{name}"


def node_feature_subject(namespace: str, name: str) -> str:
    """A NodeFeature."""
    return f"NodeFeature {namespace}/{name}"


def object_subject(kind: str, namespace: str, name: str) -> str:
    """An object of any kind; an empty namespace: it is in none.

    >>> object_subject("RuntimeClass", "", "nvidia")
    'RuntimeClass nvidia'
    """
    return f"{kind} {namespace}/{name}" if namespace else f"{kind} {name}"


def service_subject(unit: str) -> str:
    """A unit of systemd."""
    return f"service {unit}"
