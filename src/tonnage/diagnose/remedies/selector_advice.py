"""What to write instead of a device selector that fails, tried on all devices before it is offered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError, CompileError
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.model.kubernetes.resource_claims import SliceDevice

_DRIVER: Final = re.compile(r"device\.driver\s*==\s*(['\"])([A-Za-z0-9.-]{1,63})\1")
_AS_DOMAIN: Final = re.compile(
    r"device\.attributes\[(['\"])([A-Za-z_][A-Za-z0-9_]{0,31})\1\]\s*(==|!=|>=|<=|>|<)\s*([0-9]{1,18})\b"
)
_COMPARED: Final = (
    r"device\.attributes\[(['\"])(?P<domain>[^'\"]+)\1\]\.{key}\s*(?P<op>==|>=|<=|>|<)\s*(?P<n>[0-9]+)\b"
)
_LOOKED_UP: Final = r"device\.(?P<map>attributes|capacity)\[(?P<q>['\"])(?P<domain>[^'\"]+)(?P=q)\]\.{key}\b"
_MOST_TRIED: Final = 4096
_LONGEST: Final = 2048


def advised(expression: str, missing: str, supply: Supply) -> str:
    """An expression that compiles and fails on none of the devices there are; empty when there is none.

    `missing` is the attribute or capacity that a device lacked, or empty.
    """
    if len(expression) > _LONGEST:
        return ""
    return next((text for text in _proposals(expression, missing, supply) if _works(text, supply)), "")


def _proposals(expression: str, missing: str, supply: Supply) -> Iterator[str]:
    driver = _driver_of(expression, supply)
    named = _AS_DOMAIN.search(expression)
    if named is not None and driver:
        _, name, operator, number = named.groups()
        for text in _for_number(driver, name, operator, number, supply):
            yield expression[: named.start()] + text + expression[named.end() :]
    if not missing:
        return
    compared = re.search(_COMPARED.replace("{key}", re.escape(missing)), expression)
    if compared is not None and _publishes(supply, compared["domain"], missing, capacity=True):
        text = _capacity(compared["domain"], missing, compared["op"], compared["n"])
        yield expression[: compared.start()] + text + expression[compared.end() :]
    looked_up = re.search(_LOOKED_UP.replace("{key}", re.escape(missing)), expression)
    if looked_up is not None:
        guard = f"has(device.{looked_up['map']}['{looked_up['domain']}'].{missing})"
        of_driver = "" if _DRIVER.search(expression) or not driver else f"device.driver == '{driver}' && "
        yield f"{of_driver}{guard} && {_grouped(expression)}"


def _grouped(expression: str) -> str:
    return f"({expression})" if "||" in expression or "?" in expression else expression


def _for_number(driver: str, name: str, operator: str, number: str, supply: Supply) -> Iterator[str]:
    """Memory is a capacity with most drivers, in bytes; who compares it with a bare number means MiB."""
    as_capacity = _publishes(supply, driver, name, capacity=True)
    as_attribute = _publishes(supply, driver, name, capacity=False)
    if as_capacity or (name == "memory" and not as_attribute):
        yield _capacity(driver, name, operator, number)
    yield f"device.attributes['{driver}'].{name} {operator} {number}"


def _capacity(domain: str, name: str, operator: str, number: str) -> str:
    unit = "Mi" if name == "memory" else ""
    return f"device.capacity['{domain}'].{name}.compareTo(quantity('{number}{unit}')) {operator} 0"


def _publishes(supply: Supply, domain: str, name: str, *, capacity: bool) -> bool:
    for driver, device in _devices(supply):
        keys = device.capacity if capacity else device.attributes
        if f"{domain}/{name}" in keys or (domain == driver and name in keys):
            return True
    return False


def _driver_of(expression: str, supply: Supply) -> str:
    match = _DRIVER.search(expression)
    if match is not None:
        return match[2]
    drivers = sorted({driver for driver, _ in supply.by_pool})
    return drivers[0] if len(drivers) == 1 else ""


def _works(expression: str, supply: Supply) -> bool:
    try:
        supply.selects(expression, "nobody.example.com", SliceDevice("none"))
    except (CompileError, CelUnsupportedError):
        return False
    except CelError:
        pass  # on a device that is not there
    try:
        for driver, device in _devices(supply):
            supply.selects(expression, driver, device)
    except (CelError, CelUnsupportedError):
        return False
    return True


def _devices(supply: Supply) -> Iterator[tuple[str, SliceDevice]]:
    """Devices of all drivers, up to a number."""
    number = 0
    for (driver, _), slices in supply.by_pool.items():
        for resource_slice in slices:
            for device in resource_slice.devices:
                if number >= _MOST_TRIED:
                    return
                number += 1
                yield driver, device
