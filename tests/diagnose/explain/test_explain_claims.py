"""Pods with resource claims explained: which class, selector, holder or constraint excludes which device."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tonnage.diagnose.explain.explain import explain, explain_manifest, find_pod
from tonnage.diagnose.explain.replicas.answers import explain_together
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.claims import ClaimElsewhere, ClaimError, ClaimMissing, ClaimNotAllocatable
from tonnage.model.reasons.pod.pods import NotModelled
from tonnage.model.reasons.pod.scheduling import NodeAffinityMismatch
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.added_objects import with_objects_in
from tonnage.reading.documents import (
    manifests_from_documents,
    snapshot_from_documents,
)
from tonnage.reading.manifests import added_manifests

DRIVER = "gpu.example.com"
Body = dict[str, Any]


def node(name: str) -> Body:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": amounts},
    }


def dynamic(kind: str, name: str, spec: Body, version: str = "v1", **more: Any) -> Body:
    metadata = {"name": name, **({"namespace": "ml"} if kind.startswith("ResourceClaim") else {})}
    return {
        "apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec, **more
    }  # fmt: skip


def device(name: str, memory: int = 80, **attributes: Any) -> Body:
    found = {"memoryGiB": {"int": memory}, **{key: {"string": value} for key, value in attributes.items()}}
    return {"name": name, "attributes": found, "capacity": {"memory": {"value": f"{memory}Gi"}}}


def resource_slice(on: str, *devices: Body, count: int = 1) -> Body:
    pool = {"name": on, "generation": 1, "resourceSliceCount": count}
    return dynamic(
        "ResourceSlice", f"s-{on}", {"driver": DRIVER, "nodeName": on, "pool": pool, "devices": [*devices]}
    )


def device_class(name: str, *expressions: str) -> Body:
    return dynamic("DeviceClass", name, {"selectors": [{"cel": {"expression": e}} for e in expressions]})


def claim(name: str, *, held: str = "", by: str = "", constraints: Any = (), **exactly: Any) -> Body:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", **exactly}}
    body = dynamic("ResourceClaim", name, {"devices": {"requests": [request], "constraints": [*constraints]}})
    if held:
        on, _, which = held.partition("/")
        result = {"request": "gpu", "driver": DRIVER, "pool": on, "device": which}
        only = {"key": "metadata.name", "operator": "In", "values": [on]}
        body["status"] = {
            "allocation": {
                "devices": {"results": [result]},
                "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
            },
            "reservedFor": [{"resource": "pods", "name": by, "uid": f"uid-{by}"}] if by else [],
        }
    return body


def pod(*claims: str, **spec: Any) -> Body:
    entries = [{"name": f"c{i}", "resourceClaimName": name} for i, name in enumerate(claims)]
    body = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": entries, **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ml", "uid": "uid-p"},
        "spec": body,
    }


ANY = device_class("gpu", f"device.driver == '{DRIVER}'")


def explained(*objects: Body, version: str = "1.35") -> Explanation:
    snapshot = snapshot_from_documents([*objects], server_version=version)
    waiting = find_pod(snapshot, "ml", "p")
    assert waiting is not None
    return explain(waiting, snapshot)


def test_the_holder_of_a_device_is_named_and_the_pod_may_hope_dra_5() -> None:
    found = explained(
        node("a"), resource_slice("a", device("gpu-0")), ANY, claim("mine"),
        claim("held", held="a/gpu-0", by="train"),
        pod("mine"),
    )  # fmt: skip
    [reason] = found.nodes[0].reasons
    assert (found.verdict, reason.code) == (Verdict.NOT_NOW, ClaimNotAllocatable.code)
    assert "gpu-0 in use by claim ml/held of train" in reason.message
    assert [remedy.to_json() for remedy in found.remedies] == [
        {
            "action": "wait until claim ml/held of train has ended",
            "effect": "then devices of a may meet its claims",
            "patch": {},
        }
    ]
    assert found.upstream_message == (
        "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_the_selector_that_excludes_each_device_is_named_dra_5() -> None:
    expression = f"device.attributes['{DRIVER}'].model == 'B200'"
    wanted = claim("mine", selectors=[{"cel": {"expression": expression}}])
    found = explained(
        node("a"), node("b"), resource_slice("a", device("gpu-0", model="H100")), ANY, wanted, pod("mine")
    )
    [selected, empty] = [verdict.reasons[0] for verdict in found.nodes]
    assert found.verdict is Verdict.NEVER
    assert f"gpu-0 not selected by claim ml/mine: {expression}" in selected.message
    assert selected.facts["requests"] == [
        {
            "claim": "ml/mine",
            "request": "gpu",
            "class": "gpu",
            "wants": 1,
            "left": 0,
            "excluded": [
                {
                    "device": f"{DRIVER}/a/gpu-0",
                    "why": "selector",
                    "detail": expression,
                    "owner": "claim ml/mine",
                }
            ],
            "counts": {"selector": 1},
        }
    ]
    assert "no driver publishes devices that the node reaches" in empty.message


def test_the_constraint_that_excludes_a_combination_is_named_dra_5() -> None:
    alike = [{"matchAttribute": f"{DRIVER}/model"}]
    found = explained(
        node("a"), resource_slice("a", device("gpu-0", model="H100"), device("gpu-1", model="A10")), ANY,
        claim("mine", count=2, constraints=alike), pod("mine"),
    )  # fmt: skip
    assert f"meet matchAttribute {DRIVER}/model" in found.nodes[0].reasons[0].message
    assert [remedy.action for remedy in found.remedies] == [
        f"remove the constraint on {DRIVER}/model; or ask for 1 of 2 devices in request gpu of claim ml/mine"
    ]


GPUS = [device(f"gpu-{index}", model="H100") for index in range(8)]
OTHERS = [claim(f"held{index}", held=f"a/gpu-{index}", by=f"p{index}") for index in range(2)]
B200 = f"device.attributes['{DRIVER}'].model == 'B200'"
TAINTED = [{**gpu, "taints": [{"key": "xid", "value": "79", "effect": "NoSchedule"}]} for gpu in GPUS[:1]]


@pytest.mark.parametrize(
    ("wanted", "others", "published", "remedy"),
    [
        pytest.param(
            claim("mine", selectors=[{"cel": {"expression": B200}}]), [], GPUS,
            f"change the selector in request gpu of claim ml/mine, without which devices are left: {B200}",
            id="the selector that takes none",
        ),
        pytest.param(
            claim("mine", count=9), [], GPUS, "ask for 8 of 9 devices in request gpu of claim ml/mine",
            id="more than there are",
        ),
        pytest.param(
            claim("mine"), [], TAINTED, "tolerate the devices' taints in request gpu of claim ml/mine",
            id="a tainted device",
        ),
        pytest.param(
            claim("mine"), [claim("left", held="a/gpu-0")], GPUS[:1],
            "delete claim ml/left, which no pod uses",
            id="a claim that nobody uses has it",
        ),
        pytest.param(
            claim("mine"), OTHERS, GPUS[:2],
            "wait until one of these has ended: claim ml/held0 of p0, claim ml/held1 of p1",
            id="each holder has enough",
        ),
        pytest.param(
            claim("mine", count=2), OTHERS, GPUS[:2],
            "wait until enough of these have ended: claim ml/held0 of p0, claim ml/held1 of p1",
            id="no holder has enough",
        ),
    ],
)  # fmt: skip
def test_the_remedy_names_what_would_help(
    wanted: Body, others: list[Body], published: list[Body], remedy: str
) -> None:
    objects = (node("a"), resource_slice("a", *published), ANY, wanted, *others, pod("mine"))
    found = explained(*objects, version="1.36")
    assert found.remedies[0].action == remedy


def asking(*requests: Body, constraints: Any = ()) -> Body:
    body = {"devices": {"requests": [*requests], "constraints": [*constraints]}}
    return dynamic("ResourceClaim", "mine", body)


def one_of(name: str, *parts: Body) -> Body:
    return {"name": name, "firstAvailable": [{"deviceClassName": "gpu", **part} for part in parts]}


def exact(name: str, **exactly: Any) -> Body:
    return {"name": name, "exactly": {"deviceClassName": "gpu", **exactly}}


THREE = resource_slice("a", device("g0", model="H100"), device("g1", model="A10"), device("g2", model="A10"))
OF_MODEL = f"{DRIVER}/model"
NONE = [{"cel": {"expression": "false"}}]
TOGETHER = "each request can be met alone, but not all of them at once"


@pytest.mark.parametrize(
    ("wanted", "version", "message", "remedy"),
    [
        pytest.param(
            asking(one_of("x", {"name": "big", "count": 9}, {"name": "small"}), exact("y", count=3)), "1.36",
            TOGETHER, "ask for 2 of 3 devices in request y of claim ml/mine",
            id="an alternative that is met is not at fault",
        ),
        pytest.param(
            asking(one_of("x", {"name": "big", "count": 9}, {"name": "odd", "selectors": NONE})),
            "1.36",
            "request x/big: wants 9 of class gpu, 3 left; claim ml/mine, request x/odd: wants 1",
            "ask for 3 of 9 devices in request x/big of claim ml/mine; or change the selector in request x/",
            id="no alternative is met",
        ),
        pytest.param(
            asking(exact("y", count=3), constraints=[{"distinctAttribute": OF_MODEL}]), "1.36",
            f"do not meet distinctAttribute {OF_MODEL}", "or ask for 2 of 3 devices in request y",
            id="values that differ",
        ),
        pytest.param(
            asking(exact("y", count=2), constraints=[{"distinctAttribute": OF_MODEL}]), "1.35",
            "the scheduler cannot allocate the claim at all: claim ml/mine, constraint #0: empty constraint",
            "remove distinctAttribute, or turn on DRAConsumableCapacity", id="without the gate for that",
        ),
        pytest.param(
            asking(exact("y", count=2), constraints=[{"matchAttribute": "x.y/z"}]), "1.36",
            "do not meet matchAttribute x.y/z, which 3 of them do not have", "remove the constraint on x.y/z",
            id="an attribute that no device has",
        ),
        pytest.param(
            asking(exact("y", allocationMode="All"), constraints=[{"matchAttribute": OF_MODEL}]), "1.36",
            "cannot add device gpu.example.com/a/g1 because a claim constraint would not be satisfied",
            "ask for a count instead of allocationMode: All", id="all, and alike",
        ),
        pytest.param(
            asking(exact("y", count=40)), "1.36", "exceeds the claim limit of 32",
            "ask for at most 32 devices in a claim", id="too many for a claim",
        ),
        pytest.param(
            asking(exact("y", capacity={"requests": {f"{DRIVER}/memory": "1Gi"}})), "1.36",
            f"g0, g1, g2 without the capacity {DRIVER}/memory", "change the capacity",
            id="a capacity misnamed",
        ),
        pytest.param(
            asking(exact("y", capacity={"requests": {"memory": "900Gi"}})), "1.36",
            "too little memory left of g0, g1, g2", "change the capacity memory", id="more than a device has",
        ),
        pytest.param(
            asking(exact("y", capacity={"requests": {"memory": "1Gi"}})), "1.35",
            "has capacity requests, but the DRAConsumableCapacity feature is disabled",
            "remove capacity from the request, or turn on DRAConsumableCapacity",
            id="capacity without the gate",
        ),
    ],
)  # fmt: skip
def test_claims_of_unusual_shape(wanted: Body, version: str, message: str, remedy: str) -> None:
    answer = explained(node("a"), THREE, ANY, wanted, pod("mine"), version=version)
    reasons = (*answer.reasons, *answer.nodes[0].reasons)
    assert answer.verdict is Verdict.NEVER
    assert message in "; ".join(reason.message for reason in reasons)
    assert remedy in "; ".join((*(r.remedy for r in reasons), *(r.action for r in answer.remedies)))


@pytest.mark.parametrize(
    "wanted",
    [
        asking(exact("y", allocationMode="All", adminAccess=True)),
        asking(
            exact("y"), exact("z", count=2), constraints=[{"requests": ["z"], "matchAttribute": OF_MODEL}]
        ),
        asking(one_of("x", {"name": "big", "count": 9}, {"name": "all", "allocationMode": "All"})),
    ],
    ids=["all for an administrator", "a constraint on one request", "all as an alternative"],
)
def test_claims_of_unusual_shape_that_fit(wanted: Body) -> None:
    assert explained(node("a"), THREE, ANY, wanted, pod("mine"), version="1.36").placement.node == "a"


def test_many_devices_are_counted_and_the_class_is_no_news() -> None:
    parts = [device(f"gpu-{gpu}-mig-{place}") for gpu in range(8) for place in range(7)]
    only = device_class("gpu", f"'model' in device.attributes['{DRIVER}']")
    found = explained(
        node("a"), resource_slice("a", *GPUS, *parts), only,
        claim("mine", selectors=[{"cel": {"expression": "false"}}]), pod("mine"),
    )  # fmt: skip
    [reason] = found.nodes[0].reasons
    assert reason.message == (
        "claim ml/mine, request gpu: wants 1 of class gpu, 0 left "
        "(8 devices not selected by claim ml/mine: false; 56 devices not of class gpu)"
    )
    assert reason.facts["requests"][0]["counts"] == {"selector": 8, "class": 56}  # type: ignore[index, call-overload]


def test_where_something_else_stands_against_a_node_its_claims_alone_are_no_remedy() -> None:
    found = explained(
        node("a"), resource_slice("a", device("gpu-0")), ANY, claim("mine", count=2),
        pod("mine", nodeSelector={"zone": "b"}),
    )  # fmt: skip
    assert not any("may meet its claims" in remedy.effect for remedy in found.remedies)


def test_a_pool_without_all_its_slices_is_named() -> None:
    found = explained(node("a"), resource_slice("a", device("g"), count=2), ANY, claim("mine"), pod("mine"))
    assert f"the pool {DRIVER}/a: slices of its generation are missing" in found.nodes[0].reasons[0].message


def test_a_device_without_the_attribute_fails_the_pod_everywhere_and_the_guard_is_offered_dra_1() -> None:
    high = device_class(
        "gpu", f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].memoryGiB >= 80"
    )
    bare = {"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}}
    found = explained(
        node("a"), node("b"), resource_slice("a", bare), resource_slice("b", device("gpu-0")), high,
        claim("mine"), pod("mine"),
    )  # fmt: skip
    assert found.verdict is Verdict.NEVER
    assert found.upstream_message == (
        'running "DynamicResources" filter plugin: class gpu: selector #0: '
        "CEL runtime error: no such key: memoryGiB"
    )
    assert found.reasons[0].code == ClaimError.code
    better = str(found.reasons[0].facts["instead"])
    assert better.startswith(f"has(device.attributes['{DRIVER}'].memoryGiB) && ")
    assert found.remedies[0].action == f"write in DeviceClass gpu: {better}"
    mended = device_class("gpu", better)
    fits = explained(
        node("a"), node("b"), resource_slice("a", bare), resource_slice("b", device("gpu-0")), mended,
        claim("mine"), pod("mine"),
    )  # fmt: skip
    assert fits.placement.node == "b"


@pytest.mark.parametrize(
    ("published", "valid"),
    [
        pytest.param(
            device("gpu-0"),
            f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40000Mi')) >= 0",
            id="memory is a capacity",
        ),
        pytest.param(
            {"name": "gpu-0", "attributes": {"memory": {"int": 81920}}},
            f"device.attributes['{DRIVER}'].memory >= 40000",
            id="the driver publishes it as an attribute",
        ),
    ],
)
def test_a_number_compared_with_a_domain_is_refused_with_what_to_write_dra_2(
    published: Body, valid: str
) -> None:
    wrong = device_class("gpu", f"device.driver == '{DRIVER}' && device.attributes['memory'] >= 40000")
    found = explained(node("a"), resource_slice("a", published), wrong, claim("mine"), pod("mine"))
    assert found.verdict is Verdict.NEVER
    assert (
        "found no matching overload for '_>=_' applied to '(map(string, any), int)'" in found.upstream_message
    )
    assert found.remedies[0].action == f"write in DeviceClass gpu: device.driver == '{DRIVER}' && {valid}"


def test_a_claim_that_is_not_there_holds_the_pod_back_without_a_word_of_the_scheduler() -> None:
    found = explained(node("a"), ANY, claim("training"), pod("trainin"))
    assert (found.verdict, found.upstream_message) == (Verdict.NOT_NOW, "")
    assert (found.reasons[0].code, found.reasons[0].remedy) == (
        ClaimMissing.code,
        "use training if you meant that",
    )


def test_a_claim_with_devices_elsewhere_names_them() -> None:
    found = explained(
        node("a"), node("b"), resource_slice("a", device("gpu-0")), ANY,
        claim("mine", held="a/gpu-0", by="p"), pod("mine", nodeSelector={"kubernetes.io/hostname": "b"}),
    )  # fmt: skip
    codes = {reason.code for verdict in found.nodes for reason in verdict.reasons}
    assert codes == {NodeAffinityMismatch.code, ClaimElsewhere.code}


def test_a_manifest_brings_its_template_along() -> None:
    request = {"name": "gpu", "deviceClassName": "gpu", "count": 2}
    template = dynamic(
        "ResourceClaimTemplate", "t", {"spec": {"devices": {"requests": [request]}}}, "v1beta1"
    )
    del template["metadata"]["namespace"]
    manifest = pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    cluster = snapshot_from_documents([node("a"), resource_slice("a", device("x"), device("y")), ANY])
    snapshot = with_objects_in([template, manifest], cluster, namespace="ml")
    [read] = manifests_from_documents([template, manifest], namespace="ml")
    placement = explain_manifest(read, snapshot).placement
    assert placement.node == "a"
    assert placement.devices == {"resourceclaims/p-g-": (f"{DRIVER}/a/x", f"{DRIVER}/a/y")}
    assert explain_manifest(read, cluster).reasons[0].code == ClaimMissing.code


def replicas_with_claims(count: int, devices: int) -> list[Any]:
    """A Deployment of three pods, each with a claim for so many devices."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": devices}}
    template = dynamic("ResourceClaimTemplate", "t", {"spec": {"devices": {"requests": [request]}}})
    claims = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}
    spec = {"containers": [{"name": "c", "image": "x"}], **claims}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "ml"},
        "spec": {"replicas": count, "template": {"spec": spec}},
    }
    return [template, ANY, body]


