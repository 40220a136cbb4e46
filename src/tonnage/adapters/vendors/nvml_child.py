"""NVML read by a process of its own: what its parent does when a call in the parent does not come back.

`python -m tonnage.adapters.vendors.nvml_child ROOT DRIVER_ROOT` reads one `ReadRequest` a line from standard
input and writes `Reply`s to standard output, all JSON: steps as they are begun, events, and one answer for
each request. It ends when its input does, or its parent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from tonnage.adapters.vendors.nvml_reader import NvmlReader, Scan
from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.model.devices.inventory import GpuProcess, RawEvent, Sample

_PR_SET_PDEATHSIG: Final = 1
_WAIT_MS: Final = 1000
_PAUSE_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What to read, about every device but those of the indices in `skip`; `fields` are those of a sample."""

    do: Literal["scan", "sample", "processes"]
    skip: tuple[int, ...] = ()
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """A step about the device of index `subject`, an event, or an answer: what was read, or an `error`."""

    subject: int | None = None
    times: float = 1.0
    event: RawEvent | None = None
    scan: Scan | None = None
    samples: tuple[Sample, ...] | None = None
    processes: tuple[GpuProcess, ...] | None = None
    error: str | None = None


def main() -> None:
    """Answer until the input ends."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        return
    root, driver_root = sys.argv[1:3]
    session = NvmlSession(Path(root), Path(driver_root) if driver_root else None)
    child = _Child(NvmlReader(session, Path(root)))
    threading.Thread(target=child.listen, daemon=True).start()
    for line in sys.stdin.buffer:
        child.answer(msgspec.json.decode(line, type=ReadRequest))
    os._exit(0)  # a thread may hang in the driver


class _Child:
    def __init__(self, reader: NvmlReader) -> None:
        self._reader = reader
        self._lock = threading.Lock()

    def answer(self, request: ReadRequest) -> None:
        skip = frozenset(request.skip)
        try:
            if request.do == "scan":
                self._say(Reply(scan=self._reader.scan(self._step, skip)))
            elif request.do == "processes":
                self._say(Reply(processes=self._reader.processes(self._step, skip)))
            else:
                self._say(Reply(samples=self._reader.sample(request.fields, self._step, skip)))
        except self._reader.session.errors() as error:
            self._say(Reply(error=str(error)))

    def listen(self) -> None:
        """Say what the driver reports, for ever."""
        failures = 0
        while True:
            try:
                event = self._reader.wait(_WAIT_MS)
            except self._reader.session.errors():
                failures += 1
                if failures > 1:  # one is no more than a device that was lost
                    time.sleep(_PAUSE_S)
                continue
            failures = 0
            if event is not None:
                self._say(Reply(event=event))

    def _step(self, subject: int, *, times: float = 1.0) -> None:
        self._say(Reply(subject=subject, times=times))

    def _say(self, reply: Reply) -> None:
        line = msgspec.json.encode(reply) + b"\n"
        with self._lock:
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
