"""First lists of a controller that somebody waits for: a refusal ends it."""

from __future__ import annotations

from typing import Any, Final

from tonnage.loop.informer import Informer
from tonnage.model.errors import ClusterError, Problem
from tonnage.wire.kinds import NODE_GPU_STATUS, Kind

_CHART: Final = "install Tonnage's chart, which brings it (crds.enabled)"
_NVIDIAS: Final = (
    "run tonnage controller --upgrade-definitions, which makes those of NVIDIA's kinds that are missing"
)


class FirstList:
    """A copy whose first list is due now. A server that is busy is asked again, as by the copy itself."""

    def __init__(self, copy: Informer[Any]) -> None:
        self._copy = copy

    async def run(self) -> None:
        """Keep the copy fresh until cancelled."""
        await self._copy.run()

    async def synced(self) -> None:
        """Return once the first list is in.

        Raises ClusterError: the API server does not let the kind be read, or does not know it.
        """
        await self._copy.answered()
        refusal = self._copy.refusal
        if refusal is None:
            return
        if refusal.code != 404:
            raise refusal
        raise ClusterError(_undefined(self._copy.kind)) from refusal


def _undefined(kind: Kind[Any]) -> Problem:
    """A kind that the API server does not serve."""
    return Problem(
        f"the definition of {kind.kind} is missing in this cluster",
        where=f"{kind.plural}.{kind.group}",
        why="the controller reads these objects, and the API server has no such kind",
        remedy=_CHART if kind.kind == NODE_GPU_STATUS.kind else _NVIDIAS,
    )
