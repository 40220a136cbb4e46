"""Containers that try to take the machine down: loops, texts, files, archives and logs without end."""

from __future__ import annotations

import asyncio
import gzip
import io
import tarfile
from collections.abc import AsyncIterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.kubelet.containers.environment import ConfigurationError, expand
from tonnage.twin.kubelet.containers.files import FileError, FileTree, MemoryVolume, Space
from tonnage.twin.kubelet.containers.logs import LIMIT_BYTES, ContainerLog
from tonnage.twin.kubelet.containers.runtime import PretendedRuntime
from tonnage.twin.kubelet.containers.runtime_port import ContainerStart, RunningContainer
from tonnage.twin.kubelet.programs.image_programs import Programs
from tonnage.wire.objects import Container, ObjectMeta, Pod

pytestmark = pytest.mark.long

TOO_LONG: Final = "Argument list too long\n"


class Streams:
    """Those of one command; what it says is kept up to a bound, so that a test fails and does not hang."""

    def __init__(self, given: bytes = b"") -> None:
        self._given = given
        self.said = bytearray()

    async def read(self) -> bytes:
        data, self._given = self._given, b""
        return data

    def write(self, data: bytes) -> None:
        assert len(self.said) < 64 << 20, "no end of output"
        self.said += data

    def write_error(self, data: bytes) -> None:
        self.write(data)


class Node:
    """A runtime on a clock that stands still."""

    def __init__(self, root: Path) -> None:
        self.clock = VirtualClock(settle_passes=20)
        self._uids = count()
        self.runtime = PretendedRuntime(
            "n", root, self.clock, Programs(), ScenarioBackend(root / "none", self.clock)
        )

    def start(self, *argv: str, uid: str = "", attempt: int = 0) -> RunningContainer:
        pod = Pod(metadata=ObjectMeta(name="web", namespace="default", uid=uid or f"uid-{next(self._uids)}"))
        container = Container(name="main", image="busybox", command=list(argv))
        return self.runtime.start(ContainerStart(pod, container, attempt, argv, {}, _no_injection()))

    async def run(self, *argv: str, given: bytes = b"") -> tuple[int, str]:
        """Exit status and output of a command in a container that sleeps; its turns cost no time."""
        streams = Streams(given)
        running = asyncio.ensure_future(
            self.runtime.execute(self.start("sleep", "infinity"), argv, streams, interactive=False)
        )
        async with asyncio.timeout(60):
            while not running.done():
                await self.clock.advance(10)
        return await running, bytes(streams.said).decode(errors="replace")


def _no_injection() -> Any:
    from tonnage.twin.kubelet.containers.runtime_port import PluginInjection

    return PluginInjection()


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    one = Node(tmp_path)
    yield one
    await one.runtime.shutdown()


@pytest.mark.parametrize(
    "script",
    [
        "while :; do :; done",
        "while true; do true; done",
        "while true; do echo; done",
        "while ; do ; done",
        "while true; do seq 1 100000; done",
        "while true; do seq 1 100000 > /tmp/a; done",
    ],
)
async def test_a_loop_without_end_waits_for_its_turn(node: Node, script: str) -> None:
    """On a clock that stands still it stops; a loop that only let others run now and then would not."""
    container = node.start("sh", "-c", script)
    async with asyncio.timeout(60):
        while not node.clock._sleepers:  # noqa: ASYNC110 - it is the question whether it ever sleeps
            await asyncio.sleep(0)
    assert container.running


async def test_an_idle_loop_has_as_much_as_it_needs(node: Node) -> None:
    container = node.start("sh", "-c", "while true; do echo x; sleep 1; done")
    await node.clock.advance(6_000)
    assert 5_990 <= container.log.end <= 6_001


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        pytest.param(["ls", "/dev/" + "*" * 30 + "Z"], 2, None, id="many stars"),
        pytest.param(["seq", "1", "9" * 4000], 1, None, id="a number of 4,000 digits"),
        pytest.param(["date", "+" + "%A" * 100_000], 1, None, id="a date of a megabyte"),
        pytest.param(["date", "+\x00"], 1, None, id="a date of no text"),
        pytest.param(["grep", "a" * 1000, "/etc"], 2, None, id="a long pattern"),
        pytest.param(["grep", "-E", "(((a{1000}){1000}){1000})", "/dev/null"], 2, None, id="a large pattern"),
    ],
)
async def test_a_command_ends(node: Node, argv: list[str], code: int, said: str | None) -> None:
    found, output = await node.run(*argv)
    assert found == code
    assert output == said if said is not None else len(output) < 10_000


