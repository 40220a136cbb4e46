"""The embedded cluster: the twin, or its kubelets on a genuine control plane; the real agent in its pods."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import shutil
import sys
from asyncio.sslproto import SSLProtocol
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from tonnage.adapters.clock import SystemClock
from tonnage.adapters.logging import set_up_logging
from tonnage.cli.locations.folders import runtime_folder
from tonnage.cli.locations.socket_folder import make_runtime
from tonnage.cli.locations.state import Running, StateFolder, unusable
from tonnage.cli.up.options import Serving
from tonnage.cli.up.readiness import Readiness, readiness
from tonnage.documents.scenario import Scenario, scenario_text
from tonnage.model.errors import ClusterError, ConfigError, HardwareError, Problem
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import NODE, NODE_GPU_STATUS

if TYPE_CHECKING:
    from tonnage.twin.apiserver.server import Endpoint
    from tonnage.twin.kubelet.containers.runtime_port import Program

_PAUSE_S: Final = 0.02
_PATIENCE_S: Final = 180.0
_FILES: Final = 100
_FILES_OF_CLIENTS: Final = 4096
_FILES_A_NODE: Final = 16
_TAIL_BYTES: Final = 64 << 10
_OTHERS_WRITE: Final = 0o022
_TLS_BUFFER_BYTES: Final = 16 << 10


class ClusterEngine(Protocol):
    """A cluster that this process starts and ends: first `serve`, then `populate`."""

    @property
    def api(self) -> KubernetesApi: ...
    async def serve(self) -> Endpoint: ...
    async def populate(self, kubeconfig: Path) -> None: ...
    def check(self) -> None: ...
    async def stop(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Embedded:
    """A cluster that runs in this process, or in processes of this one.

    `check` raises ClusterError once a part of it has ended by itself.
    """

    api: KubernetesApi
    running: Running
    kubeconfig: Path
    log: Path
    check: Callable[[], None]


@asynccontextmanager
async def embedded_cluster(
    scenario: Scenario,
    state: StateFolder,
    serving: Serving = Serving(),  # noqa: B008 - frozen
    *,
    verbose: bool = False,
) -> AsyncIterator[Embedded]:
    """Own `state` and run the fleet until the block ends, then leave nothing.

    The loops log to `up.log` in the state folder, with `verbose` to stderr. `serving.keep`: go on with the
    cluster that the folder keeps, if it has one, and leave it there.

    Raises:
        ConfigError: a cluster runs in `state` already, the port is taken, or the engine's programs are
            missing.
        ClusterError: a process of the control plane ended.
        HardwareError: a folder cannot be used.
    """
    _prepare_process(sum(group.nodes for group in scenario.groups if not group.light))
    from tonnage.twin.apiserver.kubeconfig import kubeconfig_text

    clock = SystemClock()
    state.hold()
    log = sys.stderr if verbose else state.log.open("a", encoding="utf-8")
    set_up_logging(log, verbose=verbose)
    sockets: Path | None = None
    try:
        sockets = make_runtime(state, runtime_folder(os.environ, state.path, os.getuid()))
        make = _genuine if serving.engine == "kubernetes" else _twin
        cluster = make(scenario, clock, state, sockets, serving)
        if serving.keep:
            state.keep_scenario(scenario_text(scenario))
        try:
            try:
                endpoint = await cluster.serve()
                since = clock.now().isoformat(timespec="seconds")
                running = Running(
                    *(os.getpid(), scenario.name, scenario.nodes, endpoint.url, str(state.kubeconfig)),
                    since=since,
                    engine=serving.engine,
                )
                # First the kubeconfig, by which the agents find the API server.
                state.publish(running, kubeconfig_text(endpoint))
                await _populate(cluster, state.kubeconfig)
            except OSError as error:
                raise _no_room(sockets, error) from error
            yield Embedded(cluster.api, running, state.kubeconfig, state.log, cluster.check)
        finally:
            await cluster.stop()
    finally:
        if sockets is not None:
            shutil.rmtree(sockets, ignore_errors=True)
        # When nothing runs any more: from here on another process may take the folder.
        state.release()
        logging.getLogger().handlers = []
        if not verbose:
            log.close()


def _prepare_process(nodes: int) -> None:
    """Set what holds for the whole process, before anything is loaded or opened that reads it."""
    quiet_grpc(os.environ)
    shrink_tls_buffers()
    allow_many_files(nodes)
    # Agents trust no folder of their node that others write.
    os.umask(os.umask(_OTHERS_WRITE) | _OTHERS_WRITE)


async def _populate(cluster: ClusterEngine, kubeconfig: Path) -> None:
    """Start what lives on the cluster; its server answers while the agent is loaded."""
    await asyncio.to_thread(import_module, "tonnage.cli.up.programs")
    await cluster.populate(kubeconfig)


class _Programs(Mapping[str, "Program"]):
    """`node_programs`, which load the agent: not before somebody asks."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    @cached_property
    def _programs(self) -> Mapping[str, Program]:
        from tonnage.cli.up.programs import node_programs

        return node_programs(self._kubeconfig)

    def __getitem__(self, image: str) -> Program:
        return self._programs[image]

    def __iter__(self) -> Iterator[str]:
        return iter(self._programs)

    def __len__(self) -> int:
        return len(self._programs)


