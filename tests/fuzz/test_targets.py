"""Every target meets its corpus, changes of it and hostile inputs, within bounds of memory and time.

The inputs are the same on every run, and need no atheris.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fuzz.bounds import OverBoundError, alarmed, bounded, few_addresses
from fuzz.hostile.families import HOSTILE, SIZES, hostile_for
from fuzz.inputs import CORPUS, changed, corpus_of
from fuzz.targets import TARGETS
from support.sampling import Sampler

CHANGES = 40
REQUESTS = 10
"""Of changes where each is a request to a server, or many files, which takes longer."""
_SLOW = ("api-", "node-file")


def replay(name: str, inputs: Iterable[bytes]) -> None:
    """Raises what the target raises, with the input."""
    with TARGETS[name]() as target, few_addresses():
        for data in inputs:
            try:
                with alarmed():
                    bounded(target, data)
            except Exception as error:
                error.add_note(f"{name} was given {len(data)} bytes: {data[:2000]!r}")
                raise


@pytest.mark.sampled("targets of fuzzing")
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_does_more_than_to_be_refused(name: str) -> None:
    corpus = corpus_of(name)
    changes = changed(corpus, REQUESTS if name.startswith(_SLOW) else CHANGES, seed=1)
    replay(name, (*corpus, *changes))


@pytest.mark.parametrize(
    "size", [SIZES[0], *(pytest.param(size, marks=pytest.mark.long) for size in SIZES[1:3])]
)
@pytest.mark.sampled("targets of hostile inputs")
@pytest.mark.parametrize("name", TARGETS)
def test_no_hostile_input_takes_more_than_its_bounds(name: str, size: int, sample: Sampler) -> None:
    inputs = hostile_for(name, size)
    if name == "node-file":  # eight hundred trees of files
        numbered = list(enumerate(inputs))
        rows = f"hostile files of a node, of size {size}"
        inputs = (data for _, data in sample.items(rows, numbered, key=lambda row: f"input {row[0]}"))
    replay(name, inputs)


def test_every_target_has_a_corpus_and_hostile_inputs() -> None:
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS) == set(HOSTILE)


def _takes_memory(_data: bytes) -> None:
    bytearray(b"x" * (200 << 20))


def _takes_time(_data: bytes) -> None:
    total = 0
    while True:
        total += 1


def test_what_takes_too_much_memory_is_noticed() -> None:
    with pytest.raises(OverBoundError, match="MiB of memory"):
        bounded(_takes_memory, b"")


def test_what_asks_for_far_too_much_memory_gets_none() -> None:
    with few_addresses(), pytest.raises(MemoryError):
        bounded(lambda _: (bytes(64 << 30), None)[1], b"")


def test_what_does_not_end_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.bounds.MOST_WALL_S", 0.05)
    with pytest.raises(OverBoundError, match=r"more than 0\.05 s"), alarmed():
        bounded(_takes_time, b"")


def test_what_takes_too_much_of_the_processor_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.bounds._MOST_CPU_S", 0.0)
    with pytest.raises(OverBoundError, match="processor time"):
        bounded(lambda _: (sum(range(100_000)), None)[1], b"")
