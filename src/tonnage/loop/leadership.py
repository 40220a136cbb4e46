"""LeaderElector: which of several processes acts, agreed on by a Lease.

Source: k8s.io/client-go/tools/leaderelection (v0.35). As there, nobody trusts another machine's clock: a
Lease has run out once it has not changed for its duration of this process' own time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import micro_timestamp
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import LEASE
from tonnage.wire.reports import Lease

_LASTS_S: Final = 15
_GIVEN_UP_S: Final = 10.0
_RETRY_S: Final = 2.0
_LOG: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseName:
    """The Lease that is held, and as whom."""

    namespace: str
    name: str
    identity: str


class Leadership:
    """Acquires the Lease, renews it every two seconds, and gives it up when that fails for ten.

    `held` is what fences a leader off: it turns false five seconds before anybody else can take the Lease,
    also where this process was stopped in between and has not noticed yet.
    """

    def __init__(self, api: KubernetesApi, clock: Clock, lease: LeaseName) -> None:
        self._api = api
        self._clock = clock
        self._lease = lease
        self._renewed: float | None = None
        self._current: Lease | None = None
        self._since = 0.0
        self.leader = ""
        """Who holds the Lease, as last current."""
        self.terms = 0
        """How often this process became the leader."""

    @property
    def held(self) -> bool:
        """Whether this process may act now."""
        return self._renewed is not None and self._clock.monotonic() < self._renewed + _GIVEN_UP_S

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the Lease and `lead` while it is held, again and again until cancelled.

        Cancelled, the Lease is given back, so that the next need not wait for its end.
        """
        try:
            while True:
                await self._acquire()
                await self._lead(lead)
        finally:
            await self._release()

    async def _acquire(self) -> None:
        while not await self._attempt():
            await self._clock.sleep(_RETRY_S)
        self.terms += 1
        _LOG.info("leading: lease=%s/%s identity=%s", *_words(self._lease))

    async def _lead(self, lead: Callable[[], Awaitable[None]]) -> None:
        work = asyncio.ensure_future(lead())
        renewal = asyncio.create_task(self._renew())
        try:
            await asyncio.wait((work, renewal), return_when=asyncio.FIRST_COMPLETED)
        finally:
            work.cancel()
            renewal.cancel()
            await asyncio.gather(work, renewal, return_exceptions=True)
        if not work.cancelled():
            work.result()
        _LOG.warning("not leading any more: lease=%s/%s identity=%s", *_words(self._lease))

    async def _renew(self) -> None:
        """Return when the Lease is not ours any more."""
        while self.held:
            await self._clock.sleep(_RETRY_S)
            await self._attempt()

    async def _attempt(self) -> bool:
        """Take or renew the Lease; whether it is ours now."""
        begun = self._clock.monotonic()
        try:
            ours = await self._take()
        except ClusterError as error:
            _LOG.info("lease not renewed: lease=%s/%s error=%s", *_words(self._lease)[:2], error)
            return False
        self._renewed = begun if ours else None
        return ours

    async def _take(self) -> bool:
        lease = self._lease
        try:
            current = await self._api.get(LEASE, lease.name, lease.namespace)
        except ApiError as error:
            if error.code != 404:
                raise
            self._note(await self._api.create(LEASE, self._body(None), namespace=lease.namespace))
            return True
        self._note(current)
        if self.leader not in ("", lease.identity) and not self._has_run_out(current):
            return False
        try:
            self._note(await self._api.replace(LEASE, self._body(current), namespace=lease.namespace))
        except ApiError as error:
            if error.code != 409:
                raise
            return False
        return True

    def _note(self, current: Lease) -> None:
        if (
            self._current is None
            or self._current.metadata.resource_version != current.metadata.resource_version
        ):
            self._current, self._since = current, self._clock.monotonic()
        self.leader = current.spec.holder_identity

    def _has_run_out(self, current: Lease) -> bool:
        return self._clock.monotonic() >= self._since + current.spec.lease_duration_seconds

    def _body(self, current: Lease | None, *, holder: str | None = None) -> JsonObject:
        lease, now = self._lease, micro_timestamp(self._clock.now())
        holder = lease.identity if holder is None else holder
        before = current.spec if current is not None else None
        same = before is not None and before.holder_identity == holder
        passed_on = bool(holder) and not same
        spec: JsonObject = {
            "holderIdentity": holder,
            "leaseDurationSeconds": _LASTS_S if holder else 1,
            "acquireTime": before.acquire_time if before is not None and same else now,
            "renewTime": now,
            "leaseTransitions": 0 if before is None else before.lease_transitions + passed_on,
        }
        metadata: JsonObject = {"name": lease.name, "namespace": lease.namespace}
        if current is not None:
            metadata["resourceVersion"] = current.metadata.resource_version
        return {"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata, "spec": spec}

    async def _release(self) -> None:
        held, self._renewed = self.held, None
        if not held or self._current is None:
            return
        try:
            body = self._body(self._current, holder="")
            await self._api.replace(LEASE, body, namespace=self._lease.namespace)
        except ClusterError as error:
            _LOG.info("lease not given back: lease=%s/%s error=%s", *_words(self._lease)[:2], error)


def _words(lease: LeaseName) -> tuple[str, str, str]:
    return lease.namespace, lease.name, lease.identity
