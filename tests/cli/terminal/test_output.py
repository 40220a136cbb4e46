"""The one way out: what a terminal may have, what programs read back, and that nothing passes by."""

from __future__ import annotations

import ast
import json
import logging
import re
import sys
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import tonnage
from support.hostile import NASTY, forged_lines, refused
from tonnage.adapters.logging import LineFormatter, make_last_resort_printable
from tonnage.cli.locations.state import Running
from tonnage.cli.terminal.output import (
    emit,
    line,
    lines,
    printable,
    progress,
    say,
    shell_word,
    styled,
    yaml_text,
)
from tonnage.cli.terminal.printable_json import printable_json
from tonnage.cli.terminal.tables import columns
from tonnage.cli.up.announcement import say_where
from tonnage.diagnose.lint.sarif import plain, uri
from tonnage.model.json import JsonObject

SOURCE = Path(tonnage.__file__).parent
WRITERS = {
    "cli/terminal/output.py": "the writer itself",
    "cli/main.py": "flushes, and closes stdout behind a reader that has left",
    "cli/doctor/command.py": "asks whether stderr is a terminal",
    "cli/up/foreground.py": "asks whether stdin, stdout and stderr are terminals",
    "cli/up/embedded.py": "gives stderr to the logs, whose formatter makes them printable",
    "cli/controller.py": "gives stderr to the logs, whose formatter makes them printable",
    "cli/node/command.py": "gives stderr to the logs, whose formatter makes them printable",
    "cli/top/command.py": "asks whether stdin and stdout are terminals",
    "cli/top/live.py": "reads keys and asks for the size; what it shows goes through the writer",
    "agent/main.py": "gives stdout to the writer of labels for feature discovery, which have no such letters",
    "adapters/vendors/nvml_child.py": "speaks to its parent over a pipe",
    "adapters/gpu_service.py": "speaks to its parent over a pipe",
    "adapters/measured_load.py": "a program of its own in a container, which says what it measured",
    "adapters/mps/shared_memory.py": "a program of its own in a container, which says its folder",
    "adapters/workload.py": "a program of its own in a container, which says why its message is not kept",
    "cli/node/pci_probe.py": "a program of its own in a container, which says what it counted",
    "twin/mps_control.py": "a program of its own, which answers its caller over a pipe",
}
"""Who touches the streams, and why."""
TEXTS = st.text(st.characters() | st.sampled_from("\x1b\x9b\u202e\u2028\x7f\n\t \u3164'\"\\#:"))


CALLED = {"print", "echo", "SafeText", "click.echo", "click.secho", "click.style"}
NAMED = {
    *("sys.stdout", "sys.stderr", "sys.__stdout__", "sys.__stderr__"),
    *("traceback.print_exc", "traceback.print_exception"),
}

WORDS = re.compile(r"\b(print|echo|secho|style|SafeText|_*stdout_*|_*stderr_*|print_exc|print_exception)\b")
"""Without one of them a text is not parsed."""


