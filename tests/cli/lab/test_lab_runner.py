"""The lab runner over a kubectl of our own: real processes, no cluster, a clock that jumps."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import textwrap
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest

from support.looking import until
from tonnage.cli.lab.checks import Check, Observation, checks_of
from tonnage.cli.lab.environment import Surroundings, surroundings
from tonnage.cli.lab.pause import CLEAN_UP, NEXT_STEP
from tonnage.cli.lab.report import (
    LabReport,
    StepReport,
    render_command,
    render_head,
    render_outcome,
    render_summary,
)
from tonnage.cli.lab.runner import MAX_OUTPUT_BYTES, RunListener, run_lab
from tonnage.documents.lab.steps import Lab, parse_lab

FAKE = textwrap.dedent(
    f"""\
    #!{sys.executable} -IS
    import json, os, pathlib, subprocess, sys, time
    log = pathlib.Path("calls.jsonl")
    args = sys.argv[2:]  # the first says get, which a lab may run
    with log.open("a") as file:
        file.write(json.dumps(args) + "\\n")
    calls = [json.loads(line) for line in log.read_text().splitlines()]
    verb = args[0]
    if verb == "say":
        print(" ".join(args[1:]))
    elif verb == "fail":
        print("refused", file=sys.stderr); sys.exit(int(args[1]))
    elif verb == "third":
        print("ready" if calls.count(args) >= 3 else "waiting")
    elif verb == "environment":
        print(os.environ[args[1]])
    elif verb == "flood":
        sys.stdout.write("x" * (3 << 20))
    elif verb == "value":
        print(pathlib.Path("value").read_text())
    elif verb == "endless":
        while True:
            print("x" * 999)
    elif verb == "leaver":
        left = subprocess.Popen(["/bin/sleep", "600"], start_new_session=True)
        pathlib.Path("left").write_text(str(left.pid))
    elif verb == "hang":
        time.sleep(600)
    """
)


PAUSE_S = 1000.0


class JumpingClock:
    """Sleeping takes no time and moves the clock."""

    def __init__(self) -> None:
        self.time_s = 0.0

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        self.time_s += seconds


class Bench:
    """A folder with the fake kubectl in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.kubectl = folder / "kubectl"
        self.kubectl.write_text(FAKE)
        self.kubectl.chmod(0o755)
        self.heard: list[str] = []
        self.pauses: list[tuple[str, int]] = []

    def lab(self, steps: str, cleanup: str = "[]") -> Lab:
        text = (
            f"name: x\ntitle: X\nscenario: inference\ncovers: [SHR-2]\nsteps: {steps}\ncleanup: {cleanup}\n"
        )
        return parse_lab(text, source="lab.yaml", files=set())

    async def run(self, lab: Lab, *, keep: bool = False) -> LabReport:
        programs = {"kubectl": (str(self.kubectl),), "tonnage": (sys.executable, "-m", "tonnage")}
        environment = {**os.environ, "KUBECONFIG": "/nowhere/kubeconfig"}
        surroundings = Surroundings(self.folder, programs, environment)
        clock = JumpingClock()

        async def pause(prompt: str) -> None:
            self.pauses.append((prompt, len(self.heard)))
            await clock.sleep(PAUSE_S)

        listener = RunListener(after=lambda report: self.heard.append(report.command), pause=pause)
        return await run_lab(lab, surroundings, clock, listener=listener, keep=keep)

    @property
    def calls(self) -> list[list[str]]:
        return [json.loads(line) for line in (self.folder / "calls.jsonl").read_text().splitlines()]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


async def test_steps_run_in_order_and_pass(bench: Bench) -> None:
    lab = bench.lab("[{run: kubectl get say one, expect: {equals: one}}, {run: kubectl get say two}]")
    report = await bench.run(lab)
    assert report.passed
    assert bench.calls == [["say", "one"], ["say", "two"]]
    assert bench.heard == ["kubectl get say one", "kubectl get say two"]


async def test_a_pause_comes_before_each_step_and_before_the_clean_up(bench: Bench) -> None:
    lab = bench.lab(
        "[{run: kubectl get say one}, {run: kubectl get say two}]", "[{run: kubectl get say clean}]"
    )
    report = await bench.run(lab)
    assert bench.pauses == [(NEXT_STEP, 0), (NEXT_STEP, 1), (CLEAN_UP, 2)]
    assert report.duration_s < PAUSE_S


