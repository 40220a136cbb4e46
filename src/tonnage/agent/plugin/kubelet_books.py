"""kubelet's two books of who has which device: its list, and its checkpoint."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from tonnage.agent.context import AgentContext
from tonnage.agent.node_pods import NodePods
from tonnage.decide.node.ledger import Evidence, gather
from tonnage.model.devices.sharing import Hold
from tonnage.model.errors import ClusterError, HardwareError
from tonnage.ports.node import KubeletHolds, Shown

_LOG: Final = logging.getLogger(__name__)
_SETTLE_S: Final = 10.0
"""How long a kubelet that has just appeared may still be reading its pods, where nobody says which it has."""


class KubeletBooks:
    """Reads both, and judges what they are worth: a kubelet that has just started has read nothing yet."""

    def __init__(self, context: AgentContext, kubelet: KubeletHolds, pods: NodePods) -> None:
        self._node = context.node
        self._clock = context.clock
        self._kubelet = kubelet
        self._pods = pods
        self._identity = ""
        self._asked_identity = ""
        """The kubelet that was asked last."""
        self._appeared = 0.0
        self._caught_up = False
        self._complaints: dict[str, str] = {}

    @property
    def restarted(self) -> bool:
        """Whether another kubelet is there than the one that was asked last."""
        return self._kubelet.identity() != self._asked_identity

    async def read(self, before: Evidence, order: int, *, listing: bool) -> Evidence:
        """What they say, without the list unless `listing`; and which kubelet's they are."""
        self._asked_identity = identity = self._kubelet.identity()
        shown = await self._shown() if listing else None
        settled = shown is not None and self._settled(shown, identity)
        checkpoint = await self._checkpoint()
        reserved = checkpoint and self._reserved(checkpoint, final=settled)
        listed_holds = None if shown is None else shown.holds
        evidence = gather(before, listed_holds, reserved, order=order, settled=settled)
        pods = frozenset[tuple[str, str]]() if shown is None else shown.pods
        claims = before.claims if shown is None else shown.claims
        kubelet = identity if identity == self._kubelet.identity() else ""
        return replace(evidence, kubelet=kubelet, pods=pods, claims=claims)

    async def _shown(self) -> Shown | None:
        try:
            shown = await self._kubelet.shown()
        except ClusterError as error:
            self._complain("kubelet silent", str(error))
            return None
        self._complain("kubelet silent", "")
        return shown

    async def _checkpoint(self) -> tuple[Hold, ...] | None:
        try:
            checkpoint = await self._kubelet.checkpoint()
        except HardwareError as error:
            self._complain("kubelet's checkpoint not readable", str(error))
            return None
        self._complain("kubelet's checkpoint not readable", "")
        return checkpoint

    def _reserved(self, checkpoint: tuple[Hold, ...], *, final: bool) -> tuple[Hold, ...]:
        """What the checkpoint has for pods that may live.

        It keeps pods that ended. With nobody to ask which those are, kubelet's list alone counts once it is
        `final`; then an init container's devices are held for `UNSEEN_S` only.
        """
        over = self._pods.over(hold.pod for hold in checkpoint)
        if over is None:
            return () if final else checkpoint
        names = self._pods.living() or {}
        return tuple(
            replace(
                hold, namespace=names.get(hold.pod, ("", ""))[0], pod=names.get(hold.pod, ("", hold.pod))[1]
            )
            for hold in checkpoint
            if hold.pod not in over
        )

    def _settled(self, shown: Shown, identity_before: str) -> bool:
        """Whether kubelet has read its pods: it lists all that live here, or has had time enough."""
        identity, now = self._kubelet.identity(), self._clock.monotonic()
        if identity != self._identity:
            self._identity, self._appeared, self._caught_up = identity, now, False
        living = self._pods.living()
        if living is not None and shown.pods.issuperset(living.values()):
            self._caught_up = True
        if identity != identity_before:  # restarted meanwhile: which of them listed this is not known
            self._caught_up = False
            return False
        return bool(identity) and (self._caught_up or now - self._appeared >= _SETTLE_S)

    def _complain(self, subject: str, error: str) -> None:
        """Log a complaint once, until it changes or is over (an empty error)."""
        if error and error != self._complaints.get(subject):
            _LOG.warning("%s: node=%s error=%s", subject, self._node, error)
        self._complaints[subject] = error
