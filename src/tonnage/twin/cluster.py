"""The twin as a whole: API server, controllers, scheduler and a kubelet per node."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tonnage.adapters.certificates import Authority
from tonnage.documents.scenario import Scenario
from tonnage.model.key_pair import KeyPair
from tonnage.model.kubernetes.feature_gates import FeatureGates, check_simulated, minor_of
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.audit import AuditLog
from tonnage.twin.apiserver.authentication.account_tokens import TokenKey
from tonnage.twin.apiserver.server import LOOPBACK, ApiServer, Endpoint

if TYPE_CHECKING:
    from tonnage.twin.apiserver.storage.database import Database
    from tonnage.twin.fleet import TwinNode
    from tonnage.twin.kubelet.containers.runtime_port import Program
    from tonnage.twin.population import Population


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """Where a cluster is kept and where it says who asked what; it does neither without a file."""

    database: Path | None = None
    audit_log: Path | None = None


class Cluster:
    """A GPU cluster in this process. `programs` maps image repositories to what their containers run.

    `runtime_dir` holds the nodes' folders with sockets: keep it short. First `serve`, then `populate`.
    `gates` are feature gates that are not as the release has them by default.
    With a database the cluster goes on where it ended there, with its CA, token and port.

    Raises:
        ConfigError: the file cannot be read as a cluster, the audit log not be written, or a gate is unknown.
        HardwareError: it cannot be written.
    """

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        *,
        runtime_dir: Path,
        programs: Mapping[str, Program] = MappingProxyType({}),
        port: int | None = None,
        files: ClusterFiles = ClusterFiles(),
    ) -> None:
        check_simulated(scenario.gates)
        features = FeatureGates(minor_of(scenario.server_version), scenario.gates)
        self._database = _opened(files.database)
        self._audit = AuditLog(files.audit_log) if files.audit_log is not None else None
        if self._database is None:
            self.server = ApiServer(clock, audit=self._audit, gates=features)
        else:
            pem = self._database.fact_or("service-accounts", lambda: TokenKey().pem)
            self.server = ApiServer(
                clock,
                store=self._database.store(),
                token_key=TokenKey(pem),
                audit=self._audit,
                gates=features,
            )
        self.api: KubernetesApi = self.server.local()
        self._scenario = scenario
        self._clock = clock
        self._port = port
        self._authority = _authority(self._database, clock)
        self._runtime_dir = runtime_dir
        self._programs = programs
        self._population: Population | None = None

    @property
    def nodes(self) -> Mapping[str, TwinNode]:
        """By name, once there are some."""
        return {} if self._population is None else self._population.nodes

    async def serve(self) -> Endpoint:
        """Let the API server answer; there are no nodes yet.

        Raises:
            ConfigError: the port is in use.
        """
        if self._database is None:
            return await self.server.start(self._authority, host=LOOPBACK, port=self._port or 0)
        token = self._database.fact_or("token", lambda: secrets.token_urlsafe(32).encode()).decode()
        port = self._port if self._port is not None else int(self._database.fact("port") or b"0")
        endpoint = await self.server.start(self._authority, host=LOOPBACK, port=port, token=token)
        self._database.keep_fact("port", endpoint.url.rpartition(":")[2].encode())
        return endpoint

    async def populate(self, kubeconfig: Path) -> None:
        """Start controllers, scheduler and kubelets and install the agents; nodes are Ready within seconds.

        The agents find the API server by `kubeconfig`, which the caller has written from the endpoint. What
        is started here is loaded here, beside the server, which answers meanwhile.
        """
        await asyncio.to_thread(import_module, "tonnage.twin.population")
        from tonnage.twin.population import Population

        self._population = Population(
            self._scenario,
            self._clock,
            self.server,
            self._authority,
            runtime_dir=self._runtime_dir,
            programs=self._programs,
        )
        await self._population.start(kubeconfig)

    def check(self) -> None:
        """Nothing of the twin can end apart from this process."""

    async def stop(self) -> None:
        """End loops, containers and servers, in this order. Nothing of it runs afterwards."""
        if self._population is not None:
            await self._population.stop()
        await self.server.stop()
        if self._audit is not None:
            self._audit.close()
        if self._database is not None:
            self._database.close()


def _opened(path: Path | None) -> Database | None:
    if path is None:
        return None
    from tonnage.twin.apiserver.storage.database import Database

    return Database.open(path)


def _authority(database: Database | None, clock: Clock) -> Authority:
    """The CA, the same as ever where the cluster is kept."""
    files = (database.fact("ca.pem"), database.fact("ca.key")) if database is not None else (None, None)
    if files[0] and files[1]:
        return Authority.load(KeyPair(files[0], files[1]))
    authority = Authority.generate(clock.now())
    if database is not None:
        database.keep_fact("ca.pem", authority.certificate_pem)
        database.keep_fact("ca.key", authority.key_pem)
    return authority
