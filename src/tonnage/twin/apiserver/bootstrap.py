"""The objects that every cluster has from its first moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Any, Final

import msgspec

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, copied, mapping, mappings, put, text
from tonnage.model.kubernetes.feature_gates import FeatureGates
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.model.kubernetes.well_known import KUBERNETES_SERVICE, NAMESPACE_NAME, SYSTEM_NAMESPACES
from tonnage.model.names import SYSTEM_PRIORITIES
from tonnage.ports.clock import Clock
from tonnage.twin.apiserver.admission.chain import PRIORITY_CLASS
from tonnage.twin.apiserver.object_store import ObjectStore, Resource
from tonnage.twin.apiserver.ownership.bootstrap_objects import Bring
from tonnage.twin.apiserver.rbac.defaults import default_roles
from tonnage.twin.apiserver.resource_names import NAMESPACE, SERVICE
from tonnage.twin.apiserver.resources import COMPONENTS
from tonnage.twin.apiserver.strategies.services import API_ADDRESS, SERVICE_RANGE

_CLASSES: Final = {
    "system-cluster-critical": "Used for system critical pods that must run in the cluster, "
    "but can be moved to another node if necessary.",
    "system-node-critical": "Used for system critical pods that must not be moved from their current node.",
}


def bootstrap(
    store: ObjectStore, clock: Clock, uid: Callable[[], str], bring: Bring, gates: FeatureGates
) -> None:
    """Create what is missing; `bring` says whose it is."""
    now = timestamp(clock.now())
    for resource, obj, extra in (*_objects(), *_roles(gates), *_recorded(now), *_own(now)):
        born: JsonObject = {} if resource == COMPONENTS else {"uid": uid(), "creationTimestamp": now}
        _create_missing(store, resource, obj, {**extra, **born}, bring)


def create_known(
    store: ObjectStore,
    clock: Clock,
    uid: Callable[[], str],
    bring: Bring,
    resource: Resource,
    obj: JsonObject,
) -> None:
    """Create an object of this package if it is missing, without judging it: its tests have."""
    born: JsonObject = {"generation": 1, "uid": uid(), "creationTimestamp": timestamp(clock.now())}
    _create_missing(store, resource, obj, {**mapping(obj, "metadata"), **born}, bring)


def _create_missing(
    store: ObjectStore, resource: Resource, obj: JsonObject, metadata: JsonObject, bring: Bring
) -> None:
    key = (text(metadata, "namespace"), text(metadata, "name"))
    if store.get(resource, key) is None:
        head = {name: obj[name] for name in ("kind", "apiVersion")}
        store.create(resource, key, bring({**head, "metadata": metadata, **_rest(obj)}))


def _rest(obj: JsonObject) -> JsonObject:
    return {name: value for name, value in obj.items() if name != "metadata"}


def _objects() -> Iterator[tuple[Resource, JsonObject, JsonObject]]:
    for name in SYSTEM_NAMESPACES:
        head: JsonObject = {"apiVersion": "v1", "kind": "Namespace"}
        yield (
            NAMESPACE,
            {**head, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}},
            {"name": name, "labels": {NAMESPACE_NAME: name}},
        )
    for name, description in _CLASSES.items():
        head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
        yield (
            PRIORITY_CLASS,
            {
                **head,
                "value": SYSTEM_PRIORITIES[name],
                "preemptionPolicy": "PreemptLowerPriority",
                "description": description,
            },
            {"name": name, "generation": 1},
        )


def _recorded(now: str) -> Iterator[tuple[Resource, JsonObject, JsonObject]]:
    """What a genuine server has of priority and fairness, and its controllers' accounts."""
    objects = _first_objects()
    for plural in ("prioritylevelconfigurations", "flowschemas"):
        for obj in objects[plural]:
            for condition in mappings(obj, "status", "conditions"):
                condition["lastTransitionTime"] = now
            yield ("flowcontrol.apiserver.k8s.io", plural), obj, mapping(obj, "metadata")
    for name in objects["serviceaccounts"]:
        head: JsonObject = {"apiVersion": "v1", "kind": "ServiceAccount"}
        yield ("", "serviceaccounts"), head, {"name": name, "namespace": "kube-system"}


