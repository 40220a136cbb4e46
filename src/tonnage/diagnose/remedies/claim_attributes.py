"""What a selector or a constraint asks of devices of `gpu.nvidia.com` in vain, known without a cluster.

Source: dra-driver-nvidia-gpu v0.5, cmd/gpu-kubelet-plugin/deviceinfo.go; attributes it published before.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import chain
from typing import Final

from tonnage.decide.node.labels.gpu import FAMILIES
from tonnage.decide.node.labels.syntax import sanitised
from tonnage.model.catalog.products import gpu_products
from tonnage.model.devices.claims import DRIVER
from tonnage.model.name_lists import listed

ATTRIBUTES: Final = (
    *("type", "uuid", "productName", "brand", "architecture", "addressingMode"),
    *("cudaComputeCapability", "driverVersion", "cudaDriverVersion", "parentUUID", "profile"),
    *("deviceID", "vendorID", "iommuFDEnabled"),
    *("gpuModuleID", "partition1", "partition2", "partition4", "partition8"),
)
CAPACITIES: Final = (
    *("memory", "multiprocessors", "copyEngines", "decoders", "encoders", "jpegEngines", "ofaEngines"),
    *("shares", "addressableMemory"),
    *(f"memorySlice{place}" for place in range(8)),
)
_FIRST: Final = 11
_FIRST_ONES: Final = ", ".join(ATTRIBUTES[:_FIRST])
_STANDARD: Final[Mapping[str, str]] = {
    **{name: name for name in ("pciBusID", "pcieRoot", "numaNode")},
    "numa": "numaNode",
    "pcieBusID": "pciBusID",
}
"""What stands in Kubernetes' own domain, also by the names of drivers before v0.5."""
_BY_PLACE: Final = "select by uuid, or by device.attributes['resource.kubernetes.io'].pciBusID"
_ELSEWHERE: Final[Mapping[str, str]] = {
    "index": _BY_PLACE,
    "minor": _BY_PLACE,
    **{old: f"write device.attributes['resource.kubernetes.io'].{name}" for old, name in _STANDARD.items()},
}
NAME: Final = "[A-Za-z_][A-Za-z0-9_]{0,31}"
LOOKUP: Final = (
    r"device\.(?P<map>attributes|capacity)\[(?P<q>['\"])(?P<domain>[A-Za-z0-9.-]{1,63})(?P=q)\]"
    rf"(?:\.(?P<name>{NAME})\b|\[(?P<p>['\"])(?P<key>{NAME})(?P=p)\])"
)
"""An attribute or a capacity by its domain and name, in either form."""
_LOOKED_UP: Final = re.compile(LOOKUP)
TEXT: Final = r"'[^'\\]*'|\"[^\"\\]*\""
_EQUAL: Final = re.compile(rf"(?P<whole>{LOOKUP})\s*==\s*(?P<text>{TEXT})")
_VERSION_FUNCTIONS: Final = "use .major(), .minor() or .compareTo(semver('1.2.3'))"
_LONGEST_NUMBER: Final = 18
_VERSIONS: Final = ("cudaComputeCapability", "driverVersion", "cudaDriverVersion")
VERSION_COMPARED: Final = re.compile(
    rf"(?P<whole>{LOOKUP})\s*(?P<op>==|!=|>=|<=|>|<)\s*(?P<number>{TEXT}|[0-9.]+)"
)
_AS_TEXT: Final = re.compile(rf"{LOOKUP}\.(?:startsWith|endsWith|contains|matches|lowerAscii)\(")
_PROFILE: Final = re.compile(r"[0-9]{1,2}g\.[0-9]{1,3}gb(?:[+-].*)?")
_WITH_VENDOR: Final = re.compile(r"(NVIDIA|Tesla|Quadro|GRID|GeForce|TITAN) ")
_TYPES: Final = ("gpu", "mig", "vfio")


