"""serviceEvaluator, pvcEvaluator and the like: what other objects are charged to the keys of quotas.

Source: k8s.io/kubernetes pkg/quota/v1/evaluator/core (services.go, persistent_volume_claims.go,
registry.go), k8s.io/apiserver pkg/quota/v1/generic, 1.34 to 1.37 alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from tonnage.decide.kubernetes.admission.written_pod import mapping, mappings
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.kubernetes.well_known import OLD_STORAGE_CLASS

Resource = tuple[str, str]
"""(API group, plural)."""

CLAIM: Final[Resource] = ("", "persistentvolumeclaims")
_SERVICE: Final[Resource] = ("", "services")
_OF_CLASS: Final = ".storageclass.storage.k8s.io/"
_SERVICE_KEYS: Final = ("services", "services.nodeports", "services.loadbalancers")
_NAMES: Final = ("configmaps", "replicationcontrollers", "resourcequotas", "secrets")
"""Kinds that have a key of their own besides the one that counts any kind."""
_COUNT: Final = "count/"
UNCOUNTED: Final[frozenset[Resource]] = frozenset({("", "events"), ("events.k8s.io", "events")})


def count_key(resource: Resource) -> str:
    """The key that counts objects of any kind.

    >>> count_key(("apps", "deployments"))
    'count/deployments.apps'
    """
    group, plural = resource
    return f"{_COUNT}{plural}.{group}" if group else f"{_COUNT}{plural}"


def counted_by(key: str) -> Resource | None:
    """The kind of objects that a key of a quota counts; None for what pods and claims for devices cost.

    >>> counted_by("gold.storageclass.storage.k8s.io/requests.storage")
    ('', 'persistentvolumeclaims')
    """
    if key.startswith(_COUNT):
        plural, _, group = key.removeprefix(_COUNT).partition(".")
        return group, plural
    if key in _SERVICE_KEYS:
        return _SERVICE
    if key in ("persistentvolumeclaims", "requests.storage") or _OF_CLASS in key:
        return CLAIM
    return ("", key) if key in _NAMES else None


def object_charges(resource: Resource, obj: JsonObject) -> dict[str, Fraction]:
    """What an object costs, by key."""
    charges = {count_key(resource): Fraction(1)}
    if resource == _SERVICE:
        charges |= _service(mapping(obj.get("spec")))
    elif resource == CLAIM:
        charges |= _claim(obj)
    elif not resource[0] and resource[1] in _NAMES:
        charges[resource[1]] = Fraction(1)
    return charges


def _service(spec: JsonObject) -> Mapping[str, Fraction]:
    """Node ports that a balancer's service will be given count before it has them."""
    kind, ports = spec.get("type"), mappings(spec.get("ports"))
    balanced = kind == "LoadBalancer"
    if balanced and spec.get("allocateLoadBalancerNodePorts") is False:
        ports = [port for port in ports if port.get("nodePort")]
    open_ports = len(ports) if kind in ("NodePort", "LoadBalancer") else 0
    return {
        "services": Fraction(1),
        "services.nodeports": Fraction(open_ports),
        "services.loadbalancers": Fraction(int(balanced)),
    }


def _claim(claim: JsonObject) -> Mapping[str, Fraction]:
    spec, status = mapping(claim.get("spec")), mapping(claim.get("status"))
    annotations = mapping(mapping(claim.get("metadata")).get("annotations"))
    name = str(annotations.get(OLD_STORAGE_CLASS) or spec.get("storageClassName") or "")
    charges = {"persistentvolumeclaims": Fraction(1)}
    requested = _bytes(mapping(mapping(spec.get("resources")).get("requests")).get("storage"))
    if requested is not None:
        allocated = _bytes(mapping(status.get("allocatedResources")).get("storage"))
        charges["requests.storage"] = max(requested, allocated or requested)
    if name:
        charges |= {f"{name}{_OF_CLASS}{key}": amount for key, amount in charges.items()}
    return charges


def _bytes(written: object) -> Fraction | None:
    """Whole bytes."""
    if written is None:
        return None
    try:
        return Fraction(math.ceil(parse_quantity(str(written))))
    except ValueError:
        return None
