"""The cluster on disk: full, foreign, newer and broken files are told as such, and nothing gets lost."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from tonnage.adapters.clock import SystemClock
from tonnage.model.errors import ApiError, ConfigError, GoneError, HardwareError
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.storage.database import FORMAT, Database
from tonnage.wire.kinds import CONFIG_MAP, CUSTOM_RESOURCE


def _map(name: str, value: str = "") -> JsonObject:
    return {"metadata": {"name": name}, "data": {"key": value}}


def _definition() -> JsonObject:
    version: JsonObject = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    names: JsonObject = {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"}
    return {
        "metadata": {"name": "things.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": names, "versions": [version]},
    }


class Life:
    """One life of a server on a file."""

    def __init__(self, path: Path) -> None:
        self.database = Database.open(path)
        self.server = ApiServer(SystemClock(), store=self.database.store())
        self.api = self.server.local()

    async def end(self) -> None:
        await self.server.stop()
        self.database.close()

    async def maps(self) -> dict[str, tuple[str, str]]:
        found = (await self.api.list(CONFIG_MAP)).items
        own = [one for one in found if one.metadata.namespace == "default"]
        return {one.metadata.name: (one.data["key"], one.metadata.resource_version) for one in own}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cluster.db"


async def test_a_cluster_goes_on_where_it_ended(path: Path) -> None:
    first = Life(path)
    for name in ("kept", "changed", "gone"):
        await first.api.create(CONFIG_MAP, _map(name), namespace="default")
    await first.api.replace(CONFIG_MAP, _map("changed", "x"), namespace="default")
    await first.api.create(CUSTOM_RESOURCE, _definition())
    await first.api.delete(CONFIG_MAP, "gone", namespace="default")
    before, revision = await first.maps(), first.server.store.revision
    await first.end()
    second = Life(path)
    assert await second.maps() == before
    assert sorted(before) == ["changed", "kept"]
    assert second.server.store.revision == revision
    assert second.server.registry.find("example.com", "v1", "things") is not None
    made = await second.api.create(CONFIG_MAP, _map("new"), namespace="default")
    assert int(made.metadata.resource_version) > revision
    await second.end()


async def test_a_watch_goes_on_from_the_last_version_and_is_told_410_from_older_ones(path: Path) -> None:
    first = Life(path)
    old = (await first.api.create(CONFIG_MAP, _map("a"), namespace="default")).metadata.resource_version
    await first.api.create(CONFIG_MAP, _map("b"), namespace="default")
    last = (await first.api.list(CONFIG_MAP)).resource_version
    await first.end()
    second = Life(path)
    await second.api.create(CONFIG_MAP, _map("c"), namespace="default")
    going_on = second.api.watch(CONFIG_MAP, resource_version=last)
    assert (await anext(going_on)).object.metadata.name == "c"
    with pytest.raises(GoneError):
        await anext(second.api.watch(CONFIG_MAP, resource_version=old))
    await second.end()


async def test_facts_and_the_file_are_their_owners_alone(path: Path) -> None:
    database = Database.open(path)
    assert database.fact_or("token", lambda: b"first") == b"first"
    database.close()
    database = Database.open(path)
    assert database.fact_or("token", lambda: b"second") == b"first"
    store = database.store()
    store.create(("", "x"), ("", "a"), {"metadata": {}})
    await store.on_disk()
    modes = {stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    assert modes == {0o600}
    database.close()


def test_every_commit_is_synced_to_the_disk(path: Path) -> None:
    database = Database.open(path)
    connection = database._connection  # what SQLite was told is seen nowhere else
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    database.close()


async def _fill(life: Life) -> None:
    for number in range(10):
        await life.api.create(CONFIG_MAP, _map(f"m{number}", "x" * 20_000), namespace="default")


async def test_a_full_disk_refuses_writes_and_loses_nothing(path: Path) -> None:
    life = Life(path)
    await life.server.store.on_disk()
    connection = life.database._connection  # a disk of this size, without one
    pages = connection.execute("PRAGMA page_count").fetchone()[0] + 40
    connection.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(ApiError) as caught:
        await _fill(life)
    assert (caught.value.code, caught.value.reason) == (500, "")
    assert caught.value.message == "etcdserver: mvcc: database space exceeded"
    there = await life.maps()
    assert list(there) == [f"m{number}" for number in range(len(there))]
    assert len(there) > 2
    await life.api.delete(CONFIG_MAP, "m0", namespace="default")
    await life.api.delete(CONFIG_MAP, "m1", namespace="default")
    await life.api.create(CONFIG_MAP, _map("n", "x" * 20_000), namespace="default")
    now = await life.maps()
    await life.end()
    again = Life(path)
    assert await again.maps() == now
    assert set(now) == ({*there} - {"m0", "m1"}) | {"n"}
    await again.end()


def _files(path: Path) -> tuple[bytes, bytes]:
    """The database and its log."""
    return path.read_bytes(), path.with_name("cluster.db-wal").read_bytes()


def _lay(path: Path, main: bytes, log: bytes) -> None:
    path.write_bytes(main)
    path.with_name("cluster.db-wal").write_bytes(log)
    path.with_name("cluster.db-shm").unlink(missing_ok=True)


async def test_what_was_cut_off_within_the_last_commit_is_as_before_it(path: Path) -> None:
    first = Life(path)
    await first.api.create(CONFIG_MAP, _map("a"), namespace="default")
    size, before = len(_files(path)[1]), await first.maps()
    await first.api.create(CONFIG_MAP, _map("b", "x" * 20_000), namespace="default")
    main, log = _files(path)
    await first.end()
    for end in (size, size + 1, (size + len(log)) // 2, len(log) - 1):
        _lay(path, main, log[:end])
        again = Life(path)
        assert await again.maps() == before
        await again.api.create(CONFIG_MAP, _map("c"), namespace="default")
        await again.end()


def _newer(path: Path) -> None:
    Database.open(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT + 1}")


def _foreign(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE other (x)")


def _torn(path: Path) -> None:
    database = Database.open(path)
    database._connection.execute("INSERT INTO facts VALUES ('x', zeroblob(100000))")
    database.close()
    path.write_bytes(path.read_bytes()[: 4096 * 3])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(_newer, ("newer Tonnage", f"its format is {FORMAT + 1}"), id="a newer format"),
        pytest.param(_foreign, ("not a cluster of Tonnage",), id="another program's database"),
        pytest.param(_torn, ("cannot be read", "malformed"), id="half a file"),
        pytest.param(
            lambda path: path.write_text("x" * 5000), ("cannot be read", "not a database"), id="a text"
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_and_left_as_it_is(
    path: Path, spoil: object, words: tuple[str, ...]
) -> None:
    assert callable(spoil)
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        Database.open(path)
    [problem] = caught.value.problems
    assert all(word in str(problem) for word in words)
    assert str(path) in problem.where
    assert problem.remedy
    assert path.read_bytes() == before


def test_an_object_that_is_no_json_is_refused(path: Path) -> None:
    database = Database.open(path)
    database._connection.execute("INSERT INTO objects VALUES ('', 'pods', 'a', 'b', 2, 'x')")
    with pytest.raises(ConfigError, match="cannot be read"):
        database.store()
    database.close()


def test_a_link_in_the_files_place_is_refused(path: Path, tmp_path: Path) -> None:
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(HardwareError):
        Database.open(path)
    assert not (tmp_path / "elsewhere").exists()
