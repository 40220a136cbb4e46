"""DaemonSets whose pods nobody makes: a quota, a webhook or Pod Security forbids them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tonnage.decide.cluster.operate.refusals import RefusedRequest, policy_field
from tonnage.ports.clock import Clock
from tonnage.reading.gpu_policy import pods_not_made
from tonnage.wire.objects import DaemonSet

_PATIENCE_S: Final = 60.0


class UnmadePods:
    """Knows since when pods of each DaemonSet of a namespace are missing."""

    def __init__(self, clock: Clock, namespace: str) -> None:
        self._clock = clock
        self._namespace = namespace
        self._since: dict[str, float] = {}

    def current(self, sets: Iterable[DaemonSet]) -> list[RefusedRequest]:
        """Those of which pods have been missing for a minute."""
        now, before = self._clock.monotonic(), self._since
        missing = {daemons.metadata.name: words for daemons in sets if (words := pods_not_made(daemons))}
        self._since = {name: before.get(name, now) for name in missing}
        return [
            RefusedRequest(
                f"DaemonSet {self._namespace}/{name}",
                words,
                pods=True,
                field=policy_field("DaemonSet", name),
            )
            for name, words in sorted(missing.items())
            if now - self._since[name] >= _PATIENCE_S
        ]
