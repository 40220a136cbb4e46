"""The program itself: help without imports, exit status, errors as blocks, pipes and signals."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import click
import pytest

from tonnage.cli.main import COMMANDS, program_name, run, tonnage
from tonnage.cli.terminal.failure import render_problem
from tonnage.cli.terminal.output import colour_wanted
from tonnage.model.errors import Bug, ClusterError, ConfigError, HardwareError, Problem

HEAVY = (
    "pydantic",
    "yaml",
    "msgspec",
    "grpc",
    "lightkube",
    "httpx",
    "starlette",
    "cryptography",
    "rich",
    "asyncio",
)


def tonnage_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tonnage", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["stauts"], []], ids=" ".join)
def test_help_and_mistakes_import_nothing_heavy(arguments: list[str]) -> None:
    code = f"""
import sys
from tonnage.cli.main import run
run({arguments!r}, "tonnage")
print(sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert process.stderr.splitlines()[-1] == "[]"


def test_a_cluster_in_the_background_is_started_and_awaited_with_nothing_heavy() -> None:
    code = f"""
import sys
from tonnage.cli.locations.state import Running
from tonnage.cli.main import run
from tonnage.cli.up import detach
detach.start_detached = lambda options, verbose: Running(1, options.scenario, 8, "https://h", "/k", "")
assert run(["up", "--detach", "--nodes", "8"], "tonnage") == 0
print(sorted(set(sys.modules) & set({HEAVY!r})), file=sys.stderr)
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert process.stderr.splitlines()[-1] == "[]"


def test_explaining_a_pod_loads_nothing_that_reads_documents() -> None:
    code = """
import sys
from tonnage.cli.main import run
assert run(["explain", "pod", "p", "--snapshot", "-"], "tonnage") in (0, 1)
print(sorted(set(sys.modules) & {"pydantic", "yaml"}), file=sys.stderr)
"""
    pod = '{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c"}]}}'
    process = subprocess.run(
        [sys.executable, "-c", code], input=pod, capture_output=True, text=True, check=True, timeout=60
    )
    assert process.stderr.splitlines()[-1] == "[]"


def test_every_listed_command_exists_and_says_what_the_table_says() -> None:
    context = click.Context(tonnage)
    for name, (_, text) in COMMANDS.items():
        command = tonnage.get_command(context, name)
        assert command is not None
        assert (command.help or "").splitlines()[0] == text, name


def test_help_lists_exactly_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"], "kubectl gpu") == 0
    shown = capsys.readouterr().out
    assert "Usage: kubectl gpu" in shown
    assert re.findall(r"^  ([a-z]+)  ", shown.partition("Commands:")[2], re.MULTILINE) == list(COMMANDS)


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        pytest.param(["stauts"], "unknown command: stauts; did you mean status?", id="a misspelt command"),
        pytest.param(["xyzzy"], "unknown command: xyzzy\n", id="no command at all"),
        pytest.param(["up", "--scenaro", "x"], "--scenario", id="a misspelt option"),
        pytest.param(["up", "--nodes", "many"], "'many' is not a valid integer", id="a word for a number"),
        pytest.param(["up", "--port", "70000"], "70000", id="no port"),
        pytest.param(["up", "--nodes", "0"], "between 1 and 1000", id="no nodes"),
        pytest.param(
            ["up", "--scenario", "infrence"], "use inference if you meant that", id="a misspelt scenario"
        ),
        pytest.param(["up", "--lab", "addmission"], "use admission if you meant that", id="a misspelt lab"),
        pytest.param(["up", "--lab", "admission", "--detach"], "cannot be combined", id="two ways at once"),
        pytest.param(
            ["lab", "run", "pending"], "use pending-pod if you meant that", id="a misspelt lab to run"
        ),
        pytest.param(["lab", "run"], "NAME", id="a missing argument"),
        pytest.param(["completion", "tcsh"], "tcsh", id="an unknown shell"),
    ],
)
def test_wrong_usage_is_one_block_and_exit_status_2(
    arguments: list[str], found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, "tonnage") == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert found in captured.err
    assert "Traceback" not in captured.err


def test_no_command_shows_the_help_and_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([], "tonnage") == 2
    assert "Commands:" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ConfigError(Problem("w", "file:1:2", "y", "r")), 2),
        (HardwareError(Problem("w")), 3),
        (ClusterError(Problem("w")), 3),
        (Bug(Problem("w")), 70),
        (PermissionError(13, "Permission denied", "/x"), 1),
        (ValueError("odd"), 70),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__,
)
def test_the_exit_status_says_what_kind_of_error(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(tonnage, "main", fail)
    assert run(["status"], "tonnage") == status
    assert "Traceback" not in capsys.readouterr().err


def test_a_traceback_appears_only_when_asked_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ConfigError(Problem("broken"))

    monkeypatch.setattr(tonnage, "main", fail)
    run(["status", "-v"], "tonnage")
    assert "Traceback" in capsys.readouterr().err


def test_every_problem_of_an_error_is_shown() -> None:
    shown = render_problem(Problem("what", "a.yaml:1:2", "why\nmore", "remedy"))
    assert shown == "error: what\n  where: a.yaml:1:2\n  why: why\n    more\n  remedy: remedy"


class Terminal:
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
    ids=str,
)
def test_colour_is_for_terminals_that_want_it(environment: dict[str, str], wanted: bool) -> None:
    assert colour_wanted(Terminal(), environment) is wanted  # type: ignore[arg-type]


def test_a_file_gets_no_colour(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as stream:
        assert not colour_wanted(stream, {})


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/usr/bin/tonnage", "tonnage"),
        ("/usr/bin/kubectl-gpu", "kubectl gpu"),
        ("/x/tonnage/__main__.py", "tonnage"),
    ],
)
def test_the_program_is_called_what_the_person_typed(path: str, name: str) -> None:
    assert program_name(path) == name


def test_a_reader_that_leaves_is_no_error() -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "tonnage", "completion", "bash"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, complaint = process.communicate(timeout=60)
    assert complaint == b""
    assert process.returncode == 141


def test_an_interrupt_ends_quietly_with_130(tmp_path: Path) -> None:
    code = """
import os, signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
from tonnage.cli import main
main.COMMANDS["status"] = ("interrupted", "x")
import sys, types, click
@click.command()
def command(): os.kill(os.getpid(), signal.SIGINT)
module = types.ModuleType("interrupted"); module.command = command
sys.modules["interrupted"] = module
sys.exit(main.run(["status"], "tonnage"))
"""
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert process.returncode == 130
    assert "Traceback" not in process.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_that_calls_back(shell: str) -> None:
    process = tonnage_process("completion", shell)
    assert process.returncode == 0
    assert "_TONNAGE_COMPLETE" in process.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_can_read_its_completion_script(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    script = tonnage_process("completion", shell).stdout
    read = subprocess.run(
        [program, "-n"], input=script, capture_output=True, text=True, check=False, timeout=60
    )
    assert (read.returncode, read.stderr) == (0, "")


def test_fish_splits_a_help_text_at_no_comma_of_its_own() -> None:
    script = tonnage_process("completion", "fish").stdout
    assert 'string split --max 1 "," $completion' in script


_HELP = "Explain why a pod is pending or where it would run, and what keeps pods off a node."


@pytest.mark.parametrize(
    ("shell", "words", "number", "answer"),
    [
        pytest.param("bash", "tonnage ex", "1", "plain,explain\n", id="bash: kind and word"),
        pytest.param("zsh", "tonnage ex", "1", f"plain\nexplain\n{_HELP}\n", id="zsh: kind, word and help"),
        pytest.param(
            "fish", "tonnage ex", "ex", f"plain,explain\t{_HELP}\n", id="fish: the same on one line"
        ),
    ],
)
def test_completion_completes_commands(shell: str, words: str, number: str, answer: str) -> None:
    kind = f"{shell}_complete"
    process = tonnage_process(_TONNAGE_COMPLETE=kind, COMP_WORDS=words, COMP_CWORD=number)
    assert process.stdout == answer


@pytest.mark.parametrize("missing", ["tonnage.cli.up.command", "tonnage.decide.kubernetes.scheduler.fleet"])
def test_a_command_that_an_image_leaves_out_says_so(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where its own module is missing: anything else that is missing is a fault."""

    def absent(name: str) -> NoReturn:
        raise ModuleNotFoundError(name, name=missing)

    monkeypatch.setattr("tonnage.cli.main.importlib.import_module", absent)
    if missing == "tonnage.cli.up.command":
        with pytest.raises(click.UsageError, match="up is not in this image: run it where"):
            tonnage.main(["up"], standalone_mode=False)
    else:
        with pytest.raises(ModuleNotFoundError):
            tonnage.main(["up"], standalone_mode=False)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_completion_script_is_valid_and_comes_without_a_word_beside_it(
    shell: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = shutil.which(shell)
    monkeypatch.setenv("PATH", "/nonexistent")  # where click would miss a bash, and say so
    assert run(["completion", shell], "tonnage") == 0
    written = capsys.readouterr()
    assert written.err == ""
    assert "_TONNAGE_COMPLETE" in written.out
    if program is not None:
        subprocess.run([program, "-n"], input=written.out, text=True, check=True, timeout=60)
