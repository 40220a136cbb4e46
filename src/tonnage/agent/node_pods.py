"""Which pods of this node are over, as the API server says. In doubt a pod lives."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from tonnage.agent.context import AgentContext
from tonnage.decide.node.ledger import Census, Claim
from tonnage.loop.informer import Informer, following, key_of
from tonnage.model.errors import ClusterError
from tonnage.model.kubernetes.quantity import integer_value
from tonnage.model.node.telemetry import PodIdentity
from tonnage.wire.kinds import POD
from tonnage.wire.objects import Container, Pod

_LOG: Final = logging.getLogger(__name__)
_ENDED: Final = frozenset({"Succeeded", "Failed"})
_STATIC_UID: Final = "kubernetes.io/config.hash"
"""The uid that kubelet itself has for a static pod stands in this annotation of its mirror."""
_RETRY_S: Final = 1.0


class NodePods:
    """The pods bound to the node. `on_change` is called when one came, ended or left."""

    def __init__(
        self, context: AgentContext, *, on_change: Callable[[], None], on_census: Callable[[], None]
    ) -> None:
        self._api = context.api
        self._clock = context.clock
        self._started = context.started
        self._on_change = on_change
        self._on_census = on_census
        self._selector = f"spec.nodeName={context.node}"
        self._over: frozenset[str] = frozenset()
        self._doubtful: frozenset[str] = frozenset()
        self._order = 0
        self._doubt = asyncio.Event()
        self._informer: Informer[Pod] | None = None
        self._synced = False
        self.census = Census()

    @property
    def can_be_asked(self) -> bool:
        """Whether there is a cluster to ask, now or later."""
        return self._api is not None

    async def run(self) -> None:
        """Follow the pods until cancelled."""
        if self._api is None:
            return
        await self._started.wait()
        self._informer = Informer(
            self._api, POD, self._clock, field_selector=self._selector, on_change=lambda _: self._on_change()
        )
        async with following(self._informer):
            self._synced = True
            self._on_change()
            while True:
                await self._doubt.wait()
                self._doubt.clear()
                await self._inquire()

    def living(self) -> dict[str, tuple[str, str]] | None:
        """(namespace, name) by uid of the pods that are not over; None when that is not known."""
        if self._informer is None or not self._synced:
            return None
        return {uid: key_of(pod) for pod in self._informer if not _is_over(pod) for uid in _uids(pod)}

    def identities(self) -> dict[str, PodIdentity]:
        """What is known of each pod that is not over, by `namespace/name`; nothing until all are listed."""
        if self._informer is None or not self._synced:
            return {}
        return {"/".join(key_of(pod)): _identity(pod) for pod in self._informer if not _is_over(pod)}

    @property
    def admits(self) -> bool:
        """Whether kubelet has said nothing yet of the containers of a pod that asks for devices."""
        return any(_is_new(pod) and next(_claims(pod), None) is not None for pod in self._informer or ())

    def requested(self) -> Mapping[str, int] | None:
        """Devices that the pods ask for which are not over, by resource; None when that is not known."""
        if self._informer is None or not self._synced:
            return None
        total: Counter[str] = Counter()
        for pod in self._informer:
            if not _is_over(pod):
                total += requested_devices(pod)
        return dict(total)

    def idle(self) -> frozenset[tuple[str, str]]:
        """(uid, container) of containers that ran and do not run now."""
        return frozenset(
            (uid, name) for pod in self._informer or () for uid in _uids(pod) for name in _idle(pod)
        )

    def over(self, uids: Iterable[str]) -> frozenset[str] | None:
        """Those of `uids` that ended or are gone; None when there is nobody to ask.

        kubelet may know a pod before our watch does. So one that is not known here is inquired after first,
        in the background, with a list that is younger than this question; `on_change` follows.
        """
        if self._api is None:
            return None
        sought = frozenset(uids)
        over_by_uid = {uid: _is_over(pod) for pod in self._informer or () for uid in _uids(pod)}
        ended = frozenset(uid for uid in sought if over_by_uid.get(uid))
        self._over = (self._over & sought) | ended
        self._doubtful = sought - self._over - over_by_uid.keys()
        if self._doubtful and self._synced:
            self._doubt.set()
        return self._over

    def count(self, order: int) -> None:
        """Take a census in the background for the question of that number; `on_census` follows."""
        if self._api is not None and order > self.census.order:
            self._order = order
            self._doubt.set()

    async def _inquire(self) -> None:
        assert self._api is not None
        doubtful, order = self._doubtful, self._order
        try:
            listing = await self._api.list(POD, field_selector=self._selector)
        except ClusterError as error:
            _LOG.info("pods not listed, will retry: error=%s", error)
            await self._clock.sleep(_RETRY_S)
            self._doubt.set()
            return
        pods = [pod for pod in listing.items if not _is_over(pod)]
        gone = doubtful - {uid for pod in pods for uid in _uids(pod)}
        self._over |= gone
        if order > self.census.order:
            self.census = Census(order, tuple(claim for pod in pods for claim in _claims(pod)))
            self._on_census()
        if gone:
            self._on_change()


def _is_new(pod: Pod) -> bool:
    statuses = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    return not _is_over(pod) and not statuses


def _is_over(pod: Pod) -> bool:
    return pod.status.phase in _ENDED


def _idle(pod: Pod) -> Iterator[str]:
    """Containers that ended. One that waits ended before, unless it never ran."""
    for status in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        state, last = status.get("state") or {}, status.get("lastState") or {}
        if "terminated" in state or ("running" not in state and "terminated" in last):
            yield str(status.get("name", ""))


def requested_devices(pod: Pod) -> Counter[str]:
    """By resource, the larger of all containers together and of any step of initialisation."""
    always: Counter[str] = Counter()
    steps: Counter[str] = Counter()
    for container in pod.spec.init_containers:
        step = always + _devices_of(container)
        if container.restart_policy == "Always":
            always = step
        steps |= step
    for container in pod.spec.containers:
        always += _devices_of(container)
    return always | steps


def _devices_of(container: Container) -> Counter[str]:
    limits = container.resources.limits
    return Counter({name: integer_value(str(text)) for name, text in limits.items() if "/" in name})


def _claims(pod: Pod) -> Iterator[Claim]:
    """What containers ask of devices that run or are still to run."""
    idle = set(_idle(pod))
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        for name, text in container.resources.limits.items() if container.name not in idle else ():
            if "/" in name:
                count = integer_value(str(text))
                yield Claim(pod.metadata.namespace, pod.metadata.name, container.name, name, count)


def _identity(pod: Pod) -> PodIdentity:
    statuses = (
        *pod.status.init_container_statuses,
        *pod.status.container_statuses,
        *pod.status.ephemeral_container_statuses,
    )
    ids = {
        str(status.get("containerID", "")).rpartition("/")[2]: str(status.get("name", ""))
        for status in statuses
    }
    ids.pop("", None)
    static = pod.metadata.annotations.get(_STATIC_UID, "")
    status = pod.status  # whose claim for extended resources the scheduler has made
    made = (*status.resource_claim_statuses, status.extended_resource_claim_status)
    named = (*pod.spec.resource_claims, *made)
    claims = tuple(str(name) for claim in named if (name := claim.get("resourceClaimName")))
    return PodIdentity(pod.metadata.uid, pod.metadata.labels, static, ids, claims)


def _uids(pod: Pod) -> Iterator[str]:
    yield pod.metadata.uid
    if static := pod.metadata.annotations.get(_STATIC_UID):
        yield static
