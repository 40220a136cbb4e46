"""Publishes the ResourceSlices of the node's pool, and publishes them again when somebody deletes them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.decide.node.claims.offer import WITHOUT_PARTITIONS
from tonnage.decide.node.claims.slices import (
    ChangedSlice,
    NewSlice,
    NodeOwner,
    SliceStep,
    SurplusSlice,
    dropped_fields,
    is_ours,
    kept_fields,
    next_step,
    trial_slices,
)
from tonnage.loop.informer import Informer
from tonnage.model.actions.cluster import CreateSlice, DeleteSlice, ReplaceSlice, SliceAction
from tonnage.model.actions.subjects import SLICES
from tonnage.model.devices.claims import DRIVER
from tonnage.model.errors import ApiError, ClusterError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.json_access import items
from tonnage.wire.claims import ResourceSlice
from tonnage.wire.kinds import RESOURCE_SLICE

_LOG: Final = logging.getLogger(__name__)
_BACK_OFF_S: Final = (0.2, 1.0, 5.0, 15.0)
_COUNTERS: Final = "sharedCounters"
_TAINTS: Final = "taints"
_SHARES: Final = "allowMultipleAllocations"
_TOO_OLD: Final = "this server does not have resource.k8s.io/v1"
_SINCE: Final = "Kubernetes 1.34 was the first with it; the beta versions before are not published"
_WITHOUT: Final = "upgrade the cluster, or leave the section claims out of the node's configuration"
_MOST_STEPS: Final = 64
"""In a row: a server that takes what it then does not show must not be written to for ever."""
_MOST_LATE: Final = 5
"""In a row: so often somebody else may have been faster. More, and what refuses it does not go away."""


class SlicePublisher:
    """Has the node's slices say what `show` was given last.

    Where another driver of our name has slices of this node, nothing is published. `on_news` is called when
    that changes. Until `show` there is nothing to say.
    """

    def __init__(self, context: AgentContext, board: NodeBoard, on_news: Callable[[], None]) -> None:
        self._node = context.node
        self._clock = context.clock
        self._events = context.events
        self._performer = context.performer
        self._board = board
        assert context.api is not None
        self._api = context.api
        self._on_news = on_news
        self._wake = asyncio.Event()
        self._specs: tuple[JsonObject, ...] | None = None
        self._complaint = ""
        self.dropped: tuple[str, ...] = ()
        """Fields that this server dropped of what was written last."""
        self._keeps = frozenset[str]()
        """Fields that the server keeps, as it said when it was asked last."""
        self._is_asked = False
        self.keeps_counters: bool | None = None
        """Whether the server keeps shared counters; None: none were written yet."""
        self.splits_counters = False
        """Whether the server refuses counters beside devices, as it does since 1.35."""
        self.foreign = ""
        """The slice of another driver of our name on this node."""
        self._selector = f"spec.nodeName={self._node},spec.driver={DRIVER}"

    @property
    def keeps_taints(self) -> bool:
        """Whether the server keeps taints, as it said when it was asked last."""
        return _TAINTS in self._keeps

    def show(self, specs: Sequence[JsonObject]) -> None:
        """Publish these."""
        if self._specs != tuple(specs):
            self._specs = tuple(specs)
            self._wake.set()

    async def run(self) -> None:
        """Publish until cancelled; slices stay, as the devices do."""
        slices: Informer[ResourceSlice] | None = None
        async with asyncio.TaskGroup() as group:
            failures = 0
            while True:
                await self._wake.wait()
                self._wake.clear()
                if slices is None and self._specs:  # a node without claims need not follow slices
                    slices = Informer(
                        *(self._api, RESOURCE_SLICE, self._clock),
                        field_selector=self._selector,
                        on_change=lambda _key: self._wake.set(),
                    )
                    group.create_task(slices.run())
                    group.create_task(self._look_again(slices))
                try:
                    await self._publish()
                    failures, self._complaint = 0, ""
                except ClusterError as error:
                    self._complain(str(error))
                    failures += 1
                    await self._clock.sleep(_BACK_OFF_S[min(failures, len(_BACK_OFF_S)) - 1])
                    self._wake.set()

    async def _look_again(self, slices: Informer[ResourceSlice]) -> None:
        """Look once more when slices are followed: nobody tells of one that was deleted before."""
        await slices.synced()
        self._wake.set()

    async def _publish(self) -> None:
        """Take steps until nothing is left to do. Raises ClusterError."""
        node = self._board.node.value
        if self._specs is None or node is None:
            return
        owner, late, keeps = NodeOwner(self._node, node.metadata.uid), 0, self._keeps
        for _ in range(_MOST_STEPS):
            standing, sight = await self._performer.look(SLICES, self._standing())
            if await self._learns(standing):
                self._specs = None  # what is published stays until others are shown
                self._on_news()
                return
            specs = () if self.foreign else self._specs
            step = next_step(specs, standing, owner, keeps)
            if step is None:
                self._note_dropped(specs, dropped_fields(specs, standing, self._node))
                return
            try:
                await self._performer.perform(_action(step), sight)
            except ApiError as error:
                if error.code == 422 and self._learns_to_split(specs):
                    return
                late += 1
                if error.code not in (404, 409) or late > _MOST_LATE:  # else somebody was faster: look again
                    raise
            else:
                late, keeps = 0, frozenset()  # what this one lacks now is not kept; the others follow it
                _LOG.info("slice %s: node=%s", _deed(step), self._node)
        why = f"after {_MOST_STEPS} writes they still differ from what was written"
        raise ClusterError(Problem("the server does not keep ResourceSlices", self._node, why))

    async def _learns(self, standing: Sequence[JsonObject]) -> bool:
        """Whether it is news what the server keeps. Raises ClusterError.

        What stands tells of counters, which the agent before saw kept. Of the rest the server is asked
        without writing any: where it drops taints, an unhealthy device would be offered until that is seen.
        """
        before = self.keeps_counters, self._keeps
        if self.keeps_counters is None and any(items(body, "spec", _COUNTERS) for body in standing):
            self.keeps_counters = True
        if not self._is_asked:
            self._keeps = await self._fields_kept()
            self._is_asked = True
            if self.keeps_counters is False and _COUNTERS in self._keeps:
                self.keeps_counters = True
        return before != (self.keeps_counters, self._keeps)

    async def _fields_kept(self) -> frozenset[str]:
        """Raises ClusterError."""
        fields = frozenset[str]()
        for body in trial_slices(self._node):
            try:
                shown = await self._api.dry_run_create(RESOURCE_SLICE, body)
            except ApiError as error:
                if error.code >= 500 or error.code == 429:
                    raise
                continue  # a webhook, perhaps, that cannot be asked so
            fields |= kept_fields(msgspec.to_builtins(shown))
        return fields

    def _learns_to_split(self, specs: Sequence[JsonObject]) -> bool:
        """Whether the refused have counters beside devices; then counters get slices of their own."""
        together = any(_COUNTERS in spec and "devices" in spec for spec in specs)
        if together and not self.splits_counters:
            self.splits_counters = True
            self._on_news()
            return True
        return False

    def ask_again(self) -> None:
        """Forget what the server drops: with another release it may keep more. What it kept it still may."""
        self.keeps_counters, self.dropped = self.keeps_counters or None, ()
        self.ask_of_features()

    def ask_of_features(self) -> None:
        """Have the server say once more what it keeps."""
        self._is_asked = False
        self._wake.set()

    async def _standing(self) -> list[JsonObject]:
        """Our slices as they are; notes whether another driver has some. Raises ClusterError."""
        try:
            listing = await self._api.list(RESOURCE_SLICE, field_selector=self._selector)
        except ApiError as error:
            if error.code != 404:
                raise
            raise ClusterError(Problem(_TOO_OLD, self._node, _SINCE, _WITHOUT)) from None
        bodies: list[JsonObject] = [msgspec.to_builtins(obj) for obj in listing.items]
        pairs = zip(listing.items, bodies, strict=True)
        foreign = min((obj.metadata.name for obj, body in pairs if not is_ours(body)), default="")
        if foreign != self.foreign:
            self.foreign = foreign
            self._on_news()
        return [body for body in bodies if is_ours(body)]

    def _note_dropped(self, specs: Sequence[JsonObject], dropped: tuple[str, ...]) -> None:
        """Remember which features are off at the server, and say each once."""
        keeps_them = (
            _COUNTERS not in dropped if any(_COUNTERS in spec for spec in specs) else self.keeps_counters
        )
        if keeps_them != self.keeps_counters:
            self.keeps_counters = keeps_them
            self._on_news()
            if not keeps_them:
                self._events.post("Warning", "ClaimsWithoutPartitions", WITHOUT_PARTITIONS)
        if dropped and dropped != self.dropped:
            if _SHARES in dropped and _SHARES not in self.dropped:
                text = "each GPU is offered to one claim alone: DRAConsumableCapacity is off on this server"
                self._events.post("Warning", "ClaimsWithoutShares", text)
            fields = ",".join(dropped)
            _LOG.warning("the server drops fields of slices: node=%s fields=%s", self._node, fields)
            self._on_news()
        self._keeps = self._keeps.difference(dropped)
        self.dropped = dropped

    def _complain(self, text: str) -> None:
        if text != self._complaint:
            self._complaint = text
            _LOG.warning("slices not published, will retry: node=%s error=%s", self._node, text)
            self._events.post("Warning", "ClaimsNotPublished", f"ResourceSlices are not published: {text}")


def _action(step: SliceStep) -> SliceAction:
    match step:
        case NewSlice(body):
            return CreateSlice(body)
        case ChangedSlice(body):
            return ReplaceSlice(body)
        case SurplusSlice(name, uid):
            return DeleteSlice(name, uid)


def _deed(step: SliceStep) -> str:
    if isinstance(step, NewSlice):
        return "created"
    return "changed" if isinstance(step, ChangedSlice) else "removed"
