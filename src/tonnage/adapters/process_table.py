"""The kernel's table of processes, of which `/proc` shows all to a pod with `hostPID`."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tonnage.adapters.node_facts.files import NodeFiles
from tonnage.model.node.processes import NodeProcess, ProcessTable

_MOST: Final = 10_000
_BYTES: Final = 64 << 10
_KERNEL: Final = "kthreadd"
"""The second process of a machine, which no container has."""
_START: Final = 19
"""The place of the start time in /proc/PID/stat, behind the name. Source: proc_pid_stat(5)."""
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class ProcFiles:
    """Reads processes below `root`."""

    def __init__(self, root: Path) -> None:
        self._files = NodeFiles(root)

    def uptime_s(self) -> float:
        try:
            return float(self._files.text("/proc/uptime", 128).split()[0])
        except (ValueError, IndexError):
            return 0.0

    async def read(self, pids: Collection[int], now_s: float) -> ProcessTable:
        return await asyncio.to_thread(self._read, pids, now_s)

    def _read(self, pids: Collection[int], now_s: float) -> ProcessTable:
        """One that ended while it was read is not there."""
        read = (self._process(pid) for pid in sorted(pids)[:_MOST])
        processes = {process.pid: process for process in read if process is not None}
        return ProcessTable(processes, self.uptime_s(), now_s, self._is_host(bool(processes)))

    def _process(self, pid: int) -> NodeProcess | None:
        before = self._start(pid)
        cgroup = self._files.text(f"/proc/{pid}/cgroup", _BYTES)
        status = self._files.text(f"/proc/{pid}/status", _BYTES)
        if before is None or before != self._start(pid):
            return None
        lines = dict(line.partition(":")[::2] for line in status.splitlines())
        users = lines.get("Uid", "").split()
        user = int(users[1]) if len(users) > 1 and users[1].isdecimal() else 0
        return NodeProcess(pid, before / _TICKS, cgroup, user, lines.get("Name", "").strip())

    def _start(self, pid: int) -> int | None:
        """In ticks since boot; a name may have blanks and brackets."""
        fields = self._files.text(f"/proc/{pid}/stat", _BYTES).rpartition(")")[2].split()
        return int(fields[_START]) if len(fields) > _START and fields[_START].isdecimal() else None

    def _is_host(self, finds_any: bool) -> bool:
        """One with numbers of its own finds none of the driver's, and sees no kernel."""
        return finds_any or self._files.text("/proc/2/comm", 64) == _KERNEL
