"""Which plugin sockets to open, refresh and close, given what should be advertised and what stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tonnage.model.devices.sharing import Advertisement
from tonnage.model.names import ResourceName


@dataclass(frozen=True, slots=True)
class RunningPluginServer:
    """A running plugin server; `kubelet` identifies the kubelet socket it registered at, else empty."""

    advertised: Advertisement
    socket_present: bool = True
    kubelet: str = ""


@dataclass(frozen=True, slots=True)
class Serve:
    """Open the socket of a resource, in place of one that vanished if there was one."""

    advertisement: Advertisement


@dataclass(frozen=True, slots=True)
class Publish:
    """Tell every open stream the new list."""

    advertisement: Advertisement


@dataclass(frozen=True, slots=True)
class Register:
    """Introduce the resource to the kubelet that is there now."""

    resource: ResourceName


@dataclass(frozen=True, slots=True)
class Withdraw:
    """Tell kubelet that nothing is left, then close."""

    resource: ResourceName


SocketStep: TypeAlias = Serve | Publish | Register | Withdraw
"""No Action of `model.actions`: the plugin's own loop takes it, not the performer."""


def reconcile(
    desired: tuple[Advertisement, ...], served: Mapping[ResourceName, RunningPluginServer], kubelet: str
) -> tuple[SocketStep, ...]:
    """Steps from what stands to what should, withdrawals first so that no device is offered twice.

    `kubelet` identifies kubelet's registration socket, empty when there is none. A resource is registered
    again whenever its own socket was opened anew or kubelet's is another one.
    """
    advertised = {advertisement.resource for advertisement in desired}
    steps: list[SocketStep] = [Withdraw(name) for name in served if name not in advertised]
    for advertisement in desired:
        name, now = advertisement.resource, served.get(advertisement.resource)
        opening = now is None or not now.socket_present
        if opening:
            steps.append(Serve(advertisement))
        elif now is not None and now.advertised != advertisement:
            steps.append(Publish(advertisement))
        if kubelet and (opening or now is None or now.kubelet != kubelet):
            steps.append(Register(name))
    return tuple(steps)
