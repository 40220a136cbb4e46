"""Streams of commands in the twin's shell."""

from __future__ import annotations

from typing import Final

from tonnage.twin.kubelet.containers.compute_turns import Work
from tonnage.twin.kubelet.containers.port import Stdio

_OUTPUT_LIMIT: Final = 1 << 20


class Piped:
    """Streams with input from memory and output kept, for pipes, substitutions and redirections."""

    def __init__(
        self,
        outer: Stdio,
        work: Work,
        *,
        given: bytes | None = None,
        out: str = "out",
        err: str = "err",
    ) -> None:
        self._outer = outer
        self._work = work
        self._given = given
        self._out = out
        self._err = err
        self.kept = bytearray()

    async def read(self) -> bytes:
        if self._given is None:
            return await self._outer.read()
        data, self._given = self._given, b""
        return data

    def write(self, data: bytes) -> None:
        self._send(self._out, data)

    def write_error(self, data: bytes) -> None:
        self._send(self._err, data)

    def _send(self, target: str, data: bytes) -> None:
        if target == "out":
            self._outer.write(data)
        elif target == "err":
            self._outer.write_error(data)
        else:
            self._work.moved(len(data))
            if target == "keep":
                self.kept += data[: max(0, _OUTPUT_LIMIT - len(self.kept))]
