"""Draws how a change of a MIG layout proceeds, out of the table by which the agent acts.

`--check` only compares.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from scripts.drawing import redrawn
from tonnage.decide.node.mig.transitions import TRANSITIONS, MigChangeEvent, Stage

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs/explanation/how-a-mig-change-proceeds.md"
_COMMAND: Final = "python -m scripts.draw_mig"


def drawing() -> str:
    """The stages with their ways onward, and the whole table."""
    return f"```mermaid\nstateDiagram-v2\n{_arrows()}```\n\n{_table()}"


def _arrows() -> str:
    lines = [f"    [*] --> {_name(Stage.WITHDRAWN)}"]
    for stage, row in TRANSITIONS.items():
        for after in dict.fromkeys(row.values()):
            events = [event for event in row if row[event] is after]
            lines.append(f"    {_name(stage)} --> {_name(after)}: {', '.join(events)}")
    lines += [f"    {_name(stage)} --> [*]" for stage in Stage if stage not in TRANSITIONS]
    return "".join(f"{line}\n" for line in lines)


def _name(stage: Stage) -> str:
    return stage.value.replace(" ", "_")


def _table() -> str:
    rows = [("", *TRANSITIONS), ("---",) * (len(TRANSITIONS) + 1)]
    rows += [(event, *(row.get(event, "") for row in TRANSITIONS.values())) for event in MigChangeEvent]
    return "".join(f"| {' | '.join(row)} |\n".replace("  ", " ") for row in rows)


def main() -> None:
    wanted = redrawn(PAGE, _COMMAND, drawing())
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(wanted, encoding="utf-8")
    elif wanted != PAGE.read_text(encoding="utf-8"):
        sys.exit(f"{PAGE.relative_to(ROOT)}: its drawing is old. Remedy: {_COMMAND}")


if __name__ == "__main__":
    main()
