"""A leader whose loops stand still is told to kubelet, and nobody else is."""

from __future__ import annotations

from tonnage.controller.stuck_loops import StuckLoops
from tonnage.twin.clock import VirtualClock


async def test_a_loop_without_a_turn_is_named_after_five_minutes() -> None:
    clock, turns = VirtualClock(), {"policies": 1}
    loops = StuckLoops(clock, turns, ("policies", "drivers"))
    assert loops.problems(leads=True) == ()
    await clock.advance(200)
    turns["policies"] = 2
    assert loops.problems(leads=True) == ()
    await clock.advance(150)
    assert loops.problems(leads=True) == ("drivers: no turn for 350 s",)
    turns["drivers"] = 1
    assert loops.problems(leads=True) == ()


async def test_who_does_not_lead_turns_no_loop_and_begins_anew() -> None:
    clock = VirtualClock()
    loops = StuckLoops(clock, {}, ("policies",))
    assert loops.problems(leads=True) == ()
    await clock.advance(400)
    assert loops.problems(leads=False) == ()
    assert loops.problems(leads=True) == ()
