"""Pods that cannot start for what is missing: objects of volumes, secrets for images, images themselves."""

from __future__ import annotations

from typing import Any

import pytest

from support.kubelet_bench import KubeletBench
from tonnage.wire import kinds

_BAD, _WRONG = '"Bad//x"', "invalid reference format"
_WHERE = '(pod: "web_default(uid-web)", container: c)'
_KEYS: Any = {"name": "there", "items": [{"key": "a", "path": "a"}, {"key": "b", "path": "b"}]}
_BOTH: Any = {"sources": [{"secret": {"name": "gone"}}, {"configMap": {"name": "lost"}}]}
_ONE: Any = {"sources": [{"secret": {"name": "gone"}}, {"configMap": {"name": "there"}}]}


def _put(bench: KubeletBench) -> None:
    for kind in (kinds.CONFIG_MAP, kinds.SECRET):
        data = {"a": "eA=="}
        bench.api.put(kind, {"metadata": {"name": "there", "namespace": "default"}, "data": data})


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ({"configMap": {"name": "gone"}}, 'configmap "gone" not found'),
        ({"secret": {"secretName": "gone"}}, 'secret "gone" not found'),
        ({"configMap": _KEYS}, "configmap references non-existent config key: b"),
        (
            {"secret": {"secretName": "there", "items": _KEYS["items"]}},
            "references non-existent secret key: b",
        ),
        ({"projected": _BOTH}, '[secret "gone" not found, configmap "lost" not found]'),
        ({"projected": _ONE}, 'secret "gone" not found'),
    ],
)
async def test_a_volume_whose_object_is_missing_keeps_the_pod_waiting(
    bench: KubeletBench, source: Any, why: str
) -> None:
    _put(bench)
    bench.bind("web", volumes=[{"name": "v", **source}])
    await bench.clock.advance(3)
    told = f'Warning FailedMount MountVolume.SetUp failed for volume "v" : {why}'
    assert bench.api.events("web") == [f"{told} x3"]
    status = bench.api.pod("web")["status"]
    assert status["phase"] == "Pending"
    assert status["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}
    assert next(c["status"] for c in status["conditions"] if c["type"] == "PodReadyToStartContainers") == (
        "False"
    )


@pytest.mark.parametrize(
    ("claim", "why"),
    [
        (None, 'failed to fetch PVC from API server: persistentvolumeclaims "mine" not found'),
        ({"status": {"phase": "Pending"}}, "PVC is not bound"),
    ],
)
async def test_a_claim_that_is_not_bound_keeps_the_pod_waiting(
    bench: KubeletBench, claim: Any, why: str
) -> None:
    where: Any = {"metadata": {"name": "mine", "namespace": "default"}}
    if claim is not None:
        bench.api.put(kinds.VOLUME_CLAIM, {**where, **claim})
    bench.bind("web", volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "mine"}}])
    await bench.clock.advance(3)
    told = "unmounted volumes=[v], unattached volumes=[], failed to process volumes=[v]"
    text = f"Unable to attach or mount volumes: {told}: error processing PVC default/mine: {why}"
    assert bench.api.events("web") == [f"Warning FailedMount {text} x1"]
    bench.api.put(kinds.VOLUME_CLAIM, {**where, "status": {"phase": "Bound"}})
    await bench.clock.advance(5)
    await bench.phase("web", "Running")


async def test_a_pod_for_another_system_is_turned_away(bench: KubeletBench) -> None:
    bench.bind("web", os={"name": "windows"})
    status = await bench.phase("web", "Failed")
    assert (status["reason"], status["message"]) == (
        "PodOSNotSupported",
        "Pod was rejected: Failed to admit pod as the OS field doesn't match node OS",
    )


