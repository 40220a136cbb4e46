"""CEL selectors of classes and requests, compiled as the API server does, and what to write instead."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from tonnage.decide.cluster.claims.cel_errors import UnsupportedError
from tonnage.decide.cluster.claims.supply import Supply, gates_of, supply_of
from tonnage.diagnose.lint.finding import Draft, LintCode, SetText, Severity
from tonnage.diagnose.lint.items import mapping, mappings
from tonnage.diagnose.lint.world import World
from tonnage.diagnose.selector_advice import advised
from tonnage.documents.source import Path
from tonnage.model.json import JsonValue

_KNOWN_DRIVER: Final = "gpu.nvidia.com"
"""Its memory is a capacity, in every release of the driver."""
_NVIDIA: Final = re.compile(r"device\.driver\s*==\s*(['\"])gpu\.nvidia\.com\1")
_GUARDED: Final = re.compile(r"device\.driver|has\(|\.\?|\bin\s+device")
_ONE_LINE: Final = 2048


def drafts(selectors: JsonValue, at: Path, world: World, *, of_class: bool = False) -> Iterator[Draft]:
    """Findings on the `cel.expression` of each selector."""
    guarded = False
    for index, selector in mappings(selectors):
        expression = mapping(selector.get("cel")).get("expression")
        if not isinstance(expression, str):
            remedy = "write cel: {expression: ...}"
            yield Draft(LintCode.SELECTOR_REFUSED, (*at, index), "a selector without expression", remedy)
            continue
        place: Path = (*at, index, "cel", "expression")
        guarded = guarded or _GUARDED.search(expression) is not None
        error = _error(expression, world.minor)
        if error:
            yield _refused(expression, error, place, world)
        elif of_class and not guarded and "device." in expression:
            yield Draft(
                LintCode.SELECTOR_DOUBTFUL,
                place,
                "the class does not say of which driver its devices are",
                "begin with device.driver == 'gpu.nvidia.com' &&, or whose they are",
                "a device without the attribute is an error, which ends the attempt on every node",
                severity=Severity.NOTE,
            )


def _error(expression: str, minor: int) -> str:
    """The API server's refusal; empty when it takes the expression, or when that cannot be known here."""
    from tonnage.decide.cluster.claims.expressions import LONGEST, Selector

    if len(expression) > LONGEST:
        return f"Too long: may not be more than {LONGEST} bytes"
    try:
        return Selector(expression, minor).error
    except UnsupportedError:
        return ""


def _refused(expression: str, error: str, place: Path, world: World) -> Draft:
    advice = advised(expression, "", _supply(world))
    sure = bool(advice) and _NVIDIA.search(expression) is not None and "capacity['gpu.nvidia.com']" in advice
    return Draft(
        LintCode.SELECTOR_REFUSED,
        place,
        f"the API server refuses the selector: {error}",
        f"write {advice}" if advice else "correct the expression",
        "device.attributes['x'] is all attributes of the domain x; a name comes after it" if advice else "",
        SetText(place, advice) if sure and _is_plain(advice) else None,
    )


def _is_plain(text: str) -> bool:
    """Whether it may stand in YAML without quotes."""
    return ": " not in text and " #" not in text and "\n" not in text and len(text) < _ONE_LINE


def _supply(world: World) -> Supply:
    if world.cluster is not None:
        return world.cluster.ground.view.supply
    return supply_of((), (), (), gates_of(world.minor))
