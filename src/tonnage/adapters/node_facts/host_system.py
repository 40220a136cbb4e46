"""What a driver needs of its host, as the agent can see it: kernel, buses, and files of the host's root."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tonnage.adapters.node_facts.files import NodeFiles
from tonnage.adapters.node_facts.hardware import (
    CONTAINER_DRIVER,
    driver_libraries,
    hardware_facts,
    has_headers,
    module_version,
    os_release,
    secure_boot,
)
from tonnage.model.drivers.node import HostSystem

_NVIDIA: Final = "10de"
_NOUVEAU: Final = "nouveau"


def host_system(root: Path, driver_root: Path | None = None) -> HostSystem:
    """Kernel and buses below `root`; the rest from whichever of the two is the host's root.

    A pod's own `/etc/os-release` is the image's: only the host's root has the kernel's modules.
    """
    own = NodeFiles(root)
    release = own.text("/proc/sys/kernel/osrelease", 4096)
    candidates = [own] if driver_root is None else [NodeFiles(driver_root), own]
    host = next((files for files in candidates if files.there(f"/lib/modules/{release}/kernel")), None)
    hardware = hardware_facts(own).gpus
    gpus = None if hardware is None else [gpu for gpu in hardware if gpu.vendor == _NVIDIA]
    variables = {} if host is None else os_release(host)
    return HostSystem(
        system_id=variables.get("ID", "")[:100],
        system_version=variables.get("VERSION_ID", "")[:100],
        kernel=release[:100],
        headers=None if host is None else has_headers(host, release),
        gpus_on_bus=None if gpus is None else len(gpus),
        nouveau_bound=None if gpus is None else sum(gpu.driver == _NOUVEAU for gpu in gpus),
        secure_boot=next((on for files in candidates if (on := secure_boot(files)) is not None), None),
        module=module_version(own)[:40],
        **_owner(host, own, driver_root),
    )


def _owner(host: NodeFiles | None, own: NodeFiles, driver_root: Path | None) -> dict[str, str]:
    """Whose libraries there are; nothing where they cannot be seen."""
    for files in (host, own):
        if files is not None and (version := driver_libraries(files, CONTAINER_DRIVER)):
            return {"driver_owner": "container", "driver_version": version}
    if host is not None:
        version = driver_libraries(host, "/")
        return {"driver_owner": "host" if version else "none", "driver_version": version}
    if driver_root is not None and (version := driver_libraries(NodeFiles(driver_root), "/")):
        return {"driver_owner": "container", "driver_version": version}
    return {}
