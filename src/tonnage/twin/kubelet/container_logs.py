"""`/containerLogs`: which lines, from when, how many bytes, with times, and following.

Source: Kubernetes 1.36, pkg/kubelet/server/server.go and pkg/kubelet/kuberuntime/logs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tonnage.twin.kubelet.logs import ContainerLog, LogLine
from tonnage.wire.timestamps import moment_of


@dataclass(frozen=True, slots=True)
class LogQuery:
    """What the client wants of a log."""

    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since: datetime | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str], now: datetime) -> LogQuery:
        """Read the query. Raises ValueError naming the field that is wrong."""
        since = None
        if "sinceSeconds" in query:
            since = now - timedelta(seconds=_number(query, "sinceSeconds") or 0)
        elif "sinceTime" in query:
            since = moment_of(query["sinceTime"]).astimezone(UTC)
        return cls(
            follow=_truth(query, "follow"),
            previous=_truth(query, "previous"),
            timestamps=_truth(query, "timestamps"),
            tail_lines=_number(query, "tailLines"),
            limit_bytes=_number(query, "limitBytes"),
            since=since,
        )


def _truth(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in {"1", "true", "t"}


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not text.isdigit() or len(text) > 12:
        raise ValueError(f"{name}: Invalid value: {text[:40]!r}: must be greater than or equal to 0")
    return int(text)


async def read_log(log: ContainerLog, query: LogQuery) -> AsyncIterator[bytes]:
    """The log's lines as the client wants them; with `follow` until the container ends."""
    left = query.limit_bytes
    lines = log.since(0)
    at = log.end
    if query.tail_lines is not None:
        lines = lines[len(lines) - min(query.tail_lines, len(lines)) :]
    while True:
        for line in lines:
            if query.since is not None and line.at < query.since:
                continue
            data = _shown(line, query)
            if left is not None:
                data = data[:left]
                left -= len(data)
            yield data
            if left == 0:
                return
        if not query.follow or (log.closed and log.end == at):
            return
        await log.wait(at)
        lines, at = log.since(at), log.end


def _shown(line: LogLine, query: LogQuery) -> bytes:
    if not query.timestamps:
        return line.text
    return f"{line.at:%Y-%m-%dT%H:%M:%S}.{line.at.microsecond:06d}000Z ".encode() + line.text
