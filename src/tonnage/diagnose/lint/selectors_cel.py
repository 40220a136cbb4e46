"""CEL selectors of classes and requests, compiled as the API server does, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Final

from tonnage.decide.kubernetes.claims.cel_errors import CelError, CelUnsupportedError
from tonnage.decide.kubernetes.claims.supply import Supply, gates_of, supply_of
from tonnage.diagnose.lint.finding import Draft, SetText
from tonnage.diagnose.lint.manifest_objects import mapping, mappings
from tonnage.diagnose.lint.rule_inputs import RuleInputs
from tonnage.diagnose.remedies.claim_attributes import (
    miscompared,
    never_equal,
    unpublished,
    unpublished_attribute,
)
from tonnage.diagnose.remedies.selector_advice import (
    MISSING_KEY,
    advised,
    attributes_like,
    unselected,
    written_otherwise,
)
from tonnage.documents.yaml.reader import Path
from tonnage.model.json import JsonValue
from tonnage.model.kubernetes.resource_claims import SliceDevice
from tonnage.model.name_lists import listed
from tonnage.model.reasons.lint.manifests import SelectorDoubtful, SelectorRefused
from tonnage.model.severity import Severity

_NVIDIA: Final = re.compile(r"device\.driver\s*==\s*(['\"])gpu\.nvidia\.com\1")
_GUARDED: Final = re.compile(r"device\.driver|has\(|\.\?|\bin\s+device")
_COMPARE: Final = "compare with what they publish: kubectl get resourceslices -o yaml"
_TEST: Final = "test with has() what may be missing, after device.driver =="
_ONE_LINE: Final = 2048
_MOST_TRIED: Final = 4096
_ENDS_ALL: Final = "a device without the attribute is an error, which ends the attempt on every node"
_OF_VERSIONS: Final = (
    "a version never equals a text or a number; ordering it by < or >, or calling a function of texts, "
    "is an error, which ends the attempt on every node"
)


def drafts(
    selectors: JsonValue, at: Path, inputs: RuleInputs, before: tuple[str, ...] | None = None
) -> Iterator[Draft]:
    """Findings on the `cel.expression` of each selector.

    `before` are the selectors of a request's class, which are asked first; None for those of a class.
    """
    expressions: list[tuple[Path, str]] = []
    for index, selector in mappings(selectors):
        expression = mapping(selector.get("cel")).get("expression")
        if not isinstance(expression, str):
            message, remedy = "the selector has no expression", "write cel: {expression: ...}"
            yield Draft(SelectorRefused(message=message, remedy=remedy), (*at, index))
            return
        expressions.append(((*at, index, "cel", "expression"), expression))
    refused = [
        _refused(expression, error, place, inputs)
        for place, expression in expressions
        if (error := _error(expression, inputs.minor))
    ]
    yield from refused
    if refused or not expressions:
        return
    if inputs.cluster is not None and inputs.cluster.ground.view.supply.by_pool:
        yield from _on_devices(expressions, before or (), inputs.cluster.ground.view.supply)
        return
    for place, expression in expressions:
        yield from _in_vain(expression, place)
    if before is None and not _GUARDED.search(expressions[0][1]) and "device." in expressions[0][1]:
        reason = SelectorDoubtful(
            message="the class does not name the driver of its devices",
            remedy="begin with device.driver == 'gpu.nvidia.com' &&, or with another driver's name",
            expression=expressions[0][1],
        )
        yield Draft(reason, expressions[0][0], _ENDS_ALL)


def of_constraint(attribute: str, place: Path, inputs: RuleInputs) -> Iterator[Draft]:
    """A finding where no device has what a constraint compares: then no device meets it."""
    hint = unpublished_attribute(attribute)
    supply = _supply(inputs)
    if supply.attributes:
        if attribute in supply.attributes:
            return
        like = attributes_like(attribute, supply)
        remedy = f"write {listed(like)}" if like else hint[1] if hint else _COMPARE
        hint = f"no device of the cluster has the attribute {attribute[:100]}", remedy
    if hint is not None:
        message, remedy = hint
        reason = SelectorDoubtful(message=message, remedy=remedy, expression=attribute)
        yield Draft(reason, place, "devices without it do not meet the constraint", severity=Severity.WARNING)


def _in_vain(expression: str, place: Path) -> Iterator[Draft]:
    """What no device of NVIDIA's driver meets."""
    causes = [
        *((message, remedy, _ENDS_ALL) for _, message, remedy in unpublished(expression)),
        *((message, remedy, _OF_VERSIONS) for message, remedy in miscompared(expression)),
        *((message, remedy, "the selector takes no device") for message, remedy in never_equal(expression)),
    ]
    for message, remedy, why in causes:
        reason = SelectorDoubtful(message=message, remedy=remedy, expression=expression)
        yield Draft(reason, place, why, severity=Severity.WARNING)


