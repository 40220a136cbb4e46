"""The twin's API server, controllers and scheduler in a process of their own, without nodes."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.operating.planes import install
from benchmarks.operating.pretended_nodes import node_body, report_body
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.loop.informer import Informers
from tonnage.twin.apiserver.authentication.users import SCHEDULER
from tonnage.twin.apiserver.compaction import compact
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.controllers.controller_manager import run_controllers
from tonnage.twin.scheduler.loop import Scheduler
from tonnage.wire.kinds import NODE, NODE_GPU_STATUS


async def main(kubeconfig: Path, at_rest: int, loops: bool) -> None:
    """Serve until the process is ended. The kubeconfig is written once the server answers."""
    clock = SystemClock()
    server = ApiServer(clock)
    if at_rest:
        await install(server.local())
    for number in range(at_rest):
        for kind, body in ((NODE, node_body(number, at_rest=True)), (NODE_GPU_STATUS, report_body(number))):
            server.install(kind, {"apiVersion": kind.api_version, "kind": kind.kind, **body})
    endpoint = await server.start(Authority.generate(datetime.now(UTC)))
    await asyncio.to_thread(kubeconfig.write_text, kubeconfig_text(endpoint))
    informers = Informers(server.local(), clock)
    scheduler = Scheduler(server.local("kube-scheduler", SCHEDULER), clock, informers)
    async with asyncio.TaskGroup() as group:
        group.create_task(compact(server.store, clock))
        if not loops:
            return
        # The nodes' heartbeats are kubelets' business, and nobody's here.
        group.create_task(run_controllers(server.of_controller, clock, informers, vouched=lambda _node: True))
        group.create_task(scheduler.run())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), "loops" in sys.argv))