@pytest.mark.parametrize(
    ("name", "spec", "why"),
    [
        ("kernel.msgmax", {}, '"kernel.msgmax" not allowlisted'),
        ("net/ipv4/conf/eth0.1/rp_filter", {}, '"net.ipv4.conf.eth0/1.rp_filter" not allowlisted'),
        ("net.ipv4.tcp_rmem", {"hostNetwork": True}, '"net.ipv4.tcp_rmem" not allowed with host Net enabled'),
        (
            "kernel/shm_rmid_forced",
            {"hostIPC": True},
            '"kernel.shm_rmid_forced" not allowed with host IPC enabled',
        ),
    ],
    ids=["others would notice", "slashes are dots", "the network is the node's", "so is the memory"],
)
async def test_a_pod_with_a_sysctl_that_is_not_its_own_is_turned_away(
    bench: KubeletBench, name: str, spec: Any, why: str
) -> None:
    bench.bind("web", securityContext={"sysctls": [{"name": name, "value": "1"}]}, **spec)
    status = await bench.phase("web", "Failed")
    told = f"Pod was rejected: forbidden sysctl: {why}"
    assert (status["reason"], status["message"]) == ("SysctlForbidden", told)


async def test_a_pod_with_a_safe_sysctl_runs(bench: KubeletBench) -> None:
    bench.bind("web", securityContext={"sysctls": [{"name": "kernel/shm_rmid_forced", "value": "1"}]})
    await bench.phase("web", "Running")


async def test_a_pod_that_goes_before_it_runs_keeps_its_conditions(bench: KubeletBench) -> None:
    bench.bind("web", volumes=[{"name": "v", "configMap": {"name": "gone"}}])
    await bench.clock.advance(1)
    await bench.api.delete(kinds.POD, "web", namespace="default")
    await bench.clock.advance(5)
    last = bench.api.history("pods", "web")[-1]["status"]
    assert last["phase"] == "Failed"
    assert {c["reason"] for c in last["conditions"] if c["type"].endswith("Ready")} == {"ContainersNotReady"}


async def test_what_is_missing_is_waited_for_and_now_and_then_given_up(bench: KubeletBench) -> None:
    bench.bind("web", volumes=[{"name": "v", "configMap": {"name": "there"}}])
    await bench.clock.advance(130)
    assert (
        "Warning FailedMount Unable to attach or mount volumes: unmounted volumes=[v], "
        "unattached volumes=[], failed to process volumes=[]: context deadline exceeded x1"
    ) in bench.api.events("web")
    _put(bench)
    await bench.clock.advance(125)
    assert bench.api.pod("web")["status"]["phase"] == "Running"


@pytest.mark.parametrize(
    "source",
    [
        {"configMap": {"name": "gone", "optional": True}},
        {"configMap": {**_KEYS, "optional": True}},
        {"secret": {"secretName": "there"}},
        {"projected": {"sources": [{"secret": {"name": "gone", "optional": True}}]}},
        {"emptyDir": {}},
    ],
)
async def test_a_volume_that_may_be_empty_keeps_nobody_waiting(bench: KubeletBench, source: Any) -> None:
    _put(bench)
    bench.bind("web", volumes=[{"name": "v", **source}])
    await bench.phase("web", "Running")


async def test_secrets_for_images_that_are_missing_are_told_of(bench: KubeletBench) -> None:
    _put(bench)
    bench.bind("web", imagePullSecrets=[{"name": "one"}, {"name": "there"}, {"name": "two"}])
    await bench.phase("web", "Running")
    assert bench.api.events("web")[0] == (
        "Warning FailedToRetrieveImagePullSecret Unable to retrieve some image pull secrets (one, two); "
        "attempting to pull the image may not succeed. x1"
    )


