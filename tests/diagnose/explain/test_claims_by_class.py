"""Pods that count devices for which a DeviceClass stands."""

from __future__ import annotations

import pytest

from support.claim_objects import (
    ANY,
    DRIVER,
    Body,
    claim,
    device,
    device_class,
    explained,
    node,
    pod,
    replicas_with_claims,
    resource_slice,
)
from tonnage.diagnose.explain.replicas.answers import explain_together
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.claims import ClaimNotAllocatable
from tonnage.model.verdict import Verdict
from tonnage.reading.documents import (
    snapshot_from_documents,
)
from tonnage.reading.manifests import added_manifests


def by_count(count: int, resource: str = "nvidia.com/gpu", init: int = 0) -> Body:
    """A pod that asks for devices by count, and for more of them before it starts."""

    def asking(amount: int) -> Body:
        amounts = {resource: str(amount), "cpu": "1"}
        return {"name": "c", "image": "i", "resources": {"requests": amounts, "limits": amounts}}

    inits = {"initContainers": [{**asking(init), "name": "before"}]} if init else {}
    return pod(containers=[asking(count)], **inits)


def plugged(name: str, gpus: int) -> Body:
    """A node whose device plugin offers GPUs, or has offered some."""
    body = node(name)
    amounts = {**body["status"]["allocatable"], "nvidia.com/gpu": str(gpus)}
    body["status"] = {"allocatable": amounts, "capacity": amounts}
    return body


NAMED = {
    **ANY,
    "metadata": {**ANY["metadata"], "creationTimestamp": "2026-01-01T00:00:00Z"},
    "spec": {**ANY["spec"], "extendedResourceName": "nvidia.com/gpu"},
}
OF_A_FILE = {**NAMED, "metadata": ANY["metadata"]}
TWO = resource_slice("a", device("gpu-0"), device("gpu-1"))
FREE_TWO = "container-0-request-1: wants 3 of class gpu, 2 left"


@pytest.mark.parametrize(
    ("objects", "version", "says"),
    [
        pytest.param([node("a"), TWO, NAMED, by_count(2)], "1.36", None, id="claims give them"),
        pytest.param([node("a"), TWO, NAMED, by_count(3)], "1.36", FREE_TWO, id="too few"),
        pytest.param([plugged("a", 0), TWO, NAMED, by_count(2)], "1.36", None, id="its plugin has none"),
        pytest.param([node("a"), TWO, NAMED, by_count(2)], "1.34", None, id="1.34 with the gate"),
        pytest.param(
            [plugged("a", 0), TWO, NAMED, by_count(2)], "1.34", "the node does not offer nvidia.com/gpu",
            id="1.34 where its plugin had some",
        ),
        pytest.param(
            [plugged("a", 1), TWO, NAMED, by_count(2)], "1.36", "asks 2 nvidia.com/gpu, the whole node has 1",
            id="the node's plugin comes first",
        ),
        pytest.param(
            [node("a"), TWO, ANY, by_count(2)], "1.36", "the node does not offer nvidia.com/gpu",
            id="no class of that name",
        ),
        pytest.param(
            [node("a"), TWO, ANY, by_count(2, "deviceclass.resource.kubernetes.io/gpu")], "1.36", None,
            id="by the class's own name",
        ),
        pytest.param([node("a"), TWO, NAMED, by_count(1)], "1.35", None, id="1.35 with the gate"),
        pytest.param(
            [node("a"), TWO, OF_A_FILE, by_count(1)], "1.35",
            "the node does not offer nvidia.com/gpu", id="1.35 drops what the class of a file stands for",
        ),
        pytest.param(
            [node("a"), TWO, ANY, by_count(1, "deviceclass.resource.kubernetes.io/gpu")], "1.35",
            "the node does not offer deviceclass.resource.kubernetes.io/gpu", id="1.35 without the gate",
        ),
        pytest.param(
            [node("a"), TWO, NAMED, claim("held", held="a/gpu-0", by="t"), by_count(2)], "1.36",
            "gpu-0 in use by claim ml/held of t", id="a claim has one",
        ),
        pytest.param(
            [node("a"), TWO, NAMED, by_count(1, init=3)], "1.36",
            "each request can be met alone, but not all of them at once", id="init containers lack one",
        ),
        pytest.param([node("a"), TWO, NAMED, by_count(1, init=2)], "1.36", None, id="init containers fit"),
    ],
)  # fmt: skip
def test_a_class_may_stand_for_what_a_pod_counts(objects: list[Body], version: str, says: str | None) -> None:
    explanation = explained(*objects, version=version)
    if says is None:
        assert (explanation.verdict, explanation.placement.node) == (Verdict.FITS, "a"), explanation.message
    else:
        assert explanation.verdict is not Verdict.FITS
        assert says in "; ".join(reason.message for reason in explanation.nodes[0].reasons)


def test_of_two_classes_for_a_resource_the_later_counts_then_the_first_by_name() -> None:
    def cls(name: str, created: str, selector: str) -> Body:
        body = device_class(name, selector)
        body["spec"]["extendedResourceName"] = "nvidia.com/gpu"
        return {**body, "metadata": {**body["metadata"], "creationTimestamp": created}}

    none, every = "false", f"device.driver == '{DRIVER}'"
    early, late = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    later = explained(
        node("a"), TWO, cls("a", early, none), cls("b", late, every), by_count(1), version="1.36"
    )
    first = explained(
        node("a"), TWO, cls("a", early, none), cls("b", early, every), by_count(1), version="1.36"
    )
    assert (later.verdict, first.verdict) == (Verdict.FITS, Verdict.NEVER)


