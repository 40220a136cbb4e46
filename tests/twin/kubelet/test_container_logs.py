"""Why a container has no log, in the words of a genuine kubelet."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.twin.kubelet.streams.container_logs import log_refusal

ENDED = {"terminated": {"exitCode": 1, "containerID": "containerd://1"}}
UNKNOWN = {"terminated": {"exitCode": 137, "reason": "ContainerStatusUnknown"}}


def waiting(reason: str) -> dict[str, Any]:
    return {"waiting": {"reason": reason}}


@pytest.mark.parametrize(
    ("state", "before", "previous", "why"),
    [
        pytest.param({"running": {}}, {}, False, "", id="running"),
        pytest.param(ENDED, {}, False, "", id="ended"),
        pytest.param(waiting("CrashLoopBackOff"), ENDED, False, "", id="between two"),
        pytest.param(UNKNOWN, ENDED, False, "", id="lost, but for the one before"),
        pytest.param(UNKNOWN, {}, False, "{} is terminated", id="lost"),
        pytest.param(
            waiting("PodInitializing"), {}, False, "{} is waiting to start: PodInitializing", id="init"
        ),
        pytest.param(
            waiting("ErrImagePull"), {}, False, "{} is waiting to start: image can't be pulled", id="no image"
        ),
        pytest.param(
            waiting("ImagePullBackOff"),
            {},
            False,
            "{} is waiting to start: trying and failing to pull image",
            id="still no image",
        ),
        pytest.param({"running": {}}, ENDED, True, "", id="the one before"),
        pytest.param({"running": {}}, {}, True, "previous terminated {} not found", id="none before"),
    ],
)
def test_a_log_is_refused_by_what_the_pods_status_says(
    state: Any, before: Any, previous: bool, why: str
) -> None:
    entry = {"name": "c", "state": state, "lastState": before}
    for part in ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"):
        told = log_refusal({part: [entry]}, "p", "c", previous=previous)
        assert told == why.format('container "c" in pod "p"')


def test_a_pod_that_was_turned_away_has_no_containers() -> None:
    status = {"phase": "Failed", "reason": "NodeAffinity"}
    assert log_refusal(status, "p", "c", previous=False) == 'container "c" in pod "p" is not available'