def test_every_replica_has_a_claim_of_its_own() -> None:
    cluster = snapshot_from_documents([node("a"), resource_slice("a", device("x"), device("y"))])
    manifests, snapshot = added_manifests(replicas_with_claims(3, 1), cluster, "ml")
    [answer] = explain_together(manifests, snapshot)
    assert answer.message.startswith("2 of 3 pods fit; the third waits: ")
    assert answer.verdict is Verdict.NEVER


@pytest.mark.parametrize(("memory", "fit"), [("30Gi", 2), ("20Gi", 4), (None, 1)])
def test_replicas_share_a_gpu_as_far_as_its_memory_goes(memory: str | None, fit: int) -> None:
    """Without an amount a claim has all of it."""
    policy = {"default": "80Gi", "validRange": {"min": "1Mi", "step": "1Mi"}}
    parts = {
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": "80Gi", "requestPolicy": policy}},
    }
    [template, _, web] = replicas_with_claims(6, 1)
    exactly = template["spec"]["spec"]["devices"]["requests"][0]["exactly"]
    exactly |= {"capacity": {"requests": {"memory": memory}}} if memory else {}
    cluster = snapshot_from_documents(
        [node("a"), resource_slice("a", {**device("x"), **parts})], server_version="1.36"
    )
    manifests, snapshot = added_manifests([template, ANY, web], cluster, "ml")
    [answer] = explain_together(manifests, snapshot)
    assert answer.counts is not None
    assert (answer.counts.fit, answer.nodes[0].reasons[0].code) == (fit, ClaimNotAllocatable.code)
    assert "too little memory left of x beside claim ml/" in answer.nodes[0].reasons[0].message