async def test_a_failed_step_stops_the_lab_and_cleaning_up_still_runs(bench: Bench) -> None:
    lab = bench.lab(
        "[{run: kubectl get fail 3}, {run: kubectl get say never}]",
        "[{run: kubectl get fail 1}, {run: kubectl get say clean}]",
    )
    report = await bench.run(lab)
    assert not report.passed
    assert [step.skipped for step in report.steps] == [False, True]
    assert bench.calls == [["fail", "3"], ["fail", "1"], ["say", "clean"]]
    assert [step.passed for step in report.cleanup] == [False, True]


async def test_keep_leaves_everything_as_it_is(bench: Bench) -> None:
    lab = bench.lab("[{run: kubectl get say one}]", "[{run: kubectl get say clean}]")
    report = await bench.run(lab, keep=True)
    assert report.passed
    assert bench.calls == [["say", "one"]]


async def test_an_expectation_is_tried_again_until_it_comes_true(bench: Bench) -> None:
    report = await bench.run(bench.lab("[{run: kubectl get third, expect: {within: 30, equals: ready}}]"))
    assert report.passed
    assert report.steps[0].attempts == 3


async def test_an_expectation_that_never_comes_true_ends_when_its_time_is_up(bench: Bench) -> None:
    report = await bench.run(bench.lab("[{run: kubectl get say no, expect: {within: 2, equals: ready}}]"))
    assert not report.passed
    assert report.steps[0].duration_s == pytest.approx(2)
    assert [check.seen for check in report.steps[0].checks] == ["", "no"]


async def test_a_step_without_a_time_is_tried_once(bench: Bench) -> None:
    report = await bench.run(bench.lab("[{run: kubectl get say no, expect: {equals: ready}}]"))
    assert report.steps[0].attempts == 1


async def test_a_variable_reaches_later_steps_as_one_word(bench: Bench) -> None:
    lab = bench.lab("[{run: \"V=$(kubectl get say 'a; $(id) *')\"}, {run: kubectl get say $V-x}]")
    assert (await bench.run(lab)).passed
    assert bench.calls[1] == ["say", "a; $(id) *-x"]


async def test_a_variable_stands_in_expectations(bench: Bench) -> None:
    said = """{run: "kubectl get say '{\\"n\\":\\"4\\"}'", expect: {contains: ["${V}"], json: {n: "${V}"}}}"""
    other = '{run: kubectl get say 5, expect: {equals: "${V}"}}'
    lab = bench.lab(f"[{{run: V=$(kubectl get say 4)}}, {said}, {other}]")
    report = await bench.run(lab)
    assert [step.passed for step in report.steps] == [True, True, False]


async def test_a_variable_that_gets_no_value_fails_its_step(bench: Bench) -> None:
    report = await bench.run(bench.lab("[{run: V=$(kubectl get say)}, {run: kubectl get say $V}]"))
    assert not report.steps[0].passed
    assert report.steps[1].skipped


async def test_cleaning_up_what_was_never_named_is_left_out(bench: Bench) -> None:
    lab = bench.lab(
        "[{run: kubectl get fail 1}, {run: V=$(kubectl get say a)}]",
        "[{run: kubectl get say $V}, {run: kubectl get say clean}]",
    )
    report = await bench.run(lab)
    assert [step.command for step in report.cleanup] == ["kubectl get say clean"]


async def test_commands_see_the_cluster_of_the_lab_and_no_other(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", "/home/somebody/production")
    lab = bench.lab("[{run: kubectl get environment KUBECONFIG, expect: {equals: /nowhere/kubeconfig}}]")
    assert (await bench.run(lab)).passed


async def test_tonnage_steps_run_this_tonnage(bench: Bench) -> None:
    lab = bench.lab("[{run: tonnage mig plan, expect: {status: 2, contains: [give exactly one of FILE]}}]")
    assert (await bench.run(lab)).passed


async def test_endless_output_is_bounded(bench: Bench) -> None:
    report = await bench.run(bench.lab("[{run: kubectl get flood}]"))
    assert report.passed
    assert len(report.steps[0].stdout) == MAX_OUTPUT_BYTES


async def test_a_command_that_hangs_is_given_up(bench: Bench) -> None:
    report = await bench.run(bench.lab("[{run: kubectl get hang, timeout: 0.5}]"))
    assert not report.passed
    assert "no end after 0.5 s" in report.steps[0].stderr


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("--kubeconfig=/x", id="an option with its value"),
        pytest.param("-ojsonpath-file=/etc/passwd", id="a short option"),
        pytest.param("a\x1b[2J", id="an escape sequence"),
        pytest.param("a\0b", id="a NUL"),
    ],
)
async def test_a_value_that_is_no_value_is_not_run(bench: Bench, value: str) -> None:
    (bench.folder / "value").write_text(value)
    lab = bench.lab("[{run: V=$(kubectl get value)}, {run: kubectl get say $V}]")
    report = await bench.run(lab)
    assert report.steps[1].passed is False
    assert report.steps[1].exit_status is None
    assert bench.calls == [["value"]]


