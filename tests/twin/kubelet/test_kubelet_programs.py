"""Programs of pretended containers: the shell, small commands, nvidia-smi (RUN-2, RUN-4, SHR-2)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tonnage.adapters.cdi.driver_files import find_driver_files
from tonnage.twin.clock import VirtualClock
from tonnage.twin.devices.driver_files import install_driver
from tonnage.twin.devices.scenario import ScenarioBackend
from tonnage.twin.kubelet.containers.runtime import PretendedRuntime
from tonnage.twin.kubelet.containers.runtime_port import (
    ContainerContext,
    ContainerStart,
    ExecError,
    ImageError,
    PluginInjection,
    Program,
    RunningContainer,
)
from tonnage.twin.kubelet.programs.program_table import Programs
from tonnage.twin.platform import AGENT_IMAGE
from tonnage.wire.objects import Container, ObjectMeta, Pod

TWO = "GPU-6a1f,GPU-77c2"
HARDWARE = """\
driverVersion: "570.124.06"
cudaVersion: "12.8"
devices:
- {uuid: GPU-6a1f, model: A100-40, memoryUsedMib: 1024, utilizationPercent: 40, temperatureC: 51}
- {uuid: GPU-77c2, model: T4}
- {uuid: GPU-0000, model: T4}
"""


class Memory:
    """Streams of one command."""

    def __init__(self, given: bytes = b"") -> None:
        self._given = [given] if given else []
        self.out = b""
        self.err = b""

    async def read(self) -> bytes:
        return self._given.pop() if self._given else b""

    def write(self, data: bytes) -> None:
        self.out += data

    def write_error(self, data: bytes) -> None:
        self.err += data


class Node:
    """A runtime with one container to execute commands in."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.clock = VirtualClock()
        self.uids = count()
        self.runtime = self.runtime_with({})
        (root / "hardware.yaml").write_text(HARDWARE)

    def runtime_with(self, programs: Mapping[str, Program]) -> PretendedRuntime:
        devices = ScenarioBackend(self.root / "hardware.yaml", self.clock)
        return PretendedRuntime("a100-0", self.root, self.clock, Programs(programs), devices)

    def start(
        self, *argv: str, visible: str = "", mounts: tuple[str, ...] = (), image: str = "ubuntu:24.04"
    ) -> RunningContainer:
        pod = Pod(metadata=ObjectMeta(name="web", namespace="default", uid=f"uid-{next(self.uids)}"))
        container = Container(name="main", image=image, command=list(argv))
        variables = {"NVIDIA_VISIBLE_DEVICES": visible} if visible else {}
        injection = PluginInjection(variables, mounts=mounts)
        env = {"HOSTNAME": "web", "GREETING": "hello", **injection.env}
        return self.runtime.start(ContainerStart(pod, container, 0, argv, env, injection))

    async def run(
        self, *argv: str, visible: str = "", given: bytes = b"", mounts: tuple[str, ...] = ()
    ) -> tuple[int, str, str]:
        """Exit code, standard output and error of a command executed in a container that sleeps."""
        stdio = Memory(given)
        container = self.start("sleep", "infinity", visible=visible, mounts=mounts)
        code = await self.runtime.execute(container, argv, stdio, interactive=False)
        return code, stdio.out.decode(), stdio.err.decode()

    async def main(self, *argv: str, **options: Any) -> tuple[int | None, str]:
        """Exit code (None while it runs) and log of a command that is a container's own."""
        container = self.start(*argv, **options)
        await self.clock.settle()
        return container.exit_code, b"".join(line.text for line in container.log.since(0)).decode()


