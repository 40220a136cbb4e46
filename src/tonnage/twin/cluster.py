"""The twin as a whole: API server, controllers, scheduler and a kubelet per node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.documents.scenario import Scenario
from tonnage.twin.apiserver.server import LOOPBACK, ApiServer, Endpoint
from tonnage.twin.controllers.suite import run_controllers
from tonnage.twin.fleet import Fleet, Loops, TwinNode
from tonnage.twin.kubelet.runtime import Program
from tonnage.twin.pki import Authority
from tonnage.twin.platform import platform_objects
from tonnage.twin.scheduler import Scheduler


class Cluster:
    """A GPU cluster in this process. `programs` maps image repositories to what their containers run.

    `runtime_dir` holds the nodes' folders with sockets: keep it short. First `serve`, then `populate`.
    """

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        *,
        runtime_dir: Path,
        programs: Mapping[str, Program] = MappingProxyType({}),
        port: int = 0,
    ) -> None:
        self.server = ApiServer(clock)
        self.api: KubernetesApi = self.server.local()
        self._scenario = scenario
        self._clock = clock
        self._port = port
        self._authority = Authority.generate(clock.now())
        self._loops = Loops()
        self._fleet = Fleet(
            scenario, clock, lambda _number: self.api, runtime_dir=runtime_dir, programs=programs
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
        return await self.server.start(self._authority, host=LOOPBACK, port=self._port)

    async def populate(self, kubeconfig: Path) -> None:
        """Start controllers, scheduler and kubelets and install the agents; nodes are Ready within seconds.

        The agents find the API server by `kubeconfig`, which the caller has written from the endpoint.
        """
        root_ca = self._authority.certificate_pem.decode()
        self._loops.run("controllers", run_controllers(self.api, self._clock, root_ca=root_ca))
        scheduler = Scheduler(self.api, self._clock, version=self._scenario.server_version)
        self._loops.run("scheduler", scheduler.run())
        await self._fleet.start(self._authority, self._loops)
        for kind, namespace, body in platform_objects(self._scenario.config_texts, kubeconfig):
            await self.api.create(kind, body, namespace=namespace)

    def check(self) -> None:
        """Nothing of the twin can end apart from this process."""

    async def stop(self) -> None:
        """End loops, containers and servers, in this order. Nothing of it runs afterwards."""
        await self._loops.stop()
        await self._fleet.stop()
        await self.server.stop()
