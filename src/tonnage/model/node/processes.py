"""Processes of a node as its kernel shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """A process: control groups (`/proc/PID/cgroup`), user, program's name, its start in seconds after boot.

    A number and a start tell it from every other process of this boot.
    """

    pid: int
    started_s: float
    cgroup: str = ""
    user: int = 0
    program: str = ""


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """Processes that were looked up, by number, at `uptime_s` after boot, which was `now_s` after 1970.

    `is_host`: the numbers are the host's, so that those of other pods can be found.
    """

    processes: Mapping[int, NodeProcess] = field(default_factory=dict)
    uptime_s: float = 0.0
    now_s: float = 0.0
    is_host: bool = True
