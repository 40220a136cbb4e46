"""Where a person reads what a field of a kind may hold."""

from __future__ import annotations

import re
from typing import Final

_BRACKETS: Final = re.compile(r"\[.*?\]")


def field_help(kind: str, field: str) -> str:
    """The command that tells of a field, which is named as the API server names it.

    >>> field_help("Pod", "spec.containers[0].resources.limits[cpu]")
    'kubectl explain pod.spec.containers.resources.limits'
    >>> field_help("GPUCluster", "")
    'kubectl explain gpucluster'
    """
    return f"kubectl explain {kind.lower()}.{_BRACKETS.sub('', field)}".rstrip(".")


def kind_help(kind: str) -> str:
    """The command that lists a kind's fields with their types."""
    return f"kubectl explain {kind.lower()} --recursive"
