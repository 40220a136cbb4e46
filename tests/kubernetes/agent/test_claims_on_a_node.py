"""Claims on a genuine node: kubelet, containerd and runc, and what a container has of its claim."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest

from support.claim_kubelet import ClaimKubelet
from support.container_view import DENIED, NO_DRIVER, look, start
from support.genuine_cluster import GenuineCluster
from support.genuine_node import NODE_NAME, until
from support.installed_agent import CONTROL, GPU, MAJOR, InstalledAgent, gpu_pod, installed_agent
from tonnage.model.devices.claims import ClaimRef

pytestmark = [pytest.mark.kubernetes, pytest.mark.node]

CLASS: Final = "gpu.nvidia.com"
ALL: Final = "version: v1\nclaims: {devices: all}\n"
ONE: Final = "version: v1\nclaims: {devices: [0]}\n"
STATE: Final = "/var/lib/kubelet/dra_manager_state"
SURGE: Final = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
VALUES: Final[Mapping[str, object]] = {"claims": {"enabled": True}, "updateStrategy": SURGE}


@pytest.fixture(scope="module")
def agent(cluster: GenuineCluster, agent_version: str) -> Iterator[InstalledAgent]:
    """With two GPUs, which are offered as claims."""
    with installed_agent(cluster, agent_version, values=VALUES) as agent:
        assert agent.configure(ALL) == ""
        until(lambda: devices(cluster) == ["gpu-0", "gpu-1"])
        yield agent


@pytest.fixture(autouse=True)
def nothing_left(cluster: GenuineCluster, agent: InstalledAgent) -> Iterator[None]:
    """Afterwards: no pods, no claims, no specs of claims, and the GPUs are claims again."""
    yield
    for kind in ("pods", "resourceclaims", "resourceclaimtemplates"):
        cluster.kubectl("delete", kind, "--all", "--now")
    assert agent.configure(ALL) == ""
    until(lambda: devices(cluster) == ["gpu-0", "gpu-1"] and not specs(cluster))


def devices(cluster: GenuineCluster) -> list[str]:
    """What the slices have."""
    slices = cluster.get("resourceslices").get("items", [])
    return [device["name"] for each in slices for device in each["spec"]["devices"]]


def specs(cluster: GenuineCluster) -> list[str]:
    """The specs of claims; the node's /run is seen by its own processes alone."""
    folder = Path(f"/proc/{cluster.node.pid('kubelet')}/root/run/cdi")
    return sorted(file.name for file in folder.glob("*claim_*")) if folder.is_dir() else []


def claiming(name: str, *, claim: str = "", template: str = "", containers: int = 1) -> Any:
    pod = gpu_pod(name, *([0] * containers))
    source = {"resourceClaimName": claim} if claim else {"resourceClaimTemplateName": template}
    pod["spec"]["resourceClaims"] = [{"name": "gpu", **source}]
    for container in pod["spec"]["containers"]:
        container["resources"] = {"claims": [{"name": "gpu"}]}
    return pod


def spec_of(count: int = 1, **more: Any) -> Any:
    exactly = {"deviceClassName": CLASS, "count": count}
    return {"devices": {"requests": [{"name": "gpu", "exactly": exactly}], **more}}


