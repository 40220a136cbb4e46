"""How a MIG change proceeds: every stage with every event, and what an agent finds in its journal."""

from __future__ import annotations

import pytest

from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.mig.change import MigChange
from tonnage.decide.node.mig.obstacles import board_reset_needed, change_refused, gpu_gone, restart_needed
from tonnage.decide.node.mig.transitions import (
    TRANSITIONS,
    MigChangeEvent,
    Stage,
    next_stage,
    refusal_of,
    restart_obstacle,
    resumed,
    stage_of,
)
from tonnage.model.actions.devices import MigStep, ResetGpu, SetMigMode
from tonnage.model.devices.sharing import Hold
from tonnage.model.errors import Bug
from tonnage.model.reasons.gpu.mig import MigObstacle

REFUSED = change_refused("mine", "no")
# fmt: off
EVENTS = ("free",    "in use",  "reached",  "refused",   "board needed",       "reset refused",
          "resumed", "resumed often", "resumed too often")
TABLE = {
    "withdrawn":
         ("forward", "waiting", "",         "untouched", "",                   "",
          "untouched", "untouched", "untouched"),
    "forward":
         ("",        "",        "applied",  "back",      "restored for its board", "restart",
          "forward", "back", "given up"),
    "restart":
         ("",        "",        "",         "back",      "",                   "",
          "forward", "back", "given up"),
    "back":
         ("",        "",        "restored", "given up",  "given up",           "given up",
          "back", "back", "given up"),
    "restored for its board":
         ("",        "",        "anew",     "given up",  "given up",           "given up",
          "restored for its board", "restored for its board", "given up"),
    **dict.fromkeys(("applied", "restored", "anew", "given up", "waiting", "untouched"), ("",) * 9),
}
# fmt: on
CELLS = [
    (stage, event, after) for stage, row in TABLE.items() for event, after in zip(EVENTS, row, strict=True)
]


def test_the_table_has_every_stage_and_every_event() -> None:
    assert {*TABLE} == {*Stage}
    assert {*EVENTS} == {*MigChangeEvent}


@pytest.mark.parametrize(
    ("stage", "event", "after"),
    [pytest.param(*cell, id=f"{cell[0]}, {cell[1]}: {cell[2] or 'a bug'}") for cell in CELLS],
)
def test_what_happens_to_a_change_says_where_it_stands_next(stage: str, event: str, after: str) -> None:
    if after:
        assert next_stage(Stage(stage), MigChangeEvent(event)) is Stage(after)
        return
    with pytest.raises(Bug, match=f"a MIG change that is {stage} has met {event}"):
        next_stage(Stage(stage), MigChangeEvent(event))


def test_whatever_happens_a_change_comes_to_an_end() -> None:
    """From every stage an end can be reached, and agents that end again and again lead to one."""
    ends = {*Stage} - {*TRANSITIONS}
    for stage in TRANSITIONS:
        seen, waiting = {stage}, [stage]
        while waiting:
            after = {*TRANSITIONS.get(waiting.pop(), {}).values()} - seen
            seen |= after
            waiting += after
        assert seen & ends
        assert next_stage(stage, MigChangeEvent.RESUMED_TOO_OFTEN) in ends


def test_what_was_not_begun_touches_no_gpu_and_what_goes_back_never_goes_forward_again() -> None:
    back = {Stage.BACK, Stage.BACK_FOR_BOARD}
    assert not {*TRANSITIONS[Stage.WITHDRAWN].values()} & back
    for stage in back:
        assert not {*TRANSITIONS[stage].values()} & {Stage.FORWARD, Stage.RESTART, Stage.APPLIED}


