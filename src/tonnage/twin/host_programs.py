"""Programs of a pretended node's host: none is run, the log says which would be."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Mapping, Sequence
from typing import Final

_LOG: Final = logging.getLogger(__name__)
_LONGEST: Final = 2000
_ASKED_FOR: Final = ("systemctl", "show")
_RUNS: Final = "active\n"


class PretendedPrograms:
    """`HostPrograms` of a node that has no host: whatever it is given comes from a manifest.

    Every program ends well and says nothing; every unit of systemd that is asked about runs, so that the log
    shows how it would be stopped and started again.
    """

    async def ask(self, command: str, arguments: Sequence[str] = (), *, timeout_s: float = 60.0) -> str:
        answer = await self.run(command, arguments, timeout_s=timeout_s)
        return _RUNS if (command, *arguments)[:2] == _ASKED_FOR else answer

    async def run(
        self,
        command: str,
        arguments: Sequence[str] = (),
        *,
        variables: Mapping[str, str] | None = None,
        folder: str = "/",
        timeout_s: float = 60.0,
    ) -> str:
        del timeout_s
        words = shlex.join(
            (*(f"{name}={value}" for name, value in (variables or {}).items()), command, *arguments)
        )
        shown = words if len(words) <= _LONGEST else f"{words[:_LONGEST]}…"
        _LOG.info("would run on the host, which the twin does not: folder=%s command=%s", folder, shown)
        return ""