def obj(kind: str, name: str, spec: Any) -> Any:
    inner = {"spec": spec} if kind == "ResourceClaimTemplate" else spec
    return {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": {"name": name}, "spec": inner}


def own(cluster: GenuineCluster, pod: str, container: str = "main") -> set[int]:
    """Which GPUs a container has: by their nodes, and by what opening each by its number is told."""
    seen = look(cluster, pod, container)
    gpus = {n for n in (0, 1) if f"/dev/nvidia{n}" in seen.nodes}
    assert seen.nodes == {
        **{f"/dev/nvidia{n}": (MAJOR, n) for n in gpus},
        **{f"/dev/{name}": number for name, number in CONTROL.items()},
    }
    assert seen.opened == {n: NO_DRIVER if n in gpus else DENIED for n in (0, 1)}
    assert seen.visible == "void"
    return gpus


def test_two_pods_get_a_gpu_each_by_claims_of_a_template(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    cluster.apply(obj("ResourceClaimTemplate", "one", spec_of()))
    start(cluster, claiming("a", template="one"), claiming("b", template="one"))
    assert own(cluster, "a") | own(cluster, "b") == {0, 1}
    assert own(cluster, "a") != own(cluster, "b")
    until(lambda: {pod for _, pod in agent.holders()} == {"a", "b"})
    held = agent.holders()
    assert held["default", "a"] == {agent.uuids[n] for n in own(cluster, "a")}
    assert len(specs(cluster)) == 2
    cluster.kubectl("delete", "pod", "a", "b", "--now")
    until(lambda: not specs(cluster) and not agent.holders())


def slice_uids(cluster: GenuineCluster) -> set[str]:
    return {found["metadata"]["uid"] for found in cluster.get("resourceslices").get("items", ())}


def test_one_claim_is_shared_by_the_containers_of_two_pods(cluster: GenuineCluster) -> None:
    cluster.apply(obj("ResourceClaim", "shared", spec_of()))
    start(cluster, claiming("a", claim="shared", containers=2), claiming("b", claim="shared"))
    gpus = [own(cluster, "a"), own(cluster, "a", "main-1"), own(cluster, "b")]
    assert gpus in ([{0}] * 3, [{1}] * 3)
    cluster.kubectl("delete", "pod", "a", "--now")
    assert own(cluster, "b") == gpus[0]
    assert len(specs(cluster)) == 1


def test_kubelet_and_the_agent_start_again_and_the_pod_keeps_its_gpu(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    cluster.apply(obj("ResourceClaim", "mine", spec_of(2)))
    start(cluster, claiming("a", claim="mine"))
    before = cluster.get("resourceslices")["items"][0]["metadata"]["uid"]
    cluster.node.restart("kubelet")
    until(lambda: before not in slice_uids(cluster))  # kubelet deletes them
    until(lambda: devices(cluster) == ["gpu-0", "gpu-1"])
    until(lambda: "ok" in cluster.kubectl("exec", "a", "--", "echo", "ok", check=False))  # it knows its pods
    assert own(cluster, "a") == {0, 1}
    cluster.kubectl(
        "delete", "pod", "-n", agent.pod()["metadata"]["namespace"], agent.pod()["metadata"]["name"]
    )
    until(lambda: agent.pod()["status"].get("phase") == "Running")
    until(lambda: {pod for _, pod in agent.holders()} == {"a"})
    assert own(cluster, "a") == {0, 1}
    cluster.kubectl("delete", "pod", "a", "--now")
    until(lambda: not specs(cluster) and not agent.holders())


def test_the_agent_gives_back_what_a_kubelet_without_its_memory_of_claims_never_will(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    """kubelet prepares for a sandbox alone, so that it does not know again what runs."""
    cluster.apply(obj("ResourceClaim", "mine", spec_of()))
    start(cluster, claiming("a", claim="mine"))
    cluster.node.end("kubelet")
    cluster.node.root.at(STATE).unlink()
    cluster.node.start("kubelet")
    until(lambda: devices(cluster) == ["gpu-0", "gpu-1"])
    until(lambda: {pod for _, pod in agent.holders()} == {"a"})
    cluster.kubectl("delete", "pod/a", "resourceclaim/mine", "--now")
    until(lambda: not specs(cluster) and not agent.holders())


def test_a_gpu_is_a_claim_or_an_extended_resource_and_both_kinds_run_side_by_side(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    assert agent.configure(ONE) == ""
    until(lambda: devices(cluster) == ["gpu-0"] and cluster.allocatable(GPU) == 1)
    cluster.apply(obj("ResourceClaim", "mine", spec_of()))
    start(cluster, claiming("a", claim="mine"), gpu_pod("b"))
    assert own(cluster, "a") == {0}
    assert look(cluster, "b").visible == agent.uuids[1]
    until(lambda: {pod for _, pod in agent.holders()} == {"a", "b"})


def test_a_configuration_that_is_not_honoured_keeps_the_pod_waiting_with_the_reason(
    cluster: GenuineCluster,
) -> None:
    parameters = {
        "apiVersion": "resource.nvidia.com/v1beta1",
        "kind": "GpuConfig",
        "sharing": {"strategy": "MPS"},
    }
    config = [{"opaque": {"driver": CLASS, "parameters": parameters}}]
    cluster.apply(obj("ResourceClaim", "mps", spec_of(config=config)), claiming("a", claim="mps"))
    told = "NodePrepareResources failed for ResourceClaim mps: claim default/mps"
    until(lambda: told in cluster.kubectl("describe", "pod", "a"))
    assert "sharing by MPS needs flags.mpsRoot" in cluster.kubectl("describe", "pod", "a")
    assert cluster.get("pod", "a")["spec"]["nodeName"] == NODE_NAME


def test_pods_with_claims_start_while_one_agent_replaces_the_other(
    cluster: GenuineCluster, agent: InstalledAgent, agent_version: str
) -> None:
    """Two agents overlap, and kubelet asks the newer one while the older one still has the node."""
    cluster.apply(obj("ResourceClaim", "mine", spec_of()), obj("ResourceClaimTemplate", "one", spec_of()))
    start(cluster, claiming("a", claim="mine"))
    held, before, slices = own(cluster, "a"), agent.pod()["metadata"]["uid"], slice_uids(cluster)
    rounds = 0
    with ThreadPoolExecutor(1) as pool:
        values = {**VALUES, "podAnnotations": {"example.com/round": "two"}}
        upgrade = pool.submit(agent.upgrade, agent_version, values)
        while rounds == 0 or not upgrade.done():
            start(cluster, claiming("during", template="one"))
            assert own(cluster, "during").isdisjoint(held)
            cluster.kubectl("delete", "pod", "during", "--now")
            rounds += 1
        upgrade.result()
    assert agent.pod()["metadata"]["uid"] != before
    refused = "involvedObject.name=during,reason=FailedPrepareDynamicResources"
    assert cluster.kubectl("get", "events", "--field-selector", refused, "-o", "name").strip() == ""
    assert slice_uids(cluster) == slices
    assert own(cluster, "a") == held
    until(lambda: {pod for _, pod in agent.holders()} == {"a"})


def test_a_gpu_whose_claim_was_deleted_by_force_is_given_out_once_its_pod_has_ended(
    cluster: GenuineCluster,
) -> None:
    """The scheduler believes that it is free; the node knows better."""
    cluster.apply(obj("ResourceClaim", "mine", spec_of()), obj("ResourceClaim", "next", spec_of(2)))
    start(cluster, claiming("a", claim="mine"))
    held = own(cluster, "a")
    cluster.kubectl("delete", "resourceclaim", "mine", "--wait=false")
    freed = '{"metadata":{"finalizers":null}}'
    cluster.kubectl("patch", "resourceclaim", "mine", "--type=merge", "-p", freed)
    cluster.apply(claiming("b", claim="next"))
    until(lambda: "is held as claim default/mine" in cluster.kubectl("describe", "pod", "b"))
    assert own(cluster, "a") == held
    cluster.kubectl("delete", "pod", "a", "--now")
    cluster.kubectl("wait", "pod/b", "--for=condition=Ready", "--timeout=180s")
    assert own(cluster, "b") == {0, 1}


def test_a_claim_is_prepared_once_the_api_server_answers_again(
    cluster: GenuineCluster, agent: InstalledAgent
) -> None:
    cluster.apply(obj("ResourceClaim", "mine", spec_of()), claiming("a", claim="mine"))
    server = cluster.plane.pids["kube-apiserver"]
    os.kill(server, signal.SIGSTOP)
    try:
        unknown = ClaimRef("default", "other", "u")
        answers = asyncio.run(ClaimKubelet(cluster.node.root.path).prepare(unknown))
        assert answers["u"].error
    finally:
        os.kill(server, signal.SIGCONT)
    cluster.kubectl("wait", "pod/a", "--for=condition=Ready", "--timeout=180s")
    assert len(own(cluster, "a")) == 1
    until(lambda: {pod for _, pod in agent.holders()} == {"a"})
