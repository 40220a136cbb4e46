"""Programs of pretended containers: the shell, small commands, programs that are wired in (RUN-2, RUN-4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.program_node import Memory, Node
from tonnage.twin.kubelet.containers.runtime_port import (
    ContainerContext,
    ExecError,
    ImageError,
)
from tonnage.twin.platform import AGENT_IMAGE


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
    assert ("the twin's shell does not know this: " in log) == (script != "python train.py")


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
        pytest.param(
            ("bash", "-c", "f() { echo; }"), 127, "the twin's shell does not know this", id="grammar"
        ),
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
        "head: the twin takes a number of lines (not ‘x’) and at most one file\n",
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
