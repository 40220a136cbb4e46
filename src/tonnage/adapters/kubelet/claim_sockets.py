"""The sockets of a driver for ResourceClaims (DRA): one that kubelet finds, and one on which it asks."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from tonnage.adapters.kubelet.claim_handlers import claim_handlers
from tonnage.adapters.kubelet.claim_relay import ClaimRelay
from tonnage.adapters.kubelet.folder_watch import FolderWatch
from tonnage.adapters.kubelet.plugin_folder import CHANNEL_OPTIONS
from tonnage.adapters.kubelet.unix_socket import (
    Context,
    file_identity,
    fits,
    is_deserted,
    probe_socket,
    reading,
)
from tonnage.model.devices.claims import DRIVER
from tonnage.model.errors import HardwareError, Problem, words_of
from tonnage.ports.claims import ClaimService, HealthStream
from tonnage.wire.kubelet import claim_methods as methods
from tonnage.wire.kubelet import pluginregistration_pb2 as registration
from tonnage.wire.kubelet.methods import Method

_ASK_S: Final = 1.0
_MOST_SOCKETS: Final = 64
_OWN: Final = f"{DRIVER}-tonnage"
"""How our registration sockets' names begin. NVIDIA's driver takes others: ours never replaces its own."""
_ENDPOINTS: Final = "tonnage"
_HOLDER: Final = "tonnage.sock"
"""The socket of the agent that has the node, or a link to it: who else is asked passes calls on to that."""
_NO_HOLDER: Final = "the link by which the next agent finds this one cannot be made"
_LOOK_THERE: Final = "remove what lies there, or make the folder writable"
_VERSIONS: Final = (methods.V1, methods.V1BETA1, *methods.HEALTH_SERVICES)
_DIGITS: Final = 4
"""No more, so that the sockets fit wherever those of the device plugin do."""


class ClaimFolder:
    """EarlySockets below kubelet's folder, `folder` on the host and `root / folder` here.

    `instance` is the uid of the agent's pod. Of two agents, while one replaces the other, each has sockets of
    its own then, and calls may go to either. Empty: there is one agent at a time.
    """

    def __init__(self, root: Path, folder: str, instance: str = "") -> None:
        here = root / folder.lstrip("/")
        self._registry = here / "plugins_registry"
        plugins = here / "plugins" / DRIVER
        infix = _infix(self._registry, instance)
        self._registering = self._registry / f"{_OWN}{infix}-reg.sock"
        self._endpoint = plugins / f"{_ENDPOINTS}{infix}.sock"
        self._holder = plugins / _HOLDER
        self._registered_endpoint = f"{folder.rstrip('/')}/plugins/{DRIVER}/{self._endpoint.name}"
        self._relay = ClaimRelay(self._holder, self._endpoint)
        self._served: tuple[ClaimService, HealthStream] | None = None
        self._watch = FolderWatch()
        self._server: grpc.aio.Server | None = None
        self._identities: dict[Path, tuple[int, int] | None] = {}
        self._status: str | None = None
        self._on_change: Callable[[], None] = lambda: None

    async def other(self) -> str:
        for file in await asyncio.to_thread(lambda: list(islice(self._others(), _MOST_SOCKETS))):
            if await _name_at(file) == DRIVER:
                return str(file)
        return ""

    def registered(self) -> str | None:
        return self._status

    def present(self) -> bool:
        return self._lie_there() and (self._endpoint == self._holder or self._holder.is_symlink())

    def _lie_there(self) -> bool:
        return bool(self._identities) and all(
            identity is not None and file_identity(file) == identity
            for file, identity in self._identities.items()
        )

    def watch(self, on_change: Callable[[], None]) -> bool:
        self._on_change = on_change
        return self._watch.over(self._registry, on_change)

    def has_holder(self) -> bool:
        return self._relay.has_holder()

    def standing_by(self) -> bool:
        return self._served is None and self._lie_there()

    async def stand_by(self) -> None:
        self._relay.taken_over.clear()
        await self._open()

    async def serve(self, service: ClaimService, health: HealthStream) -> None:
        self._served = service, health
        self._relay.taken_over.set()
        if not self._lie_there():
            await self._open()
        await asyncio.to_thread(self._take_the_node)

    async def _open(self) -> None:
        await self._stop()
        server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        server.add_generic_rpc_handlers((self._registration(), *claim_handlers(self._service, self._relay)))
        try:
            pairs = [(file, file.with_name(f".{file.name}")) for file in (self._endpoint, self._registering)]
            for file, bound in pairs:
                probe_socket(file, bound)
                server.add_insecure_port(f"unix:{bound}")
            await server.start()
            for file, bound in pairs:  # the one that kubelet finds last
                bound.replace(file)
                self._identities[file] = file_identity(file)
        except (OSError, RuntimeError) as error:
            await server.stop(None)
            where = str(self._registering)
            raise HardwareError(
                Problem("the driver's sockets cannot be opened", where, words_of(error))
            ) from None
        except BaseException:
            await server.stop(None)
            raise
        self._server = server

    def _service(self) -> tuple[ClaimService, HealthStream]:
        assert self._served is not None  # the relay says that this agent has the node
        return self._served

    def _take_the_node(self) -> None:
        """Have agents to come pass their calls on to this one, and remove what killed ones left."""
        try:
            self._link_holder()
        except OSError as error:
            why = words_of(error)
            raise HardwareError(Problem(_NO_HOLDER, str(self._holder), why, _LOOK_THERE)) from None

    def _link_holder(self) -> None:
        if self._endpoint != self._holder:
            fresh = self._holder.with_name(f".{_HOLDER}.new")
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(self._endpoint.name)
            fresh.replace(self._holder)
        own = self._endpoint, self._registering, self._holder
        endpoints = self._endpoint.parent.glob(f"{_ENDPOINTS}*.sock")
        for file in (*self._registry.glob(f"{_OWN}*.sock"), *endpoints):
            if file not in own and is_deserted(file):
                file.unlink(missing_ok=True)

    async def close(self) -> None:
        await self._stop()
        self._watch.close()

    async def _stop(self) -> None:
        for file, identity in reversed(self._identities.items()):
            if identity is not None and file_identity(file) == identity:
                file.unlink(missing_ok=True)
        if self._served is not None and self._holder.is_symlink() and not self._holder.exists():
            self._holder.unlink(missing_ok=True)
        self._identities, self._status = {}, None
        if self._server is not None:
            await self._server.stop(None)
            self._server = None

    def _others(self) -> Iterator[Path]:
        """Sockets of that driver's name which are not ours."""
        try:
            files = sorted(self._registry.iterdir())
        except OSError:
            return
        for file in files:
            if not file.name.startswith(DRIVER) or file.name.startswith(_OWN) or file.suffix != ".sock":
                continue
            try:
                if stat.S_ISSOCK(file.stat().st_mode):
                    yield file
            except OSError:
                continue

    def _registration(self) -> grpc.GenericRpcHandler:
        async def plugin_info(
            _request: registration.InfoRequest, _context: Context
        ) -> registration.PluginInfo:
            return registration.PluginInfo(
                type=methods.PLUGIN_TYPE,
                name=DRIVER,
                endpoint=self._registered_endpoint,
                supported_versions=_VERSIONS,
            )

        async def notify(
            request: registration.RegistrationStatus, _context: Context
        ) -> registration.RegistrationStatusResponse:
            refused = request.error[:500] or "kubelet gives no reason"
            self._status = "" if request.plugin_registered else refused
            self._on_change()
            return registration.RegistrationStatusResponse()

        handlers = {
            "GetInfo": _unary(methods.GET_INFO, plugin_info),
            "NotifyRegistrationStatus": _unary(methods.NOTIFY, notify),
        }
        return grpc.method_handlers_generic_handler(methods.REGISTRATION, handlers)


def _unary(method: Method[Any, Any], answer: Callable[..., Any]) -> grpc.RpcMethodHandler[Any, Any]:
    return grpc.unary_unary_rpc_method_handler(
        reading(method, answer), None, method.response.SerializeToString
    )


def _infix(folder: Path, instance: str) -> str:
    """What tells the sockets of two agents apart, as long as their paths may be."""
    if not instance:
        return ""
    longest = folder / f".{_OWN}-{instance}-reg.sock"
    digest = hashlib.sha256(instance.encode()).hexdigest()[:_DIGITS]
    return f"-{instance if fits(longest) else digest}"


async def _name_at(file: Path) -> str:
    """The name of the driver that answers at a registration socket; empty where nobody does."""
    method = methods.GET_INFO
    async with grpc.aio.insecure_channel(f"unix:{file}", options=CHANNEL_OPTIONS) as channel:
        call = channel.unary_unary(
            method.path,
            request_serializer=method.request.SerializeToString,
            response_deserializer=method.response.FromString,
        )
        try:
            answer = await call(registration.InfoRequest(), timeout=_ASK_S)
        except grpc.aio.AioRpcError:
            return ""
    return str(answer.name)
