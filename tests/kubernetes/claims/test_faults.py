"""Bad days of a genuine node with claims: nothing is given twice, nothing is lost, nothing is stuck."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from support.accounts import nodes_of
from support.api_faults import end_api_server, start_api_server
from support.claim_manifests import claim, claiming, request, template
from support.container_view import start
from support.genuine_claims import STATE, VALUES, ClaimNode
from support.genuine_node import until
from support.helm import NAMESPACE
from support.installed_agent import AGENT
from support.load import LABEL, Load, Watchman
from support.own_cgroup import processes_in
from tonnage.model.json import JsonObject

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.node,
    pytest.mark.usefixtures("tidy"),
    pytest.mark.sampled("bad days of claims on a node", share="1/2"),
]

KINDS: Final = ("one", "one", "two", "pair", "short")
NO_FINALIZERS: Final = '{"metadata":{"finalizers":null}}'


def restarts(claims: ClaimNode, *pods: str) -> list[int]:
    statuses = [claims.cluster.get("pod", pod)["status"].get("containerStatuses", ()) for pod in pods]
    return [sum(each["restartCount"] for each in containers) for containers in statuses]


def agent_process(claims: ClaimNode) -> int:
    """The agent's, as the host counts."""
    pod = f"pod{claims.agent.pod()['metadata']['uid']}/"
    found = [process for path, process in processes_in(claims.cluster.node.cgroup) if pod in path]
    (agent,) = [each for each in found if b"--claims" in Path(f"/proc/{each}/cmdline").read_bytes()]
    return agent


def agent_said(claims: ClaimNode, text: str) -> bool:
    """Whether its log has that, which the node has without an API server."""
    logs = claims.cluster.node.root.at("/var/log/pods").glob(f"{NAMESPACE}_{AGENT}-*/agent/*.log")
    return any(text in log.read_text(errors="replace") for log in logs)


def delete_by_force(claims: ClaimNode, name: str) -> None:
    """The claim's object goes at once, whoever uses it."""
    claims.cluster.kubectl("delete", "resourceclaim", name, "--force", "--grace-period=0", "--wait=false")
    # Without a pod it may be gone by itself.
    claims.cluster.kubectl("patch", "resourceclaim", name, "--type=merge", "-p", NO_FINALIZERS, check=False)


@contextmanager
def watched(claims: ClaimNode) -> Iterator[None]:
    """Somebody looks all the time; AssertionError if a GPU was in two containers at once."""
    uids = ("get", "pods", "-n", NAMESPACE, "-o", "jsonpath={.items[*].metadata.uid}")
    agents = lambda: claims.cluster.kubectl(*uids, check=False).split()  # noqa: E731
    watch = Watchman(claims.cluster, lambda _: 1, nodes_of, agents)
    watch.start()
    try:
        yield
    finally:
        watch.stop()
    assert not (twice := watch.report()), twice
    assert watch.looks


def test_kubelet_containerd_and_the_agent_start_again_and_pods_keep_their_gpus(claims: ClaimNode) -> None:
    claims.cluster.apply(claim("mine", request(count=2)), template("one"))
    start(claims.cluster, claiming("a", by="mine"), claiming("b", of="one"))
    before = claims.slice_uids()
    held = claims.gpus("a"), claims.gpus("b")
    claims.cluster.node.end("kubelet", signal.SIGKILL)
    claims.cluster.node.restart("containerd", signal.SIGKILL)
    claims.cluster.node.start("kubelet")
    until(
        lambda: bool(claims.slice_uids()) and before.isdisjoint(claims.slice_uids())
    )  # kubelet deletes them
    os.kill(agent_process(claims), signal.SIGKILL)
    start(claims.cluster, claiming("c", of="one"))
    assert (claims.gpus("a"), claims.gpus("b")) == held
    assert claims.gpus("c").isdisjoint(held[0] | held[1])
    assert restarts(claims, "a", "b") == [0, 0]
    claims.agrees()
    claims.cluster.kubectl("delete", "pods", "--all", "--now")
    until(claims.nothing_is_held)


