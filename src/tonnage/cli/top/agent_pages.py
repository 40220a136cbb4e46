"""The pages of a cluster's agents, by the API server's proxy: few at once, and none holds up the others."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, urlsplit

from tonnage.documents.device_page import MOST_BYTES, parse_page
from tonnage.model.errors import ApiError, ClusterError, ConfigError, Problem
from tonnage.model.kubernetes.scrape_target import JOBS
from tonnage.model.node.device_usage import DevicePage
from tonnage.reading.scrape_targets import scrape_targets

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.wire.objects import Pod

FORBIDDEN: Final = "forbidden"
_PORT: Final = "exporter"
_NO_RIGHT: Final = "cannot get resource"
"""In what the API server says of a right that is missing; what a pod or a proxy refuses is in other words."""
_THIS_MACHINE: Final = ("127.0.0.1", "localhost", "::1")
_LOCAL: Final = "127.0.0.1:"
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
        self._on_loopback: set[str] = set()
        """Pods of pretended nodes that the API server does not reach."""

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
        name, local = pod.metadata.name, self._local_address(pod)
        answer = "" if name in self._on_loopback else await self._by_proxy(pod)
        if not local or isinstance(answer, DevicePage) or answer == FORBIDDEN:
            return answer
        try:
            async with self._room:
                text = await asyncio.to_thread(text_at, page_url(local))
        except ClusterError as error:
            self._on_loopback.discard(name)
            return answer or error.problems[0].why
        self._on_loopback.add(name)
        return _parsed(text, pod)

    def _local_address(self, pod: Pod) -> str:
        """Where a pretended node of this machine serves the page; empty where the API server is elsewhere."""
        if urlsplit(self._api.server).hostname not in _THIS_MACHINE:
            return ""
        served = (target.address for target in scrape_targets([pod]) if target.job == JOBS[_PORT])
        return next((address for address in served if address.startswith(_LOCAL)), "")

    async def _by_proxy(self, pod: Pod) -> DevicePage | str:
        name, port = quote(pod.metadata.name, safe=""), exporter_port(pod)
        path = f"/api/v1/namespaces/{quote(self._namespace, safe='')}/pods/{name}:{port}/proxy/metrics"
        try:
            async with self._room, asyncio.timeout(_PAGE_S):
                text = await self._api.get_text(path, MOST_BYTES)
        except ApiError as error:
            refused = error.code == HTTPStatus.FORBIDDEN and _NO_RIGHT in error.message
            return FORBIDDEN if refused else error.message
        except ClusterError as error:
            return error.problems[0].why or error.problems[0].what
        except TimeoutError:
            return f"no answer within {_PAGE_S:.0f} s"
        return _parsed(text, pod)


def _parsed(text: str, pod: Pod) -> DevicePage | str:
    page = parse_page(text, pod.metadata.name)
    return page.what if isinstance(page, Problem) else page


def page_url(address: str) -> str:
    """The URL of the page at `HOST:PORT`, or of a URL. Raises ConfigError.

    >>> page_url("127.0.0.1:9400"), page_url("https://gpu-0:9400/metrics")
    ('http://127.0.0.1:9400/metrics', 'https://gpu-0:9400/metrics')
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = "http", address
    host, _, path = rest.partition("/")
    if scheme not in ("http", "https") or not host or not address.isprintable() or " " in address:
        fault, remedy = f"not the address of a page: {address[:100]!r}", "write HOST:PORT, such as gpu-0:9400"
        raise ConfigError(Problem(fault, "--node-address", remedy=remedy))
    return f"{scheme}://{host}/{path or 'metrics'}"


def text_at(url: str) -> str:
    """What is served there. Raises ClusterError."""
    try:
        with urllib.request.urlopen(url, timeout=_PAGE_S) as answer:  # noqa: S310 - of page_url
            content: bytes = answer.read(MOST_BYTES + 1)
    except (OSError, ValueError, urllib.error.URLError) as error:
        why = str(getattr(error, "reason", "") or error)
        remedy = "check that an agent serves there: tonnage node --exporter-address"
        raise ClusterError(Problem("no device metrics", url, why, remedy)) from None
    return content.decode("utf-8", "replace")


def exporter_port(pod: Pod) -> int:
    """The port at which the pod serves device metrics; 0: none."""
    ports = (port for container in pod.spec.containers for port in container.ports)
    return next((port.container_port for port in ports if port.name == _PORT), 0)
