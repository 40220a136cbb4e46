"""ScorePlugin: the shape of a score, and upstream's ways of bringing raw numbers to 0..100."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol, TypeAlias

from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.model.kubernetes.cluster import Pod

HIGHEST: Final = 100
Feasible: TypeAlias = Mapping[str, NodeView]
"""The nodes left after the filters, by name."""


class Score(Protocol):
    """A score is a module: its upstream name, its weight in the default profile, and a function."""

    @property
    def NAME(self) -> str:  # noqa: N802 a module constant seen as a property
        """The plugin's name upstream."""
        ...

    @property
    def WEIGHT(self) -> int:  # noqa: N802 a module constant seen as a property
        """The plugin's weight in the default profile."""
        ...

    def rate(self, pod: Pod, feasible: Feasible, view: ClusterView, /) -> Mapping[str, int] | None:
        """0 to 100 for every feasible node, or None when the plugin skips this pod and has no column."""
        ...


def scaled(raw: Mapping[str, int], *, reverse: bool = False) -> dict[str, int]:
    """Raw numbers in proportion to their largest; `reverse` makes the smallest the best.

    >>> scaled({"a": 2, "b": 1}), scaled({"a": 0, "b": 0}, reverse=True)
    ({'a': 100, 'b': 50}, {'a': 100, 'b': 100})
    """
    largest = max(raw.values(), default=0)
    if largest == 0:
        return dict.fromkeys(raw, HIGHEST) if reverse else dict(raw)
    part = {name: HIGHEST * value // largest for name, value in raw.items()}
    return {name: HIGHEST - value for name, value in part.items()} if reverse else part
