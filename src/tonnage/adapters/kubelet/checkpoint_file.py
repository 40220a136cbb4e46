"""What kubelet's checkpoint of devices says, `device-plugins/kubelet_internal_checkpoint`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tonnage.model.devices.sharing import Hold
from tonnage.model.json import parsed_json


def holds_in(raw: bytes) -> tuple[Hold, ...]:
    """What kubelet's checkpoint says; `pod` is a uid.

    Raises ValueError, KeyError, TypeError: it makes no sense.
    """
    content: Any = parsed_json(raw)
    entries = content["Data"]["PodDeviceEntries"] or []
    return tuple(
        Hold(
            _word(entry["ResourceName"]),
            tuple(_ids(entry["DeviceIDs"])),
            pod=_word(entry["PodUID"]),
            container=_word(entry["ContainerName"]),
        )
        for entry in entries
    )


def _ids(value: Any) -> Iterator[str]:
    """Ids by NUMA node, or a bare list as kubelets before 1.20 wrote it."""
    lists = value.values() if isinstance(value, dict) else [value]
    for ids in lists:
        yield from (_word(slot) for slot in ids or ())


def _word(value: Any) -> str:
    """As text. Raises ValueError: half a character, which JSON can write and nothing else can."""
    text = str(value)
    text.encode()
    return text