@pytest.fixture
async def node(tmp_path: Path) -> Any:
    one = Node(tmp_path)
    yield one
    await one.runtime.shutdown()


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        pytest.param("echo one; echo two", (0, "one\ntwo\n"), id="a list"),
        pytest.param("true && echo yes || echo no", (0, "yes\n"), id="and, or"),
        pytest.param("false && echo yes || echo no", (0, "no\n"), id="or after false"),
        pytest.param("exit 3; echo never", (3, ""), id="exit"),
        pytest.param("A=1; B=$A$A; echo \"$B ${C:-none}\" '$B'", (0, "11 none $B\n"), id="variables, quotes"),
        pytest.param("echo $GREETING $((2 + 3 * 4 % 5))", (0, "hello 4\n"), id="environment, arithmetic"),
        pytest.param("printenv 0 || echo none", (0, "none\n"), id="arguments are no variables of programs"),
        pytest.param(
            "if false; then echo a; elif [ 2 -gt 1 ]; then echo b; else echo c; fi", (0, "b\n"), id="if"
        ),
        pytest.param("seq 5 | grep -v 3 | tail -n 2 | head -1", (0, "4\n"), id="pipes"),
        pytest.param("echo a.b > /f; echo Ab >> /f; grep -i A.B /f", (0, "a.b\n"), id="grep of a file"),
        pytest.param("seq 12 | grep -E '^1(1|2)$' | tail -n1", (0, "12\n"), id="grep, tail"),
        pytest.param("echo 'a(b' | grep -F '(b'; echo aXb | grep -F a.b", (1, "a(b\n"), id="grep of a text"),
        pytest.param("echo a | grep -q b; echo $?; echo a | grep -q a", (0, "1\n"), id="grep of nothing"),
        pytest.param("N=$(seq 3 | tail -n 1); echo $N", (0, "3\n"), id="command substitution"),
        pytest.param("echo hidden > /dev/null; echo shown # a comment", (0, "shown\n"), id="redirection"),
        pytest.param("! true; echo $?", (0, "1\n"), id="negation"),
        pytest.param("X=0; while [ $X -lt 3 ]; do X=$((X+1)); done; echo $X", (0, "3\n"), id="while"),
        pytest.param("exec echo last; echo never", (0, "last\n"), id="exec"),
        pytest.param("cd /tmp; touch /tmp/b /tmp/a; echo /tmp/*", (0, "/tmp/a /tmp/b\n"), id="stars"),
        pytest.param("echo /tmp/no*ne '*' \"*\"", (0, "/tmp/no*ne * *\n"), id="stars that match nothing"),
        pytest.param("ls /dev/pt*", (0, "/dev/ptmx\n/dev/pts\n"), id="stars of device nodes"),
    ],
)
async def test_the_shell_runs_what_it_knows(node: Node, script: str, expected: tuple[int, str]) -> None:
    assert (await node.run("bash", "-c", script))[:2] == expected
    assert await node.main("bash", "-c", script) == expected


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("python train.py", id="a command that is not known"),
        pytest.param("f() { echo; }; f", id="a function"),
        pytest.param("cat <<EOF\nx\nEOF", id="a here-document"),
        pytest.param("sleep 1 &", id="a background job"),
        pytest.param("case x in x) echo;; esac", id="case"),
        pytest.param("for x in a b; do echo $x; done", id="for"),
        pytest.param("[[ -n a ]]", id="[["),
    ],
)
async def test_a_containers_script_beyond_that_is_pretended_and_says_so_once(node: Node, script: str) -> None:
    code, log = await node.main("bash", "-c", script)
    assert code is None
    assert log.startswith("pretended by the twin, not run: bash -c ")
    assert log.count("\n") == 1
    assert ("not known to the twin's shell: " in log) == (script != "python train.py")


async def test_the_documents_inference_loop_queries_its_device(node: Node) -> None:
    """SHR-2: the worker of the inference lab. RUN-5: it answers, and goes on."""
    script = (
        "# Simulate inference workload with periodic GPU compute bursts.\n"
        "apt-get update -qq && apt-get install -y -qq cuda-demo-suite-12-5 2>/dev/null\n"
        "while true; do\n  /usr/local/cuda-12.5/extras/demo_suite/deviceQuery\n"
        "  sleep $((RANDOM % 5 + 1))\ndone\n"
    )
    code, log = await node.main("bash", "-c", script, visible="GPU-77c2")
    assert code is None
    assert 'Device 0: "Tesla T4"' in log
    assert log.endswith("CUDA Runtime Version = 12.5, NumDevs = 1, Device0 = Tesla T4\nResult = PASS\n")


