"""The `console` blocks of tutorials and how-tos, run as written against the twin.

A page that says `<!-- runs on the twin -->` is run top to bottom in one bash. Tutorials and how-tos start the
cluster that they need, as their readers must; other pages get one. Every line shown under a command must
be in what the command prints, in that order; `…` stands for anything, runs of blanks are one.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest

from scripts.find_helm import helm_binary
from tonnage.cli.locations.kubectl import kubectl_binary

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- runs on the twin -->"
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if MARK in page.read_text())
COMPLETE = {"how-to", "tutorial"}
"""Folders whose pages start the cluster that they need."""
END = "@@end@@"
REPORTED = (
    "for _ in $(seq 100); do tonnage status | awk '$5 == \"-\"' | grep -q . || break; sleep 0.1; done\n"
)
"""An agent's report of what it advertises comes a moment after kubelet has the devices."""
READS_REPORTS = ("tonnage status", "tonnage migrate")
_LONG = 5
"""A page with more commands is for `make test-long`."""


@dataclass(frozen=True)
class Example:
    """A command of a page and the lines shown under it."""

    command: str
    shown: tuple[str, ...]


def examples_of(text: str) -> list[Example]:
    found: list[Example] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
        for piece in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *shown = piece.rstrip("\n").split("\n")
            found.append(Example(command, tuple(line for line in shown if line.strip("… "))))
    return found


def _pattern(line: str) -> re.Pattern[str]:
    words = " ".join(line.split())
    return re.compile(".*".join(re.escape(part.strip()) for part in words.split("…")).replace(r"\ ", " "))


def missing_lines(example: Example, printed: str) -> list[str]:
    """Lines that are shown but were not printed, or not in this order."""
    lines = [" ".join(line.split()) for line in printed.splitlines()]
    missing, at = [], 0
    for shown in example.shown:
        place = next((i for i in range(at, len(lines)) if _pattern(shown).fullmatch(lines[i])), None)
        if place is None:
            missing.append(shown)
        else:
            at = place + 1
    return missing


def _script(examples: list[Example]) -> str:
    reported = REPORTED if any(e.command.startswith(READS_REPORTS) for e in examples) else ""
    return "\n".join(
        f"{e.command}\necho {END}$?\n{reported if 'tonnage up' in e.command else ''}" for e in examples
    )


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=page.stem,
            marks=[pytest.mark.long] if len(examples_of(page.read_text())) > _LONG else [],
        )
        for page in PAGES
    ],
)
def test_a_page_does_what_it_shows(tonnage: Path, page: Path) -> None:
    examples = examples_of(page.read_text())
    assert examples
    if page.parent.name not in COMPLETE and not any("tonnage up" in e.command for e in examples):
        examples.insert(0, Example('eval "$(tonnage up --detach)"', ()))
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        tools = Path(folder) / "bin"
        tools.mkdir()
        (tools / "kubectl").symlink_to(kubectl_binary("1.35"))
        (tools / "tonnage").symlink_to(tonnage)
        if any(e.command.startswith("helm ") for e in examples):
            (tools / "helm").symlink_to(helm_binary(4))
        for name in ("labs", "docs"):
            (Path(folder) / name).symlink_to(ROOT / name)
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("KUBE", "TONNAGE"))},
            "PATH": f"{tools}:{os.environ['PATH']}",
            "TONNAGE_STATE": f"{folder}/state",
            "GOGC": "off",  # a kubectl that lives for a moment needs no garbage collector
        }
        script = f"exec 2>&1\necho {END}0\n{_script(examples)}\n"
        try:
            run = subprocess.run(
                ["bash", "-c", script],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                check=False,
                timeout=300,
            )
        finally:
            down = [str(tools / "tonnage"), "down"]
            subprocess.run(down, env=environment, check=False, capture_output=True, timeout=300)
    pieces = re.split(rf"{END}(\d+)\n", run.stdout)[2:]
    outcomes = list(zip(examples, pieces[0::2], pieces[1::2], strict=False))
    assert len(outcomes) == len(examples), run.stdout[-2000:]
    for example, printed, status in outcomes:
        assert status == "0", f"$ {example.command}\n{printed}"
        assert missing_lines(example, printed) == [], f"$ {example.command}\n{printed}"
