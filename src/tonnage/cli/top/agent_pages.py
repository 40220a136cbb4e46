"""The pages of a cluster's agents, by the API server's proxy: few at once, and none holds up the others."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from tonnage.documents.device_page import MOST_BYTES, parse_page
from tonnage.model.errors import ApiError, ClusterError, Problem
from tonnage.model.node.device_usage import DevicePage

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.wire.objects import Pod

FORBIDDEN: Final = "forbidden"
_PORT: Final = "exporter"
_AT_ONCE: Final = 16
_PAGE_S: Final = 5.0
_KEPT_S: Final = 15.0
"""A page is shown so long after it was read while its agent has not answered again."""


@dataclass(frozen=True, slots=True)
class PageAnswers:
    """Pages by node; why other agents' pages cannot be read; how many agents have yet to answer."""

    pages: Mapping[str, DevicePage]
    refusals: Sequence[str]
    late: int


class AgentPages:
    """Asks each agent in one namespace again once it has answered.

    A reading ends after `patience_s`: agents that have not answered by then answer a later one.
    """

    def __init__(self, api: HttpKubernetes, namespace: str, patience_s: float) -> None:
        self._api = api
        self._namespace = namespace
        self.patience_s = patience_s
        self._room = asyncio.Semaphore(_AT_ONCE)
        self._requests: dict[str, asyncio.Task[DevicePage | str]] = {}
        self._answers: dict[str, tuple[float, DevicePage | str]] = {}
        """By pod, when it answered last, and what."""
        self._late: frozenset[str] = frozenset()

    async def read(self, pods: Sequence[Pod]) -> PageAnswers:
        """What these agents show now. Those that were late last time are asked after the others."""
        loop = asyncio.get_running_loop()
        names = {pod.metadata.name for pod in pods}
        for name in self._requests.keys() - names:
            self._requests.pop(name).cancel()
        for pod in sorted(pods, key=lambda pod: pod.metadata.name in self._late):
            if pod.metadata.name not in self._requests:
                self._requests[pod.metadata.name] = loop.create_task(self._page(pod))
        if self._requests:
            await asyncio.wait(self._requests.values(), timeout=self.patience_s)
        now = loop.time()
        for name, task in [*self._requests.items()]:
            if task.done():
                self._answers[name] = (now, task.result())
                del self._requests[name]
        self._late = frozenset(self._requests)
        recent = {
            name: (answered_s, answer)
            for name, (answered_s, answer) in self._answers.items()
            if name in names and answered_s >= now - _KEPT_S
        }
        self._answers = recent
        nodes = {pod.metadata.name: pod.spec.node_name for pod in pods}
        return PageAnswers(
            {nodes[name]: page for name, (_, page) in recent.items() if isinstance(page, DevicePage)},
            [why for _, why in recent.values() if isinstance(why, str)],
            len(names - recent.keys()),
        )

    async def close(self) -> None:
        """Ask no more."""
        for task in self._requests.values():
            task.cancel()
        await asyncio.gather(*self._requests.values(), return_exceptions=True)

    async def _page(self, pod: Pod) -> DevicePage | str:
        """The pod's page, or why there is none."""
        name, port = quote(pod.metadata.name, safe=""), exporter_port(pod)
        path = f"/api/v1/namespaces/{quote(self._namespace, safe='')}/pods/{name}:{port}/proxy/metrics"
        try:
            async with self._room, asyncio.timeout(_PAGE_S):
                text = await self._api.get_text(path, MOST_BYTES)
        except ApiError as error:
            return FORBIDDEN if error.code == HTTPStatus.FORBIDDEN else error.message
        except ClusterError as error:
            return error.problems[0].why or error.problems[0].what
        except TimeoutError:
            return f"no answer within {_PAGE_S:.0f} s"
        page = parse_page(text, pod.metadata.name)
        return page.what if isinstance(page, Problem) else page


def exporter_port(pod: Pod) -> int:
    """The port at which the pod serves device metrics; 0: none."""
    ports = (port for container in pod.spec.containers for port in container.ports)
    return next((port.container_port for port in ports if port.name == _PORT), 0)
