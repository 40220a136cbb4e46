"""Rows of what nodes offer as claims: by slices, by the report of an agent, and what is wrong with it."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.diagnose.explain.nodes.whole_node import explain_node
from tonnage.diagnose.fleet.totals import totals_of
from tonnage.diagnose.status import FleetRow, fleet
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.verdict import Verdict
from tonnage.reading.documents import snapshot_from_documents

DRIVER, GPU = "gpu.nvidia.com", "nvidia.com/gpu"
TAINT = {"key": "tonnage.dev/unhealthy", "effect": "NoSchedule"}
OTHER = "another driver is there"
Body = dict[str, Any]


def node(name: str = "a", **capacity: str) -> Body:
    amounts = {GPU: capacity.get("gpu", "0"), "pods": "110"}
    status = {"capacity": amounts, "allocatable": amounts}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def device(index: int, *, kind: str = "gpu", driver: str = "", **fields: Any) -> Body:
    attributes = {"type": {"string": kind}, f"{driver}uuid": {"string": f"GPU-{index}"}}
    return {"name": f"gpu-{index}", "attributes": attributes, **fields}


def published(*devices: Body, generation: int = 1, name: str = "00", driver: str = DRIVER) -> Body:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": name},
        "spec": {
            "driver": driver,
            "nodeName": "a",
            "pool": {"name": "a", "generation": generation, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def claim(name: str, *devices: str, pods: tuple[str, ...] = (), **grant: Any) -> Body:
    results = [{"request": "r", "driver": DRIVER, "pool": "a", "device": d, **grant} for d in devices]
    users = [{"resource": "pods", "name": pod, "uid": f"uid-{pod}"} for pod in pods]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": DRIVER}}]}},
        "status": {"allocation": {"devices": {"results": results}}, "reservedFor": users},
    }


def pod(name: str, claim_name: str, phase: str = "Running") -> Body:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {
            "nodeName": "a",
            "containers": [{"name": "c"}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": claim_name}],
        },
        "status": {"phase": phase},
    }


def agent(*claimed: int, plain: tuple[int, ...] = (), ill: tuple[int, ...] = (), **claims: Any) -> Body:
    devices = [
        {
            "uuid": f"GPU-{index}",
            "index": index,
            "resource": GPU if index in plain else "",
            "health": "Unhealthy" if index in ill else "Healthy",
            "reason": "Xid 79" if index in ill else "",
        }
        for index in sorted((*claimed, *plain))
    ]
    names: list[Body] = [{"name": f"gpu-{index}", "uuid": f"GPU-{index}"} for index in claimed]
    for entry in names:
        entry["reason"] = claims.get("unfit", {}).get(entry["name"], "")
    section = {"driver": DRIVER, "reason": claims.get("reason", ""), "devices": names}
    status = {"devices": devices, **({"claims": section} if claimed else {})}
    return {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": "a"},
        "status": status,
    }


def cluster(*objects: Body) -> Snapshot:
    return snapshot_from_documents([{"kind": "List", "items": list(objects)}])


def rows(*objects: Body) -> list[FleetRow]:
    return list(fleet(cluster(*objects)))


def test_a_node_whose_gpus_are_all_claims_has_one_row_and_is_in_order() -> None:
    [row] = rows(node(), published(device(0), device(1)), agent(0, 1))
    assert (row.resource, row.mode, row.health) == (DRIVER, "claims", "healthy")
    assert (row.advertised, row.allocatable, row.capacity) == (2, 2, 2)
    assert [device.claim_name for device in row.devices] == ["gpu-0", "gpu-1"]
    assert row.to_json()["devices"][0]["claim_name"] == "gpu-0"  # type: ignore[index, call-overload]


def test_a_mixed_node_has_a_row_for_each_way_and_no_gpu_twice() -> None:
    plain, claims = rows(node(gpu="1"), published(device(0)), agent(0, plain=(1,)))
    assert (plain.resource, [d.uuid for d in plain.devices]) == (GPU, ["GPU-1"])
    assert (claims.resource, [d.uuid for d in claims.devices]) == (DRIVER, ["GPU-0"])


@pytest.mark.parametrize(
    ("claims", "allocated", "holders"),
    [
        pytest.param([], 0, (), id="nobody has one"),
        pytest.param([claim("c", "gpu-0", pods=("p",)), pod("p", "c")], 1, (("ml/p", 1),), id="a pod's"),
        pytest.param(
            [claim("c", "gpu-0", pods=("p", "q")), pod("p", "c"), pod("q", "c")],
            1,
            (("ml/p", 1), ("ml/q", 1)),
            id="two pods share a claim of one",
        ),
        pytest.param(
            [claim("c", "gpu-0", pods=("p",)), pod("p", "c", "Succeeded")],
            1,
            (("ml/claim:c", 1),),
            id="a claim keeps one that no pod uses",
        ),
        pytest.param(
            [claim("c", "gpu-0", "gpu-1", pods=("p",)), pod("p", "c"), pod("waits", "c", "Pending")],
            2,
            (("ml/p", 2),),
            id="a pod that only names the claim has none",
        ),
        pytest.param(
            [claim("c", "gpu-0", pods=("p",), adminAccess=True), pod("p", "c")],
            0,
            (),
            id="an administrator takes none",
        ),
    ],
)
def test_who_has_what(claims: list[Body], allocated: int, holders: Any) -> None:
    [row] = rows(node(), published(device(0), device(1)), *claims)
    assert (row.allocated, row.holders) == (allocated, holders)


@pytest.mark.parametrize(
    ("objects", "word", "text"),
    [
        pytest.param(
            [agent(0, reason="another driver gpu.nvidia.com is registered on this node: x")],
            "claims not served",
            "claims are not served: another driver gpu.nvidia.com is registered on this node: x",
            id="another driver serves the node",
        ),
        pytest.param(
            [agent(0)], "not published", "no ResourceSlice of the node was seen", id="no slice was seen"
        ),
        pytest.param(
            [published(device(0, taints=[TAINT]), device(1)), agent(0, 1, ill=(0,))],
            "1 lost",
            "1 of 2 unhealthy: Xid 79 (GPU 0)",
            id="an unhealthy GPU is told once, by its agent",
        ),
        pytest.param(
            [published(device(0, taints=[TAINT]), device(1))],
            "1 tainted",
            "gpu-0 is tainted: tonnage.dev/unhealthy:NoSchedule",
            id="a taint, where no agent says why",
        ),
        pytest.param(
            [published(device(0)), agent(0, 1, unfit={"gpu-1": "held as nvidia.com/gpu by ml/old"})],
            "1 not published",
            "gpu-1 is not published: held as nvidia.com/gpu by ml/old",
            id="a GPU that a pod still has as an extended resource",
        ),
    ],
)
def test_what_is_wrong_is_told(objects: list[Body], word: str, text: str) -> None:
    [row] = rows(node(), *objects)
    assert [(trouble.word, trouble.text) for trouble in row.troubles] == [(word, text)]


def test_labels_of_a_mixed_node_are_held_against_all_its_gpus() -> None:
    body, report = node(gpu="1"), agent(0, plain=(1,))
    body["metadata"]["labels"] = {"nvidia.com/gpu.product": "NVIDIA-T4", "nvidia.com/gpu.count": "2"}
    for entry in report["status"]["devices"]:
        entry["product"] = "NVIDIA T4"
    assert [row.health for row in rows(body, published(device(0)), report)] == ["healthy", "healthy"]
    body["metadata"]["labels"]["nvidia.com/gpu.count"] = "3"
    assert {row.state for row in rows(body, published(device(0)), report)} == {"label differs"}


def test_what_is_not_published_is_told_once_for_each_reason_and_of_its_own_driver_alone() -> None:
    report = agent(0)
    report["status"]["claims"]["devices"] += [
        {"name": f"gpu-0-mig-1g10gb-19-{place}", "uuid": "", "reason": "the gate is off"}
        for place in range(7)
    ]
    other = published(device(7, kind=""), name="01", driver="gpu.example.com")
    vendor, own = rows(node(), published(device(0)), other, report)
    assert vendor.health == "healthy"
    [trouble] = own.troubles
    assert trouble.word == "7 not published"
    assert trouble.text.endswith("gpu-0-mig-1g10gb-19-3 and 3 more are not published: the gate is off")


def test_mig_devices_that_are_not_published_count_each() -> None:
    report = agent()
    names = [{"name": f"gpu-0-mig-{place}", "uuid": "", "reason": "the gate is off"} for place in range(7)]
    report["status"]["claims"] = {"driver": DRIVER, "reason": "", "devices": names}
    [row] = rows(node(), report)
    assert (row.resource, row.advertised, row.capacity, row.state) == (
        f"{DRIVER} mig",
        0,
        7,
        "7 not published",
    )


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "1 free"),
        ({"allowMultipleAllocations": True}, "1 free"),
        (
            {"consumesCounters": [{"counterSet": "g", "counters": {"slices": {"value": "1"}}}]},
            "1 free (not all at once)",
        ),
    ],
    ids=["whole", "shared", "of counters"],
)
def test_what_is_free_says_when_it_is_no_plain_number(fields: Body, words: str) -> None:
    part = published(device(0, **fields))
    part["spec"]["sharedCounters"] = [{"name": "g", "counters": {"slices": {"value": "7"}}}]
    [total] = totals_of(rows(node(), part))
    assert total.words.endswith(words)
    if fields.get("allowMultipleAllocations"):
        of_a_part = (claim("c", "gpu-0", pods=("p",), shareID="8a1e"), pod("p", "c"))
        [total] = totals_of(rows(node(), part, *of_a_part))
        assert total.words.endswith("0 free (allocated ones may have parts free)")


def test_what_claims_still_have_of_a_resource_is_named() -> None:
    """As after a node offers a resource again in the place of claims."""
    body, report = node(gpu="2"), agent(plain=(0, 1))
    body["status"] = {"capacity": {GPU: "2"}, "allocatable": {GPU: "1"}}
    holder = {"resource": "ml/late", "ids": ["GPU-0"], "namespace": "ml", "pod": "p", "container": "c"}
    report["status"]["devices"][0]["holders"] = [holder]
    [row] = rows(body, report)
    assert row.health == "1 of 2 not allocatable: claims still hold some, ml/late"


def test_a_tainted_device_cannot_be_allocated() -> None:
    [row] = rows(node(), published(device(0, taints=[TAINT]), device(1)))
    assert (row.allocatable, row.capacity) == (1, 2)


def test_a_device_is_free_whatever_befalls_one_that_a_claim_has() -> None:
    here = [published(device(0, taints=[TAINT]), device(1)), claim("c", "gpu-0", pods=("p",)), pod("p", "c")]
    [total] = totals_of(rows(node(), *here))
    assert (total.allocatable, total.allocated, total.free) == (1, 1, 1)
    explanation = explain_node("a", cluster(node(), *here))
    assert explanation is not None
    assert explanation.verdict is Verdict.FITS


def test_who_has_what_is_not_known_of_a_list_without_claims() -> None:
    [row] = rows(node(), published(device(0)), pod("p", "c"))
    assert (row.allocated, row.holders) == (None, None)


def test_of_two_generations_the_newer_counts() -> None:
    old, new = published(device(0), device(1)), published(device(0), generation=2, name="01")
    [row] = rows(node(), old, new)
    assert row.capacity == 1


def test_a_gpu_whose_mig_devices_are_claims_is_theirs_and_not_unadvertised() -> None:
    part = device(9, kind="mig")
    part["attributes"] = {"type": {"string": "mig"}, "parentUUID": {"string": "GPU-0"}}
    report = agent()
    report["status"]["devices"] = [{"uuid": "GPU-0", "index": 0, "memoryMiB": 81920, "health": "Healthy"}]
    [row] = rows(node(), published(part), report)
    assert (row.resource, row.health, row.memory_mib) == (f"{DRIVER} mig", "healthy", 81920)
    assert [entry.uuid for entry in row.devices] == ["GPU-0"]


def test_types_and_drivers_have_rows_of_their_own() -> None:
    other = published(device(7, kind=""), name="01", driver="gpu.example.com")
    shown_rows = rows(node(), published(device(0), device(1, kind="mig")), other)
    assert [row.resource for row in shown_rows] == ["gpu.example.com", DRIVER, f"{DRIVER} mig"]


@pytest.mark.parametrize(
    ("objects", "sentence"),
    [
        pytest.param([], "it offers no device", id="neither way"),
        pytest.param(
            [published(device(7, kind=""), name="01", driver="gpu.example.com")],
            "1 of 1 devices of gpu.example.com free for claims",
            id="another vendor's",
        ),
        pytest.param(
            [published(device(0), device(1)), claim("c", "gpu-0")],
            "1 of 2 GPUs of gpu.nvidia.com free for claims",
            id="claims alone",
        ),
        pytest.param(
            [published(device(0, taints=[TAINT]))],
            f"no claim can get a GPU of gpu.nvidia.com: gpu-0 tainted {TAINT['key']}:NoSchedule",
            id="tainted devices alone",
        ),
        pytest.param(
            [agent(0)],
            "1 GPU of gpu.nvidia.com for claims, but no ResourceSlice of the node was seen",
            id="claims that are not published",
        ),
        pytest.param(
            [published(device(0)), agent(0, reason=OTHER)],
            f"1 of 1 GPUs of gpu.nvidia.com free for claims, but claims are not served: {OTHER}",
            id="claims that are not served",
        ),
    ],
)
def test_explain_node_says_what_claims_can_have(objects: list[Body], sentence: str) -> None:
    explanation = explain_node("a", cluster(node(), *objects))
    assert explanation is not None
    assert explanation.message == sentence


@pytest.mark.parametrize(
    ("objects", "verdict", "why"),
    [
        pytest.param([published(device(0)), agent(0)], Verdict.FITS, "", id="one is free"),
        pytest.param(
            [published(device(0)), agent(0), claim("c", "gpu-0", pods=("p",)), pod("p", "c")],
            Verdict.NOT_NOW,
            "none of 1 GPUs of gpu.nvidia.com is free for claims; held by ml/p",
            id="a claim has it",
        ),
        pytest.param(
            [
                published(device(0, allowMultipleAllocations=True)),
                claim("c", "gpu-0", pods=("p",), shareID="8a1e"),
                pod("p", "c"),
            ],
            Verdict.FITS,
            "",
            id="a claim has a part of it",
        ),
        pytest.param(
            [published(device(0, taints=[TAINT]), device(1, taints=[TAINT]))],
            Verdict.NOT_NOW,
            f"no claim can get a GPU of gpu.nvidia.com: gpu-0, gpu-1 tainted {TAINT['key']}:NoSchedule",
            id="all are tainted",
        ),
        pytest.param(
            [published(device(0, taints=[TAINT], allowMultipleAllocations=True))],
            Verdict.NOT_NOW,
            f"no claim can get a GPU of gpu.nvidia.com: gpu-0 tainted {TAINT['key']}:NoSchedule",
            id="the one of which claims could have parts is tainted",
        ),
        pytest.param(
            [published(device(0)), agent(0, reason=OTHER)],
            Verdict.NOT_NOW,
            f"claims are not served: {OTHER}",
            id="nobody would prepare a claim",
        ),
        pytest.param(
            [agent(0)], Verdict.NOT_NOW, "no ResourceSlice of the node was seen", id="nothing is published"
        ),
    ],
)
def test_explain_node_says_whether_it_takes_a_claim(objects: list[Body], verdict: Verdict, why: str) -> None:
    explanation = explain_node("a", cluster(node(), *objects))
    assert explanation is not None
    assert explanation.verdict is verdict
    assert [reason.message for reason in explanation.reasons] == ([why] if why else [])
