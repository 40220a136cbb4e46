"""Pods with resource claims explained: which class, selector, holder or constraint excludes which device."""

from __future__ import annotations

import pytest

from support.claim_objects import (
    ANY,
    DRIVER,
    Body,
    claim,
    device,
    device_class,
    dynamic,
    explained,
    node,
    pod,
    resource_slice,
)
from tonnage.diagnose.claims import claim_rows
from tonnage.diagnose.explain.explain import explain_manifest
from tonnage.model.reasons.pod.claims import (
    ClaimElsewhere,
    ClaimError,
    ClaimMissing,
    ClaimNotAllocatable,
    ClassWithoutDevices,
    DeviceClassMissing,
)
from tonnage.model.reasons.pod.pods import NotModelled
from tonnage.model.reasons.pod.scheduling import NodeAffinityMismatch
from tonnage.model.verdict import Verdict
from tonnage.reading.added_objects import with_objects_in
from tonnage.reading.documents import (
    manifests_from_documents,
    snapshot_from_documents,
)


def test_the_holder_of_a_device_is_named_and_the_pod_may_hope_dra_5() -> None:
    explanation = explained(
        node("a"), resource_slice("a", device("gpu-0")), ANY, claim("mine"),
        claim("held", held="a/gpu-0", by="train"),
        pod("mine"),
    )  # fmt: skip
    [reason] = explanation.nodes[0].reasons
    assert (explanation.verdict, reason.code) == (Verdict.NOT_NOW, ClaimNotAllocatable.code)
    assert "gpu-0 in use by claim ml/held of train" in reason.message
    assert [remedy.to_json() for remedy in explanation.remedies] == [
        {
            "action": "wait until claim ml/held of train has ended",
            "effect": "then devices of a may meet its claims",
            "patch": {},
        }
    ]
    assert explanation.upstream_message == (
        "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )


def test_the_selector_that_excludes_each_device_is_named_dra_5() -> None:
    expression = f"device.attributes['{DRIVER}'].model == 'B200'"
    new_claim = claim("mine", selectors=[{"cel": {"expression": expression}}])
    explanation = explained(
        node("a"), node("b"), resource_slice("a", device("gpu-0", model="H100")), ANY, new_claim, pod("mine")
    )
    [selected, empty] = [verdict.reasons[0] for verdict in explanation.nodes]
    assert explanation.verdict is Verdict.NEVER
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
    explanation = explained(
        node("a"), resource_slice("a", device("gpu-0", model="H100"), device("gpu-1", model="A10")), ANY,
        claim("mine", count=2, constraints=alike), pod("mine"),
    )  # fmt: skip
    assert f"meet matchAttribute {DRIVER}/model" in explanation.nodes[0].reasons[0].message
    assert [remedy.action for remedy in explanation.remedies] == [
        f"remove the constraint on {DRIVER}/model; or ask for 1 of 2 devices in request gpu of claim ml/mine"
    ]


GPUS = [device(f"gpu-{index}", model="H100") for index in range(8)]
OTHERS = [claim(f"held{index}", held=f"a/gpu-{index}", by=f"p{index}") for index in range(2)]
B200 = f"device.attributes['{DRIVER}'].model == 'B200'"
ILL = [{**gpu, "taints": [{"key": "tonnage.dev/unhealthy", "effect": "NoSchedule"}]} for gpu in GPUS]
TAINTED = [{**gpu, "taints": [{"key": "xid", "value": "79", "effect": "NoSchedule"}]} for gpu in GPUS[:1]]


@pytest.mark.parametrize(
    ("expected", "others", "published", "remedy"),
    [
        pytest.param(
            claim("mine"), [], ILL[:1], "wait until gpu-0 is healthy, or repair it", id="the one device"
        ),
        pytest.param(
            claim("mine"), [claim("held", held="a/gpu-0", by="p0")], [GPUS[0], ILL[1]],
            "wait until claim ml/held of p0 has ended; or wait until gpu-1 is healthy, or repair it",
            id="the other one is in use",
        ),
        pytest.param(
            claim("mine", count=2), [claim("held", held="a/gpu-0", by="p0")], [GPUS[0], ILL[1]],
            "wait until gpu-1 is healthy, or repair it, and until enough of those in use are free",
            id="both are needed",
        ),
        pytest.param(
            claim("mine", count=2), [], ILL[:3],
            "wait until gpu-0, gpu-1, gpu-2 are healthy, or repair them", id="several",
        ),
    ],
)  # fmt: skip
def test_a_device_that_is_not_healthy_is_waited_for_and_not_tolerated(
    expected: Body, others: list[Body], published: list[Body], remedy: str
) -> None:
    objects = (node("a"), resource_slice("a", *published), ANY, expected, *others, pod("mine"))
    explanation = explained(*objects, version="1.36")
    assert (explanation.verdict, explanation.remedies[0].action) == (Verdict.NOT_NOW, remedy)


def test_devices_that_health_would_not_make_enough_are_not_waited_for() -> None:
    explanation = explained(
        node("a"), resource_slice("a", *ILL[:2]), ANY, claim("mine", count=3), pod("mine"), version="1.36"
    )
    assert explanation.verdict is Verdict.NEVER


@pytest.mark.parametrize(
    ("expected", "others", "published", "remedy"),
    [
        pytest.param(
            claim("mine", selectors=[{"cel": {"expression": B200}}]), [], GPUS,
            f"change the selector in request gpu of claim ml/mine, without which devices are left: {B200} "
            "(no device has the model B200; there are H100)",
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
    expected: Body, others: list[Body], published: list[Body], remedy: str
) -> None:
    objects = (node("a"), resource_slice("a", *published), ANY, expected, *others, pod("mine"))
    explanation = explained(*objects, version="1.36")
    assert explanation.remedies[0].action == remedy


def test_many_devices_are_counted_and_the_class_is_no_news() -> None:
    parts = [device(f"gpu-{gpu}-mig-{place}") for gpu in range(8) for place in range(7)]
    only = device_class("gpu", f"'model' in device.attributes['{DRIVER}']")
    explanation = explained(
        node("a"), resource_slice("a", *GPUS, *parts), only,
        claim("mine", selectors=[{"cel": {"expression": "false"}}]), pod("mine"),
    )  # fmt: skip
    [reason] = explanation.nodes[0].reasons
    assert reason.message == (
        "claim ml/mine, request gpu: wants 1 of class gpu, 0 left "
        "(8 devices not selected by claim ml/mine: false; 56 devices not of class gpu)"
    )
    assert reason.facts["requests"][0]["counts"] == {"selector": 8, "class": 56}  # type: ignore[index, call-overload]


def test_nodes_without_a_device_of_the_class_are_told_from_others() -> None:
    only = device_class("gpu", f"'model' in device.attributes['{DRIVER}']")
    explanation = explained(
        node("a"), node("b"), only,
        resource_slice("a", device("gpu-0-mig-0")), resource_slice("b", *GPUS[:1]),
        claim("mine", selectors=[{"cel": {"expression": "false"}}]), pod("mine"),
    )  # fmt: skip
    assert explanation.message == (
        "no node of 2 takes it: 1 without devices for its claims (not of the class), "
        "1 without devices for its claims (not selected)"
    )


def test_what_a_claim_waits_for_is_said_of_the_node_that_has_devices_of_its_class() -> None:
    only = device_class("gpu", f"'model' in device.attributes['{DRIVER}']")
    objects = [
        *(node("a"), node("b"), only, pod("mine")),
        *(resource_slice("a", device("gpu-0-mig-0")), resource_slice("b", *GPUS[:1])),
        claim("mine", selectors=[{"cel": {"expression": "false"}}]),
    ]
    [row] = claim_rows(snapshot_from_documents(objects, server_version="1.35"))
    assert (
        row.wait.why == "request gpu wants 1 of class gpu; 0 left on b (1 not selected), nor on other nodes"
    )


def test_a_pod_that_names_its_node_waits_for_nothing_that_others_have() -> None:
    """As one of a DaemonSet does on a node without devices, while other nodes have some in use."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["b"]}]}
    pinned = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    }
    objects = [
        *(node("a"), node("b"), resource_slice("a", device("gpu-0")), ANY),
        *(claim("held", held="a/gpu-0", by="train"), claim("mine"), pod("mine", affinity=pinned)),
    ]
    wait = claim_rows(snapshot_from_documents(objects, server_version="1.35"))[-1].wait
    assert wait.why == "no driver publishes devices that the node reaches; it cannot meet ml/mine"
    assert "until" not in wait.remedy


def test_a_claim_waits_for_the_node_against_which_nothing_else_stands() -> None:
    objects = [
        *(node("a"), node("b"), ANY, pod("mine", nodeSelector={"zone": "b"})),
        *(resource_slice("a", device("gpu-0"), device("gpu-1")), resource_slice("b", device("gpu-0"))),
        *(claim("held", held="b/gpu-0", by="train"), claim("mine", count=3)),
    ]
    objects[1]["metadata"]["labels"] = {"zone": "b"}
    wait = claim_rows(snapshot_from_documents(objects, server_version="1.35"))[-1].wait
    assert wait.why.startswith("request gpu wants 3 of class gpu; 0 left on b (1 in use)")


PUBLISHES = f"the driver {DRIVER} publishes none on any node"
OF_OTHERS = device_class("gpu", f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].model == 'h1'")


@pytest.mark.parametrize(
    ("cls", "published", "message", "remedy"),
    [
        pytest.param(ANY, [], PUBLISHES, f"install the driver {DRIVER}, or read the log", id="no driver"),
        pytest.param(
            device_class("gpu", "device.driver == 'other.example.com'"),
            [resource_slice("a", device("gpu-0"))],
            "the driver other.example.com publishes none on any node",
            "install the driver other.example.com",
            id="another driver",
        ),
        pytest.param(
            device_class("gpu", "device.driver == 'gpu.nvidia.com'"),
            [],
            "the driver gpu.nvidia.com publishes none",
            "install what publishes GPUs as claims: Tonnage's chart with claims.enabled",
            id="NVIDIA's",
        ),
        pytest.param(
            OF_OTHERS,
            [resource_slice("a", device("gpu-0", model="H1"))],
            "its selectors take none of the published devices",
            "no device has the model h1; write 'H1'",
            id="none of the class",
        ),
    ],
)
def test_a_class_without_any_device_names_who_should_publish_one(
    cls: Body, published: list[Body], message: str, remedy: str
) -> None:
    objects = [node("a"), *published, cls, claim("mine"), pod("mine")]
    explanation = explained(*objects)
    [reason] = explanation.reasons
    assert (reason.code, explanation.verdict) == (ClassWithoutDevices.code, Verdict.NEVER)
    assert message in reason.message
    assert explanation.remedies[0].action.startswith(remedy)
    [row] = claim_rows(snapshot_from_documents(objects, server_version="1.35"))
    assert (row.wait.why, row.wait.remedy) == (reason.message, reason.remedy)


@pytest.mark.parametrize(
    ("reported", "why"),
    [
        pytest.param({"reason": "its gate is off", "devices": []}, "its gate is off", id="none is served"),
        pytest.param(
            {"devices": [{"name": "gpu-0", "uuid": "GPU-1", "reason": "Xid 79"}]},
            "Xid 79",
            id="all are unfit",
        ),
    ],
)
def test_an_agent_whose_devices_nobody_can_claim_says_why(reported: Body, why: str) -> None:
    device_of_agent = {"uuid": "GPU-1", "index": 0, "resource": "nvidia.com/gpu", "health": "Healthy"}
    claims = {"driver": "gpu.nvidia.com", **reported}
    report = {
        "apiVersion": "tonnage.dev/v1alpha1",
        "kind": "NodeGPUStatus",
        "metadata": {"name": "a"},
        "status": {"devices": [device_of_agent], "claims": claims},
    }
    nvidias = device_class("gpu", "device.driver == 'gpu.nvidia.com'")
    [reason] = explained(node("a"), nvidias, report, claim("mine"), pod("mine")).reasons
    assert reason.message.endswith(f"publishes none on any node (a says: {why})")
    assert reason.remedy == "do what the agent of a says: kubectl describe node a"
    others = device_class("gpu", "device.driver == 'gpu.example.com'")
    [reason] = explained(node("a"), others, report, claim("mine"), pod("mine")).reasons
    assert reason.message.endswith("publishes none on any node"), "the agent speaks of its own driver"


@pytest.mark.parametrize(
    "objects",
    [
        pytest.param([resource_slice("a", device("gpu-0")), claim("mine", count=2)], id="too few"),
        pytest.param(
            [
                resource_slice("a", device("gpu-0")),
                claim("mine", selectors=[{"cel": {"expression": "false"}}]),
            ],
            id="the claim's own selector",
        ),
        pytest.param([claim("mine", held="a/gpu-0", by="other")], id="it has devices"),
    ],
)
def test_a_class_of_which_there_are_devices_is_not_called_empty(objects: list[Body]) -> None:
    explanation = explained(node("a"), ANY, *objects, pod("mine"))
    assert ClassWithoutDevices.code not in {reason.code for reason in explanation.reasons}


def test_a_request_with_an_alternative_that_is_published_is_not_called_hopeless() -> None:
    parts = [{"name": "a", "deviceClassName": "none"}, {"name": "b", "deviceClassName": "gpu", "count": 2}]
    either = dynamic(
        "ResourceClaim", "mine", {"devices": {"requests": [{"name": "r", "firstAvailable": parts}]}}
    )
    none = device_class("none", "device.driver == 'other.example.com'")
    explanation = explained(node("a"), resource_slice("a", device("g")), ANY, none, either, pod("mine"))
    assert ClassWithoutDevices.code not in {reason.code for reason in explanation.reasons}


def test_what_a_template_asks_is_changed_in_the_template() -> None:
    """A claim that is made from one cannot be changed."""
    template = dynamic(
        "ResourceClaimTemplate",
        "t",
        {"spec": {"devices": {"requests": claim("x", count=2)["spec"]["devices"]["requests"]}}},
    )
    manifest = pod(resourceClaims=[{"name": "g", "resourceClaimTemplateName": "t"}])
    cluster = snapshot_from_documents([node("a"), resource_slice("a", device("x")), ANY])
    snapshot = with_objects_in([template, manifest], cluster, namespace="ml")
    [read] = manifests_from_documents([template, manifest], namespace="ml")
    [remedy] = explain_manifest(read, snapshot).remedies
    assert remedy.action == "ask for 1 of 2 devices in request gpu of template t"


def test_administrators_access_takes_no_part_of_a_device() -> None:
    """Its claim may go, and no more is left for others than before."""
    shareable = {**device("gpu-0"), "allowMultipleAllocations": True}
    part = {"shareID": "8c1d2f3a-0000-4000-8000-000000000001", "consumedCapacity": {"memory": "70Gi"}}
    held, watching = (
        claim("held", held="a/gpu-0", by="train"),
        claim("watching", held="a/gpu-0", by="monitor"),
    )
    held["status"]["allocation"]["devices"]["results"][0] |= part
    watching["status"]["allocation"]["devices"]["results"][0] |= {**part, "adminAccess": True}
    waiting = claim("mine", capacity={"requests": {"memory": "20Gi"}})
    explanation = explained(
        node("a"), resource_slice("a", shareable), ANY, held, watching, waiting, pod("mine"), version="1.36"
    )
    assert explanation.remedies[0].action == "wait until claim ml/held of train has ended"


def test_a_claim_for_extended_resources_is_of_the_pod_for_which_it_is_reserved() -> None:
    """The pod names none: the scheduler made the claim."""
    made = claim("p-extended-resources-x", held="a/gpu-0", by="p")
    counting = pod()
    counting["spec"]["resourceClaims"] = []
    objects = [node("a"), resource_slice("a", device("gpu-0")), ANY, made, counting]
    [row] = claim_rows(snapshot_from_documents(objects, server_version="1.36"))
    assert row.pods == ("p",)


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("vfio.gpu.nvidia.com", "install the driver of NVIDIA's that brings it: Tonnage does not hand GPUs"),
        ("imex.nvidia.com", "install the driver of NVIDIA's that brings it: Tonnage does not serve compute"),
        ("gpv", "use gpu if you meant that"),
        ("other", "create the DeviceClass other, or use gpu"),
    ],
)
def test_of_a_class_that_is_not_there_it_is_said_who_brings_it(name: str, remedy: str) -> None:
    asking = dynamic(
        "ResourceClaim",
        "mine",
        {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": name}}]}},
    )
    explanation = explained(node("a"), resource_slice("a", *GPUS), ANY, asking, pod("mine"))
    [reason] = explanation.reasons
    assert reason.code == DeviceClassMissing.code
    assert reason.remedy.startswith(remedy)


def test_where_something_else_stands_against_a_node_its_claims_alone_are_no_remedy() -> None:
    explanation = explained(
        node("a"), resource_slice("a", device("gpu-0")), ANY, claim("mine", count=2),
        pod("mine", nodeSelector={"zone": "b"}),
    )  # fmt: skip
    assert not any("may meet its claims" in remedy.effect for remedy in explanation.remedies)


def test_a_pool_without_all_its_slices_is_named() -> None:
    explanation = explained(
        node("a"), resource_slice("a", device("g"), count=2), ANY, claim("mine"), pod("mine")
    )
    assert (
        f"the pool {DRIVER}/a: slices of its generation are missing"
        in explanation.nodes[0].reasons[0].message
    )


def test_a_device_without_the_attribute_fails_the_pod_everywhere_and_the_guard_is_offered_dra_1() -> None:
    high = device_class(
        "gpu", f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].memoryGiB >= 80"
    )
    bare = {"name": "gpu-0", "capacity": {"memory": {"value": "80Gi"}}}
    explanation = explained(
        node("a"), node("b"), resource_slice("a", bare), resource_slice("b", device("gpu-0")), high,
        claim("mine"), pod("mine"),
    )  # fmt: skip
    assert explanation.verdict is Verdict.NEVER
    assert explanation.upstream_message == (
        'running "DynamicResources" filter plugin: class gpu: selector #0: '
        "CEL runtime error: no such key: memoryGiB"
    )
    assert explanation.reasons[0].code == ClaimError.code
    better = str(explanation.reasons[0].facts["instead"])
    assert better.startswith(f"has(device.attributes['{DRIVER}'].memoryGiB) && ")
    assert explanation.remedies[0].action == f"write in DeviceClass gpu: {better}"
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
    explanation = explained(node("a"), resource_slice("a", published), wrong, claim("mine"), pod("mine"))
    assert explanation.verdict is Verdict.NEVER
    assert (
        "found no matching overload for '_>=_' applied to '(map(string, any), int)'"
        in explanation.upstream_message
    )
    assert (
        explanation.remedies[0].action == f"write in DeviceClass gpu: device.driver == '{DRIVER}' && {valid}"
    )


def test_the_table_of_claims_says_what_to_write_in_a_selector_as_explain_does() -> None:
    wrong = f"device.capacity['{DRIVER}'].memory >= quantity('80Gi')"
    asking = claim("mine", selectors=[{"cel": {"expression": wrong}}])
    objects = [node("a"), resource_slice("a", device("gpu-0")), ANY, asking, pod("mine")]
    [row] = claim_rows(snapshot_from_documents(objects, server_version="1.35"))
    assert row.wait.remedy == explained(*objects).remedies[0].action
    assert row.wait.remedy.startswith("write in ResourceClaim ml/mine: ")
    assert "\\n" not in row.wait.why


def test_a_claim_that_is_not_there_holds_the_pod_back_without_a_word_of_the_scheduler() -> None:
    explanation = explained(node("a"), ANY, claim("training"), pod("trainin"))
    assert (explanation.verdict, explanation.upstream_message) == (Verdict.NOT_NOW, "")
    assert (explanation.reasons[0].code, explanation.reasons[0].remedy) == (
        ClaimMissing.code,
        "use training if you meant that",
    )


def test_a_claim_with_devices_elsewhere_names_them() -> None:
    explanation = explained(
        node("a"), node("b"), resource_slice("a", device("gpu-0")), ANY,
        claim("mine", held="a/gpu-0", by="p"), pod("mine", nodeSelector={"kubernetes.io/hostname": "b"}),
    )  # fmt: skip
    codes = {reason.code for verdict in explanation.nodes for reason in verdict.reasons}
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


def test_flat_requests_are_nothing_in_v1_dra_3() -> None:
    flat = dynamic(
        "ResourceClaim", "mine", {"devices": {"requests": [{"name": "gpu", "deviceClassName": "gpu"}]}}
    )
    explanation = explained(node("a"), resource_slice("a", device("x")), ANY, flat, pod("mine"))
    assert "resource claim ml/mine, request gpu: unknown request type" in explanation.upstream_message
    older = dynamic("ResourceClaim", "mine", flat["spec"], "v1beta1")
    assert (
        explained(node("a"), resource_slice("a", device("x")), ANY, older, pod("mine")).verdict
        is Verdict.FITS
    )


def test_before_1_34_claims_are_unknown_and_say_why() -> None:
    explanation = explained(
        node("a"), resource_slice("a", device("x")), ANY, claim("mine"), pod("mine"), version="1.33"
    )
    assert (explanation.verdict, explanation.reasons[0].code) == (Verdict.UNKNOWN, NotModelled.code)
    assert "Kubernetes 1.33, where their gate is off by default" in explanation.message


def test_what_cannot_be_read_of_a_slice_is_unknown_and_named() -> None:
    broken = {"name": "gpu-0", "capacity": {"memory": {"value": "much"}}}
    explanation = explained(node("a"), resource_slice("a", broken), ANY, claim("mine"), pod("mine"))
    assert explanation.verdict is Verdict.UNKNOWN
    assert (
        "ResourceSlice s-a: spec.devices[0].capacity[memory]: 'much' is not a quantity" in explanation.message
    )
