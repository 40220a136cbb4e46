"""Inputs for targets where nobody looks at coverage: a small corpus, and what a seeded chance makes of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

CORPUS: Final = Path(__file__).with_name("corpus")
MOST_BYTES: Final = 4096
_WORDS: Final = (
    *(b"\0", b"\xff", b"\xf0\x9f\x98\x80", b"\xed\xa0\x80", b"\\ud800", b"\n", b"\t", b" ", b"'", b'"', b","),
    *(b"[", b"]", b"{", b"}", b":", b"- ", b"&a ", b"*a", b"<<: ", b"---\n", b"!!", b"null", b"true", b"~"),
    *(
        b"-1",
        b"0",
        b"1e999",
        b"NaN",
        b"9" * 40,
        b"0x7f",
        b"1:30",
        b"::",
        b"GPU-0",
        b"GPU-1::2",
        b"nvidia.com/gpu",
    ),
    *(
        b"nvidia.com/gpu",
        b"\x0a",
        b"\x12",
        b"\x18",
        b"\x7f",
        b"\x80\x80\x80\x80\x10",
        b"[" * 300,
        b"{" * 300,
        b"x" * 300,
    ),
)


def corpus_of(name: str) -> list[bytes]:
    """The target's inputs, in the order of their names; the empty one first."""
    files = sorted((CORPUS / name).iterdir()) if (CORPUS / name).is_dir() else []
    return [b"", *(file.read_bytes() for file in files)]


def changed(corpus: Sequence[bytes], count: int, seed: int) -> Iterator[bytes]:
    """So many inputs that are one of the corpus with a few changes; the same for the same seed."""
    random = Random(seed)
    for _ in range(count):
        data = bytearray(random.choice(corpus))
        for _ in range(random.choice((1, 1, 2, 3, 5, 8))):
            _change(data, corpus, random)
        yield bytes(data[:MOST_BYTES])


def _change(data: bytearray, corpus: Sequence[bytes], random: Random) -> None:
    start = random.randrange(len(data) + 1)
    end = min(len(data), start + random.choice((0, 1, 1, 2, 4, 16, 64)))
    match random.randrange(5):
        case 0:
            data[start:start] = random.choice(_WORDS)
        case 1:
            data[start:end] = random.choice(_WORDS)
        case 2:
            del data[start:end]
        case 3:
            data[start:end] = random.randbytes(end - start)
        case _:
            other = random.choice(corpus)
            place = random.randrange(len(other) + 1)
            data[start:end] = other[place : place + random.choice((4, 32, 256))]