async def test_a_loop_sleeps_by_the_clock(node: Node) -> None:
    container = node.start("bash", "-c", "while true; do date +%s; sleep 10; done")
    await node.clock.advance(25)
    assert [int(line.text) - 1767225600 for line in container.log.since(0)] == [0, 10, 20]


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        pytest.param(
            ("bash", "-c", "nosuch"), 127, "bash: line 1: nosuch: command not found", id="in a shell"
        ),
        pytest.param(("bash", "-c", "f() { echo; }"), 127, "not known to the twin's shell", id="grammar"),
        pytest.param(("cat", "/etc/hosts"), 1, "/etc/hosts: No such file or directory", id="a file"),
        pytest.param(("sleep", "abc"), 1, "invalid time interval", id="no number"),
        pytest.param(("ls", "/nowhere"), 2, "cannot access '/nowhere'", id="a folder"),
    ],
)
async def test_a_person_is_told_what_does_not_work(
    node: Node, argv: tuple[str, ...], code: int, words: str
) -> None:
    got, _, err = await node.run(*argv)
    assert got == code
    assert words in err


async def test_a_file_can_be_followed(node: Node) -> None:
    assert await node.main("tail", "-f", "/dev/null") == (None, "")
    follower = node.start("bash", "-c", "echo one > /log; tail -f /log")
    await node.clock.settle()
    await node.runtime.execute(follower, ["sh", "-c", "echo two >> /log"], Memory(b""), interactive=False)
    await node.clock.advance(1)
    assert [line.text for line in follower.log.since(0)] == [b"one\n", b"two\n"]


async def test_a_filter_used_otherwise_says_so(node: Node) -> None:
    assert await node.run("grep", "-P", "a") == (2, "", "grep: option -P not recognized\n")
    assert await node.run("grep", "(", "-E") == (2, "", "grep: Invalid regular expression\n")
    assert await node.run("head", "-n", "x") == (
        2,
        "",
        "head: only a number of lines (not ‘x’) and at most one file are known here\n",
    )


async def test_an_unknown_command_cannot_be_executed(node: Node) -> None:
    with pytest.raises(ExecError, match=r'exec: "nosuch": executable file not found in \$PATH'):
        await node.run("nosuch")
    with pytest.raises(ExecError, match="stat /opt/x: no such file or directory"):
        await node.run("/opt/x")


async def test_images_have_their_own_commands(node: Node) -> None:
    assert (await node.main(image="ubuntu:24.04"))[0] == 0
    code, log = await node.main(image="nginx")
    assert (code, log) == (None, "pretended by the twin, not run: the server of image nginx\n")


async def test_a_wired_in_programs_crash_is_its_containers(tmp_path: Path) -> None:
    async def broken(context: ContainerContext) -> int:
        raise ValueError(f"no config on {context.node_name}")

    node = Node(tmp_path)
    node.runtime = node.runtime_with({AGENT_IMAGE: broken})
    assert await node.main(image=f"{AGENT_IMAGE}:dev") == (1, ": no config on a100-0\n")


async def test_the_image_of_a_wired_in_program_lies_on_every_node(tmp_path: Path) -> None:
    """No registry can carry it: its name resolves nowhere, so that nobody else's image comes in its place."""

    async def ended(_context: ContainerContext) -> int:
        return 0

    runtime = Node(tmp_path).runtime_with({AGENT_IMAGE: ended})
    assert AGENT_IMAGE.partition("/")[0].endswith(".invalid")
    assert await runtime.pull(f"{AGENT_IMAGE}:dev") > 0
    with pytest.raises(ImageError, match="no such host"):
        await runtime.pull("tonnage.invalid/other")


# nvidia-smi


async def test_without_injected_devices_there_is_no_nvidia_smi(node: Node) -> None:
    """RUN-2."""
    with pytest.raises(ExecError, match="executable file not found"):
        await node.run("nvidia-smi")
    assert (await node.run("bash", "-c", "nvidia-smi"))[0] == 127


async def test_the_documents_query_shows_the_injected_devices_only(node: Node) -> None:
    """SHR-2, task 3."""
    asked = ("nvidia-smi", "--query-gpu=gpu_name,gpu_uuid,memory.total", "--format=csv,noheader")
    assert await node.run(*asked, visible=TWO) == (
        0,
        "NVIDIA A100-SXM4-40GB, GPU-6a1f, 40960 MiB\nTesla T4, GPU-77c2, 15360 MiB\n",
        "",
    )


