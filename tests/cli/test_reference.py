"""The commands' page says what the commands say."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from tonnage.cli.main import COMMANDS, tonnage

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "generate_cli_reference.py"


def test_the_reference_is_the_help() -> None:
    process = subprocess.run(
        [sys.executable, str(SCRIPT), "--check"], capture_output=True, text=True, check=False, timeout=60
    )
    assert process.returncode == 0, process.stderr


def commands_with_examples() -> list[tuple[str, str]]:
    """Every example line of every command's help, with the command that it stands under."""
    found: list[tuple[str, str]] = []
    for name in COMMANDS:
        command = tonnage.get_command(click.Context(tonnage), name)
        parts = {name: command}
        if isinstance(command, click.Group):
            parts = {f"{name} {child}": part for child, part in command.commands.items()}
        for path, part in parts.items():
            lines = ((part.epilog if part else "") or "").splitlines()[2:]
            assert lines, f"{path} has no example"
            found += [(path, line.strip()) for line in lines]
    return found


@pytest.mark.parametrize(("path", "line"), commands_with_examples(), ids=str)
def test_every_example_of_the_help_can_be_typed(path: str, line: str) -> None:
    typed = re.search(r"\btonnage [^|)>#]*", line)
    assert typed is not None
    words = shlex.split(typed[0].replace('"', ""))[1:]
    assert " ".join(words).startswith(path)
    context: click.Context | None = None
    group: click.Command = tonnage
    while isinstance(group, click.Group):
        context = click.Context(group, context)
        name, *words = words
        command = group.get_command(context, name)
        assert command is not None
        group = command
    group.make_context(path, words, parent=context)