def name_of(lookup: re.Match[str]) -> str:
    """The name in a match of `LOOKUP`."""
    return lookup["name"] or lookup["key"]


def unpublished(expression: str) -> Iterator[tuple[str, str, str]]:
    """What no device has of what is looked up without has(): its name, a message, and what to write instead.

    >>> list(unpublished("device.attributes['gpu.nvidia.com'].index == 0"))[0][1]
    'no device of gpu.nvidia.com has the attribute index'
    >>> list(unpublished("device.attributes['gpu.nvidia.com']['memory'] > 1"))[0][2]
    "memory is a capacity: write device.capacity['gpu.nvidia.com'].memory"
    """
    lookups = {(match["map"], name_of(match)): match for match in _LOOKED_UP.finditer(expression)}
    for (kind, name), match in lookups.items():
        names, others = (ATTRIBUTES, CAPACITIES) if kind == "attributes" else (CAPACITIES, ATTRIBUTES)
        guarded = f"has({match[0]})" in expression or re.search(rf"['\"]{name}['\"]\s+in\s", expression)
        if match["domain"] != DRIVER or name in names or guarded:
            continue
        noun, other = ("attribute", "capacity") if kind == "attributes" else ("capacity", "attributes")
        near = get_close_matches(name, names, n=1)
        if name in others:
            a_noun = "a capacity" if kind == "attributes" else "an attribute"
            remedy = f"{name} is {a_noun}: write device.{other}['{DRIVER}'].{name}"
        elif kind == "attributes" and name in _ELSEWHERE:
            remedy = _ELSEWHERE[name]
        elif near:
            remedy = f"write {near[0]} if you meant that"
        else:
            remedy = f"there are {', '.join(names[:_FIRST])}"
        yield name, f"no device of {DRIVER} has the {noun} {name}", remedy


def unpublished_attribute(attribute: str) -> tuple[str, str] | None:
    """Why no device of the driver has an attribute that a constraint compares, and what to write instead.

    >>> unpublished_attribute("gpu.nvidia.com/numaNode")[1]
    'write resource.kubernetes.io/numaNode'
    >>> unpublished_attribute("gpu.nvidia.com/parentUUID") is None
    True
    """
    domain, _, name = attribute.rpartition("/")
    if domain != DRIVER or name in ATTRIBUTES:
        return None
    near = get_close_matches(name, ATTRIBUTES, n=1)
    if name in CAPACITIES:
        remedy = f"{name} is a capacity, and constraints compare attributes: {_FIRST_ONES}"
    elif name in _STANDARD:
        remedy = f"write resource.kubernetes.io/{_STANDARD[name]}"
    elif "nvlink" in name.lower():
        remedy = "write tonnage.dev/nvlinkGroup, which Tonnage publishes and NVIDIA's driver does not"
    else:
        remedy = f"write {DRIVER}/{near[0]} if you meant that" if near else f"there are {_FIRST_ONES}"
    return f"no device of {DRIVER} has the attribute {name}", remedy


def unlike(expression: str, values_of: Callable[[str, str], Sequence[str]]) -> Iterator[tuple[str, str]]:
    """Equalities with a text that no device has, each with what to write instead.

    `values_of` a domain and a name: all the texts that there are; none where they are not known.
    """

    def meant(equality: re.Match[str]) -> str:
        is_attribute = equality["map"] == "attributes"
        values = values_of(equality["domain"], name_of(equality)) if is_attribute else ()
        return _meant(equality, values) if values and equality["text"][1:-1] not in values else ""

    for equality, remedy in _unmet(expression, meant):
        yield f"no device has the {name_of(equality)} {equality['text'][1:-1]}", remedy


def never_equal(expression: str) -> Iterator[tuple[str, str]]:
    """The same without a cluster: only what no driver will ever say."""
    for equality, remedy in _unmet(expression, _never_meant):
        yield f"no device of {DRIVER} has the {name_of(equality)} {equality['text'][1:-1]}", remedy


