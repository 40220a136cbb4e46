"""What is seen of drivers in a cluster, for `tonnage operator`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from tonnage.decide.cluster.operate.drivers.daemon_set import (
    COMPONENT,
    DRIVER_COMPONENT,
    MANAGED_BY,
    MANAGER_NAME,
)
from tonnage.decide.cluster.operate.drivers.rollout import DriverCluster
from tonnage.model.errors import ApiError
from tonnage.model.json_access import mappings, texts
from tonnage.reading.driver_policy import (
    cluster_driver_policy,
    driver_node_from,
    driver_pod_from,
    nvidia_driver_policy,
    standing_daemon_set,
)
from tonnage.wire.kinds import DAEMON_SET, DEPLOYMENT, NVIDIA_DRIVER, POD

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.model.drivers.node import DriverNode
    from tonnage.wire.nvidia import ClusterPolicy, NvidiaDriver
    from tonnage.wire.objects import Node, NodeGPUStatus

_FLAG: Final = "--drivers"
_REFUSED: Final = (403, 404)


async def controller_installs_drivers(api: HttpKubernetes, namespace: str) -> bool:
    """Whether a controller runs in the namespace that is told to; one that may not be seen counts as none."""
    try:
        deployments = await api.list(DEPLOYMENT, namespace=namespace)
    except ApiError as error:
        if error.code not in _REFUSED:
            raise
        return False
    return any(
        _FLAG in texts(container, "args")
        for deployment in deployments.items
        for container in mappings(deployment.spec.template, "spec", "containers")
    )


async def nvidia_drivers(api: HttpKubernetes) -> list[NvidiaDriver]:
    """Every NVIDIADriver; none where the kind is not served or may not be read."""
    try:
        return (await api.list(NVIDIA_DRIVER)).items
    except ApiError as error:
        if error.code not in _REFUSED:
            raise
        return []


def labelled_node(node: Node, report: NodeGPUStatus | None, changes: Mapping[str, str | None]) -> DriverNode:
    """A node with the labels that it is going to have."""
    current = driver_node_from(node, report, "")
    labels = {key: value for key, value in {**current.labels, **changes}.items() if value is not None}
    return replace(current, labels=labels)


async def driver_cluster(
    api: HttpKubernetes,
    policy: ClusterPolicy,
    drivers: Sequence[NvidiaDriver],
    nodes: Iterable[DriverNode],
    namespace: str,
) -> DriverCluster:
    """The drivers that the policy asks for, or leaves to NVIDIADrivers, and what there is of them."""
    own = cluster_driver_policy(policy)
    policies = [nvidia_driver_policy(driver) for driver in drivers] if own is None else [own]
    component = f"{COMPONENT}={DRIVER_COMPONENT}"
    sets = await api.list(
        DAEMON_SET, namespace=namespace, label_selector=f"{component},{MANAGED_BY}={MANAGER_NAME}"
    )
    pods = await api.list(POD, namespace=namespace, label_selector=component)
    by_node = {pod.node: pod for pod in map(driver_pod_from, pods.items) if pod.node}
    return DriverCluster(
        policies,
        list(nodes),
        pods=by_node,
        standing={daemons.metadata.name: standing_daemon_set(daemons) for daemons in sets.items},
        namespace=namespace,
    )
