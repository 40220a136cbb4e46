"""Which device-plugin configuration this node runs: by label, ConfigMap or file, else the last good one."""

from __future__ import annotations

import asyncio
import json
import logging
from base64 import b64decode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from tonnage.agent.board import NodeBoard
from tonnage.agent.config.checkpoint import mark_of, recalled, remembered
from tonnage.agent.config.paths import HostOwners, open_paths
from tonnage.agent.config.reading import Reading
from tonnage.agent.context import AgentContext
from tonnage.agent.plugin.device_list import DeviceLists
from tonnage.decide.node.choose_config import DEFAULT_KEY, ConfigChoice, ConfigInForce, choose
from tonnage.loop.informer import Informer
from tonnage.loop.ticks import next_beat
from tonnage.model.actions.checkpoints import SaveCheckpoint
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.errors import ConfigError, HardwareError, Problem
from tonnage.model.json import parsed_json
from tonnage.ports.node import AgentConfigFile
from tonnage.wire.kinds import CONFIG_MAP, NODE
from tonnage.wire.objects import ConfigMap

_LOG: Final = logging.getLogger(__name__)
CHECKPOINT: Final = "device-plugin-config"
_PATIENCE_S: Final = 2.0
"""Roles and agents are installed together, in any order: by then an informer has been refused three times."""
_MOST_PATIENCE_S: Final = 30.0
_MOST_REMARKS: Final = 5
_FORBIDDEN: Final = (401, 403)