def _never_meant(equality: re.Match[str]) -> str:
    """What to write instead of an equality that NVIDIA's driver never meets; empty: it may meet it."""
    name, value = name_of(equality), equality["text"][1:-1]
    if equality["domain"] != DRIVER or equality["map"] != "attributes":
        return ""
    if name == "type" and value not in _TYPES:
        return _meant(equality, _TYPES)
    if name == "profile" and not _PROFILE.fullmatch(value):
        return "write it as the driver does, such as 1g.10gb"
    values: Sequence[str] = ()
    if name == "productName" and not _WITH_VENDOR.match(value):
        values = [product.name for family in gpu_products().families.values() for product in family]
    elif name == "architecture":
        values = [" ".join(word.title() for word in family.split("-")) for family in sorted(FAMILIES)]
    meant = _meant(equality, values) if value not in values else ""
    return "" if meant.startswith("there are") else meant


def _unmet(expression: str, meant: Callable[[re.Match[str]], str]) -> Iterator[tuple[re.Match[str], str]]:
    """Equalities that no device meets, with what is meant, where the selector takes no device for them.

    With nothing but && and ||, an expression that holds has a part between two || in which all holds.
    """
    if "?" in expression or "!" in expression.replace("!=", ""):
        return
    ways = [
        [(equality, remedy) for equality in _EQUAL.finditer(way) if (remedy := meant(equality))]
        for way in expression.split("||")
    ]
    if all(ways):
        yield from chain.from_iterable(ways)


def miscompared(expression: str) -> Iterator[tuple[str, str]]:
    """Versions that are compared as texts or numbers, which they are not, each with what to write instead.

    >>> list(miscompared("device.attributes['gpu.nvidia.com'].driverVersion >= '550'"))[0][1]
    "write device.attributes['gpu.nvidia.com'].driverVersion.compareTo(semver('550.0.0')) >= 0"
    """
    for match in VERSION_COMPARED.finditer(expression):
        if is_version(match):
            better = as_versions(match)
            remedy = f"write {better}" if better else _VERSION_FUNCTIONS
            yield f"{name_of(match)} is a version, neither a text nor a number", remedy
    for match in _AS_TEXT.finditer(expression):
        if is_version(match):
            yield f"{name_of(match)} is a version, not a text", _VERSION_FUNCTIONS


def is_version(lookup: re.Match[str]) -> bool:
    """Whether the driver publishes the attribute as a semantic version."""
    return lookup["domain"] == DRIVER and lookup["map"] == "attributes" and name_of(lookup) in _VERSIONS


def as_versions(match: re.Match[str]) -> str:
    """A match of `VERSION_COMPARED` as a comparison of versions; empty: it is compared with none."""
    version = version_of(match["number"])
    return f"{match['whole']}.compareTo(semver('{version}')) {match['op']} 0" if version else ""


def version_of(text: str) -> str:
    """The numbers of a text as a semantic version; empty: it has none, or too long ones.

    >>> version_of("570.124.06"), version_of("v9"), version_of("newest")
    ('570.124.6', '9.0.0', '')
    """
    numbers = re.findall("[0-9]+", text)[:3]
    if not numbers or max(map(len, numbers)) > _LONGEST_NUMBER:
        return ""
    return ".".join(str(int(number)) for number in (*numbers, "0", "0")[:3])


def _meant(equality: re.Match[str], values: Sequence[str]) -> str:
    looked_up, value = equality["whole"], equality["text"][1:-1]
    lowered = value.lower()
    same = [other for other in values if sanitised(other).lower() == sanitised(value).lower()]
    near = get_close_matches(value, values, n=1, cutoff=0.8)
    if same or near:
        return f"write '{(same or near)[0]}'"
    if any(value in other for other in values):
        return f"write {looked_up}.contains('{value}')"
    if any(lowered in other.lower() for other in values):
        return f"write {looked_up}.lowerAscii().contains('{lowered}')"
    return f"there are {listed(sorted(values))}"
