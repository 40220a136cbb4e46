"""`/containerLogs`: which lines, from when, how many bytes, with times, and following.

Source: Kubernetes 1.35, pkg/kubelet/server/server.go, pkg/kubelet/kuberuntime/logs and, of refusals,
pkg/kubelet/kubelet_pods.go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from tonnage.model.kubernetes.timestamps import moment_of
from tonnage.model.whole_numbers import whole_number
from tonnage.twin.kubelet.containers.logs import ContainerLog, LogLine

_PARTS: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")
_LONGEST_AGO_S: Final = 10**9
"""Thirty years: older than any line, and within what a date can be."""
_WHY_NO_IMAGE: Final = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


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
            since = now - timedelta(seconds=min(_number(query, "sinceSeconds") or 0, _LONGEST_AGO_S))
        elif "sinceTime" in query:
            since = _moment(query["sinceTime"])
        return cls(
            follow=_truth(query, "follow"),
            previous=_truth(query, "previous"),
            timestamps=_truth(query, "timestamps"),
            tail_lines=_number(query, "tailLines"),
            limit_bytes=_number(query, "limitBytes"),
            since=since,
        )


def log_refusal(status: Mapping[str, Any], pod: str, container: str, *, previous: bool) -> str:
    """Why a container has no log, in the words of the kubelet; empty where it has one.

    `status` is the status of the pod of that name, `previous` asks for the log of the container before.
    """
    subject = f'container "{container}" in pod "{pod}"'
    statuses = (
        container_status
        for part in _PARTS
        for container_status in status.get(part, ())
        if container_status["name"] == container
    )
    entry = next(statuses, None)
    if entry is None:
        return f"{subject} is not available"
    before = entry["lastState"].get("terminated", {})
    if previous:
        return "" if before.get("containerID") else f"previous terminated {subject} not found"
    match entry["state"]:
        case {"running": _}:
            return ""
        case {"terminated": ended} if ended.get("containerID"):
            return ""
        case {"waiting": {"reason": reason}} if not before:
            return f"{subject} is waiting to start: {_WHY_NO_IMAGE.get(reason, reason)}"
    return "" if before.get("containerID") else f"{subject} is terminated"


def _truth(query: Mapping[str, str], name: str) -> bool:
    return query.get(name, "").lower() in {"1", "true", "t"}


def _moment(text: str) -> datetime:
    """Raises ValueError."""
    try:
        return moment_of(text).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"sinceTime: Invalid value: {text[:40]!r}: out of range") from None


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    number = whole_number(text)
    if number is None:
        raise ValueError(f"{name}: Invalid value: {text[:40]!r}: must be greater than or equal to 0")
    return number


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
            text = _shown(line, query)
            if left is not None:
                text = text[:left]
                left -= len(text)
            yield text
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