def _on_devices(
    expressions: list[tuple[Path, str]], before: tuple[str, ...], supply: Supply
) -> Iterator[Draft]:
    """The selectors tried on the devices that there are, in the scheduler's order."""
    selected, tried = 0, 0
    for (driver, pool), device in islice(_devices(supply), _MOST_TRIED):
        tried += 1
        try:
            if not all(supply.selects(expression, driver, device) for expression in before):
                continue
        except (CelError, CelUnsupportedError):
            return
        for place, expression in expressions:
            try:
                if not supply.selects(expression, driver, device):
                    break
            except CelUnsupportedError:
                return
            except CelError as error:
                yield _fails(place, expression, str(error), f"{driver} {pool}/{device.name}", supply)
                return
        else:
            selected += 1
    if not selected and tried < _MOST_TRIED:
        place, expression = expressions[-1]
        reason = SelectorDoubtful(
            message=f"none of the {tried} devices of the cluster is selected",
            remedy=next(filter(None, (unselected(text, supply) for _, text in expressions)), _COMPARE),
            expression=expression,
            tried=tried,
        )
        yield Draft(reason, place, severity=Severity.WARNING)


def _fails(place: Path, expression: str, error: str, device: str, supply: Supply) -> Draft:
    key = MISSING_KEY.search(error)
    better = advised(expression, key[1] if key else "", supply)
    reason = SelectorDoubtful(
        message=f"the selector fails on the device {device}: {error}",
        remedy=f"write {better}" if better else written_otherwise(expression, error) or _TEST,
        expression=expression,
        device=device,
        error=error,
        instead=better or None,
    )
    why = "an error on one device ends the attempt on every node"
    return Draft(reason, place, why, severity=Severity.WARNING)


def _devices(supply: Supply) -> Iterator[tuple[tuple[str, str], SliceDevice]]:
    for pool, slices in supply.by_pool.items():
        for resource_slice in slices:
            for device in resource_slice.devices:
                yield pool, device


def _error(expression: str, minor: int) -> str:
    """The API server's refusal; empty when it takes the expression, or when that cannot be known here."""
    from tonnage.decide.kubernetes.claims.expressions import LONGEST, CelSelector

    if len(expression) > LONGEST:
        return f"Too long: may not be more than {LONGEST} bytes"
    try:
        return CelSelector(expression, minor).error
    except CelUnsupportedError:
        return ""


def _refused(expression: str, error: str, place: Path, inputs: RuleInputs) -> Draft:
    advice = advised(expression, "", _supply(inputs))
    sure = bool(advice) and _NVIDIA.search(expression) is not None and "capacity['gpu.nvidia.com']" in advice
    reason = SelectorRefused(
        message=f"the API server refuses the selector: {error}",
        remedy=f"write {advice}" if advice else "correct the expression",
        expression=expression,
        error=error,
        instead=advice or None,
    )
    return Draft(
        reason,
        place,
        "device.attributes['x'] is all attributes of the domain x; add a name" if "(map(" in error else "",
        SetText(place, advice) if sure and _is_plain(advice) else None,
    )


def _is_plain(text: str) -> bool:
    """Whether it may stand in YAML without quotes."""
    return ": " not in text and " #" not in text and "\n" not in text and len(text) < _ONE_LINE


def _supply(inputs: RuleInputs) -> Supply:
    if inputs.cluster is not None:
        return inputs.cluster.ground.view.supply
    return supply_of((), (), (), gates_of(inputs.minor))
