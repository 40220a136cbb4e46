"""MPS control daemons as processes: the real adapter over a pretended program."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support.looking import runs, wait_until
from tonnage.adapters.mps import daemon, program
from tonnage.adapters.mps.daemon import ControlDaemons
from tonnage.adapters.mps.files import end_left
from tonnage.adapters.mps.program import ask_program
from tonnage.decide.node.claims.sharing import daemon_name
from tonnage.model.devices.mps import PIPE_VARIABLE, MpsDaemon, MpsDevice
from tonnage.model.errors import HardwareError
from tonnage.model.names import ResourceName
from tonnage.twin.mps_control import MpsProgram

SHARED = ResourceName("nvidia.com/gpu.shared")
TWO = MpsDaemon(SHARED, "/run/mps", 12, (MpsDevice("GPU-0", 1920), MpsDevice("GPU-1", 5120)))
ALL_USERS = replace(TWO, multi_user=True)
OTHER = MpsDaemon(ResourceName("nvidia.com/small"), "/run/mps", 50, (MpsDevice("GPU-2", 0),))


class Node:
    """A root folder with the program, and daemons as an agent runs them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.program = MpsProgram(root)
        self.program.install()
        self.daemons = ControlDaemons(root)
        self.folder = root / "run/mps/nvidia.com/gpu.shared"
        self.pipe = self.folder / "pipe"

    def say(self, command: str) -> str:
        """What the daemon answers to somebody else's command."""
        return ask_program(self.program.path, command, {**os.environ, PIPE_VARIABLE: str(self.pipe)})

    @property
    def pid(self) -> int:
        return int((self.pipe / "nvidia-cuda-mps-control.pid").read_text())

    def words(self) -> list[str]:
        """The daemon's command line."""
        return Path(f"/proc/{self.pid}/cmdline").read_text().split("\0")

    def leave_one(self, seen_as: str = "run") -> subprocess.Popen[bytes]:
        """A daemon with a server that no agent of now started; it may see the folder by another path."""
        self.pipe.mkdir(parents=True, exist_ok=True)
        pipe = self.root / seen_as / self.pipe.relative_to(self.root / "run")
        environment = {**os.environ, PIPE_VARIABLE: str(pipe)}
        left = subprocess.Popen([str(self.program.path), "-f"], env=environment, stdout=subprocess.DEVNULL)
        wait_until((self.pipe / "nvidia-cuda-mps-control.pid").exists)
        self.say("start_server -uid 0")
        server = Path(f"/proc/{self.say('get_server_list')}/comm")
        wait_until(lambda: server.read_text().startswith("nvidia-cuda-mps"))
        return left


def start_and_be_killed(root: Path) -> int:
    """The exit status of a process that starts a daemon and does not survive that."""
    code = f"""if True:
        import asyncio, os, signal
        from pathlib import Path
        from tonnage.adapters.mps.daemon import ControlDaemons
        from tonnage.model.devices.mps import MpsDaemon, MpsDevice
        async def main():
            await ControlDaemons(Path({str(root)!r})).start(
                MpsDaemon("nvidia.com/gpu.shared", "/run/mps", 12, (MpsDevice("GPU-0", 1920),)))
            os.kill(os.getpid(), signal.SIGKILL)
        asyncio.run(main())
    """
    return subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode


@pytest.fixture
def root() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        yield Path(folder)
        for pipe in Path(folder).glob("run/mps/*/*/pipe"):
            end_left(pipe)


@pytest.fixture
async def node(root: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Node]:
    monkeypatch.setattr(program, "_DEADLINE_S", 20.0)  # a busy machine is no daemon that hangs
    monkeypatch.setattr(daemon, "_STEP_S", 30.0)
    made = Node(root)
    yield made
    await made.daemons.close()