async def test_a_query_with_header_and_units(node: Node) -> None:
    asked = ("nvidia-smi", "--query-gpu=utilization.gpu,utilization.memory,memory.used", "--format=csv")
    assert (await node.run(*asked, visible="GPU-6a1f"))[1] == (
        "utilization.gpu [%], utilization.memory [%], memory.used [MiB]\n40 %, 20 %, 1024 MiB\n"
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        pytest.param("index,count", "0, 2\n1, 2\n", id="index and count are the container's own"),
        pytest.param("memory.free", "39936\n15360\n", id="free memory"),
        pytest.param("temperature.gpu,driver_version", "51, 570.124.06\n35, 570.124.06\n", id="temperature"),
        pytest.param("mig.mode.current", "Disabled\n[N/A]\n", id="MIG mode, where the model has one"),
        pytest.param("compute_cap", "8.0\n7.5\n", id="compute capability"),
        pytest.param("timestamp", "2026/01/01 00:00:00.000\n2026/01/01 00:00:00.000\n", id="time"),
    ],
)
async def test_fields_without_units(node: Node, fields: str, expected: str) -> None:
    asked = ("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    assert (await node.run(*asked, visible=TWO))[:2] == (0, expected)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        pytest.param(
            ("--query-gpu=nme", "--format=csv"), 'Field "nme" is not a valid field to query.', id="field"
        ),
        pytest.param(("--query-gpu=name",), '"--format=" switch is missing', id="no format"),
        pytest.param(("--colour",), "Invalid combination of input arguments", id="no such option"),
    ],
)
async def test_wrong_arguments(node: Node, argv: tuple[str, ...], words: str) -> None:
    code, out, _ = await node.run("nvidia-smi", *argv, visible=TWO)
    assert code == 2
    assert words in out


async def test_the_list(node: Node) -> None:
    assert (await node.run("/usr/bin/nvidia-smi", "-L", visible="GPU-77c2"))[1] == (
        "GPU 0: Tesla T4 (UUID: GPU-77c2)\n"
    )


async def test_the_table_is_aligned(node: Node) -> None:
    code, out, _ = await node.run("nvidia-smi", visible=TWO)
    lines = out.splitlines()[1:]
    assert code == 0
    assert {len(line) for line in lines if line} == {91}
    assert "NVIDIA A100-SXM4-40GB" in out
    assert "1024MiB /  40960MiB" in out


async def test_a_changed_uuid_or_a_lost_device_is_seen_at_once(node: Node) -> None:
    hardware = node.root / "hardware.yaml"
    hardware.write_text(HARDWARE.replace("GPU-6a1f", "GPU-new"))
    lost = (
        "Unable to determine the device handle for GPU GPU-6a1f: GPU is lost.  Reboot the system to recover"
    )
    code, out, _ = await node.run("nvidia-smi", visible="GPU-6a1f")
    assert code == 15
    assert lost in out
    hardware.write_text(HARDWARE.replace("model: A100-40,", "model: A100-40, health: lost,"))
    assert lost in (await node.run("nvidia-smi", "-L", visible="GPU-6a1f"))[1]


async def test_without_a_driver_it_says_so(node: Node) -> None:
    (node.root / "hardware.yaml").unlink()
    code, out, _ = await node.run("nvidia-smi", visible=TWO)
    assert code == 9
    assert "couldn't communicate with the NVIDIA driver" in out


async def test_device_nodes_show_what_was_injected(node: Node) -> None:
    """RUN-4."""
    assert "nvidia" not in (await node.run("ls", "/dev"))[1]
    out = (await node.run("bash", "-c", "ls /dev | grep nvidia", visible="GPU-77c2"))[1]
    assert out.split() == ["nvidia-uvm", "nvidia-uvm-tools", "nvidia1", "nvidiactl"]
    assert (await node.run("ls", "/dev/nvidia1", visible="GPU-77c2"))[1] == "/dev/nvidia1\n"


