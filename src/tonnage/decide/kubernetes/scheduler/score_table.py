"""NodePluginScores of all nodes that fit, held by plugin; a node's row is made when it is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

TOTAL: Final = "total"


class Scores(Mapping[str, Mapping[str, int]]):
    """Weighted scores by node and plugin, with their `total`. Columns are in the order of `names`."""

    def __init__(self, names: Sequence[str] = (), columns: Mapping[str, Sequence[int]] | None = None) -> None:
        self._columns = columns or {}
        self._row_of = {name: row for row, name in enumerate(names)}

    def __getitem__(self, name: str) -> dict[str, int]:
        row = self._row_of[name]
        return {plugin: column[row] for plugin, column in self._columns.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self._row_of)

    def __len__(self) -> int:
        return len(self._row_of)

    @property
    def totals(self) -> dict[str, int]:
        """The total of each node."""
        return dict(zip(self._row_of, self._columns.get(TOTAL, ()), strict=True))

    def tells_apart(self, plugin: str) -> bool:
        """Whether a plugin gives some nodes more than others."""
        return len(set(self._columns.get(plugin, ()))) > 1
