"""ADM-1, ADM-2, ADM-3 and names of resources: what containers ask for.

The API server's own checks are those of `diagnose.quantities`; here they get their places.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.decide.kubernetes.requests import is_extended
from tonnage.diagnose import quantities
from tonnage.diagnose.lint.finding import Draft, MoveToLimits
from tonnage.diagnose.lint.manifest_objects import ManifestObject, PodSite, is_variable, mapping, resources_of
from tonnage.diagnose.lint.resource_names import name_drafts
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.documents.pods.container_fields import claim_name_faults
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.kubernetes.cluster import WrittenAmounts
from tonnage.model.kubernetes.quantity import parse_quantity
from tonnage.model.names import SHARED_SUFFIX
from tonnage.model.reasons.lint.manifests import ClaimNameUnknown, QuantityUnreadable
from tonnage.model.reasons.lint.placements import WholeAndShared
from tonnage.model.reasons.pod.admission import (
    LimitMissing,
    QuantityNegative,
    RequestLimitUnequal,
    ResourceNotInteger,
)

_AS_AMOUNT: Final = "write a number, with a suffix such as m, k, Mi or Gi where it needs one"
_AS_COUNT: Final = "write a whole number: how many devices"
_FIELD: Final = re.compile(r"(limits|requests)(?:\[(.*)\])?")


def of_manifest(manifest: ManifestObject, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on what a custom kind asks for outside of a pod's spec, such as a model server's."""
    if not manifest.kind or inputs.shapes.knows(manifest.api_version, manifest.kind):
        return
    for at, resources in resources_of(manifest):
        amounts = {name: mapping(resources.get(name)) for name in ("limits", "requests")}
        yield from _unreadable(amounts, at)
        yield from _refused("", amounts, at)
        for section, values in amounts.items():
            for name in values:
                if section == "limits" or name not in amounts["limits"]:
                    yield from name_drafts(name, (*at, section, name))


def of_pod(site: PodSite, inputs: RuleInputs) -> Iterator[Draft]:
    """Findings on the amounts, names and claims of every container."""
    places: dict[str, Path] = {}
    for path, container in site.containers():
        resources = mapping(container.get("resources"))
        at = (*path, "resources")
        amounts = {name: mapping(resources.get(name)) for name in ("limits", "requests")}
        yield from _unreadable(amounts, at)
        yield from _refused(str(container.get("name", "")), amounts, at)
        for section, values in amounts.items():
            for name in values:
                places.setdefault(name, (*at, section, name))
        for fault in claim_name_faults(container, path, site.spec):
            yield Draft(ClaimNameUnknown(message=fault.message, remedy=fault.remedy), fault.place)
    for name, place in places.items():
        yield from name_drafts(name, place)
    yield from _both(places)


def unreadable_amounts(site: PodSite) -> Iterator[Draft]:
    """Amounts of a pod's containers that the API server cannot decode."""
    for path, container in site.containers():
        resources = mapping(container.get("resources"))
        amounts = {name: mapping(resources.get(name)) for name in ("limits", "requests")}
        yield from _unreadable(amounts, (*path, "resources"))


def _unreadable(amounts: dict[str, JsonObject], at: Path) -> Iterator[Draft]:
    for section, values in amounts.items():
        for name, value in values.items():
            if value is not None and _read(value) is None and not is_variable(value):
                reason = QuantityUnreadable(
                    message=f"{str(value)[:60]!r} is not a quantity",
                    remedy=_AS_COUNT if "/" in name else _AS_AMOUNT,
                    resource=name,
                    value=str(value),
                )
                yield Draft(reason, (*at, section, name))


def _read(value: JsonValue) -> str | None:
    """The amount as it is written; None for what is no quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        parse_quantity(str(value))
    except ValueError:
        return None
    return str(value)


def _refused(container: str, amounts: dict[str, JsonObject], at: Path) -> Iterator[Draft]:
    read = {
        section: {name: text for name, value in values.items() if (text := _read(value)) is not None}
        for section, values in amounts.items()
    }
    written = WrittenAmounts(container, "", read["limits"], read["requests"])
    earlier: set[tuple[str, str]] = set()
    for error in quantities.of(written):
        reason = error.reason
        if not isinstance(reason, QuantityNegative | ResourceNotInteger | RequestLimitUnequal | LimitMissing):
            continue
        name = reason.resource
        if (reason.code, name) in earlier:
            continue
        earlier.add((reason.code, name))
        match = _FIELD.match(error.path.lstrip("."))
        section = match[1] if match else "limits"
        if name not in amounts[section]:
            section = "requests" if section == "limits" else "limits"
        change = None
        if isinstance(reason, LimitMissing) and is_extended(name):
            change = MoveToLimits(at, name)
        yield Draft(reason, (*at, section, name), change=change)


def _both(places: dict[str, Path]) -> Iterator[Draft]:
    shared = [
        name for name in places if name.endswith(SHARED_SUFFIX) and name.removesuffix(SHARED_SUFFIX) in places
    ]
    for name in shared:
        whole = name.removesuffix(SHARED_SUFFIX)
        reason = WholeAndShared(
            message=f"the pod asks for {whole} and for {name}",
            remedy="ask for one of them",
            whole=whole,
            shared=name,
        )
        yield Draft(
            reason,
            places[name],
            "a node that shares its GPUs under another name has no whole ones left",
            on_key=True,
        )
