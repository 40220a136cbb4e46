"""The health of devices as kubelet shows it in the status of pods."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.model.devices.claims import HealthReport, PublishedDevice

_MOST_BYTES: Final = 1024
_ELLIPSIS: Final = "..."


def health_reports(devices: Iterable[PublishedDevice], pool: str) -> tuple[HealthReport, ...]:
    """A report of each device, in their order; of those that are not published nothing is known.

    >>> health_reports([PublishedDevice("gpu-0", "GPU-a", healthy=False, reason="Xid 79")], "n")
    (HealthReport(pool='n', device='gpu-0', healthy=False, message='Xid 79'),)
    """
    return tuple(
        HealthReport(pool, device.name, device.healthy, "" if device.healthy else _cut(device.reason))
        for device in devices
        if not device.unfit
    )


def _cut(text: str) -> str:
    content = text.encode()
    if len(content) <= _MOST_BYTES:
        return text
    return content[: _MOST_BYTES - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS
