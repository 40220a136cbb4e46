"""Checkpoints survive crashes, tell damage from absence, and name what the file system refuses."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest

from tonnage.adapters.checkpoints import FolderCheckpoints, file_problem, write_atomic
from tonnage.model.errors import HardwareError


async def test_what_was_saved_last_is_loaded(tmp_path: Path) -> None:
    store = FolderCheckpoints(tmp_path / "made" / "when-needed")
    assert await store.load("x") is None
    await store.save("x", b"one")
    await store.save("x", b"two\n\0")
    assert await store.load("x") == b"two\n\0"
    assert [file.name for file in store_files(tmp_path)] == ["x"]


async def test_only_what_is_to_outlive_the_machine_is_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    store = FolderCheckpoints(tmp_path)
    await store.save("x", b"one", lasting=False)
    assert (await store.load("x"), flushed) == (b"one", [])
    await store.save("x", b"two")
    assert await store.load("x") == b"two"
    assert len(flushed) == 2  # the file, and the folder that has its name
    assert os.stat(tmp_path / "x").st_mode & 0o777 == 0o600  # noqa: PTH116


async def test_rows_are_added_to_what_this_process_saved_last(tmp_path: Path) -> None:
    store = FolderCheckpoints(tmp_path)
    assert not await store.add("x", b"to nothing")
    await store.save("x", b"one")
    assert [await store.add("x", row) for row in (b"a", b"", b"b c")] == [True] * 3
    later = FolderCheckpoints(tmp_path)
    assert (await later.load("x"), await later.load_added("x")) == (b"one", (b"a", b"", b"b c"))
    assert not await later.add("x", b"behind what another process added")
    await later.save("x", b"two")
    assert (await store.load("x"), await store.load_added("x")) == (b"two", ())


async def test_of_rows_that_were_cut_those_before_count(tmp_path: Path) -> None:
    store = FolderCheckpoints(tmp_path)
    await store.save("x", b"one")
    await store.add("x", b"row 1")
    await store.add("x", b"row 2")
    file = tmp_path / "x.added"
    whole = file.read_bytes()
    for length in range(len(whole)):
        file.write_bytes(whole[:length])
        assert await store.load_added("x") == ((b"row 1",) if length >= whole.index(b"\n") + 1 else ())


async def test_rows_of_an_earlier_checkpoint_do_not_count(tmp_path: Path) -> None:
    """As after a crash between the new checkpoint's rename and the removal of the rows."""
    store = FolderCheckpoints(tmp_path)
    await store.save("x", b"one")
    await store.add("x", b"row")
    rows = (tmp_path / "x.added").read_bytes()
    await store.save("x", b"two")
    (tmp_path / "x.added").write_bytes(rows)
    assert await store.load_added("x") == ()
    assert await store.add("x", b"other")
    assert await store.load_added("x") == (b"other",)


@pytest.mark.parametrize("gone", ["x", "x.added", "both", "replaced"])
async def test_rows_are_added_to_no_file_that_somebody_took_away(tmp_path: Path, gone: str) -> None:
    store = FolderCheckpoints(tmp_path)
    await store.save("x", b"one")
    assert await store.add("x", b"row")
    for name in ("x", "x.added") if gone == "both" else (gone,) if gone != "replaced" else ():
        (tmp_path / name).unlink()
    if gone == "replaced":
        write_atomic(tmp_path / "x", (tmp_path / "x").read_bytes())
    assert not await store.add("x", b"another")
    await store.save("x", b"two")
    assert await store.add("x", b"third")
    assert await store.load_added("x") == (b"third",)


async def test_after_a_row_that_could_not_be_written_all_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderCheckpoints(tmp_path)
    await store.save("x", b"one")
    await store.add("x", b"row")
    write = os.write

    def full(handle: int, data: bytes) -> int:
        if len(data) < 40:
            raise OSError(errno.ENOSPC, "no space")
        return write(handle, data[:40])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(HardwareError, match="free space on this file system"):
        await store.add("x", b"torn")
    monkeypatch.undo()
    assert not await store.add("x", b"behind half a row")
    assert await store.load_added("x") == (b"row",)


async def test_so_much_is_added_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonnage.adapters.checkpoints.MOST_ADDED_BYTES", 100)
    store = FolderCheckpoints(tmp_path)
    await store.save("x", b"one")
    assert [await store.add("x", b"row") for _ in range(3)] == [True, True, False]
    await store.save("x", b"two")
    assert await store.add("x", b"row")


def store_files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


