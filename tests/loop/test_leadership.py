"""Who acts, of several processes that share a Lease on the twin's API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from random import Random

import pytest

from support.api_stores import new_store
from tonnage.loop.effects import ActionPorts
from tonnage.loop.leadership import Leadership, LeaseName
from tonnage.loop.performer import Performer
from tonnage.model.actions.cluster import PatchNode
from tonnage.model.errors import ClusterError
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import LEASE, NODE


class Candidate:
    """One process: it notes that it leads, until it is cancelled or `fails`."""

    def __init__(self, api: KubernetesApi, clock: VirtualClock, name: str) -> None:
        self.leadership = Leadership(api, clock, LeaseName("default", "tonnage-controller", name))
        self.leads = False
        self.task = asyncio.create_task(self.leadership.run(self._lead))

    async def _lead(self) -> None:
        self.leads = True
        try:
            await asyncio.Event().wait()
        finally:
            self.leads = False

    async def stop(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class Bench:
    """A clock, an API server, and candidates that can be cut off from it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server: KubernetesApi = ApiServer(self.clock, random=Random(7), store=new_store()).local()
        self.candidates: list[Candidate] = []

    def candidate(self, name: str, api: KubernetesApi | None = None) -> Candidate:
        self.candidates.append(Candidate(api or self.server, self.clock, name))
        return self.candidates[-1]

    async def holder(self) -> str:
        return (await self.server.get(LEASE, "tonnage-controller", "default")).spec.holder_identity


class Cable:
    """An API that answers until it is cut."""

    def __init__(self, api: KubernetesApi) -> None:
        self._api = api
        self.is_cut = False

    def __getattr__(self, name: str) -> object:
        if self.is_cut:
            raise ClusterError
        return getattr(self._api, name)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    for candidate in bench.candidates:
        await candidate.stop()


async def test_one_of_two_leads_and_goes_on_leading(bench: Bench) -> None:
    first = bench.candidate("a")
    await bench.clock.advance(1)
    second = bench.candidate("b")
    await bench.clock.advance(120)
    assert (first.leads, second.leads, await bench.holder()) == (True, False, "a")
    assert (first.leadership.terms, second.leadership.leader) == (1, "a")


async def test_one_that_ends_in_order_is_followed_within_a_retry(bench: Bench) -> None:
    first, second = bench.candidate("a"), bench.candidate("b")
    await bench.clock.advance(4)
    leader, other = (first, second) if first.leads else (second, first)
    await leader.stop()
    await bench.clock.advance(4)
    assert other.leads
    assert (await bench.server.get(LEASE, "tonnage-controller", "default")).spec.lease_transitions == 1


async def test_one_that_is_cut_off_stops_before_another_begins(bench: Bench) -> None:
    cable = Cable(bench.server)
    first = bench.candidate("a", cable)  # type: ignore[arg-type]
    await bench.clock.advance(1)
    second = bench.candidate("b")
    await bench.clock.advance(20)
    cable.is_cut = True
    both = []
    for _ in range(40):
        await bench.clock.advance(0.5)
        both.append((first.leadership.held, second.leadership.held))
    assert (True, True) not in both
    assert both[-1] == (False, True)
    assert not first.leads
    cable.is_cut = False
    await bench.clock.advance(30)
    assert second.leads
    assert not first.leads


async def test_one_whose_lease_somebody_else_took_stops_leading(bench: Bench) -> None:
    first = bench.candidate("a")
    await bench.clock.advance(5)
    await bench.server.patch(
        LEASE, "tonnage-controller", {"spec": {"holderIdentity": "z"}}, namespace="default"
    )
    await bench.clock.advance(5)
    assert not first.leads
    await bench.clock.advance(30)
    assert first.leads  # z never renewed it


async def test_a_leader_that_was_stopped_in_between_performs_nothing(bench: Bench) -> None:
    first = bench.candidate("a")
    await bench.server.create(NODE, {"metadata": {"name": "n"}})
    await bench.clock.advance(1)
    performer = Performer(ActionPorts(api=bench.server), may_act=lambda: first.leadership.held)
    label = PatchNode("n", {"metadata": {"labels": {"a": "b"}}})
    await performer.perform(label)
    first.task.cancel()  # its loops go on for a moment
    await bench.clock.advance(60)
    with pytest.raises(ClusterError, match="another process leads"):
        await performer.perform(PatchNode("n", {"metadata": {"labels": {"a": "c"}}}))
    assert (await bench.server.get(NODE, "n")).metadata.labels["a"] == "b"
