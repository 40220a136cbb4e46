"""A cluster out of a file: its bytes, its documents and the snapshot of them, each made once.

JSON or YAML, packed with gzip or not; `-` is stdin.
"""

from __future__ import annotations

import io
import json
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tonnage.adapters.snapshots.limit import Meter, SizeLimit
from tonnage.adapters.snapshots.load import LONGEST_LINE, decompressed, is_snapshot, load_captured
from tonnage.adapters.snapshots.objects import lists_in, load_list
from tonnage.model.errors import ConfigError, Problem, not_utf8, words_of
from tonnage.model.json import JsonValue, parsed_json
from tonnage.reading.coverage import with_unlisted
from tonnage.reading.documents import in_file, snapshot_from_documents
from tonnage.reading.object_names import ObjectNames, names_in, names_of

if TYPE_CHECKING:
    from tonnage.adapters.snapshots.format import Header
    from tonnage.model.kubernetes.cluster import Snapshot

_USUAL: Final = SizeLimit()
_LARGE: Final = 4 << 20
"""A file that no person wrote by hand."""
_HEAD: Final = 4096
_BLANKS: Final = b" \t\r\n\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class ClusterFile:
    """What a file says of a cluster.

    `header`: of a file that `tonnage snapshot` wrote, and None of others; those have `documents`, which are
    objects and Lists of them, to be gone through once.
    """

    snapshot: Snapshot
    header: Header | None = None
    documents: Iterable[JsonValue] = ()

    def object_names(self) -> ObjectNames:
        """Which objects the file knows by name. Raises ConfigError for what is not valid JSON after all."""
        if self.header is None:
            return names_in(self.documents, self.snapshot.missing)
        if self.header.redact == "names":  # they are pseudonyms: nothing can be said of any
            return ObjectNames()
        kinds = frozenset(kind.rpartition("/")[2] for kind in self.header.kinds)
        names, scopes = names_of(self.snapshot), self.snapshot.scopes
        return ObjectNames(kinds - self.snapshot.missing, self.header.namespace, names, scopes)


def read_cluster(path: Path, limit: SizeLimit) -> ClusterFile:
    """A cluster out of a file: what `tonnage snapshot` wrote, or Kubernetes objects or Lists of them.

    Raises:
        ConfigError: unreadable, cut, more than the limit, or no Kubernetes objects.
    """
    source = str(path)
    with _opened(path) as stream:
        if is_snapshot(stream, source):
            header, captured = load_captured(stream, source, limit)
            return ClusterFile(captured, header)
        content = limit.whole(stream, source)
    if len(content) > _LARGE:
        snapshot = load_list(content, Meter(limit, source))
        if snapshot is not None:
            return ClusterFile(with_unlisted(snapshot), documents=_large_list(content, source, limit))
    documents = _documents(content, source, limit)
    try:
        return ClusterFile(with_unlisted(snapshot_from_documents(documents)), documents=documents)
    except ConfigError as error:
        raise in_file(error, source) from None


def read_objects(path: Path, limit: SizeLimit = _USUAL) -> Iterator[JsonValue]:
    """The objects of such a file as they stand there, among them Lists. Raises ConfigError."""
    source = str(path)
    with _opened(path) as stream:
        if not is_snapshot(stream, source):
            yield from _large_list(limit.whole(stream, source), source, limit)
            return
        meter = Meter(limit, source)
        number = 0
        while line := stream.readline(LONGEST_LINE):
            number += 1
            meter.read(line, number)
            yield _parsed_json(line, source)


@contextmanager
def _opened(path: Path) -> Iterator[io.BufferedReader]:
    """The file's bytes, unpacked. Raises ConfigError, also for what comes to light while they are read."""
    try:
        with nullcontext(sys.stdin.buffer) if str(path) == "-" else path.open("rb") as file:
            yield decompressed(file)
    except (OSError, EOFError, zlib.error) as error:
        raise ConfigError(
            Problem("cannot read the file", str(path), words_of(error) or "it is truncated")
        ) from None


def _large_list(content: bytes, source: str, limit: SizeLimit) -> Iterator[JsonValue]:
    """The documents of a file; of a large List one item at a time."""
    lists = lists_in(content, Meter(limit, source)) if len(content) > _LARGE else None
    if lists is None:
        yield from _documents(content, source, limit)
        return
    try:
        yield from lists
    except UnicodeDecodeError as error:
        raise ConfigError(not_utf8(error, source)) from None
    except ValueError as error:
        raise ConfigError(Problem("not valid JSON", source, str(error)[:200])) from None


def _documents(content: bytes, source: str, limit: SizeLimit) -> list[JsonValue]:
    """Every document of a file, in JSON or YAML.

    Raises:
        ConfigError: unreadable, or too large.
    """
    if content[:_HEAD].lstrip(_BLANKS)[:1] in (b"{", b"["):
        limit.check_values(content, source, "it is not a valid List, so it must be read as a whole")
        return [_parsed_json(content, source)]
    from tonnage.documents.yaml.reader import MAX_BYTES, parse_yaml_all

    if len(content) > MAX_BYTES:
        why = f"YAML of more than {MAX_BYTES >> 20} MiB takes minutes to read"
        remedy = "save it as JSON: kubectl get nodes,pods,namespaces,priorityclasses -A -o json"
        raise ConfigError(Problem("file too large", source, why, remedy))
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(not_utf8(error, source)) from None
    return [document.value for document in parse_yaml_all(text, source=source)]


def _parsed_json(content: bytes, source: str) -> JsonValue:
    try:
        value = parsed_json(content.decode().removeprefix("\ufeff"), unique=True)
        if b"\\ud" in content or b"\\uD" in content:  # perhaps half of a pair, which no text can hold
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except json.JSONDecodeError as error:
        where = f"{source}:{error.lineno}:{error.colno}"
        raise ConfigError(Problem("not valid JSON", where, error.msg)) from None
    except UnicodeDecodeError as error:
        raise ConfigError(not_utf8(error, source)) from None
    except ValueError as error:
        raise ConfigError(Problem("not valid JSON", source, str(error)[:200])) from None