@pytest.mark.parametrize(
    ("hard", "fit"),
    [
        pytest.param({"count/resourceclaims.resource.k8s.io": "2"}, 2, id="claims"),
        pytest.param({"gpu.deviceclass.resource.k8s.io/devices": "5"}, 2, id="devices of a class"),
        pytest.param({"gpu.deviceclass.resource.k8s.io/devices": "6"}, 3, id="just enough devices"),
        pytest.param({"other.deviceclass.resource.k8s.io/devices": "0"}, 3, id="another class"),
    ],
)
@pytest.mark.parametrize("used", [None, "0"], ids=["not counted yet", "counted"])
def test_a_quota_counts_the_claims_of_every_replica(hard: Body, fit: int, used: str | None) -> None:
    counted = {} if used is None else {"status": {"hard": hard, "used": dict.fromkeys(hard, used)}}
    quota: Body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "claims", "namespace": "ml"},
        "spec": {"hard": hard},
        **counted,
    }
    devices = (device(f"x{index}") for index in range(6))
    cluster = snapshot_from_documents([node("a"), resource_slice("a", *devices), quota])
    manifests, snapshot = added_manifests(replicas_with_claims(3, 2), cluster, "ml")
    [answer] = explain_together(manifests, snapshot)
    assert answer.counts is not None
    assert answer.counts.fit == fit
    if fit < 3:
        assert (answer.layer, answer.reasons[0].code) == (Layer.QUOTA, "quota-exceeded-by-claim")
        assert answer.message.startswith("2 of 3 pods fit; the third waits: its claim g cannot be made: ")
        raised, fewer = answer.remedies
        assert fewer.action == "ask for 2 replicas, not 3"
        key, least = next(iter(hard)), "3" if "count/" in next(iter(hard)) else "6"
        patch = json.dumps({"spec": {"hard": {key: least}}})
        assert raised.action == f"raise it: kubectl patch resourcequota claims -n ml -p '{patch}'"
        assert raised.effect.startswith("the claim g is made; fits a")


