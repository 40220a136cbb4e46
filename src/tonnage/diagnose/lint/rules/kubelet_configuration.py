"""TOP-2: a KubeletConfiguration, as far as it decides on devices and what is aligned with them.

Its other fields are not judged.

Source: kubernetes pkg/kubelet/apis/config/validation and pkg/kubelet/cm, 1.31 to 1.37.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from difflib import get_close_matches
from fractions import Fraction
from typing import Final

from tonnage.diagnose.lint.finding import Draft
from tonnage.diagnose.lint.manifest_objects import ManifestObject, is_variable, mapping, mappings
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.nearest import nearest
from tonnage.documents.node.kubelet_config import API_VERSION, CPU, MEMORY, POLICIES, TOPOLOGY
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.reasons.lint.configurations import KubeletConfigInvalid
from tonnage.model.severity import Severity

_OPTIONS: Final = {
    f"{CPU}Options": (
        "full-pcpus-only",
        "distribute-cpus-across-numa",
        "align-by-socket",
        "distribute-cpus-across-cores",
        "strict-cpu-reservation",
        "prefer-align-cpus-by-uncorecache",
    ),
    f"{TOPOLOGY}Options": ("prefer-closest-numa-nodes", "max-allowable-numa-nodes"),
}
_RESERVED: Final = ("kubeReserved", "systemReserved")
_RESERVED_CPUS: Final = "reservedSystemCPUs"
_RESERVED_MEMORY: Final = "reservedMemory"
_FIELDS: Final = (*POLICIES, *_OPTIONS, *_RESERVED, _RESERVED_CPUS, _RESERVED_MEMORY, "evictionHard")
_OTHERS: Final = ("kubeReservedCgroup", "systemReservedCgroup", "cpuManagerReconcilePeriod", "evictionSoft")
"""Fields that are written much like those, and that kubelet has."""
_ALIKE: Final = 0.88
_CPU_SET: Final = re.compile(r"\d+(-\d+)?(,\d+(-\d+)?)*")
_EVICTION: Final = "100Mi"
"""What kubelet keeps of memory when evictionHard does not say."""
_WHY: Final = "kubelet does not start with it"


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on a KubeletConfiguration."""
    del inputs
    if manifest.kind != "KubeletConfiguration" or manifest.group != API_VERSION.partition("/")[0]:
        return
    value = manifest.value
    if manifest.api_version != API_VERSION:
        message = f"KubeletConfiguration has no version {manifest.api_version[:60]}"
        yield _draft((*manifest.path, "apiVersion"), message, f"write {API_VERSION}")
    drafts = (_names(value), _policies(value), _options(value), _cpus(value), _memory(value), _alone(value))
    for draft in (draft for group in drafts for draft in group):
        yield replace(draft, path=(*manifest.path, *draft.path))


def _draft(path: Path, message: str, remedy: str, severity: Severity | None = None, why: str = _WHY) -> Draft:
    return Draft(KubeletConfigInvalid(message=message, remedy=remedy), path, why, severity=severity)


def _names(value: JsonObject) -> Iterator[Draft]:
    lower = {name.lower(): name for name in _FIELDS}
    for key in value:
        if key in _FIELDS or key in _OTHERS:
            continue
        near = get_close_matches(key.lower(), lower, n=1, cutoff=_ALIKE)
        if near:
            reason = KubeletConfigInvalid(
                message=f"kubelet has no field {key[:100]}", remedy=f"use {lower[near[0]]} if you meant that"
            )
            yield Draft(reason, (key,), "kubelet logs it and ignores it", on_key=True)


def _policies(value: JsonObject) -> Iterator[Draft]:
    for name, choices in POLICIES.items():
        policy = value.get(name)
        if policy in (None, "") or is_variable(policy):
            continue
        if not isinstance(policy, str) or policy not in choices:
            yield _draft((name,), f"{name} cannot be {str(policy)[:60]!r}", nearest(str(policy), [*choices]))