async def test_files_that_were_mounted_with_a_device_are_there(node: Node) -> None:
    """RUN-4."""
    install_driver(node.root, "570.1")
    install_driver(node.root / "none", "../../x")
    files = find_driver_files(node.root, node.root, "570.1")
    mounts = tuple(path for file in files.libraries for path in (file.path, *file.names))
    folder = "/usr/lib/x86_64-linux-gnu"
    assert (await node.run("ls", folder, mounts=mounts))[1].split() == [
        *("libcuda.so", "libcuda.so.1", "libcuda.so.570.1"),
        *("libnvidia-ml.so.1", "libnvidia-ml.so.570.1"),
    ]
    assert (await node.run("ls", f"{folder}/libcuda.so.1", mounts=mounts))[1] == f"{folder}/libcuda.so.1\n"
    assert (await node.run("ls", "/usr", mounts=mounts))[1] == "lib\n"
    assert (await node.run("ls", "/opt/nothing", mounts=mounts))[0] == 2
    assert not (node.root / "none").exists()


async def test_the_vector_sample_needs_a_device(node: Node) -> None:
    image = "nvcr.io/nvidia/k8s/cuda-sample:vectoradd-cuda12.5.0"
    container = node.start(visible="GPU-6a1f", image=image)
    await asyncio.wait_for(container.exited.wait(), 20)
    assert container.exit_code == 0
    assert container.log.since(0)[-2].text == b"Test PASSED\n"
    code, log = await node.main(image=image)
    assert code == 1
    assert "no CUDA-capable device is detected" in log


async def test_of_a_divided_gpu_a_container_sees_its_own_mig_devices(node: Node) -> None:
    """SCH-7."""
    divided = HARDWARE.replace("memoryUsedMib", "mig: [1g.5gb, 1g.5gb, 3g.20gb], memoryUsedMib")
    (node.root / "hardware.yaml").write_text(divided)
    async with asyncio.timeout(30):
        inventory = await ScenarioBackend(node.root / "hardware.yaml", node.clock).scan()
    mine = inventory.devices[0].migs[1].uuid
    assert await node.run("nvidia-smi", "-L", visible=mine) == (
        0,
        f"GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-6a1f)\n  MIG 1g.5gb          Device  0: (UUID: {mine})\n",
        "",
    )
    asked = ("nvidia-smi", "--query-gpu=mig.mode.current,utilization.gpu", "--format=csv,noheader")
    assert (await node.run(*asked, visible=mine))[1] == "Enabled, [N/A]\n"


# What the documents type (RUN-5)


async def test_the_documents_look_around_in_a_container_ends(node: Node) -> None:
    install_driver(node.root, "570.124.06")
    script = (
        '\n  echo "=== nvidia-smi ==="\n  nvidia-smi\n  echo ""\n'
        '  echo "=== NVIDIA device nodes ==="\n  ls -la /dev/nvidia*\n  echo ""\n'
        '  echo "=== CUDA_VISIBLE_DEVICES ==="\n  echo $CUDA_VISIBLE_DEVICES\n  echo ""\n'
        '  echo "=== NVIDIA libraries mounted ==="\n  ldconfig -p | grep nvidia | head -15\n'
    )
    container = node.start("bash", "-c", script, visible="GPU-77c2")
    await asyncio.wait_for(container.exited.wait(), 20)
    log = b"".join(line.text for line in container.log.since(0)).decode()
    assert container.exit_code == 0
    assert "crw-rw-rw- 1 root root 195,   1 Jan  1 00:00 /dev/nvidia1\n" in log
    assert "crw-rw-rw- 1 root root 195, 255 Jan  1 00:00 /dev/nvidiactl\n" in log
    assert log.endswith("\tlibnvidia-ml.so.1 (libc6,x86-64) => /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1\n")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        pytest.param(("ldconfig", "-p"), "libc.so.6 (libc6,x86-64)", id="the image's own libraries"),
        pytest.param(("lspci",), "02:00.0 3D controller: NVIDIA Corporation [Tesla T4] (rev a1)", id="lspci"),
        pytest.param(("lspci", "-nn"), "[A100-SXM4-40GB] [10de:20b0]", id="lspci with numbers"),
    ],
)
async def test_what_every_container_sees_of_the_machine(
    node: Node, argv: tuple[str, ...], words: str
) -> None:
    code, out, _ = await node.run(*argv)
    assert code == 0
    assert words in out
    assert "libnvidia" not in out


