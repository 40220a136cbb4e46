"""`tonnage node --dump`: the agent's answer as JSON, or what is wrong and what to do."""

from __future__ import annotations

import json
import shutil
import socket
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from support.deadlines import join
from tonnage.adapters.agent_socket import SOCKET
from tonnage.agent.board import NodeBoard
from tonnage.agent.dump import VERSION, dump_of
from tonnage.agent.options import STATE
from tonnage.cli.main import run
from tonnage.twin.clock import VirtualClock


@pytest.fixture
def root() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    (folder / STATE).mkdir(parents=True)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def answering(root: Path, answer: bytes) -> Iterator[None]:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / STATE / SOCKET))
        listening.listen()

        def serve() -> None:
            try:
                connection, _ = listening.accept()
            except OSError:  # nobody came
                return
            with connection:
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            join(thread)


def asked(root: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    status = run(["node", "--root", str(root), "--dump"], "tonnage")
    out, err = capsys.readouterr()
    return status, out, err


def test_the_dump_is_printed_whole(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clock = VirtualClock()
    text = dump_of(NodeBoard.blank(clock), clock, node="a", agent="1")
    with answering(root, text):
        status, out, err = asked(root, capsys)
    assert (status, json.loads(out), err) == (0, json.loads(text), "")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        pytest.param(b"", ("the agent's answer is empty", "try again"), id="nothing"),
        pytest.param(b"hello", ("is not an agent of Tonnage", "ss -xlp"), id="no JSON"),
        pytest.param(b'{"kind": "Pod"}', ("is not an agent of Tonnage", "ss -xlp"), id="other JSON"),
        pytest.param(b'{"version": true}', ("is not an agent of Tonnage", "ss -xlp"), id="no number"),
        pytest.param(
            json.dumps({"version": VERSION + 1, "agent": "9.0"}).encode(),
            (
                f"of version {VERSION + 1}, and this tonnage reads {VERSION}",
                "the agent is 9.0",
                "kubectl exec",
            ),
            id="another version",
        ),
    ],
)
def test_what_cannot_be_read_is_said_with_what_to_do(
    root: Path, capsys: pytest.CaptureFixture[str], answer: bytes, words: tuple[str, ...]
) -> None:
    with answering(root, answer):
        status, out, err = asked(root, capsys)
    assert (status, out) == (3, "")
    assert [word for word in (*words, str(root / STATE / SOCKET)) if word not in err] == []


def test_no_agent_and_no_node_name_are_needed_to_be_told(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status, _, err = asked(root, capsys)
    assert (status, "no agent answers on this node" in err) == (3, True)