def test_a_kubelet_without_its_memory_of_claims_gives_nothing_twice(claims: ClaimNode) -> None:
    """kubelet prepares for a sandbox alone, so that it does not know again what runs."""
    claims.cluster.apply(claim("mine", request(count=2)), template("one"))
    start(claims.cluster, claiming("a", by="mine"))
    held = claims.gpus("a")
    claims.cluster.node.end("kubelet")
    claims.cluster.node.root.at(STATE).unlink()
    claims.cluster.node.start("kubelet")
    start(claims.cluster, claiming("b", by="mine"), claiming("c", of="one"))
    assert claims.gpus("b") == held
    assert claims.gpus("c").isdisjoint(held)
    assert restarts(claims, "a") == [0]
    claims.agrees()


def test_after_a_reboot_pods_have_the_gpus_of_their_claims_and_what_is_over_is_free(
    claims: ClaimNode,
) -> None:
    """Nobody gave anything back before: everything on the node ended at once."""
    claims.cluster.apply(claim("mine", request(count=2)), claim("gone"), template("one"))
    start(claims.cluster, claiming("a", by="mine"), claiming("b", of="one"), claiming("c", by="gone"))
    held = claims.gpus("a"), claims.gpus("b")
    (freed,) = claims.gpus("c")
    boots = claims.boots()
    with watched(claims):
        claims.cluster.node.crash()
        claims.cluster.kubectl("delete", "pod", "c", "--force", "--grace-period=0")
        delete_by_force(claims, "gone")
        claims.cluster.node.boot()
        until(lambda: claims.cluster.is_ready() and restarts(claims, "a", "b") == [1, 1])
        start(claims.cluster, claiming("d", of="one"))
        claims.cluster.kubectl("wait", "pod/a", "pod/b", "--for=condition=Ready", "--timeout=180s")
        assert (claims.gpus("a"), claims.gpus("b")) == held
        assert claims.gpus("d") == {freed}
    assert len(boots) == 1
    until(lambda: claims.boots().isdisjoint(boots))
    claims.agrees()


def test_a_gpu_of_a_claim_that_was_deleted_by_force_is_free_once_its_pod_has_ended(claims: ClaimNode) -> None:
    """The scheduler believes that it is free; the node knows better. Then another claim has its name."""
    claims.cluster.apply(claim("mine", request(count=2)), claim("next", request(count=4)))
    start(claims.cluster, claiming("a", by="mine"))
    held = claims.gpus("a")
    with watched(claims):
        delete_by_force(claims, "mine")
        claims.cluster.apply(claiming("b", by="next"))
        until(lambda: "is held as claim default/mine" in claims.refusals("b"))
        assert claims.gpus("a") == held
        claims.cluster.kubectl("delete", "pod", "b", "--now")
        claims.cluster.kubectl("delete", "resourceclaim", "next", "--now")
        claims.cluster.apply(claim("mine"), claiming("c", by="mine"))
        until(lambda: bool(claims.refusals("c")))
        assert claims.gpus("a") == held
        claims.cluster.kubectl("delete", "pod", "a", "--now")
        start(claims.cluster, claiming("c", by="mine"))
        assert len(claims.gpus("c")) == 1
    claims.agrees()


def test_a_pod_that_was_deleted_by_force_has_its_gpus_until_it_has_ended(claims: ClaimNode) -> None:
    """Its object is gone at once, its claim is given to others; its containers take their time."""
    claims.cluster.apply(claim("mine", request(count=4)), claim("next", request(count=4)))
    stubborn: Any = claiming("a", by="mine")
    stubborn["spec"]["containers"][0]["command"] = ["sh", "-c", "trap '' TERM; while :; do sleep 1; done"]
    start(claims.cluster, stubborn)
    with watched(claims):
        claims.cluster.kubectl("delete", "pod", "a", "--force", "--grace-period=0")
        start(claims.cluster, claiming("b", by="next"))
        assert claims.gpus("b") == {0, 1, 2, 3}
    until(lambda: claims.remembered() == ["default/next"])
    claims.cluster.kubectl("delete", "resourceclaim", "mine")
    claims.agrees()