async def test_a_lost_gpu_reads_as_ones_on_the_bus(node: Node) -> None:
    (node.root / "hardware.yaml").write_text(
        HARDWARE.replace("model: A100-40,", "model: A100-40, health: lost,")
    )
    assert "[A100-SXM4-40GB] (rev ff)" in (await node.run("lspci"))[1]


async def test_the_matrix_of_links_names_the_containers_own_gpus(node: Node) -> None:
    links = "links: [{gpus: [0, 1], nvlinks: 12, path: PIX}, {gpus: [1, 2], path: SYS}]\n"
    (node.root / "hardware.yaml").write_text(HARDWARE.replace("GPU-0000,", "GPU-0000, numa: 1,") + links)
    lines = (await node.run("nvidia-smi", "topo", "-m", visible=TWO))[1].splitlines()
    assert lines[1].split("\t")[:3] == ["GPU0", " X ", "NV12"]
    lines = (await node.run("nvidia-smi", "topo", "-m", visible="GPU-77c2,GPU-0000"))[1].splitlines()
    assert lines[0].split("\t")[:4] == ["", "GPU0", "GPU1", "CPU Affinity"]
    assert lines[2].split("\t") == ["GPU1", "SYS", " X ", "N/A", "1", "", "N/A"]
    assert (await node.run("nvidia-smi", "topo", "-m", visible="none,GPU-gone"))[0] == 15


async def test_the_report_of_a_gpu(node: Node) -> None:
    code, out, _ = await node.run("nvidia-smi", "-q", visible="GPU-6a1f")
    assert code == 0
    assert "Attached GPUs                             : 1\nGPU 00000000:01:00.0\n" in out
    assert "    Product Name                          : NVIDIA A100-SXM4-40GB\n" in out
    assert "        Used                              : 1024 MiB\n" in out
    assert {line.index(" : ") for line in out.splitlines() if " : " in line} == {41}


async def test_the_bodies_of_the_benchmark_job_come_to_an_end(node: Node) -> None:
    arguments = ("-benchmark", "-numbodies=1024000", "-iterations=50")
    container = node.start("nbody", *arguments, visible="GPU-77c2")
    await node.clock.advance(6)
    log = b"".join(line.text for line in container.log.since(0)).decode()
    assert container.exit_code == 0
    assert "1024000 bodies, total time for 50 iterations: 5000.000 ms\n" in log
    code, log = await node.main("nbody", *arguments)
    assert (code, "no CUDA-capable device" in log) == (1, True)


@pytest.mark.parametrize("path", ["./vectoradd", "/cuda-samples/vectorAdd", "vectoradd"])
async def test_the_vector_sample_is_run_from_its_folder(node: Node, path: str) -> None:
    assert "Test PASSED\n" in (await node.run(path, visible="GPU-77c2"))[1]


async def test_of_a_divided_gpu_cuda_offers_one_mig_device(node: Node) -> None:
    divided = HARDWARE.replace("memoryUsedMib", "mig: [1g.5gb, 3g.20gb], memoryUsedMib")
    (node.root / "hardware.yaml").write_text(divided)
    inventory = await ScenarioBackend(node.root / "hardware.yaml", node.clock).scan()
    part = inventory.devices[0].migs[0]
    code, out, _ = await node.run("deviceQuery", visible=part.uuid)
    assert code == 0
    assert 'Device 0: "NVIDIA A100-SXM4-40GB MIG 1g.5gb"\n' in out
    assert f" {part.memory_mib} MBytes (" in out
    code, out, _ = await node.run("deviceQuery")
    assert (code, out.splitlines()[-1]) == (1, "Result = FAIL")


async def test_only_the_nodes_root_can_be_entered(node: Node) -> None:
    code, _, error = await node.run("chroot", "/host", "nvidia-smi", "-L")
    assert code == 125
    assert "not the node's root" in error
