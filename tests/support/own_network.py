"""A network of the suite's own: addresses and ports that nobody else has, and no trace when it ends."""

from __future__ import annotations

import ctypes
import os
import socket
import subprocess
import threading
from typing import Final

from tonnage.adapters.control_plane import SERVICE_ADDRESS

NODE_ADDRESS: Final = "10.251.0.1"
POD_RANGE: Final = "10.244.0.0/24"
_CLONE_NEWNET: Final = 0x40000000
_BRIDGE: Final = "tonnage0"


def enter_own_network() -> None:
    """Move this process into a new network namespace; what it starts later is in there too.

    A kubelet wants an address that is not loopback, pods want the Service `kubernetes`: a bridge has both, so
    no proxy of services is needed. Once is enough: a second call finds the bridge and does nothing.

    Raises:
        PermissionError: this is not root, or root may not make namespaces here.
    """
    if is_own_network():
        return
    # Sockets that exist keep working in the old one, threads that exist stay there: none must be waiting.
    others = [thread.name for thread in threading.enumerate() if thread is not threading.current_thread()]
    assert not others, f"these threads would stay in the old network: {others}"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET):
        number = ctypes.get_errno()
        raise PermissionError(number, f"no network namespace: {os.strerror(number)}")
    for command in (
        "link set lo up",
        f"link add {_BRIDGE} type bridge",
        f"address add {NODE_ADDRESS}/24 dev {_BRIDGE}",
        f"address add {SERVICE_ADDRESS}/32 dev {_BRIDGE}",
        f"link set {_BRIDGE} up",
        f"route add default via {NODE_ADDRESS} dev {_BRIDGE}",
    ):
        subprocess.run(["ip", *command.split()], check=True, timeout=60)


def is_own_network() -> bool:
    """Whether this process is in one. /sys shows the network of who mounted it, so the kernel is asked."""
    return any(name == _BRIDGE for _, name in socket.if_nameindex())
