"""A call as those see it who tell what it costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tonnage.decide.kubernetes.cel.cost.ranges import UNKNOWN, Range, fixed
from tonnage.decide.kubernetes.cel.types.untyped import TreeNode

Cost = tuple[Range, Range | None]
"""What a call costs without its arguments, and the size of its result where that is known."""


@dataclass(frozen=True, slots=True)
class CelArgument:
    """An argument: its type, its size as far as that is known, and that of what it holds if it is a list."""

    kind: str
    size: Range | None
    held: Callable[[], Range | None]
    expr: TreeNode

    @property
    def bounds(self) -> Range:
        return self.size or UNKNOWN


@dataclass(frozen=True, slots=True)
class Call:
    """A call of one overload; `costs` are those of its arguments."""

    function: str
    overload: str
    target: CelArgument | None
    arguments: Sequence[CelArgument]
    costs: Sequence[Range]

    def size(self, index: int) -> Range:
        """Of an argument."""
        return self.arguments[index].bounds

    @property
    def on(self) -> Range:
        """The size of what it is called on."""
        return self.target.bounds if self.target else UNKNOWN

    @property
    def spent(self) -> Range:
        """What its arguments cost."""
        total = fixed(0)
        for cost in self.costs:
            total += cost
        return total