def _twin(
    scenario: Scenario, clock: SystemClock, state: StateFolder, sockets: Path, serving: Serving
) -> ClusterEngine:
    from tonnage.twin.cluster import Cluster, ClusterFiles

    return Cluster(
        scenario.with_gates(serving.gates),
        clock,
        programs=_Programs(state.kubeconfig),
        port=serving.port,
        runtime_dir=sockets,
        files=ClusterFiles(state.database if serving.keep else None, serving.audit_log),
    )


def _genuine(
    scenario: Scenario, clock: SystemClock, state: StateFolder, sockets: Path, serving: Serving
) -> ClusterEngine:
    from tonnage.cli.locations.binaries import find_binaries
    from tonnage.cli.up.genuine import GenuineCluster

    if any(group.light for group in scenario.groups):
        why = "a real control plane marks nodes without heartbeats NotReady"
        raise ConfigError(
            Problem(
                "--light-nodes does not work with --engine kubernetes", scenario.name, why, "--engine twin"
            )
        )
    binaries = find_binaries(os.environ, minor=scenario.server_version)
    return GenuineCluster(
        scenario,
        clock,
        folder=state.control_plane,
        runtime_dir=sockets,
        binaries=binaries.folder,
        serving=serving,
    )


def allow_many_files(nodes: int) -> None:
    """Raise the soft limit of open files to the hard one, where the nodes need it.

    Raises:
        HardwareError: the hard limit is too low for so many nodes.
    """
    needed = _FILES + nodes * _FILES_A_NODE
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in (resource.RLIM_INFINITY, -1) and hard < needed:
        why = f"this process may open {hard}; {nodes} nodes take up to {needed}"
        remedy = f"raise the limit (ulimit -n {needed}), or use fewer nodes (--nodes)"
        raise HardwareError(Problem("the limit of open files is too low", "RLIMIT_NOFILE", why, remedy))
    target = needed + _FILES_OF_CLIENTS
    if hard not in (resource.RLIM_INFINITY, -1):
        target = min(target, hard)
    if soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))


def _no_room(sockets: Path, error: OSError) -> HardwareError:
    """The system refuses a file or a socket of the cluster."""
    if error.errno in (errno.EMFILE, errno.ENFILE):
        remedy = "raise the limit (ulimit -n 4096), or use fewer nodes (--nodes)"
        return HardwareError(Problem("too many open files", str(sockets), remedy=remedy))
    return unusable(Path(error.filename) if isinstance(error.filename, str) else sockets, error)


def shrink_tls_buffers() -> None:
    """Let asyncio take 16 KiB for each TLS connection, as much as a record has, and not 256."""
    SSLProtocol.max_size = _TLS_BUFFER_BYTES


def quiet_grpc(environment: MutableMapping[str, str]) -> None:
    """Keep gRPC's C core from writing to stderr whenever a socket closes; it reads this when it is loaded."""
    environment.setdefault("GRPC_VERBOSITY", "ERROR")


async def wait_until_ready(
    cluster: Embedded, scenario: Scenario, tell: Callable[[Readiness], None]
) -> Readiness:
    """Return once every node is Ready, every GPU node advertises and its agent has reported.

    `tell` hears each step forward.

    Raises:
        ClusterError: it takes more than three minutes, or a part of the cluster ended.
    """
    last: Readiness | None = None
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                cluster.check()
                nodes, reports = await asyncio.gather(
                    cluster.api.list(NODE), cluster.api.list(NODE_GPU_STATUS)
                )
                now = readiness(scenario, nodes.items, reports.items)
                if now != last:
                    tell(now)
                    last = now
                if now.complete:
                    return now
                await asyncio.sleep(_PAUSE_S)
    except TimeoutError:
        raise ClusterError(
            Problem(
                "the fleet did not come up",
                cluster.running.server,
                "\n".join([f"after {_PATIENCE_S:.0f} s: {last}", *last_complaints(cluster.log)]),
                "use fewer nodes (--nodes), or a machine with more free cores",
            )
        ) from None


def last_complaints(log: Path) -> tuple[str, ...]:
    """The last three errors or warnings that a cluster wrote, without their times, each once."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ()
    entries = [line.partition(" ")[2] for line in lines]
    complaints = dict.fromkeys(text for text in entries if text.startswith(("ERROR", "WARNING")))
    return tuple(text[:300] for text in complaints)[-3:]
