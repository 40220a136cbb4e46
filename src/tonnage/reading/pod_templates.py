"""Manifests out of pod templates, built-in kinds' and others'. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Final

from tonnage.model.json import JsonValue
from tonnage.model.kubernetes.cluster import Manifest, Owner, WrittenAmounts
from tonnage.model.kubernetes.quantity import canonical_quantity
from tonnage.reading.cluster import pod_from
from tonnage.reading.null_fields import converted
from tonnage.wire import objects as w

TEMPLATES: Final = {
    "Deployment": "Deployment.apps",
    "ReplicaSet": "ReplicaSet.apps",
    "ReplicationController": "ReplicationController",
    "StatefulSet": "StatefulSet.apps",
    "DaemonSet": "DaemonSet.apps",
    "Job": "Job.batch",
    "CronJob": "CronJob.batch",
}
"""Kinds with the template of a pod, with the name that the API server gives them in refusals."""


def of_template(
    kind: str, namespace: str, name: str, template: JsonValue, where: str, group: str = ""
) -> Manifest:
    """The manifest of a workload with a pod template; it stands at `where` without its metadata.

    `group` is that of a custom kind.
    """
    written = template if isinstance(template, dict) else {}
    inner = converted(written, w.Pod)
    inner.metadata.name, inner.metadata.namespace = name, namespace
    pod = replace(pod_from(inner), owner=Owner(kind, name))
    full = f"{kind}.{group}" if group else TEMPLATES[kind]
    return Manifest(full, name, pod, amounts_of(inner, where), written=written)


def amounts_of(pod: w.Pod, where: str) -> tuple[WrittenAmounts, ...]:
    """What each container's `resources` say, where they stand below `where`."""
    return tuple(
        WrittenAmounts(
            container.name,
            f"{where}.{section}[{index}].resources",
            _canonical(container.resources.limits),
            _canonical(container.resources.requests),
        )
        for section, containers in (
            ("containers", pod.spec.containers),
            ("initContainers", pod.spec.init_containers),
        )
        for index, container in enumerate(containers)
    )


def _canonical(quantities: Mapping[str, str | int | float]) -> dict[str, str]:
    """Readable quantities as the API server writes them; the others are problems of the pod."""
    canonical: dict[str, str] = {}
    for name, quantity in quantities.items():
        with suppress(ValueError):
            canonical[name] = canonical_quantity(str(quantity))
    return canonical
