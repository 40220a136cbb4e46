"""How much a captured cluster, a List or a trace may come to: somebody may have made it to fill a machine.

The text counts unpacked, since a packed one of a kilobyte may stand for a megabyte. The objects that are made
of it count by the blocks that Python's allocator has given out: text of a megabyte may become a few of them
or fifty megabytes of empty ones.
"""

from __future__ import annotations

import io
import sys
from dataclasses import dataclass
from typing import Final

from tonnage.model.errors import ConfigError, Problem

OPTION: Final = "--max-size"
MOST_BYTES: Final = 1 << 30
"""Of a snapshot, which is read line by line. One of 10,000 nodes and 100,000 pods has a quarter."""
MOST_WHOLE_BYTES: Final = 512 << 20
"""Of what is read as a whole: Lists, traces."""
_BYTES_OF_BLOCK: Final = 128
_BYTES_OF_VALUE: Final = 256
_BYTES_OF_ITEM: Final = 512
_WHOLE_PART: Final = 8
_AT_ONCE: Final = 1 << 20
_OFTEN: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class SizeLimit:
    """What one file may come to. `chosen`: the size that a person set; else each has its own."""

    chosen: int | None = None

    @property
    def size(self) -> int:
        """Of a snapshot, unpacked."""
        return self.chosen or MOST_BYTES

    @property
    def whole_size(self) -> int:
        """Of a file that is read as a whole, unpacked."""
        return self.chosen or MOST_WHOLE_BYTES

    @property
    def blocks(self) -> int:
        """Blocks of memory that may come of a file."""
        return self.size // _BYTES_OF_BLOCK

    @property
    def values(self) -> int:
        """Values of a JSON text that is made into values all at once."""
        return self.whole_size // _BYTES_OF_VALUE

    def whole(self, stream: io.BufferedIOBase, source: str) -> bytes:
        """All that the stream has. Raises ConfigError beyond the limit, of which no more is held."""
        held = io.BytesIO()
        while chunk := stream.read(_AT_ONCE):
            held.write(chunk)
            if held.tell() > self.whole_size:
                raise too_much(f"more than {size_text(self.whole_size)} unpacked", source)
        return held.getvalue()

    @property
    def items(self) -> int:
        """Objects of one List."""
        return self.whole_size // _BYTES_OF_ITEM

    def check_values(self, content: bytes, source: str, why: str = "") -> None:
        """Refuse a JSON text that would make too many values, or far too long a text, at once.

        Separators are counted, among them those that stand in texts. Raises ConfigError.
        """
        if len(content) > self.whole_size // _WHOLE_PART:
            raise too_much(f"JSON of more than {size_text(self.whole_size // _WHOLE_PART)}", source, why)
        if len(content) > self.values and sum(map(content.count, (b",", b"{", b"["))) > self.values:
            raise too_much(f"JSON of more than {self.values:,} values", source, why)


class Meter:
    """What has come of a file so far."""

    def __init__(self, limit: SizeLimit, source: str) -> None:
        self._limit = limit
        self._source = source
        self._before = sys.getallocatedblocks()
        self._since = 0
        self.total = 0

    def items(self, number: int) -> None:
        """A List has so many objects. Raises ConfigError: they are too many."""
        if number > self._limit.items:
            raise too_much(f"a List of more than {self._limit.items:,} objects", self._source)

    def read(self, line: bytes, number: int) -> None:
        """A line or item more is about to be read. Raises ConfigError: it is too much."""
        self.total += len(line)
        self._since += len(line)
        if self.total > self._limit.size:
            raise too_much(f"more than {size_text(self._limit.size)} unpacked", f"{self._source}:{number}")
        if len(line) > _AT_ONCE:
            self._limit.check_values(line, f"{self._source}:{number}")
        if self._since > _OFTEN:
            self._since = 0
            if sys.getallocatedblocks() - self._before > self._limit.blocks:
                raise too_much(
                    f"more than {self._limit.blocks:,} parts of objects", f"{self._source}:{number}"
                )


def too_much(problem: str, where: str, why: str = "") -> ConfigError:
    """A file that comes to more than it may."""
    return ConfigError(
        Problem(problem, where, why, f"to read a file that you trust, give {OPTION} a larger size")
    )


def size_text(size: int) -> str:
    """As `--max-size` takes it.

    >>> size_text(1 << 30), size_text(512 << 20), size_text(1000)
    ('1Gi', '512Mi', '1000')
    """
    for unit, factor in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if size and size % factor == 0:
            return f"{size // factor}{unit}"
    return str(size)
