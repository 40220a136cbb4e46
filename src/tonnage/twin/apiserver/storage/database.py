"""The cluster on disk: one SQLite file, for `tonnage up --state DIR`.

A write-ahead log, synced at every commit, holds what is not in the file yet; whatever ends the process, the
next one finds every transaction that was finished, and nothing of one that was not. Objects are kept as the
JSON text that clients are sent, each under its last revision; what came before is history that ends with the
process, so that watches from an older version are told 410 and list again.
"""

from __future__ import annotations

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import msgspec

from tonnage.model.errors import ApiError, ConfigError, HardwareError, Problem
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import ChangeType
from tonnage.twin.apiserver.object_store import Commit, Name, Resource, Stored
from tonnage.twin.apiserver.statuses import no_space, not_stored
from tonnage.twin.apiserver.storage.store import Store

_APPLICATION: Final = 0x746E6764
FORMAT: Final = 1
_FACTS: Final = "CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL)"
_OBJECTS: Final = (
    "CREATE TABLE objects (api_group TEXT, plural TEXT, namespace TEXT, name TEXT, "
    "revision INTEGER NOT NULL, body BLOB NOT NULL, PRIMARY KEY (api_group, plural, namespace, name))"
)
_PUT: Final = "INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?, ?)"
_DROP: Final = "DELETE FROM objects WHERE api_group = ? AND plural = ? AND namespace = ? AND name = ?"
_REVISION: Final = "revision"


class Database:
    """One file that one process has open; who that may be is the caller's to decide."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self.path = path
        self._connection = connection
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="database")

    @classmethod
    def open(cls, path: Path) -> Database:
        """The cluster in the file, made when it is not there, for its owner alone.

        Raises:
            ConfigError: the file is no cluster, a newer Tonnage's, or damaged.
            HardwareError: it cannot be read or written.
        """
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise _unusable(path, error.strerror or str(error)) from error
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection, path)
        except sqlite3.Error as error:
            connection.close()
            raise _unreadable(path, error) from error
        except ConfigError:
            connection.close()
            raise
        return cls(connection, path)

    def store(self) -> Store:
        """The objects as they were acknowledged last; what becomes of them is kept here.

        Raises:
            ConfigError: the file is damaged.
        """
        try:
            return Store(journal=self, restored=self._objects(), revision=int(self.fact(_REVISION) or b"1"))
        except (sqlite3.Error, msgspec.MsgspecError, ValueError) as error:
            raise _unreadable(self.path, error) from error

    def fact(self, name: str) -> bytes | None:
        """What was kept under a name beside the objects: secrets, and what the next start needs to know."""
        row = self._connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else bytes(row[0])

    def keep_fact(self, name: str, value: bytes) -> None:
        """Keep it. Raises HardwareError when the disk refuses."""
        try:
            self._connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, value))
        except sqlite3.Error as error:
            raise _unusable(self.path, str(error)) from error

    def fact_or(self, name: str, make: Callable[[], bytes]) -> bytes:
        """What was kept under a name, made and kept the first time."""
        fact = self.fact(name)
        if fact is None:
            fact = make()
            self.keep_fact(name, fact)
        return fact

    async def keep(self, commits: Sequence[Commit]) -> None:
        """One transaction, synced. Raises ApiError 500 with nothing of it done."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._write, tuple(commits))

    def close(self) -> None:
        """Fold the log into the file and let go of it."""
        self._thread.shutdown()
        self._connection.close()

    def _objects(self) -> Iterator[tuple[Resource, Name, Stored]]:
        decoder = msgspec.json.Decoder(dict[str, object])
        rows = self._connection.execute("SELECT * FROM objects")
        for group, plural, namespace, name, revision, body in rows:
            obj: JsonObject = decoder.decode(body)  # type: ignore[assignment]
            yield (group, plural), (namespace, name), Stored(obj, revision, body)

    def _write(self, commits: tuple[Commit, ...]) -> None:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for commit in commits:
                row = (*commit.resource, *commit.name)
                if commit.type is ChangeType.DELETED:
                    connection.execute(_DROP, row)
                else:
                    connection.execute(_PUT, (*row, commit.after.revision, commit.after.json))
            last = str(commits[-1].after.revision).encode()
            connection.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (_REVISION, last))
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise _refusal(error) from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    """Check whose file it is and make it ready to be written. Raises ConfigError, sqlite3.Error."""
    connection.execute("PRAGMA busy_timeout = 0")
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    empty = not connection.execute("PRAGMA schema_version").fetchone()[0]
    if not empty and application != _APPLICATION:
        raise _foreign(path)
    if version > FORMAT:
        raise _newer(path, version)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    if empty:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute(_FACTS)
        connection.execute(_OBJECTS)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute("COMMIT")
    elif (verdict := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
        raise sqlite3.DatabaseError(verdict)


def _refusal(error: sqlite3.Error) -> ApiError:
    if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_FULL:
        return no_space()
    return not_stored(str(error))


def _foreign(path: Path) -> ConfigError:
    return ConfigError(
        Problem("not a cluster of Tonnage", str(path), "another program's database", "name another folder")
    )


def _newer(path: Path, version: int) -> ConfigError:
    why = f"its format is {version}, this program knows {FORMAT}"
    return ConfigError(
        Problem(
            "a newer Tonnage saved this cluster",
            str(path),
            why,
            "use that version, or name another folder with --state",
        )
    )


def _unreadable(path: Path, error: Exception) -> ConfigError:
    return ConfigError(
        Problem(
            "the cluster cannot be read",
            str(path),
            str(error),
            "restore a copy of the folder, or start with an empty one",
        )
    )


def _unusable(path: Path, why: str) -> HardwareError:
    return HardwareError(Problem("the file cannot be used", str(path), why, "choose another folder"))
