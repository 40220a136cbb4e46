"""What to write instead of a device selector that fails, tried on all devices before it is offered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError, CompileError
from tonnage.decide.kubernetes.claims.supply import Supply
from tonnage.diagnose.remedies.claim_attributes import (
    LOOKUP,
    NAME,
    TEXT,
    VERSION_COMPARED,
    as_versions,
    is_version,
    miscompared,
    name_of,
    unlike,
    unpublished,
    version_of,
)
from tonnage.model.kubernetes.resource_claims import SliceDevice

_DRIVER: Final = re.compile(r"device\.driver\s*==\s*(['\"])([A-Za-z0-9.-]{1,63})\1")
_AS_DOMAIN: Final = re.compile(
    rf"device\.attributes\[(['\"])({NAME})\1\]\s*(==|!=|>=|<=|>|<)\s*([0-9]{{1,18}}\b|{TEXT})"
)
_IN_ONE: Final = re.compile(rf"device\.(attributes|capacity)\[(['\"])([a-z0-9.-]{{1,63}})/({NAME})\2\]")
_QUANTITY: Final = re.compile(
    rf"(?P<whole>{LOOKUP})\s*(?P<op>==|!=|>=|<=|>|<)\s*(?:quantity\((?P<quantity>{TEXT})\)|(?P<text>{TEXT})"
    r"|(?P<number>[0-9]{1,18})\b)"
)
_BARE: Final = re.compile(rf"({LOOKUP}\.(?:isGreaterThan|isLessThan|compareTo)\()\s*(?P<bare>{TEXT})\s*\)")
_TYPED: Final = re.compile(rf"\b(?:quantity|semver)\((?:{TEXT})\)")
"""A text that may be no quantity or version, which is an error once it is evaluated."""
_COMPARED: Final = (
    r"device\.attributes\[(['\"])(?P<domain>[^'\"]+)\1\]\.{key}\s*(?P<op>==|>=|<=|>|<)\s*(?P<n>[0-9]+)\b"
)
_LOOKED_UP: Final = r"device\.(?P<map>attributes|capacity)\[(?P<q>['\"])(?P<domain>[^'\"]+)(?P=q)\]\.{key}\b"
_DOMAIN: Final = re.compile(r"device\.(?:attributes|capacity)\[['\"]([a-z0-9.-]{1,63})['\"]\]")
MISSING_KEY: Final = re.compile(rf"no such key: ({NAME})")
_MOST_TRIED: Final = 4096
_LONGEST: Final = 2048
_MIB_OF_A_GIB: Final = 1024
_BYTES: Final = 10**9
"""Of a bare number: no smaller one can be bytes."""


def advised(expression: str, missing: str, supply: Supply) -> str:
    """An expression that compiles and fails on none of the devices there are; empty when there is none.

    `missing` is the attribute or capacity that a device lacked, or empty.
    """
    if len(expression) > _LONGEST:
        return ""
    return next((text for text in _proposals(expression, missing, supply) if _works(text, supply)), "")


def written_otherwise(expression: str, error: str) -> str:
    """What to write instead of a selector that fails, of devices of NVIDIA's driver; empty: nobody knows."""
    key = MISSING_KEY.search(error)
    if key is not None:
        return next((remedy for name, _, remedy in unpublished(expression) if name == key[1]), "")
    if "no such overload" in error:
        return next((remedy for _, remedy in miscompared(expression)), "")
    return ""


def unselected(expression: str, supply: Supply) -> str:
    """Why a selector takes no device that there is, and what to write; empty: nobody knows."""
    unmet = unlike(expression, lambda domain, name: supply.attributes.get(f"{domain}/{name}", ()))
    return next((f"{message}; {remedy}" for message, remedy in unmet), "")


def attributes_like(attribute: str, supply: Supply) -> list[str]:
    """Attributes of the same name in other domains that devices publish."""
    return [name for name in supply.attributes if name.rpartition("/")[2] == attribute.rpartition("/")[2]]