def change(**fields: object) -> MigChange:
    return MigChange(**({"config": "mine", "goal": (), "before": (), "kept": {}, "begun": True} | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("found", "stage"),
    [
        pytest.param(change(begun=False), Stage.WITHDRAWN, id="not begun"),
        pytest.param(change(), Stage.FORWARD, id="begun"),
        pytest.param(change(rebooted="1"), Stage.RESTART, id="the node was told to restart"),
        pytest.param(change(refusal=REFUSED), Stage.BACK, id="it goes back"),
        pytest.param(change(refusal=REFUSED, rebooted="1"), Stage.BACK, id="it goes back after a restart"),
        pytest.param(change(refusal=REFUSED, stubborn=("GPU-0",)), Stage.BACK_FOR_BOARD, id="for its board"),
    ],
)
def test_the_journal_says_where_a_change_stands(found: MigChange, stage: Stage) -> None:
    assert stage_of(found) is stage


@pytest.mark.parametrize(
    ("before", "why", "event", "after"),
    [
        pytest.param(0, "", MigChangeEvent.RESUMED, "", id="the first agent that ended"),
        pytest.param(1, "", MigChangeEvent.RESUMED, "", id="the second"),
        pytest.param(2, "", MigChangeEvent.RESUMED_OFTEN, "3 agents ended during the change", id="the third"),
        pytest.param(2, "no", MigChangeEvent.RESUMED_OFTEN, "no", id="the third, on the way back"),
        pytest.param(4, "no", MigChangeEvent.RESUMED_OFTEN, "no", id="the fifth"),
        pytest.param(5, "no", MigChangeEvent.RESUMED_TOO_OFTEN, "no", id="the sixth"),
    ],
)
def test_agents_that_end_during_a_change_are_counted(
    before: int, why: str, event: MigChangeEvent, after: str
) -> None:
    said, counted = resumed(change(resumed=before, refusal=change_refused("mine", why) if why else None))
    message = counted.refusal.message if counted.refusal else ""
    assert (said, counted.resumed, message) == (event, before + 1, after)


@pytest.mark.parametrize(
    ("step", "event"),
    [
        pytest.param(None, MigChangeEvent.REFUSED, id="the GPUs cannot be read"),
        pytest.param(SetMigMode("GPU-0", True), MigChangeEvent.REFUSED, id="the driver refuses a step"),
        pytest.param(gpu_gone("GPU-0"), MigChangeEvent.REFUSED, id="a GPU is gone"),
        pytest.param(ResetGpu("GPU-0"), MigChangeEvent.RESET_REFUSED, id="the driver refuses a reset"),
        pytest.param(restart_needed("GPU-0"), MigChangeEvent.RESET_REFUSED, id="no reset is known"),
        pytest.param(
            board_reset_needed("GPU-0", ()), MigChangeEvent.BOARD_NEEDED, id="its board is reset along"
        ),
    ],
)
def test_what_was_refused_says_whether_a_restart_or_the_board_helps(
    step: MigStep | MigObstacle | None, event: MigChangeEvent
) -> None:
    assert refusal_of(step) is event


@pytest.mark.parametrize(
    ("rebooted", "holds", "why"),
    [
        pytest.param("", 0, "", id="it may"),
        pytest.param("2", 0, "", id="it was told to in this boot and has not"),
        pytest.param("1", 0, "a reboot of the node did not help", id="it has restarted for it"),
        pytest.param(
            *("", 1, "a reboot of the node may help, but its GPUs are used by ml/p0"), id="somebody uses it"
        ),
        pytest.param(
            *(
                "",
                7,
                "a reboot of the node may help, but its GPUs are used by ml/p0, ml/p1, ml/p2, ml/p3, ml/p4",
            ),
            id="of many users five are named",
        ),
    ],
)
def test_a_node_restarts_once_and_while_nobody_uses_it(rebooted: str, holds: int, why: str) -> None:
    held = [Hold("r", (f"GPU-{place}",), "ml", f"p{place}") for place in range(holds)]
    obstacle = restart_obstacle(change(rebooted=rebooted), "2", DeviceHolds.of(held))
    assert (obstacle.message if obstacle is not None else "") == why
