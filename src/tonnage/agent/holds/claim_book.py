"""The claims that were prepared on this node: noted first, so that a crash leaves nothing unknown."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from tonnage.agent.context import AgentContext
from tonnage.agent.holds.claim_file import claims_bytes, claims_in
from tonnage.agent.holds.hold_ledger import HoldLedger
from tonnage.decide.node.claims.sharing import SharedUse
from tonnage.decide.node.ledger import IdOwner, LedgerEntry
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.devices.claims import ClaimRef, Partition, PreparedClaim
from tonnage.model.devices.sharing import HoldKind
from tonnage.model.errors import HardwareError

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "claims"
_STILL_HELD: Final = (
    "their GPUs are held until kubelet gives them back; their MPS daemons have ended, and MIG devices"
    " that were made for them stay until somebody removes them"
)
_REMEDY: Final = (
    "run the agent that wrote the file, or remove /var/lib/tonnage/claims and start this one again: GPUs stay"
    " held until their claims are given back"
)


class ClaimBook:
    """Keeps claims by uid, and their devices in the ledger as holds.

    Whoever asks holds `ledger.answering`. A claim of an earlier boot is remembered, so that it can be
    unprepared, and holds nothing: its containers ended with that boot.
    """

    def __init__(self, context: AgentContext, ledger: HoldLedger, *, boot: str) -> None:
        self._node = context.node
        self._clock = context.clock
        self._events = context.events
        self._checkpoints = context.checkpoints
        self._performer = context.performer
        self._ledger = ledger
        self.boot = boot
        self._claims: dict[str, PreparedClaim] = {}
        self.unreadable = ""
        """Why the file of an earlier agent must not be touched; empty: it may."""

    @property
    def claims(self) -> Mapping[str, PreparedClaim]:
        """By uid."""
        return self._claims

    def current(self, uid: str) -> PreparedClaim | None:
        """The claim, if it was prepared in this boot."""
        noted = self._claims.get(uid)
        return noted if noted is not None and noted.boot == self.boot else None

    def current_claims(self) -> tuple[PreparedClaim, ...]:
        """Those that were prepared in this boot, or are being."""
        return tuple(noted for noted in self._claims.values() if noted.boot == self.boot)

    def uids(self) -> dict[str, str]:
        """By `namespace/name`, the uid of the claim that holds devices under it."""
        return {str(noted.claim): noted.claim.uid for noted in self.current_claims()}

    def partitions(self) -> frozenset[Partition]:
        """MIG devices that were made for claims of this boot, or are being made."""
        return frozenset(
            device.partition
            for noted in self.current_claims()
            for device in noted.devices
            if device.partition is not None
        )

    def shared(self) -> dict[str, tuple[SharedUse, ...]]:
        """By uuid, the claims of this boot that have parts of a GPU."""
        uses: dict[str, tuple[SharedUse, ...]] = {}
        for noted in self.current_claims():
            intervals = {sliced.uuid: sliced.interval for sliced in noted.slices}
            for uuid in dict.fromkeys(device.uuid for device in noted.devices if device.share):
                use = SharedUse(str(noted.claim), intervals.get(uuid))
                uses[uuid] = (*uses.get(uuid, ()), use)
        return uses

    async def restore(self) -> bool:
        """Know what an earlier agent noted; whether there is anything of it.

        Where the file is damaged, which is set aside then, the ledger still has the holds.
        """
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            if payload is None:
                return False
            self._claims = {prepared.claim.uid: prepared for prepared in claims_in(payload)}
        except HardwareError as error:
            self._report("ClaimsForgotten", f"prepared claims are unknown; {_STILL_HELD}: {error}")
            return True
        except ValueError as error:
            self.unreadable = f"claims that an earlier agent prepared cannot be read: {error}; {_REMEDY}"
            self._report("ClaimsNotReadable", self.unreadable)
            return True
        await self._ledger.restore()
        for prepared in self._claims.values():
            await self._hold(prepared)
        return True

    async def note(self, prepared: PreparedClaim) -> None:
        """Note a claim and hold its devices, before anything else. Raises HardwareError: do not answer."""
        claims = {**self._claims, prepared.claim.uid: prepared}
        await self._save(claims)
        self._claims = claims
        await self._hold(prepared)

    async def forget(self, claim: ClaimRef) -> None:
        """The claim is over, and nothing of it is left. Raises HardwareError: ask again.

        Its hold goes also where it is not noted: the ledger outlives a lost file.
        """
        claims = {uid: other for uid, other in self._claims.items() if uid != claim.uid}
        if not any(other.claim[:2] == claim[:2] for other in claims.values()):
            await self._ledger.release(str(claim))
        if len(claims) < len(self._claims):
            await self._save(claims)
            self._claims = claims

    def _report(self, reason: str, text: str) -> None:
        _LOG.error("claims not readable: node=%s error=%s", self._node, text)
        self._events.post("Warning", reason, text)

    async def _hold(self, prepared: PreparedClaim) -> None:
        if prepared.boot != self.boot:
            return
        uid, pod = prepared.consumers[0] if prepared.consumers else ("", "")
        owner = IdOwner(uid=uid, namespace=prepared.claim.namespace, pod=pod)
        now = self._clock.monotonic()
        entries = [
            LedgerEntry(str(prepared.claim), device.uuid, 0, now, owner=owner, kind=HoldKind.CLAIM)
            for device in prepared.devices
            if device.uuid
            and not device.admin
            and (str(prepared.claim), device.uuid) not in self._ledger.entries
        ]
        if entries:
            await self._ledger.take(lambda: entries)

    async def _save(self, claims: Mapping[str, PreparedClaim]) -> None:
        # Nothing in it outlives the machine's boot, so that it need not outlast a loss of power.
        await self._performer.perform(
            SaveCheckpoint(CHECKPOINT, claims_bytes(claims.values()), lasting=False)
        )
