"""DRA-5: a class of which no device is published is no matter of capacity; who should publish is named."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError
from tonnage.decide.kubernetes.claims.extended_resources import backed_by_classes
from tonnage.decide.kubernetes.claims.pod_claims import claims_of
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.decide.kubernetes.view import ClusterView
from tonnage.diagnose.case import Case, is_offered
from tonnage.diagnose.remedies.selector_advice import unselected
from tonnage.model.devices.claims import DRIVER
from tonnage.model.kubernetes.resource_claims import DeviceClass
from tonnage.model.name_lists import listed
from tonnage.model.reasons.pod.claims import ClassWithoutDevices
from tonnage.model.reasons.reason import Reason

_DRIVER: Final = re.compile(r"device\.driver\s*==\s*['\"]([A-Za-z0-9.-]{1,63})['\"]")
_MOST_TRIED: Final = 4096
_MOST_NAMED: Final = 3
_MIG_CLASS: Final = "mig.nvidia.com"


def reasons(case: Case) -> Iterator[Reason]:
    """One reason for the first class of which the pod's claims cannot have a device anywhere."""
    supply = case.view.supply
    if not case.view.nodes or case.decision.feasible or "Node" in case.view.snapshot.missing:
        return
    if "ResourceSlice" in case.view.snapshot.missing:
        return
    for names in _classes_of(case):
        classes = [supply.classes[name] for name in names if name in supply.classes]
        if len(classes) == len(names) and not any(_has_devices(cls, supply) for cls in classes):
            yield _reason(classes[0], case)
            return


def _classes_of(case: Case) -> Iterator[tuple[str, ...]]:
    """For each request that waits the classes of which it could have devices."""
    for claim in claims_of(case.pod, case.view.supply.claims).waiting:
        for request in claim.requests:
            yield tuple(part.device_class for part in request.alternatives or (request,))
    for resource, name in backed_by_classes(case.pod, case.view.supply).items():
        if not is_offered(case.view, resource):
            yield (name,)


def _has_devices(cls: DeviceClass, supply: Supply) -> bool:
    """Whether a device of the class is published, or may be: there are too many, or a selector fails."""
    drivers = {driver for driver, _ in supply.by_pool}
    if not drivers or ((named := _drivers_of(cls)) and not named & drivers):
        return False
    devices = (
        (driver, device)
        for (driver, _), slices in supply.by_pool.items()
        for part in slices
        for device in part.devices
    )
    try:
        return any(
            number == _MOST_TRIED or all(supply.selects(text, driver, device) for text in cls.selectors)
            for number, (driver, device) in enumerate(devices)
        )
    except (CelError, CelUnsupportedError):
        return True


def _drivers_of(cls: DeviceClass) -> set[str]:
    return {match[1] for expression in cls.selectors for match in _DRIVER.finditer(expression)}


def _reason(cls: DeviceClass, case: Case) -> Reason:
    named = sorted(_drivers_of(cls))
    published = {driver for driver, _ in case.view.supply.by_pool}
    absent = not published or bool(named and not published & set(named))
    driver = listed(named, _MOST_NAMED) or "any driver"
    cause = (
        f"the driver {driver} publishes none on any node"
        if named and absent
        else "no driver publishes any device"
        if absent
        else "its selectors take none of the published devices"
    )
    faults = {
        name: status.claims.fault
        for name, status in sorted(case.view.snapshot.gpu.items())
        if status.claims is not None and status.claims.fault and status.claims.driver in (named or [DRIVER])
    }
    agents_words = (
        f" ({listed([f'{name} says: {why}' for name, why in faults.items()], 1)})" if faults else ""
    )
    return ClassWithoutDevices(
        subject=f"Pod {case.pod.namespace}/{case.pod.name}",
        message=f"no device of class {cls.name} is published: {cause}{agents_words}",
        remedy=_remedy_absent(named, next(iter(faults), ""), case.view)
        if absent
        else _remedy_other(cls, case.view),
        source="ResourceSlice",
        device_class=cls.name,
        drivers=tuple(named),
    )


def _remedy_absent(named: list[str], faulty: str, view: ClusterView) -> str:
    """What brings devices; `faulty` is a node that offers some, and whose agent says why nobody gets them."""
    if faulty:
        return f"do what the agent of {faulty} says: kubectl describe node {faulty}"
    if DRIVER not in named:
        driver = f"the driver {named[0]}" if named else "a driver that publishes such devices"
        return f"install {driver}, or read the log of its pods on the nodes that have such devices"
    if view.snapshot.gpu:
        return "have nodes offer their GPUs as claims: a section claims in their device-plugin configuration"
    return (
        "install what publishes GPUs as claims: Tonnage's chart with claims.enabled, or NVIDIA's DRA driver"
    )


def _remedy_other(cls: DeviceClass, view: ClusterView) -> str:
    if cls.name == _MIG_CLASS:
        return (
            "make MIG devices on GPUs that are claims (label nvidia.com/mig.config), or set dynamicMig there"
        )
    if cls.name == DRIVER:
        return f"ask for class {_MIG_CLASS}: GPUs in MIG mode are published as their MIG devices"
    hints = (unselected(expression, view.supply) for expression in cls.selectors)
    compare = "compare its selectors with what is published: kubectl get resourceslices -o yaml"
    return next(filter(None, hints), compare)
