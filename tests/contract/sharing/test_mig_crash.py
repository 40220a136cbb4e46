"""MIG-4: the agent as a process of its own, killed (SIGKILL) in the middle of a change of the MIG layout.

Here are a few moments of a few changes; `test_mig_crash_many.py` in tests/kubernetes has many of every kind.
"""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from support.crash.forked_agents import Fuse
from support.crash.hardware import ever_gone, read_gpus
from support.crash.node import crash_node
from support.crash.transitions import CREATE, DESTROY, KINDS, MODE, SHORT, Transition, transitions
from support.crash.trial import attempt, chosen, different, fuses, moments, sort_of
from support.driver_root import Driver
from support.nvml.state import DriverState
from tonnage.documents.mig.layouts import parse_mig_parted

ALL = {change.kind: change for change in transitions(1, len(KINDS))}
LAYOUTS = {"all-1g.10gb", "all-2g.20gb", "all-3g.40gb", "all-7g.80gb", "all-balanced"}
TRACE = (
    *("nvmlDeviceGetMigMode", "create agent.lock", "create mig", "sync mig", "nvmlDeviceGetMigMode"),
    *("nvmlDeviceGetName", "api PATCH nodes", "nvmlGpuInstanceDestroy", "write fake-nvml.conf.mig"),
    *("nvmlDeviceGetName", "program", "rename mig"),
)


@pytest.mark.long
async def test_mig_4_killed_at_a_few_moments_it_ends_well_and_bystanders_lose_nothing() -> None:
    moments = [
        ("beside", Fuse(DESTROY, 1, after=True)),
        ("MIG on, then refused", Fuse("rename mig", 3)),
        ("MIG on by a board's reset", Fuse(MODE, 2, after=True)),
        ("evicted", Fuse("api POST pods/eviction", 1, after=True)),
        ("another wish", Fuse(CREATE, 1, after=True)),
    ]
    async with crash_node() as node:
        for kind, fuse in moments:
            trial = await attempt(node, ALL[kind], fuse)
            assert trial.killed == [fuse], (kind, fuse, trial.trace[-20:])
            assert not trial.wrong, str(trial)
            assert not trial.lost, str(trial)


def test_an_agent_is_killed_around_every_deed_from_the_journals_first_byte_on() -> None:
    found = fuses(TRACE)
    deeds = [(fuse.deed, fuse.number) for fuse in found if not fuse.after]
    assert deeds == [
        *(("create mig", 1), ("sync mig", 1), ("nvmlDeviceGetMigMode", 2), ("api PATCH nodes", 1)),
        *(("nvmlGpuInstanceDestroy", 1), ("nvmlDeviceGetName", 2), ("program", 1), ("rename mig", 1)),
    ]
    assert [(fuse.deed, fuse.number) for fuse in found if fuse.after] == deeds
    few = chosen(found, 10, random.Random(1))
    assert Counter((sort_of(fuse.deed), fuse.after) for fuse in few) == Counter(
        (sort, after)
        for sort in ("journal", "question", "API", "hardware", "program")
        for after in (False, True)
    )
    assert sorted(map(str, chosen(found, 0, random.Random(1)))) == sorted(map(str, found))


def test_moments_between_which_nothing_changes_are_taken_as_one() -> None:
    assert [str(fuse) for fuse in different(fuses(TRACE))] == [
        *("before create mig 1", "after create mig 1", "after api PATCH nodes 1"),
        *("after nvmlGpuInstanceDestroy 1", "after program 1", "after rename mig 1"),
    ]
    assert different(fuses(TRACE[:2])) == []
    assert (moments(TRACE), moments(TRACE[:2])) == (2 * 9, 0)


@pytest.mark.parametrize("change", [pytest.param(change, id=kind) for kind, change in ALL.items()])
def test_what_is_tried_is_another_layout_and_holders_hold_what_is_there(change: Transition) -> None:
    assert change.config in {*parse_mig_parted(change.text(), source="x"), *LAYOUTS}
    for slot, wanted in change.wanted.items():
        gpu = change.gpus[slot]
        had = Counter(mig.profile for mig in gpu.migs) if gpu.mig_enabled else None
        assert had != (
            None if wanted is None else Counter(SHORT.get(name, name) for name in wanted.elements())
        )
    held = {*change.stays, *change.leaves}
    assert all(any(mig.gi == gi for mig in change.gpus[slot].migs) for slot, gi in held)
    assert change.stays or change.wanted.keys() == {gpu.slot for gpu in change.gpus}


def test_what_stands_and_what_was_destroyed_is_read_of_every_change(tmp_path: Path) -> None:
    driver = Driver(tmp_path, DriverState(ALL["beside"].gpus))
    was = read_gpus(driver.file)[0]
    driver.file.with_name(f"{driver.file.name}.mig").write_text(
        "-ci 0 1 0\n-gi 0 1\ngi 0 1 9 2\nci 0 1 0 0 MIG-again\ngpu 0 mig-mode 0\n-gi 0 2"
    )
    now = read_gpus(driver.file)[0]
    assert ever_gone(driver.file) == {(0, 1)}
    assert now.instances == was.instances | {1: (9, 2)}
    assert now.computes[1, 0] == (1, "MIG-again")
    assert (was.enabled, now.enabled) == (True, False)
