"""The twin as a whole: API server, controllers, scheduler and a kubelet per node."""

from __future__ import annotations

import platform
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from tonnage.adapters.certificates import Authority
from tonnage.documents.scenario import Scenario
from tonnage.loop.informer import Informers
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text
from tonnage.model.key_pair import KeyPair
from tonnage.ports import Clock, KubernetesApi
from tonnage.twin.apiserver.audit import AuditLog
from tonnage.twin.apiserver.authentication.account_tokens import TokenKey
from tonnage.twin.apiserver.authentication.users import API_SERVER, SCHEDULER
from tonnage.twin.apiserver.server import LOOPBACK, ApiServer, Endpoint
from tonnage.twin.apiserver.storage.compaction import compact
from tonnage.twin.controllers.server_lease import ServerLeaseController
from tonnage.twin.controllers.services.api_endpoints import ApiEndpointsController, host_address
from tonnage.twin.controllers.suite import run_controllers
from tonnage.twin.controllers.system_namespaces import keep_system_namespaces
from tonnage.twin.fleet import Fleet, Loops, TwinNode
from tonnage.twin.kubelet.containers.port import Program
from tonnage.twin.light_nodes import LightNodes
from tonnage.twin.platform import platform_objects
from tonnage.twin.scheduler.loop import Scheduler
from tonnage.twin.world import light_nodes_of
from tonnage.wire.kinds import CLUSTER_ROLE, CUSTOM_RESOURCE, DAEMON_SET, ROLE, Kind
from tonnage.wire.objects import Object

if TYPE_CHECKING:
    from tonnage.twin.apiserver.storage.database import Database


@dataclass(frozen=True, slots=True)
class ClusterFiles:
    """Where a cluster is kept and where it says who asked what; it does neither without a file."""

    database: Path | None = None
    audit_log: Path | None = None


class Cluster:
    """A GPU cluster in this process. `programs` maps image repositories to what their containers run.

    `runtime_dir` holds the nodes' folders with sockets: keep it short. First `serve`, then `populate`.
    With a database the cluster goes on where it ended there, with its CA, token and port.

    Raises:
        ConfigError: the file cannot be read as a cluster, or the audit log not be written.
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
        self._kept = _opened(files.database)
        self._audit = AuditLog(files.audit_log) if files.audit_log is not None else None
        if self._kept is None:
            self.server = ApiServer(clock, audit=self._audit)
        else:
            pem = self._kept.fact_or("service-accounts", lambda: TokenKey().pem)
            self.server = ApiServer(
                clock, store=self._kept.store(), token_key=TokenKey(pem), audit=self._audit
            )
        self.api: KubernetesApi = self.server.local()
        self._scenario = scenario
        self._clock = clock
        self._port = port
        self._authority = _authority(self._kept, clock)
        self._loops = Loops()
        self._kubelets: KubernetesApi = self.server.local("kubelet")
        self._fleet = Fleet(
            scenario, clock, lambda _number: self._kubelets, runtime_dir=runtime_dir, programs=programs
        )

    @property
    def nodes(self) -> Mapping[str, TwinNode]:
        """By name."""
        return self._fleet.nodes

    async def serve(self) -> Endpoint:
        """Let the API server answer; there are no nodes yet.

        Raises:
            ConfigError: the port is in use.
        """
        if self._kept is None:
            return await self.server.start(self._authority, host=LOOPBACK, port=self._port or 0)
        token = self._kept.fact_or("token", lambda: secrets.token_urlsafe(32).encode()).decode()
        port = self._port if self._port is not None else int(self._kept.fact("port") or b"0")
        endpoint = await self.server.start(self._authority, host=LOOPBACK, port=port, token=token)
        self._kept.keep_fact("port", endpoint.url.rpartition(":")[2].encode())
        return endpoint

    async def populate(self, kubeconfig: Path) -> None:
        """Start controllers, scheduler and kubelets and install the agents; nodes are Ready within seconds.

        The agents find the API server by `kubeconfig`, which the caller has written from the endpoint.
        """
        informers = Informers(self.api, self._clock)
        light = LightNodes(light_nodes_of(self._scenario), self._kubelets, self._clock, informers)
        root_ca = self._authority.certificate_pem.decode()
        self._loops.run(
            "controllers",
            run_controllers(
                self.api,
                self._clock,
                informers,
                root_ca=root_ca,
                sign=self.server.sign_token,
                vouched=light.vouch,
            ),
        )
        itself = self.server.local("kube-apiserver", API_SERVER)
        service = ApiEndpointsController(itself, self._clock, informers, host_address())
        self._loops.run("api service", service.run())
        self._loops.run("lease", ServerLeaseController(itself, self._clock, platform.node()).run())
        self._loops.run("system namespaces", keep_system_namespaces(itself, self._clock))
        self._loops.run("compaction", compact(self.server.store, self._clock))
        binder = self.server.local("kube-scheduler", SCHEDULER)
        scheduler = Scheduler(
            binder, self._clock, informers, version=self._scenario.server_version, host=platform.node()
        )
        self._loops.run("scheduler", scheduler.run())
        self._loops.run("light nodes", light.run())
        await self._fleet.start(self._authority, self._loops)
        objects = platform_objects(self._scenario.config_texts, kubeconfig, light=light.any)
        for kind, namespace, body in objects:
            await self._install(kind, namespace, body)

    async def _install(self, kind: Kind[Object], namespace: str | None, body: JsonObject) -> None:
        """Create a part of the platform; what an earlier life left is renewed, but for what people edit."""
        try:
            await self.api.create(kind, body, namespace=namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            if kind in (CUSTOM_RESOURCE, DAEMON_SET, CLUSTER_ROLE, ROLE):
                await self.api.patch(kind, text(body, "metadata", "name"), body, namespace=namespace)

    def check(self) -> None:
        """Nothing of the twin can end apart from this process."""

    async def stop(self) -> None:
        """End loops, containers and servers, in this order. Nothing of it runs afterwards."""
        await self._loops.stop()
        await self._fleet.stop()
        await self.server.stop()
        if self._audit is not None:
            self._audit.close()
        if self._kept is not None:
            self._kept.close()


def _opened(path: Path | None) -> Database | None:
    if path is None:
        return None
    from tonnage.twin.apiserver.storage.database import Database

    return Database.open(path)


def _authority(kept: Database | None, clock: Clock) -> Authority:
    """The CA, the same as ever where the cluster is kept."""
    found = (kept.fact("ca.pem"), kept.fact("ca.key")) if kept is not None else (None, None)
    if found[0] and found[1]:
        return Authority.load(KeyPair(found[0], found[1]))
    authority = Authority.generate(clock.now())
    if kept is not None:
        kept.keep_fact("ca.pem", authority.certificate_pem)
        kept.keep_fact("ca.key", authority.key_pem)
    return authority
