"""The journal of a MIG change: what refused it is kept in its words, and old journals can be read."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.agent_context import context_of
from tonnage.adapters.checkpoints import FolderCheckpoints
from tonnage.agent.mig.journal import CHECKPOINT, MigJournal
from tonnage.decide.node.mig.change import MigChange
from tonnage.decide.node.mig.obstacles import board_reset_needed, change_refused
from tonnage.twin.clock import VirtualClock

OLD = {
    "config": "all-1g",
    "goal": [],
    "before": [],
    "kept": {"GPU-0": [1, 2]},
    "why": "nvidia-smi failed",
    "begun": True,
    "resumed": 1,
    "resets": {},
    "stubborn": [],
    "host": {},
    "rebooted": "",
}
"""As agents have written it since there are journals."""
CHANGE = MigChange("all-1g", (), (), {"GPU-0": (1, 2)}, begun=True, resumed=1)


def _journal(folder: Path) -> MigJournal:
    return MigJournal(context_of("n", None, VirtualClock(), FolderCheckpoints(folder)))


def _restored(folder: Path) -> MigChange | None:
    journal = _journal(folder)
    asyncio.run(journal.restore())
    return journal.change


def test_a_journal_of_an_earlier_agent_says_in_words_what_refused_the_change(tmp_path: Path) -> None:
    asyncio.run(FolderCheckpoints(tmp_path).save(CHECKPOINT, json.dumps(OLD).encode()))
    change = _restored(tmp_path)
    assert change is not None
    assert change.refusal == change_refused("all-1g", "nvidia-smi failed")
    assert (change.kept, change.resumed) == ({"GPU-0": (1, 2)}, 1)


def test_an_earlier_agent_can_read_the_journal_of_this_one(tmp_path: Path) -> None:
    refused = replace(CHANGE, refusal=board_reset_needed("GPU-0", ("GPU-1",)))
    asyncio.run(_journal(tmp_path).write(refused))
    payload = asyncio.run(FolderCheckpoints(tmp_path).load(CHECKPOINT))
    written = json.loads(payload or b"")
    assert written.keys() == OLD.keys()
    assert written["why"] == "GPU-0 changes its MIG mode only by a reset together with GPU-1"


@pytest.mark.parametrize("change", [CHANGE, None], ids=["a change that is not refused", "no change"])
def test_what_is_written_is_restored(tmp_path: Path, change: MigChange | None) -> None:
    asyncio.run(_journal(tmp_path).write(change))
    assert _restored(tmp_path) == change


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"why": 1}', id="words that are a number"),
        pytest.param('{"config": "x", "why": ""}', id="a change without a goal"),
        pytest.param("[]", id="no object"),
    ],
)
def test_a_journal_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    asyncio.run(FolderCheckpoints(tmp_path).save(CHECKPOINT, text.encode()))
    with pytest.raises(ValueError, match=r"Expected|missing"):
        _restored(tmp_path)