async def test_only_the_owner_may_read(tmp_path: Path) -> None:
    await FolderCheckpoints(tmp_path).save("x", b"")
    assert os.stat(tmp_path / "x").st_mode & 0o777 == 0o600  # noqa: PTH116


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"payload", id="no header"),
        pytest.param(b"tonnage-checkpoint v1 " + b"0" * 64 + b"\npayload", id="another sum"),
        pytest.param(b"tonnage-checkpoint v9 " + b"0" * 64 + b"\n", id="another version"),
    ],
)
async def test_damage_is_an_error_once_and_the_file_is_kept(tmp_path: Path, content: bytes) -> None:
    write_atomic(tmp_path / "x", content)
    store = FolderCheckpoints(tmp_path)
    with pytest.raises(HardwareError, match="x is damaged"):
        await store.load("x")
    assert await store.load("x") is None
    assert [file.read_bytes() for file in store_files(tmp_path)] == [content]


async def test_a_crash_while_writing_leaves_the_old_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderCheckpoints(tmp_path)
    await store.save("x", b"old")

    def full(_handle: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(HardwareError, match="free space on this file system"):
        await store.save("x", b"new")
    monkeypatch.undo()
    assert await store.load("x") == b"old"
    assert len(store_files(tmp_path)) == 1


async def test_a_cancelled_save_never_replaces_a_later_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderCheckpoints(tmp_path)
    begun, go = threading.Event(), threading.Event()
    sync = os.fsync

    def slow(handle: int) -> None:
        begun.set()
        go.wait(20)
        sync(handle)

    monkeypatch.setattr(os, "fsync", slow)
    first = asyncio.create_task(store.save("x", b"first"))
    await asyncio.to_thread(begun.wait, 20)
    first.cancel()
    second = asyncio.create_task(store.save("x", b"second"))
    go.set()
    await second
    assert await store.load("x") == b"second"


async def test_a_cancelled_save_never_hides_what_was_added_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderCheckpoints(tmp_path)
    await store.save("x", b"one")
    go = threading.Event()
    store._thread.submit(go.wait, 20)  # nothing gets on
    cancelled = asyncio.create_task(store.save("x", b"two"))
    adding = asyncio.create_task(store.add("x", b"row"))
    await asyncio.sleep(0)
    cancelled.cancel()
    go.set()
    await adding
    await asyncio.gather(cancelled, return_exceptions=True)
    await store.save("y", b"")
    assert (await store.load("x"), await store.load_added("x")) in ((b"one", (b"row",)), (b"two", (b"row",)))


async def test_a_disk_that_hangs_is_an_error_until_it_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kubernetes/kubernetes#117435: kubelet waits for a plugin for ever, and admits nobody meanwhile."""
    store = FolderCheckpoints(tmp_path, deadline_s=0.01)
    begun, go = threading.Event(), threading.Event()
    sync = os.fsync

    def hang(handle: int) -> None:
        begun.set()
        go.wait(20)
        sync(handle)

    monkeypatch.setattr(os, "fsync", hang)
    with pytest.raises(HardwareError, match="x was not written") as caught:
        await store.save("x", b"first")
    assert "has not answered within 0.01 s" in caught.value.problems[0].why
    assert await asyncio.to_thread(begun.wait, 20)
    begun.clear()
    with pytest.raises(HardwareError, match="y was not written"):
        await store.save("y", b"second")
    assert not begun.is_set(), "no second thread waits for the disk"
    go.set()
    late = store._overdue
    assert late is not None
    await late
    patient = FolderCheckpoints(tmp_path)
    assert await patient.load("x") == b"first"
    store._deadline_s = 20
    await store.save("x", b"third")
    assert await patient.load("x") == b"third"


async def test_others_go_on_while_a_row_waits_for_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FolderCheckpoints(tmp_path)
    await store.save("x", b"one")
    go = threading.Event()
    write = os.write

    def slow(handle: int, data: bytes) -> int:
        assert go.wait(20)
        return write(handle, data)

    monkeypatch.setattr(os, "write", slow)
    adding = asyncio.create_task(store.add("x", b"row"))
    await asyncio.sleep(0)
    assert not adding.done()
    store._deadline_s = 0.01
    late = asyncio.create_task(store.add("x", b"late"))
    with pytest.raises(HardwareError, match="x was not written"):
        await late
    go.set()
    assert await adding
    assert (await store.load_added("x"))[0] == b"row"


@pytest.mark.parametrize(
    ("code", "remedy"),
    [
        *((errno.EACCES, "permission"), (errno.EROFS, "writable"), (errno.EDQUOT, "quota")),
        *((errno.EISDIR, "remove the directory"), (errno.EIO, "")),
    ],
)
def test_refusals_of_the_file_system_have_remedies(code: int, remedy: str) -> None:
    problem = file_problem("cannot be written", Path("/x/y"), OSError(code, "text"))
    assert problem.where == "/x/y"
    assert remedy in problem.remedy
