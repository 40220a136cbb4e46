"""Draws the rooms of the house, with their sizes and what each imports, into the page on the architecture.

`--check` only compares. `lint-imports` holds what each room may import; this shows what it does import.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from scripts.drawing import redrawn

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs/explanation/architecture.md"
SOURCE: Final = ROOT / "src/tonnage"
ROOMS: Final = (
    *("cli", "agent", "controller", "adapters", "twin", "diagnose"),
    *("decide.cluster", "decide.node", "decide.kubernetes"),
    *("loop", "reading", "ports", "documents", "wire", "model"),
)
"""From the top of the house to its ground."""
_COMMAND: Final = "python -m scripts.draw_rooms"
_WIDE: Final = 20
_LINES_A_BLOCK: Final = 2000


@dataclass(slots=True)
class Room:
    """What a room comes to."""

    modules: int = 0
    lines: int = 0
    imports: set[str] = field(default_factory=set)


def rooms() -> dict[str, Room]:
    """By name; what stands in no room is left out."""
    found = {name: Room() for name in ROOMS}
    for path in sorted(SOURCE.rglob("*.py")):
        own = room_of(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
        if own is None or path.stem.endswith("_pb2"):
            continue
        text = path.read_text(encoding="utf-8")
        found[own].modules += 1
        found[own].lines += text.count("\n")
        found[own].imports |= {room for module in _imported(text) if (room := room_of(module))} - {own}
    return found


def room_of(module: str) -> str | None:
    """The room in which a module stands.

    >>> room_of("tonnage.decide.node.mig.plan"), room_of("tonnage.ports"), room_of("tonnage")
    ('decide.node', 'ports', None)
    """
    return next((room for room in ROOMS if f"{module}.".startswith(f"tonnage.{room}.")), None)


def _imported(text: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


def drawing() -> str:
    """A line for each room: its size to scale, and the rooms below that it uses."""
    shown = []
    for name, room in rooms().items():
        size = "▆" * max(1, round(room.lines / _LINES_A_BLOCK))
        used = ", ".join(other for other in ROOMS if other in room.imports) or "nothing of ours"
        shown.append(f"{name:{_WIDE}}{_rounded(room.lines):>7}  {size}\n{'':{_WIDE}}         -> {used}")
    return "```\n" + "\n".join(shown) + "\n```\n"


def _rounded(lines: int) -> str:
    """Lines to the next hundred, so that the drawing changes when the house does.

    >>> _rounded(41_313)
    '41,300'
    """
    return f"{round(lines, -2):,}"


def main() -> None:
    wanted = redrawn(PAGE, _COMMAND, drawing())
    if "--check" in sys.argv[1:]:
        if _arrows(wanted) != _arrows(PAGE.read_text(encoding="utf-8")):
            sys.exit(f"{PAGE.relative_to(ROOT)}: its drawing is old. Remedy: {_COMMAND}")
        return
    PAGE.write_text(wanted, encoding="utf-8")


def _arrows(text: str) -> list[str]:
    """What the check compares: who uses whom. Sizes change with every commit."""
    return [line for line in text.splitlines() if line.lstrip().startswith("->")]


if __name__ == "__main__":
    main()
