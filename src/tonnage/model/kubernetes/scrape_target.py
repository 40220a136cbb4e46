"""What Prometheus may read: a port of a pod, by the job under which rules know it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

JOBS: Final = {
    "exporter": "tonnage-exporter",
    "metrics": "tonnage-agent",
    "cluster": "tonnage-cluster",
    "controller": "tonnage-controller",
}
"""By the name of a container's port, the job of what is served there."""
OF_NO_NODE: Final = (JOBS["cluster"], JOBS["controller"])
"""Jobs whose pages tell of the cluster; a controller that serves its metrics, too, is among the former."""
PART_OF: Final = ("app.kubernetes.io/part-of", "tonnage")
"""The label of pods that serve something."""


@dataclass(frozen=True, slots=True)
class ScrapeTarget:
    """An address as Prometheus writes it, and the node whose devices it tells of; empty for the cluster's."""

    job: str
    address: str
    node: str = ""
