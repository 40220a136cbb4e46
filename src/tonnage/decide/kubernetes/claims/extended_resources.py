"""Extended resources that a DeviceClass stands for: what a pod asks by count becomes a claim on such nodes.

On a node that offers the resource itself nothing changes: then its device plugin gives the devices.

Source: kube-scheduler dynamicresources/extendeddynamicresources.go (1.35 to 1.37), extendedresourcecache;
1.34's dynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.model.kubernetes.cluster import Node, Pod
from tonnage.model.kubernetes.resource_claims import DeviceRequest, ResourceClaim


def backed_by_classes(pod: Pod, supply: Supply) -> Mapping[str, str]:
    """The classes that stand for what a pod asks, by resource; empty: it asks for nothing of the kind."""
    if not supply.gates.extended or not supply.by_resource:
        return {}
    requested = {name for c in (*pod.init_containers, *pod.containers) for name, n in c.requests.items() if n}
    return {name: supply.by_resource[name] for name in sorted(requested & supply.by_resource.keys())}


def left_to_claims(resource: str, node: Node, supply: Supply) -> bool:
    """Whether the scheduler takes devices for claims in the place of a resource that a node lacks.

    Kubelet goes on to list what a device plugin offered once, with 0. 1.34 counts by that, later ones do not.
    """
    if not supply.gates.extended or resource not in supply.by_resource:
        return False
    return resource not in node.allocatable or (supply.gates.minor > 34 and not node.allocatable[resource])


def claim_on(pod: Pod, node: Node, supply: Supply) -> ResourceClaim | None:
    """The claim that the scheduler would make for what the node does not offer itself; None: none."""
    resources = {
        name: cls
        for name, cls in backed_by_classes(pod, supply).items()
        if left_to_claims(name, node, supply)
    }
    if not resources:
        return None
    requests = tuple(request for name, cls in resources.items() for request in _requests(pod, name, cls))
    return ResourceClaim(pod.namespace, f"{pod.name}-extended-resources", requests=requests, owner=pod.uid)


def asked_by(pod: Pod, request: DeviceRequest) -> tuple[str, str]:
    """The container, and the resource in it, that a request of such a claim is for."""
    _, place, _, index = request.name.split("-")
    container = (*pod.init_containers, *pod.containers)[int(place)]
    return container.name, sorted(container.requests)[int(index)]


def _requests(pod: Pod, resource: str, cls: str) -> Iterator[DeviceRequest]:
    """A request for each container that stays; of init containers that end, for the one that lacks most."""
    containers = (*pod.init_containers, *pod.containers)
    first = len(pod.init_containers)
    staying = {
        place: amount
        for place, container in enumerate(containers)
        if (place >= first or container.sidecar) and (amount := container.requests.get(resource, 0))
    }
    for place, amount in staying.items():
        yield DeviceRequest(_name(pod, place, resource), cls, count=amount)
    lacking = {
        place: container.requests.get(resource, 0) - sum(n for at, n in staying.items() if at >= place)
        for place, container in enumerate(pod.init_containers)
        if not container.sidecar
    }
    most = max(lacking.values(), default=0)
    if most > 0:
        place = next(place for place, amount in lacking.items() if amount == most)
        yield DeviceRequest(_name(pod, place, resource), cls, count=most)


def _name(pod: Pod, place: int, resource: str) -> str:
    container = (*pod.init_containers, *pod.containers)[place]
    return f"container-{place}-request-{sorted(container.requests).index(resource)}"
