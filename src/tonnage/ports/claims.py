"""ResourceClaims, as the agent serves them to kubelet."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Protocol

from tonnage.model.devices.claims import ClaimRef, HealthReport, PreparedClaim

ClaimAnswer = tuple[PreparedClaim, Sequence[str]] | str
"""What was prepared, with each device's CDI name in their order; or why nothing was."""


class ClaimService(Protocol):
    """What answers kubelet's questions about claims. Both answer for every claim by its uid."""

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, ClaimAnswer]:
        """What each claim's containers get."""
        ...

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        """Why a claim's devices are not given back; empty when they are, or it was never prepared."""
        ...


HealthStream = Callable[[], AsyncIterator[Sequence[HealthReport]]]
"""How all devices are, now and whenever that changes; every report is of all of them."""


class ClaimSockets(Protocol):
    """kubelet's folder of plugins: sockets of our own for claims, and those of others."""

    async def other(self) -> str:
        """The socket by which another driver of our name is registered; empty when none is."""
        ...

    async def serve(self, service: ClaimService, health: HealthStream) -> None:
        """Open both sockets; kubelet finds them by itself. Raises HardwareError: disk, permission, path."""
        ...

    def standing_by(self) -> bool:
        """Whether they are open already, and calls still go to the agent that had the node before."""
        ...

    def present(self) -> bool:
        """Whether both still lie there and are our own."""
        ...

    def registered(self) -> str | None:
        """What kubelet said of the registration: empty for yes, else why not; None: nothing yet."""
        ...

    def watch(self, on_change: Callable[[], None]) -> bool:
        """Have `on_change` called when sockets came or went, or kubelet spoke. False: nobody tells of it."""
        ...

    async def close(self) -> None:
        """Close and remove both; kubelet takes the slices away half a minute later."""
        ...


class EarlySockets(ClaimSockets, Protocol):
    """Those of an agent that does not have the node yet."""

    def has_holder(self) -> bool:
        """Whether another agent of ours serves claims on this node."""
        ...

    async def stand_by(self) -> None:
        """Open both, and pass calls on to the agent that has the node. Raises HardwareError."""
        ...
