"""No test waits for a process or a thread without an end: a gate that hangs says nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

TESTS: Final = Path(__file__).resolve().parents[1]
_RUNS: Final = frozenset(
    f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output", "getoutput")
)
_WAITS: Final = frozenset({"join", "wait", "communicate"})
_SUSPECT: Final = re.compile(r"subprocess\.|\.(?:join|wait|communicate)\(")
ALLOWED: Final = {
    "fuzz/gate.py": "one.process.join()",  # an alarm ends it
}


def endless_waits(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of each wait for a process or a thread that names no time.

    What is awaited, or given to another call (`asyncio.wait_for`, a task), is a coroutine: `asyncio.timeout`
    ends those.
    """
    tree = ast.parse(source)
    within = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or {"timeout", None} & {word.arg for word in call.keywords}:
            continue
        name = ast.unparse(call.func)
        is_coroutine = isinstance(within[call], ast.Await | ast.Call)
        waits = name.rpartition(".")[2] in _WAITS and "." in name and not call.args and not is_coroutine
        if name in _RUNS or (waits and not name.startswith("asyncio.")):
            yield call.lineno, ast.unparse(call)


@pytest.mark.parametrize(
    ("source", "endless"),
    [
        pytest.param("subprocess.run(['a'], check=True)", True, id="a program"),
        pytest.param("subprocess.run(['a'], check=True, timeout=60)", False, id="a program with a limit"),
        pytest.param("subprocess.run(['a'], **options)", False, id="a program with options of others"),
        pytest.param("out = subprocess.check_output(['a'])", True, id="a program's output"),
        pytest.param("assert process.wait() == 0", True, id="a process"),
        pytest.param("process.wait(60)", False, id="a process with a limit"),
        pytest.param("out, _ = process.communicate()", True, id="a process's output"),
        pytest.param("out, _ = process.communicate(b'in')", False, id="input, which only names can tell"),
        pytest.param("self._thread.join()", True, id="a thread"),
        pytest.param("text = ', '.join(names)", False, id="a text"),
        pytest.param("async def f(): await process.wait()", False, id="a coroutine"),
        pytest.param("async def f(): await asyncio.wait_for(e.wait(), 60)", False, id="one in a call"),
    ],
)
def test_a_wait_without_an_end_is_seen(source: str, endless: bool) -> None:
    assert bool([*endless_waits(source)]) == endless


def test_every_wait_for_a_process_or_a_thread_has_an_end() -> None:
    endless = [
        f"{path.relative_to(TESTS)}:{line}: {text}"
        for path in sorted(TESTS.rglob("*.py"))
        if _SUSPECT.search(source := path.read_text(encoding="utf-8"))
        for line, text in endless_waits(source)
        if ALLOWED.get(str(path.relative_to(TESTS))) != text
    ]
    assert endless == []