def _proposals(expression: str, missing: str, supply: Supply) -> Iterator[str]:
    driver = _driver_of(expression, supply)
    named = _AS_DOMAIN.search(expression)
    if named is not None and driver:
        _, name, operator, literal = named.groups()
        texts = (
            _for_number(driver, name, operator, literal, supply)
            if literal.isdigit()
            else (f"device.attributes['{driver}'].{name} {operator} {literal}",)
        )
        for text in texts:
            yield expression[: named.start()] + text + expression[named.end() :]
    if (rewritten := _rewritten(expression)) != expression:
        yield rewritten
        if (domain := _DOMAIN.search(rewritten)) and not _DRIVER.search(rewritten):
            yield f"device.driver == '{domain[1]}' && {_grouped(rewritten)}"
    if not missing:
        return
    compared = re.search(_COMPARED.replace("{key}", re.escape(missing)), expression)
    if compared is not None and _publishes(supply, compared["domain"], missing, capacity=True):
        text = _capacity(compared["domain"], missing, compared["op"], compared["n"])
        yield expression[: compared.start()] + text + expression[compared.end() :]
    looked_up = re.search(_LOOKED_UP.replace("{key}", re.escape(missing)), expression)
    if looked_up is not None and _published(supply, looked_up["domain"], missing):  # else nothing is selected
        guard = f"has(device.{looked_up['map']}['{looked_up['domain']}'].{missing})"
        of_driver = "" if _DRIVER.search(expression) or not driver else f"device.driver == '{driver}' && "
        yield f"{of_driver}{guard} && {_grouped(expression)}"


def _rewritten(expression: str) -> str:
    """The expression in the form that Kubernetes' types take: versions and quantities have functions."""
    text = re.sub(r"\bversion\(", "semver(", expression)
    text = _IN_ONE.sub(r"device.\1['\3'].\4", text)
    text = _BARE.sub(_with_type, text)
    text = VERSION_COMPARED.sub(lambda match: (is_version(match) and as_versions(match)) or match[0], text)
    return _QUANTITY.sub(_compared_quantity, text)


def _with_type(match: re.Match[str]) -> str:
    """A text as the quantity or version that a function takes."""
    if match["map"] == "capacity":
        return f"{match[1]}quantity({match['bare']}))"
    text = match["bare"][1:-1]
    version = text if text.strip("0123456789.") else version_of(text)
    return f"{match[1]}semver('{version}'))"


def _compared_quantity(match: re.Match[str]) -> str:
    if match["map"] != "capacity":
        return match[0]
    if match["number"]:
        amount = _amount(name_of(match), match["number"])
    else:
        amount = (match["quantity"] or match["text"])[1:-1]
    return f"{match['whole']}.compareTo(quantity('{amount}')) {match['op']} 0"


def _grouped(expression: str) -> str:
    return f"({expression})" if "||" in expression or "?" in expression else expression


def _for_number(driver: str, name: str, operator: str, number: str, supply: Supply) -> Iterator[str]:
    """Memory is a capacity with most drivers, in bytes."""
    as_capacity = _publishes(supply, driver, name, capacity=True)
    as_attribute = _publishes(supply, driver, name, capacity=False)
    if as_capacity or (name == "memory" and not as_attribute):
        yield _capacity(driver, name, operator, number)
    yield f"device.attributes['{driver}'].{name} {operator} {number}"


def _capacity(domain: str, name: str, operator: str, number: str) -> str:
    amount = _amount(name, number)
    return f"device.capacity['{domain}'].{name}.compareTo(quantity('{amount}')) {operator} 0"


def _amount(name: str, number: str) -> str:
    """A bare number of memory in the unit that it must mean: no GPU has as little as 1,023 MiB.

    >>> _amount("memory", "80"), _amount("memory", "40000"), _amount("memory", "42949672960")
    ('80Gi', '40000Mi', '42949672960')
    """
    if name != "memory" or int(number) >= _BYTES:
        return number
    return f"{number}{'Gi' if int(number) < _MIB_OF_A_GIB else 'Mi'}"


def _published(supply: Supply, domain: str, name: str) -> bool:
    return any(_publishes(supply, domain, name, capacity=capacity) for capacity in (False, True))


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
    nobody = "nobody.example.com", SliceDevice("none")
    try:
        supply.selects(expression, *nobody)
    except (CompileError, CelUnsupportedError):
        return False
    except CelError:
        pass  # on a device that is not there
    try:
        for amount in _TYPED.findall(expression):
            supply.selects(f"{amount} == {amount}", *nobody)
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