@pytest.mark.parametrize(
    ("container", "context", "reason", "event", "message"),
    [
        (
            {"image": "mine:1", "imagePullPolicy": "Never"},
            {},
            "ErrImageNeverPull",
            "ErrImageNeverPull",
            'Container image "mine:1" is not present with pull policy of Never',
        ),
        (
            {"image": "Bad//x"},
            {},
            "InvalidImageName",
            "InspectFailed",
            f"Failed to apply default image tag {_BAD}: couldn't parse image name {_BAD}: {_WRONG}",
        ),
        (
            {"image": "busybox:1", "securityContext": {"runAsNonRoot": True}},
            {},
            "CreateContainerConfigError",
            "",
            f"container has runAsNonRoot and image will run as root {_WHERE}",
        ),
        (
            {"image": "mine:1", "securityContext": {"runAsNonRoot": True}},
            {"runAsUser": 0},
            "CreateContainerConfigError",
            "",
            f"container's runAsUser breaks non-root policy {_WHERE}",
        ),
        *(
            (
                {
                    "image": "busybox:1",
                    "env": [
                        {"name": "UP", "value": "../x"},
                        {"name": "ROOT", "value": "/x"},
                        {"name": "NONE"},
                    ],
                    "volumeMounts": [{"name": "v", "mountPath": "/v", "subPathExpr": expression}],
                },
                {},
                "CreateContainerConfigError",
                "",
                message,
            )
            for expression, message in {
                "$(B)/$(A)/$(N)": "missing value for A, B, N",
                "$(ROOT)": "error SubPath `/x` must not be an absolute path",
                "a/$(UP)": "unable to provision SubPath `a/../x`: must not contain '..'",
            }.items()
        ),
    ],
)
async def test_a_container_that_may_not_start_says_why(
    bench: KubeletBench, container: Any, context: Any, reason: str, event: str, message: str
) -> None:
    bench.bind("web", containers=[{"name": "c", **container}], securityContext=context)
    await bench.clock.advance(2)
    state = bench.api.pod("web")["status"]["containerStatuses"][0]["state"]
    assert state == {"waiting": {"reason": reason, "message": message}}
    events = bench.api.events("web")
    if event:
        assert events == [f"Warning {event} {message} x1", f"Warning Failed Error: {reason} x1"]
    else:
        assert events[-1] == f"Warning Failed Error: {message} x1"


@pytest.mark.parametrize(
    ("context", "own", "user"),
    [
        (
            {},
            {},
            {"uid": 0, "gid": 0, "supplementalGroups": [0]},
        ),
        (
            {"runAsUser": 7, "fsGroup": 9},
            {},
            {"uid": 7, "gid": 0, "supplementalGroups": [0, 9]},
        ),
        (
            {"runAsUser": 7, "runAsGroup": 8, "supplementalGroups": [8, 9]},
            {"runAsUser": 1, "runAsNonRoot": True},
            {"uid": 1, "gid": 8, "supplementalGroups": [8, 9]},
        ),
    ],
)
async def test_a_status_says_as_whom_a_container_runs(
    bench: KubeletBench, context: Any, own: Any, user: Any
) -> None:
    ids = {"name": "c", "image": "i", "command": ["sleep", "infinity"], "securityContext": own}
    bench.bind("web", containers=[ids], securityContext=context)
    status = await bench.phase("web", "Running")
    assert status["containerStatuses"][0]["user"] == {"linux": user}
    assert status["containerStatuses"][0]["imageID"].startswith("docker.io/library/i@sha256:")


@pytest.mark.parametrize("gate", [True, False])
async def test_a_pod_that_is_turned_away_loses_the_kubelets_conditions(
    bench: KubeletBench, gate: bool
) -> None:
    conditions = [{"type": "PodScheduled", "status": "True"}]
    conditions += [{"type": "example.com/ok", "status": "True"}] if gate else []
    asked = {"resources": {"requests": {"cpu": "9999"}}}
    bench.bind("web", containers=[{"name": "c", "image": "i", **asked}], status={"conditions": conditions})
    status = await bench.phase("web", "Failed")
    left = [one["type"] for one in status.get("conditions") or ()]
    assert left == (["example.com/ok"] if gate else [])
