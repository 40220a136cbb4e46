"""All that lives on the twin's API server: controllers, scheduler, kubelets with the agents, light nodes."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from pathlib import Path

from tonnage.documents.scenario import Scenario
from tonnage.loop.informer import Informers
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.json_access import text
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.authentication.users import API_SERVER, SCHEDULER
from tonnage.twin.apiserver.bootstrap import api_service
from tonnage.twin.apiserver.compaction import compact
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.certificate_authority import CertificateAuthority
from tonnage.twin.controllers.controller_manager import run_controllers
from tonnage.twin.controllers.services.api_endpoints import ApiEndpointsController, host_address
from tonnage.twin.controllers.system_namespaces import keep_system_namespaces
from tonnage.twin.fleet import Loops, TwinNode, TwinNodes
from tonnage.twin.kubelet.containers.runtime_port import Program
from tonnage.twin.light_nodes import LightNodes
from tonnage.twin.machines import light_nodes_of
from tonnage.twin.platform import platform_objects
from tonnage.twin.scheduler.loop import Scheduler
from tonnage.wire.kinds import (
    CLUSTER_ROLE,
    CUSTOM_RESOURCE,
    DAEMON_SET,
    DEPLOYMENT,
    DEVICE_CLASS,
    ROLE,
    Kind,
)
from tonnage.wire.objects import Object


class Population:
    """Started once, stopped once. `authority` issues what the kubelets serve with.

    `runtime_dir` and `programs` are the fleet's.

    Raises ConfigError: the path of `runtime_dir` is too long.
    """

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        server: ApiServer,
        authority: CertificateAuthority,
        *,
        runtime_dir: Path,
        programs: Mapping[str, Program],
    ) -> None:
        self._scenario = scenario
        self._clock = clock
        self._server = server
        self._authority = authority
        self._api: KubernetesApi = server.local()
        self._kubelets: KubernetesApi = server.local("kubelet")
        self._loops = Loops()
        self._fleet = TwinNodes(
            scenario, clock, lambda _number: self._kubelets, runtime_dir=runtime_dir, programs=programs
        )

    @property
    def nodes(self) -> Mapping[str, TwinNode]:
        """By name."""
        return self._fleet.nodes

    async def start(self, kubeconfig: Path) -> None:
        """Begin everything and install the agents, which find the API server by `kubeconfig`."""
        informers = Informers(self._api, self._clock)
        light = LightNodes(light_nodes_of(self._scenario), self._kubelets, self._clock, informers)
        root_ca = self._authority.certificate_pem.decode()
        self._loops.run(
            "controllers",
            run_controllers(
                self._server.of_controller,
                self._clock,
                informers,
                root_ca=root_ca,
                vouched=light.vouch,
            ),
        )
        itself = self._server.local("kube-apiserver", API_SERVER)
        service = ApiEndpointsController(itself, self._clock, informers, api_service, host_address())
        self._loops.run("api service", service.run())
        self._loops.run("system namespaces", keep_system_namespaces(itself, self._clock))
        self._loops.run("compaction", compact(self._server.store, self._clock))
        binder = self._server.local("kube-scheduler", SCHEDULER)
        scheduler = Scheduler(
            *(binder, self._clock, informers),
            version=self._scenario.server_version,
            gates=self._scenario.gates,
            host=platform.node(),
        )
        self._loops.run("scheduler", scheduler.run())
        self._loops.run("light nodes", light.run())
        await self._fleet.start(self._authority, self._loops)
        # Last: with a database these objects outlast a start that fails, and no kubelet would run the agents.
        objects = platform_objects(
            self._scenario.config_texts,
            kubeconfig,
            light=light.any,
            controller=self._scenario.controller,
            drivers=self._scenario.drivers,
        )
        for kind, namespace, body in objects:
            await self._install(kind, namespace, body)

    async def stop(self) -> None:
        """End loops and containers, in this order."""
        await self._loops.stop()
        await self._fleet.stop()

    async def _install(self, kind: Kind[Object], namespace: str | None, body: JsonObject) -> None:
        """Create a part of the platform; what an earlier life left is renewed, but for what people edit."""
        if kind is DEVICE_CLASS:
            self._server.install(kind, body)
            return
        try:
            await self._api.create(kind, body, namespace=namespace)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            if kind in (CUSTOM_RESOURCE, DAEMON_SET, DEPLOYMENT, CLUSTER_ROLE, ROLE):
                await self._api.patch(kind, text(body, "metadata", "name"), body, namespace=namespace)