def test_a_claim_whose_preparation_met_no_api_server_is_prepared_when_there_is_one(claims: ClaimNode) -> None:
    claims.cluster.apply(claim("unread", request(count=2)))
    agent = agent_process(claims)
    os.kill(agent, signal.SIGSTOP)
    try:
        claims.cluster.apply(claiming("a", by="unread"))
        until(lambda: claims.remembered() == ["default/unread"])  # kubelet asks
        end_api_server(claims.cluster, at_once=True)
    finally:
        os.kill(agent, signal.SIGCONT)
    try:
        until(lambda: agent_said(claims, "claim refused: node=node claim=default/unread"))
        assert (claims.noted(), claims.specs()) == ({}, [])
    finally:
        start_api_server(claims.cluster)
    start(claims.cluster, claiming("a", by="unread"))
    assert len(claims.gpus("a")) == 2
    claims.agrees()


def body(kind: str, name: str, *, grace_s: int) -> JsonObject:
    """A pod of the load, with a claim of its own from the template `one`, or `two` with two requests."""
    containers = {"two": ("",), "pair": ("x", "y")}.get(kind, ("",))
    pod: Any = claiming(name, of="two" if kind in ("two", "pair") else "one", containers=containers)
    if kind == "short":
        pod["spec"] |= {"restartPolicy": "Never"}
        pod["spec"]["containers"][0]["command"] = ["sleep", "2"]
    pod["metadata"]["labels"] = {LABEL: kind}
    made: JsonObject = {
        "metadata": pod["metadata"],
        "spec": pod["spec"] | {"terminationGracePeriodSeconds": grace_s},
    }
    return made


def test_upgrades_and_rollbacks_under_load_refuse_no_claim_and_give_no_gpu_twice(
    claims: ClaimNode, agent_version: str
) -> None:
    """Two agents overlap, and kubelet asks the newer one while the older one still has the node."""
    claims.cluster.apply(template("one"), template("two", request("x"), request("y")))
    claims.cluster.kubectl("delete", "events", "--all")
    slices = claims.slice_uids()
    load = Load(claims.cluster.kubeconfig, pods=4, seed=3, kinds=KINDS, body=body)
    with watched(claims):
        load.start()
        try:
            for number in range(2):
                enough = load.started + 3
                until(lambda enough=enough: load.started >= enough)  # type: ignore[misc]
                before = claims.agent.pod()["metadata"]["uid"]
                claims.agent.upgrade(
                    agent_version, {**VALUES, "podAnnotations": {"example.com/round": f"{number}"}}
                )
                assert claims.agent.pod()["metadata"]["uid"] != before
            enough = load.started + 3
            until(lambda: load.started >= enough)
            with load.rest():
                claims.agrees()
        finally:
            load.stop()
    assert claims.refusals() == ""
    assert not load.refused
    assert claims.slice_uids() == slices


def test_sixteen_pods_at_once_have_a_gpu_each_and_nobody_waited_too_long(
    claims: ClaimNode, record_property: Callable[[str, object], None]
) -> None:
    with claims.more_gpus(16):
        claims.cluster.apply(template("one"))
        claims.cluster.kubectl("delete", "events", "--all")
        pods = [f"p{number}" for number in range(16)]
        began = time.monotonic()
        start(claims.cluster, *(claiming(pod, of="one") for pod in pods))
        record_property("recovery", f"16 pods with claims at once run after {time.monotonic() - began:.1f} s")
        assert claims.refusals() == ""
        claims.agrees()
        assert sorted(device for devices in claims.allocated().values() for device in devices) == sorted(
            f"gpu-{number}" for number in range(16)
        )
        claims.clear()
