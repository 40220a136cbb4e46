"""The health of devices as kubelet shows it in the status of pods."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from tonnage.model.devices.claims import HealthReport, PreparedClaim, PublishedDevice
from tonnage.model.devices.inventory import Inventory

_MOST_BYTES: Final = 1024
_ELLIPSIS: Final = "..."
_GONE: Final = "it is gone from the node"


def health_reports(
    devices: Iterable[PublishedDevice],
    pool: str,
    prepared: Iterable[PreparedClaim] = (),
    inventory: Inventory | None = None,
) -> tuple[HealthReport, ...]:
    """A report of each device that is published, and of those that claims have, whatever became of the offer.

    >>> health_reports([PublishedDevice("gpu-0", "GPU-a", healthy=False, reason="Xid 79")], "n")
    (HealthReport(pool='n', device='gpu-0', healthy=False, message='Xid 79'),)
    """
    reports = {
        device.name: HealthReport(pool, device.name, device.healthy, _why(device.healthy, device.reason))
        for device in devices
        if not device.unfit
    }
    if inventory is None:
        return tuple(reports.values())
    states = dict(_states(inventory))
    for claim in prepared:
        for device in claim.devices:
            if device.uuid and device.device not in reports:
                healthy, reason = states.get(device.uuid, (False, _GONE))
                reports[device.device] = HealthReport(pool, device.device, healthy, _why(healthy, reason))
    return tuple(reports.values())


def _states(inventory: Inventory) -> Iterator[tuple[str, tuple[bool, str]]]:
    """Whether GPUs and MIG devices are healthy, and why not, by uuid."""
    for device in inventory.devices:
        yield device.uuid, (device.healthy, device.reason)
        for mig in device.migs:
            yield mig.uuid, (device.healthy and mig.healthy, mig.reason or device.reason)


def _why(healthy: bool, reason: str) -> str:
    return "" if healthy else _cut(reason)


def _cut(text: str) -> str:
    content = text.encode()
    if len(content) <= _MOST_BYTES:
        return text
    return content[: _MOST_BYTES - len(_ELLIPSIS)].decode(errors="ignore") + _ELLIPSIS