async def test_one_server_is_for_all_users_where_that_is_asked_for(node: Node) -> None:
    for wanted, said in ((TWO, False), (ALL_USERS, True)):
        await node.daemons.start(wanted)
        assert ("-multiuser-server" in node.words()) is said
        await node.daemons.stop(wanted)
    assert not TWO.like(ALL_USERS)


async def test_a_daemon_serves_its_own_devices_with_the_limits_of_a_client(node: Node) -> None:
    await node.daemons.start(TWO)
    await node.daemons.ask(TWO)
    assert node.daemons.ended(TWO) == ""
    assert node.say("get_default_active_thread_percentage") == "12.0"
    assert [node.say(f"get_default_device_pinned_mem_limit {n}") for n in (0, 1)] == ["1920M", "5120M"]
    assert "Devices: GPU-0,GPU-1" in (node.folder / "log/control.log").read_text()
    assert (node.folder / ".started").exists()
    pid = node.pid
    await node.daemons.stop(TWO)
    assert not runs(pid)
    assert list(node.pipe.iterdir()) == []
    assert not (node.folder / ".started").exists()
    assert node.daemons.ended(TWO) == "nvidia-cuda-mps-control is not running"


async def test_every_user_gets_at_the_pipes_and_the_shared_memory(node: Node) -> None:
    before = os.umask(0o077)
    try:
        await node.daemons.start(TWO)
    finally:
        os.umask(before)
    folders = [node.folder.parent, node.folder, node.pipe]
    assert [folder.stat().st_mode & 0o7777 for folder in folders] == [0o755] * 3
    assert (node.root / "run/mps/shm").stat().st_mode & 0o7777 == 0o1777


@pytest.mark.parametrize("name", ["nvidia.com", "nvidia.com/gpu.shared/pipe", "shm"])
async def test_a_link_in_the_place_of_a_folder_is_not_followed(node: Node, name: str) -> None:
    """It would be cleared, and made accessible to everybody, as root."""
    precious = node.root / "precious"
    precious.mkdir(mode=0o700)
    (precious / "file").touch()
    link = node.root / "run/mps" / name
    link.parent.mkdir(parents=True)
    link.symlink_to(precious)
    with pytest.raises(HardwareError, match="a folder of MPS is open to other users than root"):
        await node.daemons.start(TWO)
    assert (precious.stat().st_mode & 0o7777, [*precious.iterdir()]) == (0o700, [precious / "file"])


async def test_a_folder_in_which_others_write_serves_nobody(node: Node) -> None:
    """Who can replace the daemon's folder can speak to its clients."""
    (node.root / "run/mps").mkdir(parents=True)
    (node.root / "run/mps").chmod(0o777)
    with pytest.raises(HardwareError, match="/run/mps is writable by others than root") as caught:
        await node.daemons.start(TWO)
    assert "choose another flags.mpsRoot" in str(caught.value)


async def test_the_folders_that_it_makes_are_roots_whatever_the_umask(node: Node) -> None:
    node.root.chmod(0o755)
    before = os.umask(0)
    try:
        await node.daemons.start(TWO)
    finally:
        os.umask(before)
    made = [node.root / "run", node.root / "run/mps", node.folder, node.pipe, node.folder / "log"]
    assert [folder.stat().st_mode & 0o7777 for folder in made] == [0o755] * 5


async def test_two_resources_have_a_daemon_each(node: Node) -> None:
    await asyncio.gather(node.daemons.start(TWO), node.daemons.start(OTHER))
    await node.daemons.stop(TWO)
    await node.daemons.ask(OTHER)


async def test_the_folder_stays_the_same_one_for_containers_that_have_it_mounted(node: Node) -> None:
    await node.daemons.start(TWO)
    inode = node.pipe.stat().st_ino
    await node.daemons.start(TWO)
    await node.daemons.stop(TWO)
    await node.daemons.start(TWO)
    assert node.pipe.stat().st_ino == inode