@pytest.mark.parametrize(
    ("script", "code", "last"),
    [
        pytest.param("A=xx; " + "A=$A$A; " * 40 + "echo end", 0, "end\n", id="a text that doubles itself"),
        pytest.param("A=x; " + 'A="$A$A"; ' * 40 + "echo end", 0, "end\n", id="the same in quotes"),
        pytest.param("A=xx; " + "export A=$A$A; " * 40 + "echo end", 0, "end\n", id="the same, exported"),
        pytest.param(
            "A=$(seq 1 20000); " + "".join(f"A{i}=$A; " for i in range(40)) + "echo end",
            0,
            "end\n",
            id="many",
        ),
        pytest.param(
            "seq 1 100000 > /tmp/a; echo $(cat /tmp/a)" + "$(cat /tmp/a)" * 9, 126, TOO_LONG, id="a word"
        ),
        pytest.param("if true; then " * 200 + "echo" + "; fi" * 200, 127, None, id="nested commands"),
        pytest.param("echo " + "$(echo " * 60 + ")" * 60, 2, None, id="nested substitutions"),
        pytest.param("echo " + "a" * (1 << 20), 127, None, id="a long script"),
        pytest.param("echo " + "$" * 60_000 + " | grep -q x; echo end", 0, "end\n", id="many dollars"),
        pytest.param("echo " + "a " * 30_000 + " | grep -q b; echo end", 0, "end\n", id="many words"),
    ],
)
async def test_a_script_takes_no_more_than_a_program_can_be_given(
    node: Node, script: str, code: int, last: str | None
) -> None:
    found, output = await node.run("sh", "-c", script)
    assert found == code
    assert output.endswith(last) if last is not None else len(output) < 10_000


async def test_a_script_that_runs_itself_ends(node: Node) -> None:
    script = 'export A=\'sh -c "$A"; sh -c "$A"\'; sh -c "$A"'
    code, output = await node.run("sh", "-c", script)
    assert code == 2
    assert "nested too deeply" in output


def test_variables_that_double_each_other_are_refused() -> None:
    variables = {"A0": "x" * 100}
    for number in range(10):
        variables[f"A{number + 1}"] = expand(f"$(A{number})$(A{number})", variables)
    with pytest.raises(ConfigurationError, match="argument list too long"):
        expand("$(A10)$(A10)", variables)
    with pytest.raises(ConfigurationError, match="argument list too long"):
        expand("$(A1)" * 100_000, variables)


def _compressed() -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        entry = tarfile.TarInfo("file")
        entry.size = 4 << 20
        archive.addfile(entry, io.BytesIO(bytes(entry.size)))
    return gzip.compress(packed.getvalue())


def _with_a_hole() -> bytes:
    entry = tarfile.TarInfo("file")
    entry.pax_headers = {
        "GNU.sparse.major": "0",
        "GNU.sparse.minor": "1",
        "GNU.sparse.map": "0,0",
        "GNU.sparse.size": str(1 << 40),
    }
    return entry.tobuf(tarfile.PAX_FORMAT) + bytes(1024)


@pytest.mark.parametrize(
    "archive", [_compressed(), _with_a_hole()], ids=["compressed", "a hole of a tebibyte"]
)
async def test_an_archive_is_no_larger_than_it_looks(node: Node, archive: bytes) -> None:
    code, output = await node.run("tar", "xf", "-", "-C", "/tmp", given=archive)
    assert code == 2
    assert len(output) < 1000


def _fill(volume: MemoryVolume) -> None:
    for number in range(30_000, 40_000):
        volume.put(str(number), b"")


async def test_files_without_end_fill_a_volume_not_the_machine() -> None:
    volume, tree = MemoryVolume(), FileTree()
    for number in range(30_000):
        volume.put(str(number), b"")
    with pytest.raises(FileError, match="No space left on device"):
        _fill(volume)
    with pytest.raises(FileError, match="File name too long"):
        await tree.write("/tmp/" + "x" * 5000, b"")


def test_all_volumes_of_a_node_have_one_end() -> None:
    space = Space(20 << 20, Space(25 << 20))
    volumes = [MemoryVolume(space=space) for _ in range(4)]
    for volume in volumes[:2]:
        volume.put("file", bytes(7 << 20))
    with pytest.raises(FileError, match="No space left on device"):
        volumes[2].put("file", bytes(7 << 20))
    assert [len(volume.held) for volume in volumes] == [1, 1, 0, 0]
    volumes[0].put("file", b"")
    volumes[1].clear()
    volumes[2].put("file", bytes(7 << 20))


@pytest.mark.parametrize("text", [b"\n", b"x" * (64 << 10)], ids=["empty lines", "no line at all"])
def test_a_log_takes_what_it_says_it_takes(text: bytes) -> None:
    log = ContainerLog(VirtualClock().now)
    for _ in range(200_000 if len(text) == 1 else 400):
        log.write("stdout", text)
    lines = log.since(0)
    assert sum(len(line.text) + 128 for line in lines) <= LIMIT_BYTES
    assert len(lines) < 100_000


def test_logs_share_the_room_of_their_node() -> None:
    space = Space(1 << 20)
    first, second = (ContainerLog(VirtualClock().now, space) for _ in range(2))
    for _ in range(20_000):
        first.write("stdout", b"x" * 100 + b"\n")
    second.write("stdout", b"late\n")
    first.write("stdout", b"last\n")
    assert first.since(0)[-1].text == b"last\n"
    first.forget()
    second.write("stdout", b"now\n")
    assert second.since(0)[-1].text == b"now\n"


async def test_containers_that_end_again_and_again_leave_two_behind(node: Node) -> None:
    for attempt in range(20):
        container = node.start("sh", "-c", "echo x", uid="uid-again", attempt=attempt)
        await container.exited.wait()
    assert [one.config.attempt for one in node.runtime.containers("uid-again")] == [18, 19]
