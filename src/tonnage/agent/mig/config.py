"""Which MIG layout the node shall have: its label, and the mig-parted configuration of a ConfigMap."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.context import AgentContext
from tonnage.agent.mig.state import places
from tonnage.decide.node.mig.desired_layout import MigWish, host_work_forbidden, unusable, wish_for
from tonnage.loop.informer import Informer
from tonnage.loop.ticks import next_beat
from tonnage.model.errors import ConfigError
from tonnage.model.mig.hooks import HostWork
from tonnage.model.mig.layouts import MigConfigs, MigOptions
from tonnage.model.names import MIG_CONFIG_LABEL
from tonnage.wire.kinds import CONFIG_MAP
from tonnage.wire.objects import ConfigMap

_LOG: Final = logging.getLogger(__name__)
_KEY: Final = "config.yaml"
_HOOKS: Final = "hooks.yaml"
_CLIENTS: Final = "clients.yaml"
_ASK_S: Final = 4.5
_FORBIDDEN: Final = (401, 403)


class NodeMigConfig:
    """Publishes the layout that the label `nvidia.com/mig.config` asks for, as `board.mig_wish`.

    Nobody watches the ConfigMap before the node has a label.
    """

    def __init__(self, context: AgentContext, board: NodeBoard, options: MigOptions) -> None:
        self._node = context.node
        self._api = context.api
        self._clock = context.clock
        self._board = board
        self._map_name = options.config_map
        """`namespace/name`."""
        self._host_programs = options.host_root is not None
        self._wake = asyncio.Event()
        self._maps: Informer[ConfigMap] | None = None
        self._synced = False
        self._denied = False
        self._parsed_last: tuple[str, MigConfigs, str] = ("", {}, "")
        """(mig-parted's YAML, its configurations, what is wrong with it): nothing is parsed twice."""
        for topic in (board.node, board.parts_off, board.restarts):
            topic.subscribe(self._wake.set)

    async def run(self) -> None:
        """Follow the label and the ConfigMap until cancelled."""
        if self._api is None:
            return
        async with asyncio.TaskGroup() as group:
            while True:
                label = self._label()
                if label and self._maps is None:
                    self._follow(group)
                self._board.mig_wish.publish(self._wished(label) if label else None)
                await self._wake.wait()
                self._wake.clear()

    def _label(self) -> str:
        """The label's value. A Node object that is away for a moment asks for nothing new.

        Empty where the MIG manager is switched off.
        """
        if "mig-manager" in self._board.parts_off.value:
            return ""
        node, wish = self._board.node.value, self._board.mig_wish.value
        if node is None:
            return "" if wish is None else wish.config
        return node.metadata.labels.get(MIG_CONFIG_LABEL, "")

    def _follow(self, group: asyncio.TaskGroup) -> None:
        assert self._api is not None
        namespace, _, name = self._map_name.partition("/")
        self._maps = Informer(
            *(self._api, CONFIG_MAP, self._clock),
            namespace=namespace,
            field_selector=f"metadata.name={name}",
            on_change=lambda _: self._wake.set(),
        )
        group.create_task(self._maps.run())
        group.create_task(self._sync(self._maps))
        group.create_task(self._ask(self._maps))

    async def _sync(self, maps: Informer[ConfigMap]) -> None:
        await maps.synced()
        self._synced, self._denied = True, False
        self._wake.set()

    async def _ask(self, maps: Informer[ConfigMap]) -> None:
        """Until the ConfigMap is known: is this agent allowed to read it at all?"""
        while not self._synced:
            await next_beat(self._clock, _ASK_S)
            if maps.refusal is not None and maps.refusal.code in _FORBIDDEN and not self._denied:
                self._denied = True
                self._wake.set()

    def _wished(self, label: str) -> MigWish | None:
        """The wish of the label; while the ConfigMap is not known yet, the one of before."""
        where = f"ConfigMap {self._map_name}"
        if self._denied:
            return unusable(label, where, f"{where} is forbidden to this agent")
        if not self._synced or self._maps is None:
            return self._board.mig_wish.value
        namespace, _, name = self._map_name.partition("/")
        config_map = self._maps.get(name, namespace)
        if config_map is None:
            return wish_for(label, None, where)
        text = config_map.data.get(_KEY)
        if text is None:
            texts = [text for key, text in config_map.data.items() if key not in (_HOOKS, _CLIENTS)]
            text = texts[0] if len(texts) == 1 else None
        if text is None:
            return unusable(label, where, f"{where} has no key {_KEY}")
        host = self._host(label, config_map.data)
        if isinstance(host, MigWish):
            return host
        configs, error = self._parsed(text)
        wish = unusable(label, where, error) if error else wish_for(label, configs, where)
        return replace(wish, host=host)

    def _host(self, label: str, texts: Mapping[str, str]) -> HostWork | MigWish:
        """What the host does around a change, out of the ConfigMap; or a wish that says why it cannot."""
        if not texts.get(_HOOKS) and not texts.get(_CLIENTS):
            return HostWork()
        from tonnage.documents.mig.hooks import parse_gpu_clients, parse_mig_hooks

        try:
            hooks = (
                parse_mig_hooks(texts[_HOOKS], source=f"{self._map_name}/{_HOOKS}")
                if texts.get(_HOOKS)
                else {}
            )
            clients = texts.get(_CLIENTS, "")
            units = parse_gpu_clients(clients, source=f"{self._map_name}/{_CLIENTS}") if clients else ()
        except ConfigError as error:
            return unusable(label, f"ConfigMap {self._map_name}", places(error))
        work = HostWork(hooks, units)
        if work.nothing or self._host_programs:
            return work
        return host_work_forbidden(label, f"ConfigMap {self._map_name}")

    def _parsed(self, text: str) -> tuple[MigConfigs, str]:
        from tonnage.documents.mig.layouts import parse_mig_parted  # only where there is one to read

        if text != self._parsed_last[0]:
            try:
                self._parsed_last = text, parse_mig_parted(text, source=self._map_name), ""
            except ConfigError as error:
                self._parsed_last = text, {}, places(error)
        return self._parsed_last[1], self._parsed_last[2]
