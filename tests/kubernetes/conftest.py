"""One genuine cluster for all tests that need a real node: it takes ten seconds to start."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.audit import AuditLog
from support.bad_days import RECOVERY
from support.genuine_cluster import GenuineCluster, genuine_cluster
from support.genuine_node import until
from support.images import agent_archive, busybox_archive
from support.installed_agent import ACCOUNT, GPU, InstalledAgent, installed_agent
from support.leftovers import own_folder
from tonnage import __version__


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """One worker has the one node, from the beginning; others have control planes beside it."""
    for item in items:
        if item.get_closest_marker("node"):
            item.add_marker(pytest.mark.together("a genuine node"))
    items.sort(key=lambda item: item.get_closest_marker("node") is None)


@pytest.fixture(scope="session")
def cluster() -> Iterator[GenuineCluster]:
    """Leave it as you found it: no pods of yours, all processes running."""
    with own_folder() as folder:
        busybox_archive(folder)
        audit = AuditLog(folder).flags(ACCOUNT)
        with genuine_cluster(folder, images=[folder / "busybox.tar"], api_flags=audit) as cluster:
            yield cluster


@pytest.fixture(scope="session")
def agent_version(cluster: GenuineCluster) -> str:
    """The checkout's; the node has the image."""
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        agent_archive(Path(folder))
        cluster.node.import_image(Path(folder, "agent-checkout.tar"))
    return __version__


@pytest.fixture(scope="session")
def next_version(cluster: GenuineCluster, agent_version: str) -> str:
    """One that follows it, of the same sources; the node has the image."""
    version = f"{agent_version}.post1"
    with tempfile.TemporaryDirectory(prefix="tn-", dir="/tmp") as folder:
        agent_archive(Path(folder), version=version)
        cluster.node.import_image(Path(folder, f"agent-{version}.tar"))
    return version


@pytest.fixture(scope="module")
def agent(cluster: GenuineCluster, agent_version: str) -> Iterator[InstalledAgent]:
    """With two GPUs. Leave it as you found it: whole GPUs, no pods of yours."""
    with installed_agent(cluster, agent_version) as agent:
        yield agent


@pytest.fixture
def tidy(cluster: GenuineCluster, agent: InstalledAgent) -> Iterator[None]:
    """Afterwards: no pods in namespace default, whole GPUs."""
    yield
    cluster.kubectl("delete", "pods", "--all", "--now")
    agent.configure()
    until(lambda: cluster.allocatable(GPU) == len(agent.uuids))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show how long recoveries took: the output of tests that pass is not shown otherwise."""
    reports = terminalreporter.getreports("passed")
    for line in (value for report in reports for key, value in report.user_properties if key == RECOVERY):
        terminalreporter.write_line(str(line))
