"""No reader of what others write is forgotten: the corpus of some target comes to each."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from fuzz.inputs import corpus_of
from fuzz.readers import BEHIND, OWN, PACKAGE, readers
from fuzz.targets import TARGETS


@pytest.fixture(scope="module")
def code() -> frozenset[str]:
    """The readers that are in the code."""
    return frozenset(readers())


@contextmanager
def reached() -> Iterator[set[str]]:
    """`module.py:function` of what of the package is called inside, in every thread."""
    found: set[str] = set()
    before = f"{PACKAGE}/"

    def seen(frame: FrameType, event: str, _given: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(before):
            found.add(f"{code.co_filename.removeprefix(before)}:{code.co_qualname.partition('.<locals>')[0]}")

    profile = sys.getprofile()
    threading.setprofile(seen)
    sys.setprofile(seen)
    try:
        yield found
    finally:
        sys.setprofile(profile)
        threading.setprofile(None)


def test_the_corpus_of_some_target_comes_to_every_reader(
    code: frozenset[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL)
    with reached() as found:
        for name, made in TARGETS.items():
            with made() as target:
                for data in corpus_of(name):
                    target(data)
    forgotten = code - found - set(OWN) - set(BEHIND)
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
