"""Metrics of a cluster out of copies of its objects, which watches keep fresh: nothing is listed twice."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from tonnage.loop.informer import Informer
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.metric_families import Metric, MetricFamily, MetricKind
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesReader
from tonnage.reading.cluster import snapshot_from
from tonnage.reading.command_kinds import CLUSTER_METRICS_KINDS
from tonnage.reading.coverage import OF_CLAIMS, Coverage, with_coverage
from tonnage.reading.documents import READ_KINDS
from tonnage.wire.kinds import Kind

STALE: Final = 3
"""Intervals after which a copy that cannot be kept fresh is shown no longer."""
_ASK_AGAIN: Final = 10
"""Intervals after which kinds that could not be listed are asked for again."""
_NOBODY: Final = "metadata.name=tonnage-may-list"
_FORBIDDEN: Final = 403
_NO_SUCH_KIND: Final = 404


@dataclass(frozen=True, slots=True)
class FollowedCluster:
    """The cluster that is followed. Where lists of all namespaces are refused, `namespace` is.

    `shared` are copies of whole kinds that others keep fresh: those are not listed twice.
    """

    api: KubernetesReader
    server_version: Callable[[], Awaitable[str]]
    """Asked again now and then: API servers are upgraded."""
    namespace: str = ""
    shared: tuple[Informer[Any], ...] = ()


def read_failures(count: int) -> Metric:
    """How often the API server refused or did not answer."""
    text = "Readings of the cluster that failed."
    return Metric(MetricKind.COUNTER, "tonnage_cluster_read_failures", text, (), (((), float(count)),))


class ClusterCollector:
    """Follows a cluster and works out its metrics each interval, as `families_of` does of a snapshot."""

    def __init__(
        self,
        source: FollowedCluster,
        clock: Clock,
        interval_s: float,
        families_of: Callable[[Snapshot], Iterable[MetricFamily]],
    ) -> None:
        self._source = source
        self._clock = clock
        self._interval_s = interval_s
        self._families_of = families_of
        self._copies: dict[str, Informer[Any]] = {copy.kind.kind: copy for copy in source.shared}
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._version = ""
        self._scopes: dict[str, str] = {}
        self._refusals: dict[str, ApiError] = {}
        self._failures = 0
        self._why = "the cluster has not been read yet"
        self._families: tuple[MetricFamily, ...] = ()

    def families(self) -> tuple[MetricFamily, ...]:
        """What the page shows: nothing of a cluster that has not answered for three intervals."""
        failures = self._failures + sum(copy.errors for copy in self._copies.values())
        return (*(() if self.problems() else self._families), read_failures(failures))

    def problems(self) -> tuple[str, ...]:
        """What is wrong, a line for each kind of object."""
        if self._why:
            return (self._why,)
        now, most_s = self._clock.monotonic(), STALE * self._interval_s
        return tuple(
            f"{copy.kind.plural}: the API server has not answered for {now - copy.lost_s:.0f} s"
            for copy in self._copies.values()
            if copy.lost_s is not None and now - copy.lost_s > most_s
        )

    async def run(self) -> None:
        """Run until cancelled."""
        turn = 0
        async with asyncio.TaskGroup() as group:
            while True:
                if turn % _ASK_AGAIN == 0 or self._why:
                    await self._follow(group)
                turn += 1
                if not self._why:
                    await self._work_out()
                await self._clock.sleep(self._interval_s)

    async def _follow(self, group: asyncio.TaskGroup) -> None:
        """Begin to copy every kind that may be listed and is not copied yet."""
        try:
            self._version = await self._source.server_version()
            for kind in CLUSTER_METRICS_KINDS:
                if kind.kind not in self._copies and (copy := await self._begin(kind)) is not None:
                    # At once: the next kind may not be answered.
                    self._followers[kind.kind] = group.create_task(copy.run())
        except ClusterError as error:
            self._failures += 1
            self._why = self._why and str(error)  # what was read stands until its copies are stale
            return
        for name, copy in tuple(self._copies.items()):
            if not await copy.answered() and copy.refusal is not None:
                self._forget(name, copy.refusal)
        if not {"Node", "Pod"} & self._copies.keys():
            self._fail(str(self._refusals.get("Pod", "pods cannot be listed")))
            return
        self._why = ""

    def _forget(self, name: str, refusal: ApiError) -> None:
        """The right to list the kind was taken away before its first list: it is asked for again later."""
        self._followers.pop(name).cancel()
        self._failures += self._copies.pop(name).errors
        self._scopes.pop(name, None)
        self._refusals[name] = refusal

    async def _begin(self, kind: Kind[Any]) -> Informer[Any] | None:
        """A copy of the kind, else of its objects in the namespace; None where neither may be listed."""
        source = self._source
        scopes: list[str | None] = [None]
        if kind.namespaced and source.namespace:
            scopes.append(source.namespace)
        for scope in scopes:
            try:
                await source.api.list(kind, namespace=scope, field_selector=_NOBODY)
            except ApiError as error:
                if error.code not in (_FORBIDDEN, _NO_SUCH_KIND):
                    raise
                self._refusals[kind.kind] = error
                continue
            if scope is None:
                self._refusals.pop(kind.kind, None)
            else:
                self._scopes[kind.kind] = scope
            copy = self._copies[kind.kind] = Informer(source.api, kind, self._clock, namespace=scope)
            return copy
        return None

    def _fail(self, why: str) -> None:
        self._failures += 1
        self._why = why

    async def _work_out(self) -> None:
        """A thread does it: of thousands of pods it takes a while."""
        objects = [obj for copy in self._copies.values() for obj in copy]
        try:
            self._families = await asyncio.to_thread(self._worked_out, objects)
        except ValueError as error:  # a version that Kubernetes does not have
            self._fail(str(error))

    def _worked_out(self, objects: list[Any]) -> tuple[MetricFamily, ...]:
        source = self._source
        now = self._clock.now() + timedelta(seconds=source.api.server_ahead_s)
        snapshot = snapshot_from(objects, server_version=self._version, now=now)
        objects.clear()  # of a large fleet many have been replaced meanwhile, and would be held twice
        return tuple(self._families_of(with_coverage(snapshot, self._coverage())))

    def _coverage(self) -> Coverage:
        unserved = frozenset(
            kind for kind, refusal in self._refusals.items() if refusal.code == _NO_SUCH_KIND
        )
        read = frozenset(self._copies) | unserved
        return Coverage(
            read=read,
            missing=frozenset(kind.kind for kind in READ_KINDS) - read,
            scopes=self._scopes,
            forbidden=frozenset(self._refusals) - unserved,
            unserved=unserved & OF_CLAIMS,
        )
