"""Which ports of pods Prometheus may read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.model.kubernetes.scrape_target import JOBS, OF_NO_NODE, PART_OF, ScrapeTarget
from tonnage.wire.objects import Pod

LOOPBACK: Final = "tonnage.dev/loopback-"
"""The twin's annotation of a pod, before the port: where on this machine that is served."""
_LOCAL: Final = re.compile(r"127\.0\.0\.1:[0-9]{1,5}")


def scrape_targets(pods: Iterable[Pod]) -> list[ScrapeTarget]:
    """The ports of Tonnage's running pods, sorted. On the twin those that are served on loopback alone."""
    targets = [
        target
        for pod in pods
        if pod.status.phase == "Running" and pod.metadata.labels.get(PART_OF[0]) == PART_OF[1]
        for target in _of_pod(pod)
    ]
    return sorted(targets, key=lambda target: (target.job, target.node, target.address))


def _of_pod(pod: Pod) -> Iterator[ScrapeTarget]:
    local = any(name.startswith(LOOPBACK) for name in pod.metadata.annotations)
    for container in pod.spec.containers:
        for port in container.ports:
            job = JOBS.get(port.name)
            if job is None:
                continue
            if local:
                # Whoever may annotate a pod must not have Prometheus knock anywhere else.
                address = pod.metadata.annotations.get(f"{LOOPBACK}{port.container_port}", "")
                address = address if _LOCAL.fullmatch(address) else ""
            else:
                address = _joined(pod.status.pod_ip, port.container_port)
            if address:
                yield ScrapeTarget(job, address, "" if job in OF_NO_NODE else pod.spec.node_name)


def _joined(host: str, port: int) -> str:
    """Both as one text, an IPv6 address in brackets; empty without an address.

    >>> _joined("192.0.2.1", 9400), _joined("2001:db8::1", 9400), _joined("", 9400)
    ('192.0.2.1:9400', '[2001:db8::1]:9400', '')
    """
    if not host:
        return ""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