async def test_a_value_is_kept_up_to_a_length(bench: Bench) -> None:
    report = await bench.run(bench.lab("[{run: V=$(kubectl get flood)}, {run: kubectl get say $V}]"))
    assert "at most 4096 are kept" in report.steps[0].checks[-1].seen
    assert report.steps[1].skipped


async def test_a_command_that_prints_for_ever_is_given_up(bench: Bench) -> None:
    report = await bench.run(bench.lab("[{run: kubectl get endless, timeout: 0.5}]"))
    assert "no end after 0.5 s" in report.steps[0].stderr


async def test_whoever_a_command_leaves_behind_is_not_waited_for(bench: Bench) -> None:
    report = await bench.run(bench.lab("[{run: kubectl get leaver, timeout: 0.5}]"))
    assert "no end after 0.5 s" in report.steps[0].stderr
    os.kill(int((bench.folder / "left").read_text()), signal.SIGKILL)


async def test_a_pattern_that_would_search_for_ever_does_not(bench: Bench) -> None:
    lab = bench.lab(f"[{{run: kubectl get say {'a' * 60}b, expect: {{matches: ['^(a+)+$']}}}}]")
    assert not (await bench.run(lab)).passed


async def test_modules_in_the_folder_of_a_lab_are_not_run(bench: Bench, tmp_path: Path) -> None:
    for name in ("click.py", "json.py", "tonnage.py", "sitecustomize.py"):
        (tmp_path / name).write_text("import pathlib\npathlib.Path('ran').touch()\nraise SystemExit\n")
    lab = bench.lab("[{run: tonnage mig profiles --product A100-80, expect: {contains: [1g.10gb]}}]")
    config = tmp_path / "kubeconfig"
    variables = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "") + os.pathsep}
    variables["TONNAGE_KUBECTL"] = str(bench.kubectl)
    with surroundings(lab, tmp_path, config, variables, own=True) as inside:
        report = await run_lab(lab, inside, JumpingClock(), listener=RunListener())
    assert report.passed, report.steps[0].stderr
    assert not (tmp_path / "ran").exists()


HOSTILE = "x\x1b[2J\x07\u202ey"


def test_no_text_of_a_lab_steers_a_terminal() -> None:
    quoted = json.dumps(HOSTILE)
    text = (
        f"name: x\ntitle: {quoted}\ndescription: {quoted}\nscenario: inference\nsteps:\n"
        f"- {{title: {quoted}, explain: {quoted}, run: kubectl get pods, expect: {{contains: [{quoted}]}}}}\n"
    )
    lab = parse_lab(text, source="lab.yaml", files=set())
    (step,) = lab.steps
    check = checks_of(step.expect, Observation(0, HOSTILE, HOSTILE))[1]
    failed = Check(HOSTILE, HOSTILE, False)
    report = StepReport(HOSTILE, step.run, 0, HOSTILE, HOSTILE, 1, checks=(check, failed))
    summary = LabReport("x", HOSTILE, (), "", "", (report,), (), 0)
    shown = "\n".join(
        [
            render_head(lab, f"/{HOSTILE}", HOSTILE),
            render_command(step, 1, 1),
            render_outcome(report),
            render_summary(summary),
        ]
    )
    assert "x\\x1b[2J\\x07\\u202ey" in shown
    assert all(c.isprintable() for c in click.unstyle(shown) if c != "\n")


def test_a_title_does_not_begin_lines_of_its_own() -> None:
    text = 'name: x\ntitle: "a\\n[1/1] b"\nscenario: inference\nsteps: [{run: kubectl get pods}]\n'
    lab = parse_lab(text, source="lab.yaml", files=set())
    assert "Lab x: a\\n[1/1] b" in click.unstyle(render_head(lab, "/", "x"))


