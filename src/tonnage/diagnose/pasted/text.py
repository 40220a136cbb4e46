"""Pasted texts for a person: each part with its nodes, what it means, how to find out, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tonnage.diagnose.pasted.parts import NO_RELEASE, MessagePart
from tonnage.diagnose.pasted.scheduling import SchedulingText

_MARGIN: Final = "     "
_STRANGE: Final = (
    "not understood: no scheduler of Kubernetes 1.31 to 1.37 says so by itself",
    "look at: spec.schedulerName of the pod, and extenders and plugins of its scheduler",
)


def scheduling_lines(message: SchedulingText) -> list[str]:
    """A scheduler's message, part by part, and whether its counts add up."""
    rows = [f"no node of {message.nodes} takes the pod (layer: scheduler)"]
    if message.releases:
        mixed = message.releases == NO_RELEASE
        rows.append(
            "  no release of Kubernetes writes all of its parts: several messages, or a changed one"
            if mixed
            else f"  written by Kubernetes {message.releases}"
        )
    for part in message.parts:
        rows += _part_lines(part, message.nodes)
    if message.sum_text:
        rows.append(f"  {message.sum_text}")
    if message.preemption:
        rows.append("  result of preemption:")
        for part in message.preemption:
            rows += _part_lines(part, message.preemption_nodes or message.nodes)
        if message.preemption_sum_text:
            rows.append(f"  {message.preemption_sum_text}")
    return rows


def refusal_lines(part: MessagePart) -> list[str]:
    """A refusal that stands alone, as a known message is printed."""
    row = part.meaning
    assert row is not None
    return [
        f"{row.code} (layer: {row.layer})",
        f"  said: {part.words}",
        f"  means: {row.meaning}",
        f"  look at: {row.check}",
        f"  do: {row.remedy}",
    ]


def _part_lines(part: MessagePart, nodes: int) -> Iterator[str]:
    count = f"{part.count} of {nodes}: " if part.count is not None else ""
    row = part.meaning
    if row is None:
        yield f"  {count}{part.words}"
        yield from (f"{_MARGIN}{line}" for line in _STRANGE)
        return
    code = f"  [{row.code}]" if row.code else ""
    yield f"  {count}{part.words}{code}"
    yield f"{_MARGIN}means: {row.meaning}"
    yield f"{_MARGIN}look at: {row.check}"
    yield f"{_MARGIN}do: {row.remedy}"