def dotted(node: ast.expr) -> str:
    """`a` or `a.b`; empty where it is more."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def touches_streams(path: Path) -> bool:
    def is_stream(node: ast.AST) -> bool:
        if isinstance(node, ast.Call):
            return dotted(node.func) in CALLED
        return isinstance(node, ast.Attribute) and dotted(node) in NAMED

    text = path.read_text()
    return bool(WORDS.search(text)) and any(is_stream(node) for node in ast.walk(ast.parse(text)))


def test_nobody_else_writes_to_the_terminal() -> None:
    pretended = SOURCE / "twin/kubelet/programs"  # programs in containers of the twin
    found = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if pretended not in path.parents and touches_streams(path)
    }
    assert found == WRITERS.keys()


@pytest.mark.parametrize(
    "breach",
    ["click.echo(name)", "print(name)", "sys.stdout.write(name)", "traceback.print_exc()", "SafeText(name)"],
)
def test_a_breach_of_that_is_found(breach: str, tmp_path: Path) -> None:
    (tmp_path / "new.py").write_text(f"import sys, click\n{breach}\n")
    assert touches_streams(tmp_path / "new.py")


@given(TEXTS)
def test_text_is_printable_and_stays_so(text: str) -> None:
    assert refused(printable(text)) == []
    assert "\n" not in line(text)
    assert printable(printable(text)[:]) == printable(text)


@pytest.mark.parametrize("text", ["größer", "日本語 ✓ … └ ×", "✔\ufe0f", "a\nb", "", "back\\slash"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


@given(TEXTS)
def test_answers_for_programs_are_read_as_the_same(text: str) -> None:
    written = printable_json(json.dumps({text: [text]}, ensure_ascii=False)).decode()
    assert refused(written) == []
    assert json.loads(written) == {text: [text]}


@given(TEXTS)
def test_answers_in_yaml_are_read_as_the_same(text: str) -> None:
    written = yaml_text({text: [text, {"a": text}]})
    assert refused(written) == []
    assert yaml.safe_load(written) == {text: [text, {"a": text}]}


def test_yaml_of_ordinary_texts_is_as_pyyaml_writes_it() -> None:
    answer: JsonObject = {"ö": ["日本", "two\nlines", "a: b", "", " x", 1, None, True], "long": "word " * 60}
    assert yaml_text(answer) == yaml.safe_dump(answer, sort_keys=False, allow_unicode=True)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_half_a_pair_of_surrogates_is_no_defect(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    emit({"file": "a\udcff"}, output)
    assert yaml.safe_load(capsys.readouterr().out) == {"file": "a\udcff"}


def test_a_cell_with_a_line_break_makes_no_row() -> None:
    assert str(columns(["A", "B"], [["a\nb", "c"]])) == "A      B\na\\nb   c"


def test_colours_are_tonnages_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    say(line(styled("ok", fg="green"), " \x1b[31mred"))
    assert capsys.readouterr().out == "\x1b[32mok\x1b[0m \\x1b[31mred\n"
    monkeypatch.setenv("NO_COLOR", "1")
    say(styled("ok", fg="green"))
    assert capsys.readouterr().out == "ok\n"


def test_a_coloured_text_that_passes_by_the_writer_loses_its_colour_not_its_safety(
    capsys: pytest.CaptureFixture[str],
) -> None:
    say(f"{styled('ok', fg='green')} {NASTY}")
    out = capsys.readouterr().out
    assert refused(out) == []
    assert out.count("\n") == 1


def test_progress_is_one_line_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    progress("1 of 2")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    progress(NASTY)
    err = capsys.readouterr().err
    assert err.startswith("\r\x1b[Kh0stile")
    assert refused(err.removeprefix("\r\x1b[K")) == []
    assert "\n" not in err


def test_where_the_cluster_is_can_be_read_by_a_shell(capsys: pytest.CaptureFixture[str]) -> None:
    say_where(Running(1, NASTY, 2, NASTY, "/a b\n/\x1b", since="", engine="twin"))
    out, err = capsys.readouterr()
    assert out == "export KUBECONFIG=$'/a b\\x0a/\\x1b'\n"
    assert refused(err) == []
    assert shell_word("/a b") == "'/a b'"


@pytest.mark.parametrize("verbose", [False, True], ids=["quiet", "verbose"])
def test_a_line_of_a_log_is_one_line(verbose: bool) -> None:
    try:
        raise ValueError(NASTY)
    except ValueError:
        record = logging.LogRecord("tonnage", logging.ERROR, "", 1, "lost: pod=%s", (NASTY,), sys.exc_info())
    written = LineFormatter(verbose=verbose).format(record)
    assert refused(written) == []
    assert "\n" not in written


def test_a_warning_without_a_log_is_printable() -> None:
    make_last_resort_printable()
    assert logging.lastResort is not None
    record = logging.LogRecord("tonnage", logging.ERROR, "", 1, "lost: %s", (NASTY,), None)
    assert refused(logging.lastResort.format(record)) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("spec.containers[0]: {}", "spec.containers[0]: {}", id="a field path"),
        pytest.param("[a](http:b)", r"\[a\](http:b)", id="a link"),
        pytest.param(r"\[a](1)", r"\\\[a\](1)", id="a link behind a backslash"),
    ],
)
def test_sarif_has_no_links_of_others(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_a_file_that_is_not_utf_8_has_a_reference() -> None:
    assert uri("a\udcff.yaml") == "a%FF.yaml"


def test_forged_lines_are_seen() -> None:
    assert forged_lines(str(lines(["a"])) + "\n" + NASTY)
