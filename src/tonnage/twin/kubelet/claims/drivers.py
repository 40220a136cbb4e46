"""DRAPluginManager: drivers whose sockets lie in `plugins_registry`, dialled and told that they are known.

Source: Kubernetes 1.35, pkg/kubelet/pluginmanager and pkg/kubelet/cm/dra/plugin.
"""

from __future__ import annotations

import asyncio
import logging
import stat
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from tonnage.twin.kubelet.devices.plugins import CHANNEL_OPTIONS, PluginError, ask_plugin
from tonnage.twin.kubelet.node_spec import NodePaths
from tonnage.wire.kubelet import claim_methods as methods
from tonnage.wire.kubelet import dra_v1_pb2 as wire
from tonnage.wire.kubelet import pluginregistration_pb2 as registration

_LOG: Final = logging.getLogger(__name__)
_PATIENCE_S: Final = 45.0
"""Of kubelet with a driver (`draClientTimeout`)."""
_ASK_S: Final = 5.0
_MOST_SOCKETS: Final = 64
_VERSIONS: Final = (methods.V1, methods.V1BETA1)
"""The newest that both sides have is spoken."""


@dataclass(frozen=True, slots=True)
class Driver:
    """A driver that is registered: by which file, where it answers, and in which version.

    `health` is the version of its stream of devices' health; empty for none.
    """

    name: str
    file: Path
    identity: tuple[int, int]
    endpoint: Path
    version: str
    health: str = ""


class Drivers:
    """Those that are registered now, by name. `gone` is awaited with the name of one that left."""

    def __init__(self, paths: NodePaths, gone: Callable[[str], Awaitable[None]]) -> None:
        self._paths = paths
        self._gone = gone
        self._by_file: dict[Path, Driver] = {}
        self._identities: dict[Path, tuple[int, int]] = {}

    def registered(self, name: str) -> bool:
        """Whether there is such a driver."""
        return self._find(name) is not None

    def __iter__(self) -> Iterator[Driver]:
        return iter(tuple(self._by_file.values()))

    async def look(self) -> bool:
        """Register what came, and forget what left; False: somebody did not answer, so look again."""
        sockets = dict(islice(_sockets(self._paths.plugins_registry), _MOST_SOCKETS))
        left = [file for file, identity in self._identities.items() if sockets.get(file) != identity]
        for file in left:
            del self._identities[file]
            driver = self._by_file.pop(file, None)
            if driver is not None:
                _LOG.info("DRA driver left: driver=%s", driver.name)
                if not self.registered(driver.name) and file not in sockets:
                    await self._gone(driver.name)
        for file, identity in sockets.items():
            if file not in self._identities:
                try:
                    driver = await self._register(file, identity)
                except PluginError as error:
                    _LOG.info("plugin does not answer: socket=%s error=%s", file, error)
                    continue
                self._identities[file] = identity
                if driver is not None:
                    self._by_file[file] = driver
        return sockets.keys() == self._identities.keys()

    async def prepare(self, name: str, claims: Iterable[wire.Claim]) -> wire.NodePrepareResourcesResponse:
        """The driver's answer. Raises PluginError."""
        driver = self._of(name)
        request = wire.NodePrepareResourcesRequest(claims=claims)
        answer: wire.NodePrepareResourcesResponse = await _ask(
            driver.endpoint, methods.prepare_method(driver.version), request, _PATIENCE_S
        )
        return answer

    async def unprepare(self, name: str, claims: Iterable[wire.Claim]) -> wire.NodeUnprepareResourcesResponse:
        """The driver's answer. Raises PluginError."""
        driver = self._of(name)
        request = wire.NodeUnprepareResourcesRequest(claims=claims)
        answer: wire.NodeUnprepareResourcesResponse = await _ask(
            driver.endpoint, methods.unprepare_method(driver.version), request, _PATIENCE_S
        )
        return answer

    def _of(self, name: str) -> Driver:
        driver = self._find(name)
        if driver is None:
            raise PluginError(f"DRA driver {name} is not registered")
        return driver

    def _find(self, name: str) -> Driver | None:
        """Of several by one name the last."""
        drivers = [driver for driver in self._by_file.values() if driver.name == name]
        return drivers[-1] if drivers else None

    async def _register(self, file: Path, identity: tuple[int, int]) -> Driver | None:
        """Ask who is there, and say whether it is taken; None: it is not. Raises PluginError."""
        answer = await _ask(file, methods.GET_INFO, registration.InfoRequest(), _ASK_S)
        driver, why = self._driver(answer, file, identity)
        status = registration.RegistrationStatus(plugin_registered=not why, error=why)
        await _ask(file, methods.NOTIFY, status, _ASK_S)
        if driver is None:
            _LOG.info("plugin not registered: socket=%s error=%s", file, why)
        else:
            _LOG.info("DRA driver registered: driver=%s version=%s", driver.name, driver.version)
        return driver

    def _driver(
        self, answer: registration.PluginInfo, file: Path, identity: tuple[int, int]
    ) -> tuple[Driver | None, str]:
        """(the driver, why it is none)."""
        if answer.type != methods.PLUGIN_TYPE:
            return None, f"no handler registered for plugin type: {answer.type} at socket {file}"
        supported = list(answer.supported_versions)
        version = next((name for name in _VERSIONS if name in supported), "")
        if not version:
            return None, f"none of the available versions {supported} are supported by the kubelet"
        endpoint = self._paths.root / answer.endpoint.lstrip("/") if answer.endpoint else file
        if ".." in endpoint.parts:
            return None, f"the endpoint {answer.endpoint} leads elsewhere"
        health = next((name for name in methods.HEALTH_SERVICES if name in supported), "")
        return Driver(answer.name, file, identity, endpoint, version, health), ""


def _sockets(folder: Path) -> Iterator[tuple[Path, tuple[int, int]]]:
    """Sockets by file, with what tells one from its successor."""
    try:
        files = sorted(folder.iterdir())
    except OSError:
        return
    for file in files:
        try:
            status = file.stat()
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode) and not file.name.startswith("."):
            yield file, (status.st_ino, status.st_ctime_ns)


async def _ask(socket: Path, method: Any, request: Any, patience_s: float) -> Any:
    """The answer. Raises PluginError: in gRPC's words, or that none came."""
    async with grpc.aio.insecure_channel(f"unix:{socket}", options=CHANNEL_OPTIONS) as channel:
        try:
            async with asyncio.timeout(patience_s):
                return await ask_plugin(channel, method, request)
        except TimeoutError:
            text = "rpc error: code = DeadlineExceeded desc = context deadline exceeded"
            raise PluginError(text) from None
