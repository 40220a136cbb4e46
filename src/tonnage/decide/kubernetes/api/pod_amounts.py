"""What a pod's containers ask for together, and the class of service that this makes.

Source: k8s.io/component-helpers resource (AggregateContainerRequests), v1.35.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from tonnage.model.json import JsonObject
from tonnage.model.json_access import at, mapping, mappings, text
from tonnage.model.kubernetes.quantity import parse_quantity, quantity_format, write_quantity

Amounts = dict[str, Fraction]


def together(spec: JsonObject, part: str) -> dict[str, str]:
    """The `requests` or `limits` of all containers, written as the first of them writes its own.

    Containers and sidecars run at once; every other init container runs with the sidecars before it.
    """
    running: Amounts = {}
    starting: Amounts = {}
    forms: dict[str, str] = {}
    sidecars: Amounts = {}
    for container in mappings(spec, "containers"):
        _add(running, _amounts(container, part, forms))
    for container in mappings(spec, "initContainers"):
        own = _amounts(container, part, forms)
        if text(container, "restartPolicy") == "Always":
            _add(running, own)
            _add(sidecars, own)
            own = dict(sidecars)
        else:
            _add(own, sidecars)
        for name, amount in own.items():
            starting[name] = max(amount, starting.get(name, Fraction(0)))
    names = {**running, **starting}
    most = {n: max(running.get(n, Fraction(0)), starting.get(n, Fraction(0))) for n in names}
    return {name: write_quantity(amount, forms.get(name, "decimal")) for name, amount in most.items()}


def _amounts(container: JsonObject, part: str, forms: dict[str, str]) -> Amounts:
    amounts: Amounts = {}
    for name, written in mapping(container, "resources", part).items():
        try:
            amounts[name] = parse_quantity(str(written))
        except ValueError:
            continue
        forms.setdefault(name, quantity_format(str(written)))
    return amounts


def _add(total: Amounts, more: Mapping[str, Fraction]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, Fraction(0)) + amount


def qos_class(spec: JsonObject) -> str:
    """Guaranteed, Burstable or BestEffort, by the cpu and memory of all containers.

    >>> qos_class({"containers": [{"resources": {"requests": {"cpu": "1"}}}]})
    'Burstable'
    """
    containers = [*mappings(spec, "containers"), *mappings(spec, "initContainers")]
    if at(spec, "resources"):
        containers = [spec]
    guaranteed, asks = True, False
    for container in containers:
        requests = _compute(mapping(container, "resources", "requests"))
        limits = _compute(mapping(container, "resources", "limits"))
        asks = asks or bool(requests) or bool(limits)
        if limits.keys() != {"cpu", "memory"} or any(
            requests.get(name, amount) != amount for name, amount in limits.items()
        ):
            guaranteed = False
    if not asks:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"


def _compute(amounts: JsonObject) -> dict[str, str]:
    return {
        name: text(amounts, name) or str(amounts[name])
        for name in ("cpu", "memory")
        if name in amounts and amounts[name] not in ("0", 0)
    }