async def test_an_interrupted_lab_cleans_up(bench: Bench) -> None:
    lab = bench.lab("[{run: kubectl get hang}]", "[{run: kubectl get say clean}]")
    running = asyncio.create_task(bench.run(lab))
    calls = bench.folder / "calls.jsonl"
    await until(lambda: calls.exists() and calls.read_text().endswith("\n"))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert bench.calls == [["hang"], ["say", "clean"]]


async def test_the_report_as_json_says_everything(bench: Bench) -> None:
    report = (await bench.run(bench.lab("[{run: kubectl get fail 4}, {run: kubectl get say b}]"))).as_json()
    assert report["passed"] is False
    assert report["covers"] == ["SHR-2"]
    steps = report["steps"]
    assert isinstance(steps, list)
    first, second = steps
    assert isinstance(first, dict)
    assert isinstance(second, dict)
    assert (first["exitStatus"], first["stderr"], first["skipped"]) == (4, "refused\n", False)
    assert second["skipped"] is True
    assert first["checks"] == [{"expected": "succeeds", "seen": "exit status 4: refused", "passed": False}]
    json.dumps(report)


@pytest.mark.parametrize(
    ("width", "reason"),
    [
        pytest.param(
            None, "  Why it is\n  so, and not\n  \n  otherwise\n", id="no terminal: as it is written"
        ),
        pytest.param(
            13, "  Why it is\n  so, and not\n  \n  otherwise\n", id="a terminal that is wide enough"
        ),
        pytest.param(12, "  Why it is so, and not\n  otherwise\n", id="a narrow one wraps whole paragraphs"),
    ],
)
def test_a_reason_is_wrapped_once(bench: Bench, width: int | None, reason: str) -> None:
    lab = bench.lab(
        '[{title: Say it, explain: "Why it is\\nso, and not\\n\\notherwise", run: kubectl get say}]'
    )
    shown = click.unstyle(render_command(lab.steps[0], 1, 3, width))
    assert shown == f"\n[1/3] Say it\n{reason}  $ kubectl get say"


def test_a_step_reads_as_title_reason_and_a_command_to_paste(bench: Bench) -> None:
    lab = bench.lab('[{title: Say it, explain: "Why\\nnot", run: "kubectl get say \\\\\\n  one"}]')
    shown = click.unstyle(render_command(lab.steps[0], 1, 3))
    assert shown == "\n[1/3] Say it\n  Why\n  not\n  $ kubectl get say \\\n    one"


async def test_an_outcome_shows_what_was_seen_and_every_mark(bench: Bench) -> None:
    lab = bench.lab("[{run: kubectl get say one, expect: {contains: [one, two]}}]")
    report = await bench.run(lab)
    shown = render_outcome(report.steps[0])
    assert "    one" in shown
    assert "✓" in shown
    assert "✗" in shown
    assert "seen: one" in shown
    assert "failed: 0 of 1 steps" in render_summary(report)
    assert "First failure: kubectl get say one" in render_summary(report)


def test_long_output_loses_its_middle() -> None:
    lines = "\n".join(f"line {number}" for number in range(100))
    shown = render_outcome(StepReport("t", "kubectl x", 0, lines, "", 1)).splitlines()
    assert len(shown) == 32
    assert shown[0].strip() == "line 0"
    assert shown[-1].strip() == "line 99"
    assert "69 lines" in shown[23]


def test_of_long_json_only_its_length_is_shown() -> None:
    document = json.dumps(dict.fromkeys("abcdefghij", 1), indent=1)
    shown = render_outcome(StepReport("t", "kubectl x", 0, document, "", 1))
    assert shown.strip() == "{... 12 lines of JSON ...}"


@pytest.mark.parametrize(
    ("making", "deleted"),
    [("kubectl get say namespace/x", True), ("kubectl get fail 1", False)],
    ids=["what the lab made is deleted", "what was there before stays"],
)
async def test_the_clean_up_deletes_what_its_lab_made(bench: Bench, making: str, deleted: bool) -> None:
    lab = bench.lab(f"[{{run: NS=$({making})}}]", "[{run: kubectl get say delete $NS}]")
    report = await bench.run(lab)
    assert [step.stdout for step in report.cleanup] == (["delete namespace/x\n"] if deleted else [])