async def test_the_folder_of_a_claims_daemon_stays_until_the_claim_is_over(node: Node) -> None:
    own = replace(TWO, resource=daemon_name("8a1e", 0))
    await node.daemons.start(own)
    await node.daemons.start(TWO)
    [folder] = (node.root / "run/mps/claim").iterdir()
    assert folder.name == "690ca8efb4da-0"
    inode = (folder / "pipe").stat().st_ino
    await node.daemons.stop(own)  # as an agent does that ends: the claim's containers run on
    assert (folder / "pipe").stat().st_ino == inode
    for _ in range(2):
        await node.daemons.stop(own, over=True)
        assert not folder.exists()
    await node.daemons.ask(TWO)


async def test_a_daemon_that_dies_says_how_at_once(node: Node) -> None:
    told = asyncio.Event()
    node.daemons.watch(told.set)
    await node.daemons.start(TWO)
    os.kill(node.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        await told.wait()
    assert "nvidia-cuda-mps-control has ended; signal 9" in node.daemons.ended(TWO)
    with pytest.raises(HardwareError, match="has ended"):
        await node.daemons.ask(TWO)
    told.clear()
    await node.daemons.start(TWO)
    await node.daemons.ask(TWO)
    await node.daemons.stop(TWO)
    assert not told.is_set(), "its end was ours"


async def test_a_daemon_that_refuses_to_start_is_an_error_with_its_words(node: Node) -> None:
    node.program.fault("refuse")
    with pytest.raises(HardwareError, match="ended at once") as caught:
        await node.daemons.start(TWO)
    assert "Failed to start: the pretended driver refuses" in str(caught.value)
    assert node.daemons.ended(TWO)
    node.program.fault()
    await node.daemons.start(TWO)


async def test_a_daemon_that_is_slow_is_waited_for(node: Node) -> None:
    node.program.fault("slow")
    await node.daemons.start(TWO)
    assert node.say("get_default_active_thread_percentage") == "12.0"


async def test_a_daemon_that_never_answers_does_not_serve_and_does_not_stay(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "_READY_S", 0.5)
    monkeypatch.setattr(program, "_DEADLINE_S", 1.0)
    node.program.fault("deaf")
    with pytest.raises(HardwareError, match=r"nvidia-cuda-mps-control (does not answer|refused)"):
        await node.daemons.start(TWO)
    assert node.daemons.ended(TWO)


async def test_a_daemon_that_does_not_keep_its_limits_must_not_serve(node: Node) -> None:
    node.program.fault("limitless")
    with pytest.raises(HardwareError, match="did not take the limit of 12 % of threads"):
        await node.daemons.start(TWO)
    assert node.daemons.ended(TWO)


async def test_commands_that_hang_are_given_up_and_hold_up_no_other_resource(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    await node.daemons.start(TWO)
    await node.daemons.start(OTHER)
    node.program.fault("hang")
    monkeypatch.setattr(program, "_DEADLINE_S", 1.0)
    asking = asyncio.create_task(node.daemons.ask(TWO))
    ticks = 0
    while not asking.done():
        await asyncio.sleep(0.01)
        ticks += 1
    assert ticks > 3, "whoever waits in a call has one turn"
    with pytest.raises(HardwareError, match="does not answer: get_default_active_thread_percentage"):
        await asking
    node.program.fault()
    monkeypatch.setattr(program, "_DEADLINE_S", 20.0)
    await node.daemons.ask(TWO)
    await node.daemons.ask(OTHER)


async def test_a_daemon_that_does_not_quit_is_killed_with_its_servers(node: Node) -> None:
    node.program.fault("stubborn")
    await node.daemons.start(TWO)
    node.say("start_server -uid 0")
    pids = [node.pid, int(node.say("get_server_list"))]
    await node.daemons.stop(TWO)
    wait_until(lambda: not any(map(runs, pids)))


async def test_what_a_killed_agent_left_is_ended_first(node: Node) -> None:
    left = node.leave_one()
    server = int(node.say("get_server_list"))
    await node.daemons.start(TWO)
    assert left.wait(60) == -signal.SIGKILL
    wait_until(lambda: not runs(server))
    assert node.say("get_default_active_thread_percentage") == "12.0"


async def test_the_end_of_an_agent_without_a_word_is_the_daemons_end(node: Node) -> None:
    assert start_and_be_killed(node.root) == -signal.SIGKILL
    pid = node.pid
    wait_until(lambda: not runs(pid))
    assert (node.pipe / "control").exists()  # the files are left, and no obstacle
    await node.daemons.start(TWO)


async def test_somebody_elses_daemon_is_left_alone_and_named(node: Node) -> None:
    (node.root / "run").mkdir()
    (node.root / "mounted").symlink_to("run")
    left = node.leave_one(seen_as="mounted")
    server = int(node.say("get_server_list"))
    with pytest.raises(HardwareError, match="another MPS control daemon serves this folder") as caught:
        await node.daemons.start(TWO)
    assert "remove NVIDIA's mps-control-daemon" in str(caught.value)
    assert left.poll() is None
    left.kill()
    left.wait(60)
    if runs(server):
        os.kill(server, signal.SIGKILL)


async def test_without_the_program_the_error_says_where_it_comes_from(root: Path) -> None:
    with pytest.raises(HardwareError, match="nvidia-cuda-mps-control is missing") as caught:
        await ControlDaemons(root).start(TWO)
    assert "driver capability compute" in str(caught.value)


async def test_a_path_that_no_socket_can_have_is_refused(node: Node) -> None:
    long = MpsDaemon(SHARED, "/" + "m" * 100, 12, ())
    with pytest.raises(HardwareError, match="a Unix socket's path has at most 107 bytes"):
        await node.daemons.start(long)


async def test_memory_that_clients_would_not_find_is_refused(node: Node) -> None:
    (node.root / "dev/shm").mkdir(parents=True)
    with pytest.raises(HardwareError, match="clients need it for the memory"):
        await node.daemons.start(TWO)
    (node.root / "dev/shm").rmdir()
    (node.root / "dev/shm").symlink_to(node.root / "run/mps/shm")
    await node.daemons.start(TWO)


async def test_a_folder_that_cannot_be_made_is_an_error_with_the_remedy(node: Node) -> None:
    (node.root / "run").write_text("")
    with pytest.raises(HardwareError, match="a folder of MPS cannot be created") as caught:
        await node.daemons.start(TWO)
    assert "mps.root of the chart" in str(caught.value)


async def test_logs_do_not_grow_for_ever(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    await node.daemons.start(TWO)
    with (node.folder / "log/server.log").open("wb") as file:
        file.truncate(5 << 20)
    await node.daemons.ask(TWO)
    assert (node.folder / "log/server.log").stat().st_size == 0
    assert (node.folder / "log/control.log").stat().st_size > 0


async def test_readiness_is_marked_for_who_looks_at_that(node: Node) -> None:
    await node.daemons.start(TWO)
    mark = node.root / "run/mps/.ready"
    await node.daemons.show_ready("/run/mps", ready=True)
    assert mark.exists()
    await node.daemons.show_ready("/run/mps", ready=False)
    await node.daemons.show_ready("/nowhere", ready=False)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("enforced", "labels"), [("1", ["system_u:object_r:container_file_t:s0"]), ("0", [])]
)
async def test_containers_may_use_the_folder_where_selinux_would_forbid_it(
    enforced: str, labels: list[str], node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[str] = []
    (node.root / "sys/fs/selinux").mkdir(parents=True)
    (node.root / "sys/fs/selinux/enforce").write_text(enforced)
    monkeypatch.setattr(os, "getxattr", lambda *_: b"system_u:object_r:var_run_t:s0\0")
    monkeypatch.setattr(os, "setxattr", lambda _path, _name, label: given.append(label.decode()))
    await node.daemons.start(TWO)
    assert given == labels
