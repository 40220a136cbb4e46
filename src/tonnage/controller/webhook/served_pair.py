"""The pair that a replica serves by, followed in its Secret: whoever fills that one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from tonnage.controller.webhook.certificates import pair_of
from tonnage.loop.informer import Informer
from tonnage.model.key_pair import KeyPair
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesReader
from tonnage.wire.kinds import SECRET
from tonnage.wire.objects import Secret


class ServedPair:
    """Every replica follows it, not only the one that leads: the API server asks any of them."""

    def __init__(self, api: KubernetesReader, clock: Clock, namespace: str, secret: str) -> None:
        self._key = (secret, namespace)
        self._changed = asyncio.Event()
        self._secrets: Informer[Secret] = Informer(
            *(api, SECRET, clock),
            namespace=namespace,
            field_selector=f"metadata.name={secret}",
            on_change=lambda _key: self._changed.set(),
        )

    async def run(self) -> None:
        """Follow the Secret until cancelled."""
        await self._secrets.run()

    def current(self) -> KeyPair | None:
        """The pair as last seen."""
        secret = self._secrets.get(*self._key)
        return None if secret is None else pair_of(secret.data)

    async def pairs(self) -> AsyncIterator[KeyPair]:
        """Each pair once it is there; one that is taken away stays in use."""
        served: KeyPair | None = None
        while True:
            self._changed.clear()
            pair = self.current()
            if pair is not None and pair != served:
                served = pair
                yield pair
            await self._changed.wait()
