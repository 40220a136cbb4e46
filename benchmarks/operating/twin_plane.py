"""The twin's API server, controllers and scheduler in a process of their own, without nodes."""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from pathlib import Path

from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.loop.informer import Informers
from tonnage.twin.apiserver.authentication.users import SCHEDULER
from tonnage.twin.apiserver.compaction import compact
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.controllers.controller_manager import run_controllers
from tonnage.twin.scheduler.loop import Scheduler


async def main(kubeconfig: Path, loops: bool) -> None:
    """Serve until the process is ended. The kubeconfig is written once the server answers."""
    clock = SystemClock()
    server = ApiServer(clock)
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
    asyncio.run(main(Path(sys.argv[1]), "loops" in sys.argv))