class NodeConfig:
    """Publishes the configuration that runs, and the Node object that asks for it.

    The `file` stands in where neither label nor ConfigMap names a configuration.
    """

    def __init__(
        self,
        context: AgentContext,
        board: NodeBoard,
        reading: Reading,
        lists: DeviceLists,
        *,
        host: HostOwners | None = None,
        file: AgentConfigFile | None = None,
    ) -> None:
        self._board = board
        self._lists = lists
        self._host = host
        self._node = context.node
        self._api = context.api
        self._clock = context.clock
        self._checkpoints = context.checkpoints
        self._performer = context.performer
        self._events = context.events
        self._metrics = context.metrics
        self._started = context.started
        self._reading = reading
        self._wishes = reading.wishes
        self._file = file
        self._dirty = asyncio.Event()
        self._saved: ConfigChoice | None = None
        self._read: dict[ConfigChoice, PluginConfig] = {}
        """What was read last, so that nothing is read twice."""
        self._refused: dict[ConfigChoice, str] = {}
        """The same of what cannot be used."""
        self._absent = "does not exist"
        self._unsettled: ConfigInForce | None = None
        """What runs as it was read."""

    async def run(self) -> None:
        """Run until cancelled: first what ran last, then what is asked for, whenever that changes."""
        await self._restore()
        async with asyncio.TaskGroup() as group:
            label, configs = await self._sources(group)
            group.create_task(self._tick())
            while True:
                self._dirty.clear()
                await self._evaluate(label, configs)
                await self._dirty.wait()

    async def _sources(
        self, group: asyncio.TaskGroup
    ) -> tuple[Callable[[], str | None], Callable[[], Mapping[str, str] | None]]:
        """(the node's label, the ConfigMap's data) as they are at any moment, once both are known.

        The label is empty where there is none, None as long as the Node object was never seen.
        """
        if self._api is None:
            return lambda: "", lambda: None
        # kubelet has the devices first: to load the API server's client takes longer than to serve them.
        await self._started.wait()
        namespace, _, name = self._wishes.config_map.partition("/")

        def changed(_key: object) -> None:
            self._board.node.publish(nodes.get(self._node))
            self._dirty.set()

        nodes = Informer(
            *(self._api, NODE, self._clock),
            field_selector=f"metadata.name={self._node}",
            on_change=changed,
        )
        maps = Informer(
            self._api,
            CONFIG_MAP,
            self._clock,
            namespace=namespace,
            field_selector=f"metadata.name={name}",
            on_change=self._wake,
        )
        for informer in (nodes, maps):
            group.create_task(informer.run())
        await _either(nodes.synced(), self._forbidden(nodes))
        if await _either(maps.synced(), self._forbidden(maps)):
            self._absent = "is forbidden to this agent"
        last: str | None = None

        def label() -> str | None:
            nonlocal last
            if node := nodes.get(self._node):  # a node object that is away for a moment asks for nothing new
                last = node.metadata.labels.get(self._wishes.label, "")
                self._lists.observe(node.status.node_info)
                self._board.node_versions.publish(self._lists.versions)
            return last

        def configs() -> Mapping[str, str] | None:
            config_map = maps.get(name, namespace)
            self._absent = "does not exist" if config_map else self._absent
            return None if config_map is None else _texts(config_map)

        return label, configs

    async def _forbidden(self, informer: Informer[Any]) -> bool:
        """True once the API server says that this agent may not list it; does not return otherwise."""
        pause = _PATIENCE_S
        while True:
            await self._clock.sleep(pause)
            pause = min(2 * pause, _MOST_PATIENCE_S)
            why = informer.refusal
            if why is not None and why.code in _FORBIDDEN:
                kind = informer.kind.kind
                _LOG.warning("not allowed to read: node=%s kind=%s why=%s", self._node, kind, why)
                return True

    def _wake(self, _key: object) -> None:
        self._dirty.set()

    async def _tick(self) -> None:
        """Look again now and then: a file tells nobody that it changed, a full disk may have space again."""
        last_mark = ""
        while True:
            await next_beat(self._clock)
            now = self._board.configuration.value
            again = now is not None and (self._saved != now.choice or (self._file and now.error))
            stamp = self._file.stamp() if self._file is not None else ""
            if await self._lists.changed() or stamp != last_mark or again:
                self._dirty.set()
            last_mark = stamp

    async def _restore(self) -> None:
        """Use what ran last; otherwise see whether any configuration can be read. Raises ConfigError."""
        await self._recall()
        published = self._board.configuration.value is not None
        if not published and self._api is not None:
            self._started.set()  # only the cluster can say what to run
        if not published and self._reading.overrides:
            self._reading.parsed("", "--config")

    async def _recall(self) -> None:
        try:
            payload = await self._checkpoints.load(CHECKPOINT)
            if payload is None:
                return
            saved: Any = parsed_json(payload)
            choice = ConfigChoice(str(saved["text"]), str(saved["source"]), str(saved["key"]))
            recalled_config = recalled(saved.get("read"), mark_of(choice, self._reading))
            if recalled_config is not None:
                self._read = {choice: recalled_config}
            config = self._meaning(choice)
        except (HardwareError, ConfigError, ValueError, KeyError, TypeError) as error:
            _LOG.warning("last configuration not usable: node=%s error=%s", self._node, error)
            return
        self._saved = choice if recalled_config is not None else None
        await self._settle(ConfigInForce(config, choice))

    async def _evaluate(
        self, label: Callable[[], str | None], configs: Callable[[], Mapping[str, str] | None]
    ) -> None:
        """Choose, read and publish the configuration; `configs` are the ConfigMap's texts by key."""
        label_value, current = label(), self._board.configuration.value
        if label_value is None and current is not None and current.choice.key != DEFAULT_KEY:
            label_value = current.choice.key  # as it was, until the Node object is there to say
        text = await self._file.read() if self._file else None
        problem = text if isinstance(text, Problem) else None
        file = ConfigChoice(text, str(self._file)) if isinstance(text, str) else None
        texts, where = configs(), self._wishes.config_map
        choice = choose(label_value, texts, file, self._wishes, absent=self._absent)
        if self._lost_map(choice, texts):
            why = f"ConfigMap {where} {self._absent}"
            remedy = f"create it again; with key {DEFAULT_KEY}: 'version: v1' every device is exclusive"
            choice = Problem("the device-plugin configuration was deleted", where, why, remedy)
        if problem and isinstance(choice, ConfigChoice) and not choice.key:
            choice = problem
        parsed = await self._parsed(choice)
        if isinstance(parsed, ConfigInForce):
            new = parsed
        elif self._unsettled is not None:
            new = replace(self._unsettled, error=parsed)
        else:  # never ran anything: the nearest thing that can be used, and the error stays visible
            fallback = await self._parsed(choose(None, texts, file, replace(self._wishes, default="")))
            if not isinstance(fallback, ConfigInForce):
                built_in = ConfigChoice("", "built-in")
                fallback = ConfigInForce(self._reading.parsed("", built_in.source), built_in)
            new = ConfigInForce(fallback.config, fallback.choice, parsed)
        await self._save(new.choice, new.config)  # first, so that a crash never comes back under other names
        self._board.config_confirmed.publish(value=True)
        await self._settle(new)

    def _lost_map(self, choice: ConfigChoice | Problem, configs: Mapping[str, str] | None) -> bool:
        """Whether the ConfigMap that the running configuration is from was deleted, key and all.

        Helm and `kubectl replace --force` delete and create; a fleet must not lose its sharing in between.
        """
        current = self._board.configuration.value
        running = current is not None and bool(current.choice.key)
        return running and configs is None and isinstance(choice, ConfigChoice) and not choice.key

    async def _parsed(self, choice: ConfigChoice | Problem) -> ConfigInForce | str:
        """What the choice says, or in words why it cannot be used. To read nonsense may take a second."""
        if isinstance(choice, Problem):
            return str(choice)
        if choice in self._refused:
            return self._refused[choice]
        try:
            earlier = self._read.get(choice)
            meaning = await asyncio.to_thread(self._meaning, choice) if earlier is None else earlier
        except ConfigError as error:
            self._refused = {choice: str(error)}
            return str(error)
        if self._host is not None:  # not remembered: who may write there can be put right
            wrong = await asyncio.to_thread(open_paths, meaning, choice.source, self._reading, self._host)
            if wrong:
                return str(ConfigError(*wrong))
        return ConfigInForce(meaning, choice)

    def _meaning(self, choice: ConfigChoice) -> PluginConfig:
        """What the choice says. Raises ConfigError."""
        if choice not in self._read:
            self._read = {choice: self._reading.parsed(choice.text, choice.source)}
        return self._read[choice]

    async def _settle(self, new: ConfigInForce) -> None:
        self._unsettled = new
        config, why = await self._lists.resolved(new.config)
        self._use(replace(new, config=config, device_list=why))

    def _use(self, new: ConfigInForce) -> None:
        old = self._board.configuration.value
        if old != new:
            self._report(old, new)
        self._board.configuration.publish(new)

    def _report(self, old: ConfigInForce | None, new: ConfigInForce) -> None:
        """Say what is refused, and what runs in the place of something else."""
        if new.error and (old is None or old.error != new.error):
            self._metrics.config_refused()
            _LOG.error(
                "configuration refused: node=%s kept=%s error=%s", self._node, new.choice.source, new.error
            )
            refusal_text = f"kept: {new.choice.source}\n{new.error}"  # first: a long text is cut
            self._events.post("Warning", "DevicePluginConfigRefused", refusal_text)
        elif not new.error and old is not None and new != replace(old, device_list=new.device_list):
            _LOG.info("configuration in force: node=%s source=%s", self._node, new.choice.source)
            applied_text = "; overlooked: ".join(
                (f"configuration {new.choice.source}", *new.config.remarks[:_MOST_REMARKS])
            )
            self._events.post("Normal", "DevicePluginConfigApplied", applied_text)

    async def _save(self, choice: ConfigChoice, config: PluginConfig) -> None:
        """Keep what runs for the next start. A disk that refuses is tried again."""
        if choice == self._saved:
            return
        read = remembered(config, mark_of(choice, self._reading))
        payload = json.dumps({"source": choice.source, "key": choice.key, "text": choice.text, "read": read})
        try:
            await self._performer.perform(SaveCheckpoint(CHECKPOINT, payload.encode()))
        except HardwareError as error:
            _LOG.warning("configuration not kept on disk: node=%s error=%s", self._node, error)
        else:
            self._saved = choice


async def _either(done: Awaitable[None], given_up: Awaitable[bool]) -> bool:
    """Wait for one of both; whether it was the second."""
    tasks = asyncio.ensure_future(done), asyncio.ensure_future(given_up)
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return not tasks[0].done()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _texts(config_map: ConfigMap) -> dict[str, str]:
    """Its keys' texts. What was no text when it was made is one that no reader of ours takes for one."""
    texts: dict[str, str] = {}
    for key, value in config_map.binary_data.items():
        try:
            texts[key] = b64decode(value, validate=True).decode("utf-8", "surrogateescape")
        except ValueError:
            texts[key] = "\0"
    return texts | config_map.data
