"""What each container uses (`tonnage_pod_gpu_*`), as part of the page and within the budget of series."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.exporter.derived import Derived
from tonnage.agent.exporter.pod_usage import UsageMeter
from tonnage.agent.exporter.settings import ExporterSettings
from tonnage.decide.node.exporter.holders import DeviceKey
from tonnage.decide.node.exporter.jobs import jobs_of
from tonnage.decide.node.exporter.labels import pod_label_names
from tonnage.decide.node.exporter.metric_text import NOTHING, PageText, metrics_page
from tonnage.decide.node.exporter.pod_metrics import (
    LABELS,
    UsedShares,
    budget_metrics,
    pod_metrics,
    series_of,
    within_limit,
)
from tonnage.decide.node.exporter.readings import entities_of
from tonnage.decide.node.exporter.shares import Shares
from tonnage.model.devices.inventory import Inventory
from tonnage.model.node.pod_usage import DeviceUser
from tonnage.model.node.telemetry import PodIdentity

_LOG: Final = logging.getLogger(__name__)
_RESERVED: Final = (*LABELS, "pod_uid", "hpc_job")
LabelChoice = Callable[[Mapping[str, str]], Mapping[str, str]]


class PodPage:
    """Renders what the meter counted of those who hold devices now. `jobs` reads the files of HPC jobs."""

    def __init__(
        self,
        settings: ExporterSettings,
        board: NodeBoard,
        meter: UsageMeter,
        jobs: Callable[[], Mapping[str, str]],
        labels_of: LabelChoice,
    ) -> None:
        self._settings = settings
        self._board = board
        self._meter = meter
        self._jobs = jobs
        self._labels_of = labels_of
        self._logged = ("", "")
        self._users = Derived[Mapping[DeviceUser, Mapping[str, str]]]()
        """Who holds devices, in order, each with its labels by choice."""
        self._page = Derived[PageText]()

    def text(self, series: int) -> PageText:
        """The families; `series` stand on the page before them. Made anew where something changed."""
        board, meter = self._board, self._meter
        inventory = board.inventory.value
        if inventory is None or not self._settings.kubernetes:
            return NOTHING
        jobs = self._jobs()
        sources = (inventory, board.holds.value, board.pods.value, meter.counters, meter.uses, jobs, series)
        return self._page.of(sources, lambda: self._made_of(inventory, jobs, series))

    def _made_of(self, inventory: Inventory, jobs: Mapping[str, str], series: int) -> PageText:
        shares = self._meter.shares()
        extra = self._users.of(
            (inventory, shares, self._board.pods.value, jobs),
            lambda: dict(sorted(self._extra(shares, jobs_of(jobs, entities_of(inventory))), key=_user)),
        )
        users = tuple(extra)
        indices = {device.uuid: device.index for device in inventory.devices}
        usage = UsedShares(self._meter.counters, self._meter.uses, indices, extra)
        shown = within_limit(usage, users, self._settings.series_limit - series)
        return PageText(self._remarks(usage, shares, users[len(shown) :])) + metrics_page(
            (
                *pod_metrics(usage, shown),
                *budget_metrics(
                    self._settings.series_limit, len(users) - len(shown), self._meter.counters.since_s
                ),
            )
        )

    def _remarks(self, usage: UsedShares, shares: Shares, left_out: Sequence[DeviceUser]) -> str:
        """Why attribution is even, and why containers are left out: comments of the page, logged once."""
        even = self._meter.even_reason(shares)
        missing = sum(series_of(usage, user) for user in left_out)
        cap = (
            f"{len(left_out)} containers are left out: with their {missing} series the page would have more"
            f" than {self._settings.series_limit} (--series-limit)"
            if left_out
            else ""
        )
        lines = [f"attribution is even: {even}"] * bool(even) + [cap] * bool(cap)
        remarks = (even, "cap" if cap else "")
        if remarks != self._logged:
            self._logged = remarks
            for line in lines:
                _LOG.warning("%s", line)
        return "".join(f"# {line}\n" for line in lines)

    def _extra(
        self, shares: Shares, jobs: Mapping[DeviceKey, tuple[str, ...]]
    ) -> Iterator[tuple[DeviceUser, Mapping[str, str]]]:
        """Labels by choice: of the pod, its uid, and the HPC jobs of the device."""
        for key, of_device in shares.items():
            for share in of_device:
                user = share.user
                pod = self._board.pods.value.get(f"{user.namespace}/{user.pod}", PodIdentity())
                extra = dict(pod_label_names(self._labels_of(pod.labels), _RESERVED))
                if self._settings.pod_uid:
                    extra["pod_uid"] = pod.uid
                if key in jobs:
                    extra["hpc_job"] = ",".join(jobs[key])
                yield user, extra


def _user(entry: tuple[DeviceUser, Mapping[str, str]]) -> DeviceUser:
    return entry[0]
