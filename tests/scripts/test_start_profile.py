"""`make profile` clocks phases by their names, and adds up what `-X importtime` writes."""

from __future__ import annotations

import importlib

import pytest

from benchmarks.imports import import_costs
from benchmarks.start_profile import Phase, nested, phases_of
from benchmarks.stopwatch import PHASES, place_of

WRITTEN = """\
import time: self [us] | cumulative | imported package
import time:      1200 |       1200 |     grpc._cython
import time:       300 |       1500 |   grpc
import time:      2000 |       2000 |     tonnage.decide.node.share
8/8 nodes Ready, 7/7 advertise GPUs, 7/7 agents have reported
import time:       500 |       2500 |   tonnage.cli.main
import time:       250 |        250 | asyncio
"""


@pytest.mark.parametrize("module", PHASES)
def test_every_phase_is_a_function_of_its_module(module: str) -> None:
    for function in PHASES[module]:
        owner, name = place_of(importlib.import_module(module), function)
        assert callable(getattr(owner, name))


def test_imports_add_up_by_room_from_the_top_of_the_house_and_then_by_library() -> None:
    costs = import_costs(WRITTEN.splitlines())
    assert [(place, cost.modules, cost.own_ms) for place, cost in costs.items()] == [
        ("cli", 1, 0.5),
        ("decide.node", 1, 2.0),
        ("Python itself", 1, 0.25),
        ("grpc", 2, 1.5),
    ]


def test_phases_stand_in_the_order_in_which_they_began_below_those_in_which_they_lie() -> None:
    marks = "12.0\t13.0\tinner\n11.0\t14.0\touter\n14.5\t15.0\tlast\n"
    assert nested(phases_of(marks, 10.0)) == [
        Phase("outer", 1000.0, 4000.0),
        Phase("  inner", 2000.0, 3000.0),
        Phase("last", 4500.0, 5000.0),
    ]
