"""kubelet's folders as they lie on the node; only pod resources are asked for, the rest is read."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

from tonnage.adapters.kubelet.checkpoint_file import holds_in
from tonnage.adapters.node_facts.files import NodeFiles
from tonnage.model.devices.sharing import Hold
from tonnage.model.errors import ClusterError
from tonnage.model.json import parsed_json
from tonnage.model.node.facts import KubeletFacts, SocketFile

KUBELET: Final = "/var/lib/kubelet"
PLUGINS: Final = f"{KUBELET}/device-plugins"
_DRIVERS: Final = f"{KUBELET}/plugins_registry"
_CHECKPOINT: Final = f"{PLUGINS}/kubelet_internal_checkpoint"
_POD_RESOURCES: Final = f"{KUBELET}/pod-resources/kubelet.sock"
_ACCOUNT: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_MOST_BYTES: Final = 16 << 20
_MOST_SOCKETS: Final = 200


def kubelet_facts(files: NodeFiles) -> KubeletFacts:
    """Sockets, who listens on them, and what kubelet remembers of plugins."""
    registered, trouble = _registered(files)
    return KubeletFacts(
        folder=files.there(PLUGINS),
        socket=files.socket(f"{PLUGINS}/kubelet.sock"),
        plugins=tuple(_sockets(files, PLUGINS)),
        drivers=tuple(_sockets(files, _DRIVERS)) if files.there(_DRIVERS) else None,
        pod_resources=files.socket(_POD_RESOURCES),
        registered=registered,
        checkpoint_trouble=trouble,
        contained=files.there(_ACCOUNT),
        now=time.time(),
    )


def _sockets(files: NodeFiles, folder: str) -> Iterator[SocketFile]:
    """Those of a folder, without kubelet's own."""
    names = [name for name in files.names(folder) if name.endswith(".sock") and name != "kubelet.sock"]
    for name in names[:_MOST_SOCKETS]:
        if (socket := files.socket(f"{folder}/{name}")) is not None:
            yield socket


def _registered(files: NodeFiles) -> tuple[dict[str, int] | None, str]:
    """(healthy devices by resource, why they cannot be told)."""
    content = files.read(_CHECKPOINT, _MOST_BYTES)
    if content.content is None:
        return None, content.trouble
    try:
        holds_in(content.content)
        checkpoint: Any = parsed_json(content.content)
        devices = checkpoint["Data"]["RegisteredDevices"] or {}
        return {str(name): len(ids or ()) for name, ids in devices.items()}, ""
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return None, f"it is malformed ({type(error).__name__})"


async def kubelet_holds(files: NodeFiles) -> tuple[tuple[Hold, ...] | None, bool, str]:
    """(who has what, whether by uid, why pod resources did not say); the checkpoint says it then."""
    place = files.place(KUBELET)
    trouble = "kubelet's pod resources socket is missing"
    if place is not None and files.there(_POD_RESOURCES):
        from tonnage.adapters.kubelet.device_holders import KubeletFiles  # with gRPC, which takes a while

        kubelet = KubeletFiles(place)
        try:
            shown = await kubelet.shown()
            return (*shown.holds, *shown.claims), False, ""
        except ClusterError as error:
            trouble = error.problems[0].what
        finally:
            await kubelet.close()
    content = files.read(_CHECKPOINT, _MOST_BYTES)
    try:
        return (holds_in(content.content), True, trouble) if content.content else (None, True, trouble)
    except (ValueError, KeyError, TypeError):
        return None, True, trouble
