"""No reader of what others write is forgotten: the corpus of some target comes to each."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from fuzz.readers import BEHIND, OWN, readers
from fuzz.targets import TARGETS

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def code() -> frozenset[str]:
    """The readers that are in the code."""
    return frozenset(readers())


def test_the_corpus_of_some_target_comes_to_every_reader(code: frozenset[str]) -> None:
    run = subprocess.run(
        [sys.executable, "-m", "fuzz.reached"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=300,
    )
    forgotten = code - {*json.loads(run.stdout)} - set(OWN) - set(BEHIND)
    assert not forgotten, "give each a target, or the reason why it reads nothing of others, in readers.py"


def test_reasons_are_given_for_readers_alone(code: frozenset[str]) -> None:
    assert not {*OWN, *BEHIND} - code
    assert set(BEHIND.values()) <= set(TARGETS)


@pytest.mark.parametrize(
    "reader",
    [
        pytest.param("documents/mig/layouts.py:parse_mig_parted", id="a parser of a document"),
        pytest.param("documents/lab/command.py:parse_command", id="a parser without a reader of a format"),
        pytest.param("adapters/kubernetes/answers.py:decoded", id="the API server's answers"),
        pytest.param("twin/kubelet/streams/spdy.py:SpdyCodec.receive", id="frames"),
        pytest.param("agent/mig/journal.py:MigJournal.restore", id="a checkpoint"),
    ],
)
def test_what_reads_is_found_in_the_code(reader: str, code: frozenset[str]) -> None:
    assert reader in code