def test_nodes_with_alike_devices_answer_alike_and_each_names_who_has_its_own() -> None:
    names = [f"n{index}" for index in range(4)]
    slices = [resource_slice(name, device("gpu-0"), device("gpu-1")) for name in names]
    held = [claim(f"of-{name}", held=f"{name}/gpu-0", by=f"pod-{name}") for name in names]
    answer = explained(*map(node, names), *slices, *held, NAMED, by_count(2), version="1.36")
    messages = [verdict.reasons[0].message for verdict in answer.nodes]
    assert messages == [
        "claim ml/p-extended-resources, request container-0-request-1: wants 2 of class gpu, 1 left "
        f"(gpu-0 in use by claim ml/of-{name} of pod-{name})"
        for name in names
    ]


def test_replicas_that_count_devices_share_what_claims_have() -> None:
    replicas = replicas_with_claims(3, 1)[2]
    template = by_count(1)["spec"]
    replicas["spec"]["template"]["spec"] = {"containers": template["containers"]}
    cluster = snapshot_from_documents([node("a"), TWO, NAMED], server_version="1.36")
    manifests, snapshot = added_manifests([replicas], cluster, "ml")
    [answer] = explain_together(manifests, snapshot)
    assert answer.counts is not None
    assert (answer.counts.fit, answer.nodes[0].reasons[0].code) == (2, ClaimNotAllocatable.code)


BY_CLASS = "deviceclass.resource.kubernetes.io/gpu"


@pytest.mark.parametrize(
    ("objects", "version", "message", "remedy"),
    [
        pytest.param(
            [node("a"), TWO, ANY, by_count(1, BY_CLASS)], "1.35",
            "the DeviceClass gpu stands for it only with the gate DRAExtendedResource",
            "claim devices of class gpu by resourceClaims, or turn on DRAExtendedResource (on since 1.36)",
            id="the gate is off",
        ),
        pytest.param(
            [node("a"), TWO, NAMED, by_count(1, f"{BY_CLASS}s")], "1.36",
            f"{BY_CLASS}s stands for the DeviceClass gpus, which does not exist",
            "use gpu if you meant that", id="no such class",
        ),
    ],
)  # fmt: skip
def test_what_a_class_is_called_as_a_resource_is_needed_and_what_it_lacks_is_told(
    objects: list[Body], version: str, message: str, remedy: str
) -> None:
    explanation = explained(*objects, version=version)
    assert [*explanation.needs.values()] == [1]
    assert message in explanation.message
    assert [advice.action for advice in explanation.remedies] == [remedy]


@pytest.mark.parametrize(("hard", "verdict"), [("1", Verdict.NEVER), ("2", Verdict.FITS)])
def test_a_quota_on_the_class_counts_what_the_scheduler_would_claim(hard: str, verdict: Verdict) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "few", "namespace": "ml"},
        "spec": {"hard": {"gpu.deviceclass.resource.k8s.io/devices": hard}},
    }
    waiting = by_count(2, BY_CLASS)
    words = 'running PreBind plugin "DynamicResources": create claim: exceeded quota: few'
    waiting["status"] = {"conditions": [{"type": "PodScheduled", "status": "False", "message": words}]}
    answer = explained(node("a"), TWO, ANY, quota, waiting, version="1.36")
    assert answer.verdict is verdict
    of_quota = [reason for reason in answer.reasons if reason.code == "quota-exceeded-by-claim"]
    assert [reason.message.startswith(f"its claim for {BY_CLASS} cannot be made") for reason in of_quota] == (
        [True] if verdict is Verdict.NEVER else []
    )
    outdated = "condition-differs" in {reason.code for reason in answer.reasons}
    assert outdated is (verdict is Verdict.FITS), "what the condition says is true while the quota is"


PRESENT = {"nvidia.com/gpu.present": "true"}


@pytest.mark.parametrize(
    "labels",
    [
        pytest.param({}, id="no labels"),
        pytest.param(PRESENT, id="a GPU by its labels"),
        pytest.param({**PRESENT, "nvidia.com/cuda.driver.major": "580"}, id="a driver by its labels"),
    ],
)
def test_a_node_that_offers_its_gpus_as_claims_is_not_said_to_lack_a_plugin(labels: dict[str, str]) -> None:
    nodes = [plugged(name, gpus) for name, gpus in (("a", 0), ("b", 0))]
    for body in nodes:
        body["metadata"]["labels"] = labels
    slices = [resource_slice(name, device("gpu-0")) for name in "ab"]
    for body in slices:
        body["spec"]["driver"] = "gpu.nvidia.com"
    answer = explained(*nodes, *slices, by_count(1), version="1.35")
    [first, *_] = answer.nodes[0].reasons
    assert first.message == "the node offers its GPUs as claims, not as nvidia.com/gpu"
    assert "nodes offer their GPUs as claims instead: a, b" in answer.message
    assert "tonnage migrate dra" in answer.remedies[0].action
    assert {reason.layer for reason in (first, *answer.reasons)} == {Layer.PLUGIN}
    nodes[1]["metadata"]["labels"] = PRESENT
    answer = explained(*nodes, slices[0], by_count(1), version="1.35")
    without = "a, b" if labels else "b"
    assert f"have a GPU by their labels, but offer none: {without}" in answer.message, "one has no excuse"