def _first_objects() -> dict[str, list[Any]]:
    objects: dict[str, list[Any]] = msgspec.json.decode(
        files(__package__).joinpath("first_objects.json").read_bytes()
    )
    return objects


def _own(now: str) -> Iterator[tuple[Resource, JsonObject, JsonObject]]:
    """What the server tells of itself: since when it tracks old tokens, its addresses, how its parts are."""
    tracking: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"since": now[:10]}}
    name = "kube-apiserver-legacy-service-account-token-tracking"
    yield ("", "configmaps"), tracking, {"name": name, "namespace": "kube-system"}
    for name in ("controller-manager", "etcd-0", "scheduler"):
        healthy: JsonObject = {"type": "Healthy", "status": "True", "message": "ok"}
        part: JsonObject = {"apiVersion": "v1", "kind": "ComponentStatus", "conditions": [healthy]}
        yield COMPONENTS, part, {"name": name}
    addresses: JsonObject = {"apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR"}
    ready: JsonObject = {
        "type": "Ready",
        "status": "True",
        "lastTransitionTime": now,
        "reason": "",
        "message": "Kubernetes Service CIDR is ready",
    }
    yield (
        ("networking.k8s.io", "servicecidrs"),
        {**addresses, "spec": {"cidrs": [SERVICE_RANGE]}, "status": {"conditions": [ready]}},
        {"name": "kubernetes", "finalizers": ["networking.k8s.io/service-cidr-finalizer"]},
    )


def _roles(gates: FeatureGates) -> Iterator[tuple[Resource, JsonObject, JsonObject]]:
    for resource, obj in default_roles(gates):
        yield resource, obj, mapping(obj, "metadata")


def publish_authority(
    store: ObjectStore, clock: Clock, uid: Callable[[], str], bring: Bring, pem: str
) -> None:
    """Tell extension servers by which CA the certificates of clients are signed."""
    key = ("kube-system", "extension-apiserver-authentication")
    if store.get(("", "configmaps"), key) is None:
        born: JsonObject = {"uid": uid(), "creationTimestamp": timestamp(clock.now())}
        head: JsonObject = {"kind": "ConfigMap", "apiVersion": "v1"}
        metadata: JsonObject = {"name": key[1], "namespace": key[0], **born}
        store.create(
            ("", "configmaps"), key, bring({**head, "metadata": metadata, "data": {"client-ca-file": pem}})
        )


def publish_api(store: ObjectStore, clock: Clock, uid: Callable[[], str], bring: Bring, port: int) -> None:
    """Tell in `default/kubernetes` where the API is reached, anew when its port has changed."""
    stored = store.get(SERVICE, KUBERNETES_SERVICE)
    service = api_service(port)
    if stored is not None:
        changed = copied(stored.object)
        put(changed, at(service, "spec", "ports"), "spec", "ports")
        store.update(SERVICE, KUBERNETES_SERVICE, changed, read=stored)
        return
    put(service, uid(), "metadata", "uid")
    put(service, timestamp(clock.now()), "metadata", "creationTimestamp")
    put(service, "Cluster", "spec", "internalTrafficPolicy")
    service = bring({**service, "status": {"loadBalancer": {}}})
    # By whoever gives addresses.
    put(service, [API_ADDRESS], "spec", "clusterIPs")
    put(service, ["IPv4"], "spec", "ipFamilies")
    store.create(SERVICE, KUBERNETES_SERVICE, service)


def api_service(port: int) -> JsonObject:
    """The Service of an API that is reached at a port, as a server asks for it."""
    namespace, name = KUBERNETES_SERVICE
    labels: JsonObject = {"component": "apiserver", "provider": "kubernetes"}
    ports: list[JsonValue] = [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}]
    return {
        "kind": "Service",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "ports": ports,
            "clusterIP": API_ADDRESS,
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilyPolicy": "SingleStack",
        },
    }
