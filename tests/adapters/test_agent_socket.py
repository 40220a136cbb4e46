"""The agent's socket: for its user and root alone, bounded both ways, and every failure says what to do."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import shutil
import socket
import stat
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from support.deadlines import join
from support.looking import until
from tonnage.adapters import agent_socket
from tonnage.adapters.agent_socket import MAX_BYTES, SOCKET, AgentSocket, ask_agent
from tonnage.model.errors import HardwareError, Problem

DOCUMENT = b"x" * (3 << 20)
"""More than a socket's buffers take at once."""


@pytest.fixture
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    yield path
    shutil.rmtree(path)


@asynccontextmanager
async def serving(file: Path, document: bytes = DOCUMENT) -> AsyncIterator[None]:
    async def made() -> bytes:
        return document

    task = asyncio.create_task(AgentSocket(file, made).run())
    await until(lambda: os.path.lexists(file) or task.done())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def asked(file: Path) -> bytes:
    return await asyncio.to_thread(ask_agent, file)


@contextmanager
def pretending(file: Path, answer: bytes | None) -> Iterator[None]:
    """Somebody listens there who sends this and closes; None: who says nothing."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(file))
        listening.listen()

        def serve() -> None:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                try:
                    if answer is None:
                        connection.recv(1)
                    else:
                        connection.sendall(answer)
                except OSError:
                    return

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            join(thread)


def refusal(file: Path, patience_s: float = 10.0) -> Problem:
    with pytest.raises(HardwareError) as caught:
        ask_agent(file, patience_s=patience_s)
    (problem,) = caught.value.problems
    assert problem.where == str(file)
    return problem


async def test_who_asks_gets_all_of_it_however_often_and_however_long_the_path(folder: Path) -> None:
    deep = folder.joinpath(*["a-folder-with-a-long-name"] * 6)
    deep.mkdir(parents=True)
    async with serving(deep / SOCKET):
        assert [await asked(deep / SOCKET) for _ in range(6)] == [DOCUMENT] * 6
    assert list(deep.iterdir()) == []


async def test_nobody_else_may_connect(folder: Path) -> None:
    async with serving(folder / SOCKET):
        mode = (folder / SOCKET).stat().st_mode
    assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)


async def test_what_a_killed_agent_left_is_in_nobodys_way(folder: Path) -> None:
    for name in (SOCKET, f".{SOCKET}"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(folder / name))
    assert refusal(folder / SOCKET).what == "no agent answers on this node"
    async with asyncio.timeout(60):
        async with serving(folder / SOCKET, b"new"):
            while True:
                try:
                    assert await asked(folder / SOCKET) == b"new"
                    break
                except HardwareError:
                    await asyncio.sleep(0.01)


async def test_who_does_not_read_keeps_nobody_waiting_for_long(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agent_socket, "_PATIENCE_S", 0.2)
    async with serving(folder / SOCKET):
        idle = [socket.socket(socket.AF_UNIX) for _ in range(4)]
        for each in idle:
            each.connect(str(folder / SOCKET))
        async with asyncio.timeout(60):
            while await asked(folder / SOCKET) != DOCUMENT:  # noqa: ASYNC110 - as long as four are served
                await asyncio.sleep(0.02)
        for each in idle:
            each.close()


async def test_what_is_too_large_is_not_sent(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with serving(folder / SOCKET, b"x" * (MAX_BYTES + 1)):
        assert await asked(folder / SOCKET) == b""
    assert "answer too large" in caplog.text


async def test_a_folder_that_takes_no_socket_is_logged_and_ends_nobody(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def never() -> bytes:
        raise AssertionError

    await AgentSocket(folder / "not-there" / SOCKET, never).run()
    assert "agent cannot be queried" in caplog.text


def test_without_an_agent_it_is_said_what_to_do(folder: Path) -> None:
    assert "--root" in refusal(folder / SOCKET).remedy
    assert "--root" in refusal(folder / "not-there" / SOCKET).remedy
    (folder / "file").touch()
    assert "--root" in refusal(folder / "file" / SOCKET).remedy


def test_an_agent_that_hangs_is_waited_for_no_longer_than_that(folder: Path) -> None:
    with pretending(folder / SOCKET, None):
        problem = refusal(folder / SOCKET, patience_s=0.1)
    assert (problem.what, problem.why) == ("the agent does not answer", "it has not answered for 0.1 s")
    assert "log" in problem.remedy


def test_no_more_is_read_than_an_agent_sends(folder: Path) -> None:
    with pretending(folder / SOCKET, b"x" * (MAX_BYTES + 1)):
        assert refusal(folder / SOCKET).why == "it is longer than 16 MiB"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a program as another user")
def test_another_users_socket_is_not_believed(folder: Path) -> None:
    folder.chmod(0o777)
    forking = multiprocessing.get_context("fork")  # the interpreter itself may lie where others cannot go
    listens = forking.Event()

    def listen() -> None:
        os.setuid(65534)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(folder / SOCKET))
            listening.listen()
            listens.set()
            connection, _ = listening.accept()
            connection.recv(1)

    other = forking.Process(target=listen)
    other.start()
    try:
        assert listens.wait(60)
        assert refusal(folder / SOCKET).what == "the agent's socket is another user's"
    finally:
        other.kill()
        join(other)
