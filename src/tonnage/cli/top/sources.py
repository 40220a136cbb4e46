"""Where `tonnage top` reads: the agents of a cluster by the API server, or the page of one node."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol

from tonnage.cli.cluster import seen_of
from tonnage.cli.top.agent_pages import (
    FORBIDDEN,
    AgentPages,
    PageAnswers,
    exporter_port,
    page_url,
    text_at,
)
from tonnage.documents.device_page import parse_page
from tonnage.model.errors import ApiError, ClusterError, Problem
from tonnage.model.name_lists import listed
from tonnage.model.node.device_usage import DevicePage
from tonnage.model.node.gpu_status import GpuStatus
from tonnage.wire.kinds import POD

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.wire.objects import Pod

_PART_OF: Final = "app.kubernetes.io/part-of=tonnage"
_REPORTS_S: Final = 10.0
_MOST_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Moment:
    """What was read at one moment; `notes` are what a person must know of it.

    `blind`: neither a page nor a report could be read.
    """

    reports: Mapping[str, GpuStatus] = field(default_factory=dict)
    pages: Mapping[str, DevicePage] = field(default_factory=dict)
    now: datetime | None = None
    notes: tuple[str, ...] = ()
    blind: bool = False


class UsageSource(Protocol):
    """Something that can be read again and again."""

    async def read(self) -> Moment:
        """Everything now. Raises ClusterError, ConfigError: nothing can be read."""
        ...


class ClusterSource:
    """The agents in one namespace, by the API server's proxy to their pods; the rest by NodeGPUStatus.

    Reports are read every ten seconds, pages each time, for which it waits `patience_s` at most.
    """

    def __init__(self, api: HttpKubernetes, agents: str, namespace: str, patience_s: float) -> None:
        self._api = api
        self._agents = agents
        self._agent_pages = AgentPages(api, agents, patience_s)
        self._namespace = namespace
        self._read_s = float("-inf")
        self._reports: Mapping[str, GpuStatus] = {}
        self._pods: Sequence[Pod] = ()
        self._now: datetime | None = None
        self._unread: tuple[str, ...] = ()
        self._hidden = False

    async def read(self) -> Moment:
        seconds = asyncio.get_running_loop().time()
        if seconds - self._read_s >= _REPORTS_S:
            await self._read_reports()
            self._read_s = seconds
        served = [pod for pod in self._pods if exporter_port(pod)]
        answers = await self._agent_pages.read(served)
        notes = (*self._unread, *self._notes(len(served), answers))
        return Moment(
            self._reports, answers.pages, self._now, notes, bool(self._unread) and not answers.pages
        )

    async def close(self) -> None:
        """Ask no more agents."""
        await self._agent_pages.close()

    async def _read_reports(self) -> None:
        snapshot = await seen_of(self._api, "top", (self._namespace,))
        self._reports, self._now = snapshot.gpu, snapshot.now
        missing = sorted(snapshot.missing & {"NodeGPUStatus"})
        self._unread = tuple(f"{kind} was not read: health and holders are unknown" for kind in missing)
        try:
            pods = await self._api.list(POD, namespace=self._agents, label_selector=_PART_OF)
        except ApiError as error:
            if error.code != HTTPStatus.FORBIDDEN:
                raise
            self._pods = ()
            self._hidden = True
        else:
            self._hidden = False
            running = [pod for pod in pods.items if pod.status.phase == "Running" and pod.spec.node_name]
            self._pods = [pod for pod in running if pod.metadata.deletion_timestamp is None]

    def _notes(self, served: int, answers: PageAnswers) -> list[str]:
        """Why readings are those of reports."""
        if self._hidden:
            pods = f"the agents' pods in namespace {self._agents}"
            return [f"you may not list {pods}, so their metrics are not read; see tonnage access top"]
        if not served:
            return [
                f"no agent in namespace {self._agents} serves device metrics: NodeGPUStatus is shown instead"
            ]
        if FORBIDDEN in answers.refusals:
            return [
                "you may not read the agents' pages: NodeGPUStatus is shown instead; see tonnage access top"
            ]
        notes: list[str] = []
        if refusals := answers.refusals:
            why = listed(list(dict.fromkeys(refusals)), _MOST_NAMED)
            notes.append(f"{len(refusals)} of {served} agents do not answer: {why}")
        if answers.late:
            patience_s = self._agent_pages.patience_s
            notes.append(f"{answers.late} of {served} agents did not answer within {patience_s:.0f} s")
        return notes


class PageSource:
    """The page of one node's agent, or of a dcgm-exporter, at an address."""

    def __init__(self, address: str) -> None:
        self._url = page_url(address)

    async def read(self) -> Moment:
        page = parse_page(await asyncio.to_thread(text_at, self._url), self._url)
        if isinstance(page, Problem):
            raise ClusterError(page)
        return Moment(pages={page.host or self._url.split("/")[2]: page})
