"""MPS control daemons as a checkpoint has them: those that may have left something on the node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from tonnage.model.devices.mps import MpsDaemon, MpsDevice
from tonnage.model.json import JsonObject
from tonnage.model.names import parse_resource_name

_MOST: Final = 256


def daemons_json(daemons: Iterable[MpsDaemon]) -> JsonObject:
    """As it is written."""
    return {
        "daemons": [
            {
                "resource": daemon.resource,
                "root": daemon.root,
                "threads": daemon.threads_percent,
                "devices": [[device.uuid, device.limit_mib] for device in daemon.devices],
                **({"multiUser": True} if daemon.multi_user else {}),
                **({"claim": daemon.claim} if daemon.claim else {}),
            }
            for daemon in daemons
        ]
    }


def daemons_from_json(payload: Any) -> tuple[MpsDaemon, ...]:  # whatever a file holds: it is tried
    """What was written. Raises ValueError, KeyError, TypeError: it makes no sense.

    >>> daemon = MpsDaemon(parse_resource_name("nvidia.com/gpu"), "/mps", 12, (MpsDevice("GPU-0", 1920),))
    >>> daemons_from_json(daemons_json([daemon])) == (daemon,)
    True
    >>> daemons_from_json(daemons_json([MpsDaemon(daemon.resource, "/mps", 12, (), True, "ml/a")]))[0].claim
    'ml/a'
    """
    return tuple(
        MpsDaemon(
            parse_resource_name(str(entry["resource"])),
            str(entry["root"]),
            int(entry["threads"]),
            tuple(MpsDevice(str(uuid), int(limit)) for uuid, limit in entry["devices"][:_MOST]),
            bool(entry.get("multiUser")),
            str(entry.get("claim", "")),
        )
        for entry in payload["daemons"][:_MOST]
    )
