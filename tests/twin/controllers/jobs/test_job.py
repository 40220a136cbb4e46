"""Jobs on the twin: their pods, how they are counted, and how jobs end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.kubernetes import PatchType
from tonnage.twin.controllers.garbage_collector import GarbageCollector
from tonnage.twin.controllers.jobs.indexes import Indexes
from tonnage.twin.controllers.jobs.job import JobController
from tonnage.wire.kinds import EVENT, JOB, POD
from tonnage.wire.objects import Pod
from tonnage.wire.workloads import Job

Cluster = Any
INDEX = "batch.kubernetes.io/job-completion-index"


@pytest.fixture
async def running(cluster: Cluster) -> Cluster:
    cluster.start(JobController(cluster.api, cluster.clock, cluster.informers).run())
    cluster.start(GarbageCollector(cluster.api, cluster.clock, cluster.informers).run())
    await cluster.clock.settle()
    return cluster


async def start(cluster: Cluster, **spec: Any) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    await cluster.apply(JOB, "j", {"spec": {"template": template, **spec}})
    await cluster.clock.settle()


async def job(cluster: Cluster) -> Job:
    found: Job = await cluster.api.get(JOB, "j", "default")
    return found


async def true_conditions(cluster: Cluster) -> dict[str, str]:
    """Reasons of the conditions that are true, by type."""
    return {one.type: one.reason for one in (await job(cluster)).status.conditions if one.status == "True"}


async def living(cluster: Cluster) -> list[Pod]:
    return [pod for pod in await cluster.pods() if pod.status.phase in ("Pending", "Running")]


async def end(cluster: Cluster, pod: Pod, code: int = 0) -> None:
    """Report as a kubelet does that the container has ended."""
    now = timestamp(cluster.clock.now())
    ended: JsonObject = {"terminated": {"exitCode": code, "finishedAt": now}}
    status: JsonObject = {
        "phase": "Failed" if code else "Succeeded",
        "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": False, "state": ended}],
    }
    await cluster.api.patch(
        POD,
        pod.metadata.name,
        {"status": status},
        namespace="default",
        patch_type=PatchType.STRATEGIC,
        subresource="status",
    )
    await cluster.clock.settle()


async def end_all(cluster: Cluster, code: int = 0) -> None:
    for pod in await living(cluster):
        await end(cluster, pod, code)


async def test_a_job_is_complete_once_enough_pods_have_succeeded(running: Cluster) -> None:
    await start(running, completions=3, parallelism=2)
    assert len(await living(running)) == 2
    await end_all(running)
    assert len(await living(running)) == 1
    assert "Complete" not in await true_conditions(running)
    await end_all(running)
    status = (await job(running)).status
    assert (status.succeeded, status.active, status.failed) == (3, 0, 0)
    assert await true_conditions(running) == {
        "SuccessCriteriaMet": "CompletionsReached",
        "Complete": "CompletionsReached",
    }
    assert status.completion_time is not None
    assert await running.events("Completed") == ["Job completed"]
    assert all(not pod.metadata.finalizers for pod in await running.all(POD))


async def test_without_completions_one_success_is_enough(running: Cluster) -> None:
    await start(running, parallelism=3)
    [first, *rest] = await living(running)
    await end(running, first)
    assert len(await living(running)) == 2
    for pod in rest:
        await end(running, pod)
    assert "Complete" in await true_conditions(running)


async def test_failures_wait_longer_each_time_until_the_limit(running: Cluster) -> None:
    await start(running, backoffLimit=2)
    for pause in (10, 20):
        await end_all(running, 1)
        await running.clock.advance(pause - 1)
        assert await living(running) == []
        await running.clock.advance(1.5)
        assert len(await living(running)) == 1
    await end_all(running, 1)
    assert await true_conditions(running) == {
        "FailureTarget": "BackoffLimitExceeded",
        "Failed": "BackoffLimitExceeded",
    }
    assert (await job(running)).status.failed == 3
    assert await running.events("BackoffLimitExceeded") == ["Job has reached the specified backoff limit"]


async def test_a_job_that_is_too_long_active_ends_and_its_pods_with_it(running: Cluster) -> None:
    await start(running, activeDeadlineSeconds=30)
    await running.make_ready()
    await running.clock.advance(31)
    assert (await true_conditions(running))["Failed"] == "DeadlineExceeded"
    assert await living(running) == []


async def test_a_job_goes_when_its_time_to_live_is_over(running: Cluster) -> None:
    await start(running, ttlSecondsAfterFinished=60)
    await end_all(running)
    await running.clock.advance(59)
    assert len(await running.all(JOB)) == 1
    await running.clock.advance(2)
    assert await running.all(JOB) == []
    assert await running.all(POD) == []


async def test_a_suspended_job_has_no_pods_and_starts_anew(running: Cluster) -> None:
    await start(running, suspend=True)
    assert await living(running) == []
    assert (await job(running)).status.start_time is None
    await running.api.patch(JOB, "j", {"spec": {"suspend": False}}, namespace="default")
    await running.clock.advance(1)
    assert len(await living(running)) == 1
    assert (await job(running)).status.start_time is not None
    await running.api.patch(JOB, "j", {"spec": {"suspend": True}}, namespace="default")
    await running.clock.advance(1)
    assert await living(running) == []
    assert await true_conditions(running) == {"Suspended": "JobSuspended"}
    counts = {event.reason: event.count for event in await running.all(EVENT)}
    assert (counts["Suspended"], counts["Resumed"]) == (2, 1)


async def test_each_index_is_done_once(running: Cluster) -> None:
    await start(running, completions=4, parallelism=3, completionMode="Indexed")
    pods = {pod.metadata.annotations[INDEX]: pod for pod in await living(running)}
    assert sorted(pods) == ["0", "1", "2"]
    await end(running, pods["1"])
    await end(running, pods["2"])
    status = (await job(running)).status
    assert (status.completed_indexes, status.succeeded) == ("1,2", 2)
    assert sorted(pod.metadata.annotations[INDEX] for pod in await living(running)) == ["0", "3"]
    await running.api.delete(POD, pods["0"].metadata.name, namespace="default", grace_period_s=0)
    await running.clock.advance(15)
    assert sorted(pod.metadata.annotations[INDEX] for pod in await living(running)) == ["0", "3"]
    await end_all(running)
    assert (await job(running)).status.completed_indexes == "0-3"
    assert "Complete" in await true_conditions(running)


async def test_an_index_fails_by_itself_and_its_successor_knows(running: Cluster) -> None:
    await start(running, completions=2, parallelism=2, completionMode="Indexed", backoffLimitPerIndex=1)
    first = next(pod for pod in await living(running) if pod.metadata.annotations[INDEX] == "0")
    await end(running, first, 1)
    await running.clock.advance(11)
    again = next(pod for pod in await living(running) if pod.metadata.annotations[INDEX] == "0")
    assert again.metadata.annotations["batch.kubernetes.io/job-index-failure-count"] == "1"
    await end(running, again, 1)
    assert (await job(running)).status.failed_indexes == "0"
    await end_all(running)
    assert (await true_conditions(running))["Failed"] == "FailedIndexes"
    assert (await job(running)).status.completed_indexes == "1"


@pytest.mark.parametrize(
    ("action", "code", "seen"),
    [
        pytest.param("Ignore", 7, (0, set()), id="ignored"),
        pytest.param("Count", 7, (1, set()), id="counted"),
        pytest.param("FailJob", 7, (1, {"FailureTarget", "Failed"}), id="the job fails"),
        pytest.param("FailJob", 8, (1, set()), id="another exit code"),
    ],
)
async def test_a_failure_policy_judges_exit_codes(
    running: Cluster, action: str, code: int, seen: tuple[int, set[str]]
) -> None:
    rule = {"action": action, "onExitCodes": {"operator": "In", "values": [7]}}
    await start(running, podFailurePolicy={"rules": [rule]})
    await end_all(running, code)
    assert ((await job(running)).status.failed, set(await true_conditions(running))) == seen


async def test_pods_of_a_job_that_is_deleted_are_let_go(running: Cluster) -> None:
    await start(running)
    await running.api.delete(JOB, "j", namespace="default")
    await running.clock.advance(1)
    assert await running.all(POD) == []


async def test_a_job_of_another_controller_is_left_alone(running: Cluster) -> None:
    await start(running, managedBy="acme.io/queue")
    await running.clock.advance(5)
    assert await running.all(POD) == []
    assert (await job(running)).status.uncounted_terminated_pods is None


@given(st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_indexes_are_sets(left: set[int], right: set[int]) -> None:
    a, b = Indexes.of(left), Indexes.of(right)
    assert Indexes.parsed(str(a), 61) == a
    assert (len(a | b), a & b) == (len(left | right), len(left & right))
    assert [number for number in range(61) if number in a] == sorted(left)
    assert list(a.lacking(61)) == sorted(set(range(61)) - left)