def _options(value: JsonObject) -> Iterator[Draft]:
    for name, choices in _OPTIONS.items():
        options = mapping(value.get(name))
        for key, option in options.items():
            if key not in choices:
                yield _draft((name, key), f"{name} has no {key[:60]}", nearest(key, [*choices]))
            elif not isinstance(option, str):
                yield _draft(
                    (name, key), "a string is expected", f'put it in quotes: "{str(option).lower()}"'
                )
    name = f"{CPU}Options"
    if mapping(value.get(name)) and value.get(CPU, "none") in ("", "none", None):
        yield _draft((name,), f"{name} without {CPU}: static", f"set {CPU}: static")


def _cpus(value: JsonObject) -> Iterator[Draft]:
    reserved = value.get(_RESERVED_CPUS)
    if isinstance(reserved, str) and reserved and not is_variable(reserved):
        if not _CPU_SET.fullmatch(reserved):
            yield _draft(
                (_RESERVED_CPUS,), f"{reserved[:60]!r} is not a list of CPUs", 'write it like "0-3,8"'
            )
        if value.get("systemReservedCgroup") or value.get("kubeReservedCgroup"):
            message = f"{_RESERVED_CPUS} excludes systemReservedCgroup and kubeReservedCgroup"
            yield _draft((_RESERVED_CPUS,), message, "keep one of them")
    if value.get(CPU) == "static" and not reserved and _total(value, "cpu") == 0:
        message = f"{CPU}: static needs CPUs reserved for the system, and none are"
        yield _draft((CPU,), message, f'set {_RESERVED_CPUS}: "0-1", or cpu under kubeReserved')


def _memory(value: JsonObject) -> Iterator[Draft]:
    if value.get(MEMORY) != "Static":
        return
    entries = [*mappings(value.get(_RESERVED_MEMORY))]
    eviction = _eviction(value)
    total = _total(value, "memory")
    needed = total + eviction if total is not None and eviction is not None else None
    sizes = [_amount(mapping(entry.get("limits")).get("memory", "0")) for _, entry in entries]
    if not entries:
        share = f" of {needed / 2**20} Mi in all" if needed is not None and needed % 2**20 == 0 else ""
        message = f"{MEMORY}: Static needs {_RESERVED_MEMORY} for the NUMA nodes"
        yield _draft((MEMORY,), message, f"write it, with limits.memory{share}")
    elif needed is not None and None not in sizes:
        reserved = sum((size for size in sizes if size is not None), Fraction(0))
        if reserved != needed:
            message = (
                f"{_RESERVED_MEMORY} comes to {_mib(reserved)}, and kubeReserved, systemReserved and "
                f"evictionHard to {_mib(needed)}"
            )
            yield _draft((_RESERVED_MEMORY,), message, f"make both the same: {_mib(needed)}")


def _alone(value: JsonObject) -> Iterator[Draft]:
    """Alignment of devices alone, which is seldom what is meant."""
    aligned = value.get(TOPOLOGY) in POLICIES[TOPOLOGY][1:]
    if aligned and value.get(CPU, "none") in ("", "none", None):
        message = f"{TOPOLOGY} aligns only devices: without {CPU}: static CPUs come from every NUMA node"
        remedy = f"set {CPU}: static, and reserve CPUs for the system"
        yield _draft((TOPOLOGY,), message, remedy, Severity.NOTE, "a GPU's pod may then run on distant CPUs")


def _total(value: JsonObject, resource: str) -> Fraction | None:
    """What is reserved of a resource; None if an amount cannot be read."""
    return _sum(_amount(mapping(value.get(section)).get(resource, "0")) for section in _RESERVED)


def _eviction(value: JsonObject) -> Fraction | None:
    hard = value.get("evictionHard")
    return _amount(mapping(hard).get("memory.available", "0") if isinstance(hard, dict) else _EVICTION)


def _sum(amounts: Iterable[Fraction | None]) -> Fraction | None:
    total = Fraction(0)
    for amount in amounts:
        if amount is None:
            return None
        total += amount
    return total


def _amount(written: JsonValue) -> Fraction | None:
    """None for what is no amount, such as a share in per cent."""
    if isinstance(written, bool) or not isinstance(written, str | int | float):
        return None
    try:
        return parse_quantity(str(written))
    except ValueError:
        return None


def _mib(amount: Fraction) -> str:
    return f"{amount / 2**20}Mi" if amount % 2**20 == 0 else str(amount)
