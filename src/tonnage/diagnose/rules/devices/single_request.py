"""ADM-5, KUB-4: two of a shared resource of which a container may have one: kubelet would refuse the pod."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.case import Case
from tonnage.model.name_lists import listed
from tonnage.model.reasons.gpu.allocation import SharedRequestTooLarge
from tonnage.model.reasons.reason import Reason

STRICT_KEY: Final = "sharing.timeSlicing.failRequestsGreaterThanOne"
"""The key of the device-plugin configuration that makes it so."""


def reasons(case: Case) -> Iterator[Reason]:
    """A reason for each container that asks more than one where the node's sharing allows one."""
    strict: dict[str, list[str]] = {}
    statuses = case.view.snapshot.gpu
    for name in case.remarkable.strict:
        for resource in sorted(statuses[name].single_requests):
            strict.setdefault(resource, []).append(name)
    for container in (*case.pod.init_containers, *case.pod.containers):
        for resource, nodes in strict.items():
            amount = container.requests.get(resource, 0)
            if amount > 1:
                yield SharedRequestTooLarge(
                    subject=f"Container {container.name}",
                    message=f"asks {amount} {resource}, of which a container may have one ({STRICT_KEY} is "
                    "true on "
                    f"{_configs(nodes, case)}); kubelet would fail the pod with UnexpectedAdmissionError",
                    remedy=f"ask for one {resource}: more replicas of one device give no more compute",
                    source="NodeGPUStatus, device-plugin configuration",
                    resource=resource,
                    requested=amount,
                    nodes=tuple(nodes),
                )


def _configs(nodes: list[str], case: Case) -> str:
    """The nodes, and the configuration that they run."""
    statuses = case.view.snapshot.gpu
    configs = sorted({statuses[name].config for name in nodes if statuses[name].config})
    return listed(nodes) + (f", by {', '.join(configs)}" if configs else "")