def test_claims_that_hold_what_a_quota_allows_are_named_with_what_their_end_brings() -> None:
    key = "gpu.deviceclass.resource.k8s.io/devices"
    quota: Body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "claims", "namespace": "ml"},
        "spec": {"hard": {key: "2"}},
        "status": {"hard": {key: "2"}, "used": {key: "2"}},
    }
    two = {"deviceClassName": "gpu", "count": 2}
    held = dynamic("ResourceClaim", "held", {"devices": {"requests": [{"name": "g", "exactly": two}]}})
    held["metadata"]["uid"] = "u"
    devices = resource_slice("a", *(device(f"x{index}") for index in range(6)))
    cluster = snapshot_from_documents([node("a"), devices, quota, held, ANY])
    manifests, snapshot = added_manifests(replicas_with_claims(1, 2), cluster, "ml")
    [answer] = explain_together(manifests, snapshot)
    assert [remedy.action for remedy in answer.remedies] == [
        "delete the claim held once no pod uses it",
        f'raise it: kubectl patch resourcequota claims -n ml -p \'{{"spec": {{"hard": {{"{key}": "4"}}}}}}\'',
    ]
    assert all("the claim g is made; fits a" in remedy.effect for remedy in answer.remedies)


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


NAMED = {**ANY, "spec": {**ANY["spec"], "extendedResourceName": "nvidia.com/gpu"}}
TWO = resource_slice("a", device("gpu-0"), device("gpu-1"))
FREE_TWO = "container-0-request-1: wants 3 of class gpu, 2 left"


