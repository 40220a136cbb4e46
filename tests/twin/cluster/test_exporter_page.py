"""The page of device metrics of each agent: at a loopback address, and through the API server's proxy."""

from __future__ import annotations

import asyncio
import urllib.request

import pytest

from support.fleet import Fleet
from tonnage.wire.kinds import POD
from tonnage.wire.objects import Pod

_AGENTS = "/api/v1/namespaces/tonnage-system/pods"
_LOOPBACK = "tonnage.dev/loopback-9400"


async def _agent(fleet: Fleet) -> Pod:
    """The agent of the node with GPUs once it serves."""

    async def served() -> bool:
        return _LOOPBACK in (await _newest(fleet)).metadata.annotations

    await fleet.until(served)
    return await _newest(fleet)


async def _newest(fleet: Fleet) -> Pod:
    pods = (await fleet.api.list(POD, namespace="tonnage-system")).items
    (agent,) = (pod for pod in pods if pod.metadata.deletion_timestamp is None)
    return agent


def _page(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def _series(page: str) -> list[str]:
    """Rows without their values, which change from one moment to the next."""
    return [line.rpartition(" ")[0] for line in page.splitlines()]


async def test_an_agents_page_is_reached_by_its_annotation_and_by_the_proxy(fleet: Fleet) -> None:
    agent = await _agent(fleet)
    own = await asyncio.to_thread(_page, agent.metadata.annotations[_LOOPBACK])
    assert 'DCGM_FI_DEV_GPU_TEMP{gpu="1"' in own
    for name in (agent.metadata.name, f"{agent.metadata.name}:9400", f"http:{agent.metadata.name}:9400"):
        page = await fleet.kubectl("get", "--raw", f"{_AGENTS}/{name}/proxy/metrics")
        assert _series(page) == _series(own)
    with pytest.raises(AssertionError, match=r"dial tcp 10\.244\.\d+\.\d+:9: connect: connection refused"):
        await fleet.kubectl("get", "--raw", f"{_AGENTS}/{agent.metadata.name}:9/proxy/metrics")


async def test_the_annotation_goes_when_nobody_serves_the_port_any_more(fleet: Fleet) -> None:
    first = await _agent(fleet)
    await fleet.kubectl("delete", "pod", first.metadata.name, "-n", "tonnage-system")
    second = await _agent(fleet)
    assert second.metadata.uid != first.metadata.uid
    await asyncio.to_thread(_page, second.metadata.annotations[_LOOPBACK])


async def test_the_right_to_a_page_is_get_on_the_proxy_of_pods(fleet: Fleet) -> None:
    name = (await _agent(fleet)).metadata.name
    raw = ("get", "--raw", f"{_AGENTS}/{name}:9400/proxy/health", "--as=reader")
    with pytest.raises(AssertionError, match='cannot get resource "pods/proxy"'):
        await fleet.kubectl(*raw)
    where = ("-n", "tonnage-system")
    await fleet.kubectl("create", "role", "reader", "--verb=get", "--resource=pods/proxy", *where)
    await fleet.kubectl("create", "rolebinding", "reader", "--role=reader", "--user=reader", *where)
    assert await fleet.kubectl(*raw) == "OK\n"
