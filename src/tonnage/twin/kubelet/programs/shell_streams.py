"""Streams of commands in the twin's shell."""

from __future__ import annotations

from typing import Final

from tonnage.twin.kubelet.containers.compute_turns import Work
from tonnage.twin.kubelet.containers.runtime_port import Stdio

_OUTPUT_LIMIT: Final = 1 << 20


class Piped:
    """Streams with input from memory and output kept, for pipes, substitutions and redirections."""

    def __init__(
        self,
        outer: Stdio,
        work: Work,
        *,
        stdin: bytes | None = None,
        out: str = "out",
        err: str = "err",
    ) -> None:
        self._outer = outer
        self._work = work
        self._stdin = stdin
        self._out = out
        self._err = err
        self.content = bytearray()

    async def read(self) -> bytes:
        if self._stdin is None:
            return await self._outer.read()
        content, self._stdin = self._stdin, b""
        return content

    def write(self, content: bytes) -> None:
        self._send(self._out, content)

    def write_error(self, content: bytes) -> None:
        self._send(self._err, content)

    def _send(self, target: str, content: bytes) -> None:
        if target == "out":
            self._outer.write(content)
        elif target == "err":
            self._outer.write_error(content)
        else:
            self._work.moved(len(content))
            if target == "keep":
                self.content += content[: max(0, _OUTPUT_LIMIT - len(self.content))]
