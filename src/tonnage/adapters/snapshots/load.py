"""A captured cluster read back, line by line: only what the answers need is decoded, and held once."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import IO, Any, Final, TypeVar, cast

import msgspec

from tonnage.adapters.snapshots.format import API_VERSION, FOOTER, FORMAT, HEADER, Footer, Header
from tonnage.adapters.snapshots.limit import Meter, SizeLimit
from tonnage.adapters.snapshots.objects import (
    KindKey,
    ObjectReader,
    Read,
    collector_paused,
    decoded_leniently,
    kind_of,
)
from tonnage.model.errors import ConfigError, Problem, words_of
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.reading.cluster import Readable, snapshot_from
from tonnage.reading.coverage import OF_CLAIMS, Coverage, with_coverage
from tonnage.reading.documents import READ_KINDS
from tonnage.reading.object_parts import moment
from tonnage.wire.decode import UNDECODABLE

LONGEST_LINE: Final = 16 << 20
_GZIP: Final = b"\x1f\x8b"
_HEAD: Final = 1 << 16
_MOST_HEADS: Final = 1000
_LONGEST_HEAD: Final = 1000
T = TypeVar("T")
_AT_BYTE: Final = re.compile(r"\(byte ([0-9]+)\)")
_NAMESPACED: Final = frozenset(kind.kind for kind in READ_KINDS if kind.namespaced)
_END: Final = (API_VERSION, FOOTER)
_TAKE_AGAIN: Final = "take it again: tonnage snapshot --file FILE"


def decompressed(stream: IO[bytes]) -> io.BufferedReader:
    """The stream, unpacked when it is gzip."""
    buffered = stream if isinstance(stream, io.BufferedReader) else io.BufferedReader(cast(Any, stream))
    if buffered.peek(2)[:2] == _GZIP:
        return io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=buffered)), 1 << 20)
    return buffered


def is_snapshot(stream: io.BufferedReader, source: str) -> bool:
    """Whether the stream starts as a captured cluster does; nothing is taken from it.

    Raises ConfigError when it cannot even be unpacked.
    """
    try:
        first = stream.peek(_HEAD).split(b"\n", 1)[0]
    except EOFError:
        raise ConfigError(
            Problem("the file is truncated", source, "its gzip data ends early", _TAKE_AGAIN)
        ) from None
    except (OSError, zlib.error) as error:
        raise ConfigError(Problem("not valid gzip", source, words_of(error))) from None
    try:
        version, kind = kind_of(first)
    except UNDECODABLE:
        return False
    return (kind, version.partition("/")[0]) == (HEADER, API_VERSION.partition("/")[0])


def load_captured(stream: io.BufferedReader, source: str, limit: SizeLimit) -> tuple[Header, Snapshot]:
    """The first line of a snapshot, and the cluster out of the others.

    Raises:
        ConfigError: cut, damaged, made by a later version or more than the limit; with the line and the byte.
    """
    with collector_paused(freeze=True):
        return _Loading(stream, source, Meter(limit, source)).captured()


@dataclass(slots=True)
class _Loading:
    stream: io.BufferedReader
    source: str
    meter: Meter
    number: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def captured(self) -> tuple[Header, Snapshot]:
        header = self._header()
        footer: list[Footer] = []
        objects = self._objects(footer)
        snapshot = snapshot_from(objects, server_version=header.server_version, now=moment(header.taken_at))
        return header, with_coverage(snapshot, _coverage(header, footer[0]))

    def _header(self) -> Header:
        line = self._line()
        header: Header = self._usable(decoded_leniently, line, msgspec.json.Decoder(Header))
        if (header.api_version, header.format) != (API_VERSION, FORMAT):
            made = f"{header.api_version}, format {header.format}"
            why = f"it is {made}, and this program reads {API_VERSION}, format {FORMAT}"
            by = f" (made by {header.program})" if header.program else ""
            raise self._error(
                f"a snapshot of another version{by}", why, "read it with the version that made it"
            )
        return header

    def _objects(self, footer: list[Footer]) -> Iterator[Readable]:
        """Objects of the kinds that are read, up to the last line, which is put in `footer`."""
        reader = ObjectReader()
        cache: dict[bytes, tuple[KindKey, Read | None]] = {}
        while line := self._line():
            head = line[: line.find(b'"metadata"', 0, _LONGEST_HEAD)]
            entry = cache.get(head)
            if entry is None:
                kind = self._usable(kind_of, line)
                entry = kind, reader.of(kind)
                if len(cache) < _MOST_HEADS and len(head) < _LONGEST_HEAD:
                    cache[head] = entry
            kind, read = entry
            if kind == _END:
                footer.append(self._footer(line))
                return
            self.counts[kind[1]] += 1
            if read is not None:
                try:
                    obj = read(line)
                except UNDECODABLE as error:
                    raise self._unusable(error) from None
                yield obj
        raise self._cut()

    def _footer(self, line: bytes) -> Footer:
        footer: Footer = self._usable(decoded_leniently, line, msgspec.json.Decoder(Footer))
        short = [
            f"{self.counts[kind]} of {count.objects} {kind}"
            for kind, count in footer.objects.items()
            if self.counts[kind] != count.objects
        ]
        if short:
            raise self._error("the snapshot lacks objects", f"there are {', '.join(short)}", _TAKE_AGAIN)
        return footer

    def _line(self) -> bytes:
        """The next line, or nothing at the end."""
        try:
            line = self.stream.readline(LONGEST_LINE + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise self._cut(words_of(error)) from None
        self.number += 1
        if len(line) > LONGEST_LINE:
            raise self._error(f"a line is longer than {LONGEST_LINE >> 20} MiB")
        self.meter.read(line, self.number)
        if line and not line.endswith(b"\n"):
            raise self._cut()
        return line

    def _usable(self, read: Callable[..., T], *arguments: Any) -> T:
        """What `read` makes of it. Raises ConfigError with the place of what it cannot use."""
        try:
            return read(*arguments)
        except UNDECODABLE as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> ConfigError:
        """What is wrong with the line that was read last, and where."""
        if isinstance(error, msgspec.ValidationError):
            problem, _, path = str(error).partition(" - at `$")
            return self._error(problem, path.strip(".`"))
        at = _AT_BYTE.search(str(error))
        column = f":{int(at[1]) + 1}" if at else ""
        return self._error("not valid JSON", str(error), _TAKE_AGAIN, column=column)

    def _cut(self, why: str = "") -> ConfigError:
        read = f"{self.meter.total} bytes, {sum(self.counts.values())} objects"
        read = f"it ends after {read}, without its last line"
        return self._error("the snapshot is truncated", f"{read}{f' ({why})' if why else ''}", _TAKE_AGAIN)

    def _error(self, problem: str, why: str = "", remedy: str = "", *, column: str = "") -> ConfigError:
        return ConfigError(Problem(problem, f"{self.source}:{self.number}{column}", why, remedy))


def _coverage(header: Header, footer: Footer) -> Coverage:
    """What the file says that it holds of the cluster."""
    read = frozenset(kind.rpartition("/")[2] for kind in header.kinds)
    absences = (*header.missing, *footer.incomplete)
    within = {absence.kind: absence.namespace for absence in absences if absence.namespace}
    if header.namespace:
        within |= dict.fromkeys(_NAMESPACED, header.namespace)
    missing = frozenset(absence.kind for absence in absences if not absence.namespace)
    return Coverage(
        read=read,
        missing=missing,
        scopes=within,
        forbidden=frozenset(absence.kind for absence in absences if absence.reason == "Forbidden"),
        unserved=OF_CLAIMS - read - missing,
    )
