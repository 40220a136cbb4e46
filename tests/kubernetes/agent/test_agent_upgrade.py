"""The agent replaced by another version of itself while pods hold GPUs: nobody notices but the scheduler."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest

from support.deadlines import join
from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.helm import IMAGE
from support.installed_agent import GPU, InstalledAgent, gpu_pod
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.cli.locations.kubectl import nearest_kubectl

pytestmark = [pytest.mark.kubernetes, pytest.mark.node, pytest.mark.usefixtures("tidy")]


@dataclass(slots=True)
class Record:
    """Every change of the node's Allocatable: (monotonic seconds, count)."""

    changes: list[tuple[float, int]] = field(default_factory=list)

    def below(self, count: int) -> float:
        """For how many seconds it was less."""
        ends = [at for at, _ in self.changes[1:]]
        spans = zip(self.changes, ends, strict=False)
        return sum(end - at for (at, shown), end in spans if shown < count)

    def lowest(self) -> int:
        return min(shown for _, shown in self.changes)


@contextmanager
def recorded(cluster: GenuineCluster) -> Iterator[Record]:
    """What the API server says of the node's GPUs in the meantime."""
    record = Record()
    path = "{.status.allocatable.nvidia\\.com/gpu}{'\\n'}"
    command = [str(nearest_kubectl(chosen_minor(os.environ))), "--kubeconfig", str(cluster.kubeconfig)]
    command += ["get", "node", NODE_NAME, "--watch", "-o", f"jsonpath={path}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as watch:

        def read() -> None:
            assert watch.stdout is not None
            for line in watch.stdout:
                record.changes.append((time.monotonic(), int(line)))

        reader = threading.Thread(target=read)
        reader.start()
        until(lambda: bool(record.changes))
        try:
            yield record
        finally:
            watch.terminate()
            join(reader)


def containers(cluster: GenuineCluster, *pods: str) -> Mapping[str, tuple[str, int]]:
    """Their containers' ids and how often they were restarted."""
    statuses = {pod: cluster.get("pod", pod)["status"]["containerStatuses"][0] for pod in pods}
    return {pod: (status["containerID"], status["restartCount"]) for pod, status in statuses.items()}


def visible(cluster: GenuineCluster, pod: str) -> str:
    cluster.kubectl("wait", f"pod/{pod}", "--for=condition=Ready", "--timeout=180s")
    return cluster.inside(pod, "sh", "-c", "echo $NVIDIA_VISIBLE_DEVICES").strip()


def image(agent: InstalledAgent) -> str:
    return str(agent.pod()["spec"]["containers"][0]["image"])


def test_an_upgrade_and_its_rollback_leave_pods_alone_and_give_no_gpu_twice(
    cluster: GenuineCluster,
    agent: InstalledAgent,
    agent_version: str,
    next_version: str,
    record_property: Callable[[str, object], None],
) -> None:
    """Kubelet offers nothing from the end of the old agent's stream until the new one has registered."""
    cluster.apply(gpu_pod("one"))
    held = visible(cluster, "one")
    before = containers(cluster, "one")
    with recorded(cluster) as record:
        agent.upgrade(next_version)
        assert image(agent) == f"{IMAGE}:{next_version}"
        until(lambda: record.changes[-1][1] == 2)
    say(record_property, "upgrade", record)
    cluster.apply(gpu_pod("other"))
    free = visible(cluster, "other")
    assert {held, free} == set(agent.uuids)
    cluster.apply(gpu_pod("late"))
    until(lambda: "Insufficient nvidia.com/gpu" in cluster.kubectl("describe", "pod", "late"))
    before = {**before, **containers(cluster, "other")}

    with recorded(cluster) as record:
        agent.rollback()
        assert image(agent) == f"{IMAGE}:{agent_version}"
        until(lambda: record.changes[-1][1] == 2)
    say(record_property, "rollback", record)
    assert containers(cluster, "one", "other") == before
    assert cluster.phase("late") == "Pending"
    cluster.kubectl("delete", "pod", "one")
    assert visible(cluster, "late") == held
    assert visible(cluster, "other") == free


def test_an_upgrade_to_an_image_that_is_not_there_is_undone_by_a_rollback(
    cluster: GenuineCluster, agent: InstalledAgent, agent_version: str
) -> None:
    cluster.apply(gpu_pod("one"))
    held = visible(cluster, "one")
    before = containers(cluster, "one")
    with pytest.raises(AssertionError, match="tonnage-agent"):
        agent.upgrade("0.0.0", patience="10s")
    until(lambda: cluster.allocatable(GPU) == 0)
    assert containers(cluster, "one") == before

    agent.rollback()
    assert image(agent) == f"{IMAGE}:{agent_version}"
    until(lambda: cluster.allocatable(GPU) == 2)
    assert containers(cluster, "one") == before
    cluster.apply(gpu_pod("other"))
    assert {visible(cluster, "other"), held} == set(agent.uuids)


def say(record_property: Callable[[str, object], None], what: str, record: Record) -> None:
    """Recorded, and printed as a line of JSON."""
    figures = {"lowest": record.lowest(), "below_s": round(record.below(2), 2)}
    record_property(what, figures)
    print(json.dumps({"agent": what, **figures}))