@pytest.mark.parametrize(
    ("objects", "version", "says"),
    [
        pytest.param([node("a"), TWO, NAMED, by_count(2)], "1.36", None, id="claims give them"),
        pytest.param([node("a"), TWO, NAMED, by_count(3)], "1.36", FREE_TWO, id="too few"),
        pytest.param([plugged("a", 0), TWO, NAMED, by_count(2)], "1.36", None, id="its plugin has none"),
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


def test_flat_requests_are_nothing_in_v1_dra_3() -> None:
    flat = dynamic(
        "ResourceClaim", "mine", {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu"}]}}
    )
    found = explained(node("a"), resource_slice("a", device("x")), ANY, flat, pod("mine"))
    assert "resource claim ml/mine, request gpu: unknown request type" in found.upstream_message
    older = dynamic("ResourceClaim", "mine", flat["spec"], "v1beta1")
    assert (
        explained(node("a"), resource_slice("a", device("x")), ANY, older, pod("mine")).verdict
        is Verdict.FITS
    )


def test_before_1_34_claims_are_unknown_and_say_why() -> None:
    found = explained(
        node("a"), resource_slice("a", device("x")), ANY, claim("mine"), pod("mine"), version="1.33"
    )
    assert (found.verdict, found.reasons[0].code) == (Verdict.UNKNOWN, NotModelled.code)
    assert "Kubernetes 1.33, where their gate is off by default" in found.message


def test_what_cannot_be_read_of_a_slice_is_unknown_and_named() -> None:
    broken = {"name": "gpu-0", "capacity": {"memory": {"value": "much"}}}
    found = explained(node("a"), resource_slice("a", broken), ANY, claim("mine"), pod("mine"))
    assert found.verdict is Verdict.UNKNOWN
    assert "ResourceSlice s-a: spec.devices[0].capacity[memory]: 'much' is not a quantity" in found.message
