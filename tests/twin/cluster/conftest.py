"""A whole twin with its real agents, started for one test."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.fleet import SCENARIO, Fleet
from tonnage.adapters.clock import SystemClock
from tonnage.cli.programs import node_programs
from tonnage.documents.scenario import parse_scenario
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.cluster import Cluster
from tonnage.wire.kinds import NODE


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    scenario = parse_scenario(SCENARIO, source="faults.yaml")
    cluster = Cluster(scenario, SystemClock(), programs=node_programs(), runtime_dir=folder)
    kubeconfig = folder / "kubeconfig"
    try:
        kubeconfig.write_text(kubeconfig_text(await cluster.serve()))
        await cluster.populate(kubeconfig)
        running = Fleet(cluster, kubeconfig)
        await running.until(lambda: _advertises(running))
        yield running
    finally:
        await cluster.stop()
        shutil.rmtree(folder)


async def _advertises(fleet: Fleet) -> bool:
    nodes = (await fleet.api.list(NODE)).items
    return len(nodes) == 2 and await fleet.allocatable() == 2
