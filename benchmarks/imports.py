"""Where imports spend their time, by room of the house and by library, out of what `-X importtime` writes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass

from scripts.draw_rooms import ROOMS, room_of

_LINE = re.compile(r"^import time: +(?P<self_us>\d+) \| +\d+ \| +(?P<module>\S+)$")
_PYTHON = "Python itself"
_SMALL_MS = 1.0


@dataclass(slots=True)
class ImportCost:
    """Modules of one room or library, and the time of their own code, without what they import in turn."""

    modules: int = 0
    own_ms: float = 0.0


def import_costs(lines: Iterable[str]) -> dict[str, ImportCost]:
    """By room, from the top of the house to its ground, then Python's own modules, then libraries by time.

    Lines that are no import's are passed over: the program's own words stand between them.
    """
    costs: dict[str, ImportCost] = {}
    for line in lines:
        if match := _LINE.match(line.rstrip("\n")):
            cost = costs.setdefault(_place_of(match["module"]), ImportCost())
            cost.modules += 1
            cost.own_ms += int(match["self_us"]) / 1000
    first = {name: costs[name] for name in (*ROOMS, _PYTHON) if name in costs}
    rest = sorted(costs.keys() - first.keys(), key=lambda name: -costs[name].own_ms)
    return first | {name: costs[name] for name in rest}


def print_import_costs(costs: dict[str, ImportCost]) -> None:
    """A line for each place that takes a millisecond, one for all others, and the sum."""
    shown = {name: cost for name, cost in costs.items() if cost.own_ms >= _SMALL_MS}
    others = [cost for name, cost in costs.items() if name not in shown]
    shown["all others"] = _sum(others)
    shown["all"] = _sum(costs.values())
    print(f"  {'imports':<22}{'ms':>8}{'modules':>10}")
    for name, cost in shown.items():
        print(f"  {name:<22}{cost.own_ms:>8.1f}{cost.modules:>10}")


def _sum(costs: Iterable[ImportCost]) -> ImportCost:
    total = ImportCost()
    for cost in costs:
        total.modules += cost.modules
        total.own_ms += cost.own_ms
    return total


def _place_of(module: str) -> str:
    """The room, or the library.

    >>> _place_of("tonnage.decide.node.share"), _place_of("grpc.aio"), _place_of("asyncio.events")
    ('decide.node', 'grpc', 'Python itself')
    """
    package = module.partition(".")[0]
    return room_of(module) or (_PYTHON if package in sys.stdlib_module_names else package)
