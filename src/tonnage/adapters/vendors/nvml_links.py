"""How NVML says that devices are connected: hundreds of calls, so once for each set of devices."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from types import ModuleType
from typing import Any

from tonnage.adapters.vendors.nvml_reading import optional
from tonnage.adapters.vendors.nvml_session import NvmlSession
from tonnage.model.devices.links import NVSWITCH, Link, PciLevel


def read_links(session: NvmlSession, step: Callable[[int], None]) -> tuple[Link, ...]:
    """The links that every device states that can be read. Lets the session be closed between devices.

    `step` is told the place of each device before it is asked.

    Raises NVMLError; OSError: it was closed meanwhile.
    """
    with session.held() as nvml:
        number = session.number
        handles, addresses = _devices(nvml)
    links: list[Link] = []
    levels: dict[tuple[str, str], PciLevel] = {}
    for place, (source, handle) in enumerate(handles.items()):
        step(place)
        with session.held() as nvml:
            if session.number != number:
                raise OSError("the driver was reloaded while links were read")
            nvlinks = Counter(_ends(nvml, handle, addresses))
            for target in (*handles, NVSWITCH):
                level = levels.get((target, source))
                if level is None and target not in (source, NVSWITCH):
                    level = _level(nvml, handle, handles[target])
                if level is not None:
                    levels[source, target] = level
                if target != source and (level is not None or nvlinks[target]):
                    links.append(Link(source, target, nvlinks[target], level))
    return tuple(links)


def _devices(nvml: ModuleType) -> tuple[dict[str, Any], dict[str, str]]:
    """Handles by uuid, and uuids by PCI address."""
    handles: dict[str, Any] = {}
    addresses: dict[str, str] = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid: str = nvml.nvmlDeviceGetUUID(handle)
            addresses[_address(nvml.nvmlDeviceGetPciInfo_v3(handle).busId)] = uuid
        except (nvml.NVMLError, ValueError):
            continue  # lost: it is asked when it is back
        handles[uuid] = handle
    return handles, addresses


def _ends(nvml: ModuleType, handle: Any, addresses: Mapping[str, str]) -> Iterator[str]:
    """For each active NVLink of the device: the uuid of the device where it ends, or NVSWITCH."""
    for number in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            if not nvml.nvmlDeviceGetNvLinkState(handle, number):
                continue
            if _type(nvml, handle, number) == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
                yield NVSWITCH
                continue
            peer = addresses.get(_address(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, number).busId))
        except nvml.NVMLError as error:
            if error.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_INVALID_ARGUMENT):
                return  # it has no more
            continue
        except ValueError:  # no address
            continue
        if peer is not None:
            yield peer


def _type(nvml: ModuleType, handle: Any, number: int) -> int | None:
    """None: the driver is older than the question."""
    return optional(nvml, lambda: nvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, number))


def _level(nvml: ModuleType, handle: Any, other: Any) -> PciLevel | None:
    """What the pair shares in the PCI tree; the same both ways."""
    try:
        return PciLevel(nvml.nvmlDeviceGetTopologyCommonAncestor(handle, other))
    except (nvml.NVMLError, ValueError):
        return None


def _address(bus_id: str) -> str:
    """The same text for the same address: NVML writes domains of four digits and of eight."""
    domain, _, rest = bus_id.lower().partition(":")
    return f"{domain[-4:].rjust(4, '0')}:{rest}"
