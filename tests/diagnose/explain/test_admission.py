"""What the API server would refuse, held against the twin's API server, which shares no code with it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.kubernetes.api.validation.fields import tolerations
from tonnage.decide.kubernetes.api.validation.pods.placement import affinity, spread_constraints
from tonnage.decide.kubernetes.api.validation.resources import requirements
from tonnage.diagnose.explain.explain import explain, explain_manifest, find_pod
from tonnage.diagnose.quantities import errors
from tonnage.diagnose.rules.admission import pod_fields
from tonnage.model.kubernetes.cluster import Manifest
from tonnage.model.kubernetes.quantity import canonical_quantity
from tonnage.model.layer import Layer
from tonnage.model.reasons.pod.admission import (
    PodLevelResource,
    PodPlacementInvalid,
    TolerationInvalid,
    Unreadable,
    WebhookMayRefuse,
)
from tonnage.model.verdict import Explanation, Verdict
from tonnage.reading.documents import manifests_from_documents, snapshot_from_documents

Body = dict[str, Any]
GPU = "nvidia.com/gpu"
NAMES = ("cpu", "memory", GPU, "amd.com/gpu", "nvidia.com/gpu.shared")
TEXTS = ("0", "1", "2", "0.5", "500m", "1500m", "-1", "-0.5", "1e3", "1k", "1Ki")
AMOUNTS = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(TEXTS), max_size=4)
CLASSES = [
    {"kind": "PriorityClass", "apiVersion": "scheduling.k8s.io/v1", "metadata": {"name": name}, "value": 9}
    for name in ("system-node-critical", "gpu-low")
]


def body(kind: str = "Pod", **spec: Any) -> Body:
    meta = {"name": "p"}
    if kind == "Pod":
        return {"apiVersion": "v1", "kind": kind, "metadata": meta, "spec": spec}
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": {"template": {"spec": spec}}}


def containers(*resources: Body) -> list[Any]:
    return [{"name": f"c{i}", "image": "i", "resources": found} for i, found in enumerate(resources)]


def manifest(found: Body) -> Manifest:
    [read] = manifests_from_documents([found])
    return read


def explained(found: Body, *objects: Body) -> Explanation:
    node: Body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}}
    items: list[Any] = [*([] if any(obj["kind"] == "Node" for obj in objects) else [node]), *objects]
    return explain_manifest(manifest(found), snapshot_from_documents([{"kind": "List", "items": items}]))


@given(limits=AMOUNTS, requests=AMOUNTS)
def test_adm_1_2_3_the_errors_are_those_of_the_api_server(limits: Body, requests: Body) -> None:
    """ADM-1, ADM-2, ADM-3, several at once, in every order: text and path."""
    ours = errors(manifest(body(containers=containers({"limits": limits, "requests": requests}))))
    defaulted = {name: canonical_quantity(text) for name, text in {**limits, **requests}.items()}
    capped = {name: canonical_quantity(text) for name, text in limits.items()}
    filled: dict[str, Any] = {"limits": capped, "requests": defaulted}
    theirs = requirements(filled, "spec.containers[0].resources")
    assert [f"{e.path}: {e.text}" for e in ours] == [str(e) for e in theirs]


def test_every_container_is_looked_at_and_named() -> None:
    init = {"name": "init", "image": "i", "resources": {"requests": {GPU: 1}}}
    pod_body = body(
        "Deployment",
        containers=containers({"limits": {GPU: 1}, "requests": {GPU: 0.5}}, {"limits": {GPU: "2.5"}}),
        initContainers=[init],
    )
    explanation = explained(pod_body)
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.ADMISSION)
    assert explanation.upstream_message == (
        'Deployment.apps "p" is invalid: ['
        'spec.template.spec.containers[0].resources.requests[nvidia.com/gpu]: Invalid value: "500m": must be '
        'an integer, spec.template.spec.containers[0].resources.requests: Invalid value: "500m": must be '
        "equal to nvidia.com/gpu limit of 1, "
        'spec.template.spec.containers[1].resources.limits[nvidia.com/gpu]: Invalid value: "2500m": must be '
        "an integer, spec.template.spec.containers[1].resources.requests[nvidia.com/gpu]: Invalid value: "
        '"2500m": must be an integer, spec.template.spec.initContainers[0].resources.limits: Required value: '
        "Limit must be set for non overcommitable resources]"
    )
    subjects = [reason.subject for reason in explanation.reasons]
    assert subjects == ["Container c0", "Container c0", "Container c1", "Container init"]
    assert len({remedy.action for remedy in explanation.remedies}) == len(explanation.remedies)


def test_a_quantity_that_is_none_cannot_be_decoded() -> None:
    explanation = explained(body(containers=containers({"limits": {GPU: "two"}})))
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.ADMISSION)
    assert explanation.upstream_message.startswith(
        'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression'
    )
    assert [reason.code for reason in explanation.reasons] == [Unreadable.code]


@pytest.mark.parametrize(("kind", "shown"), [("Pod", "p"), ("Deployment", "p-…"), ("Job", "p-")])
def test_a_priority_class_that_does_not_exist_is_refused(kind: str, shown: str) -> None:
    pod_body = body(kind, containers=containers({"limits": {GPU: 1}}), priorityClassName="gpu-high")
    explanation = explained(pod_body, *CLASSES)
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.ADMISSION)
    assert explanation.upstream_message == (
        f'pods "{shown}" is forbidden: no PriorityClass with name gpu-high was found'
    )
    assert "gpu-low" in explanation.message


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        pytest.param("gpu-low", CLASSES, id="it exists"),
        pytest.param("system-cluster-critical", CLASSES, id="every cluster has it"),
        pytest.param("gpu-high", [], id="nobody looked at the classes"),
    ],
)
def test_a_priority_class_that_may_exist_is_no_cause(name: str, classes: list[Body]) -> None:
    pod_body = body(containers=containers({}), priorityClassName=name)
    assert explained(pod_body, *classes).layer is not Layer.ADMISSION


def test_fields_that_are_null_are_as_if_absent() -> None:
    nulls: Body = {"tolerations": None, "nodeSelector": None, "affinity": {"nodeAffinity": None}}
    named = [{"name": "c", "image": None, "env": None, "resources": {"limits": {GPU: 1}, "requests": None}}]
    with_nulls = manifest(body(containers=named, **nulls))
    without = manifest(body(containers=[{"name": "c", "resources": {"limits": {GPU: 1}}}], affinity={}))
    assert (with_nulls.pod, with_nulls.amounts) == (without.pod, without.amounts)


def _policy(name: str, *actions: str) -> list[Body]:
    rule = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
    group = "admissionregistration.k8s.io/v1"
    meta = {"name": name}
    policy: Body = {"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": meta}
    binding: Body = {"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta}
    policy["spec"] = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "false"}]}
    binding["spec"] = {"policyName": name, "validationActions": [*actions]}
    return [policy, binding]


@pytest.mark.parametrize(("actions", "named"), [(["Deny"], True), (["Warn", "Audit"], False)], ids=str)
def test_a_policy_that_denies_is_named_and_not_guessed_at(actions: list[str], named: bool) -> None:
    explanation = explained(body(containers=containers({})), *_policy("tenant-labels", *actions))
    asides = [reason.message for reason in explanation.reasons if reason.code == WebhookMayRefuse.code]
    assert any("the policy tenant-labels" in message for message in asides) is named
    assert explanation.layer is not Layer.ADMISSION


@pytest.mark.parametrize("kind", ["Pod", "Deployment"])
@pytest.mark.parametrize("section", ["limits", "requests"])
def test_a_device_of_the_whole_pod_is_refused(kind: str, section: str) -> None:
    """It belongs to a container; what containers may share stays allowed."""
    shared = {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi"}
    explanation = explained(body(kind, containers=containers({}), resources={section: {**shared, GPU: "1"}}))
    where = "spec.resources" if kind == "Pod" else "spec.template.spec.resources"
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.ADMISSION)
    [reason] = explanation.reasons
    assert (reason.code, reason.facts["field"]) == (PodLevelResource.code, f"{where}.{section}[{GPU}]")
    assert "under the container's limits" in explanation.remedies[0].action
    allowed = explained(body(kind, containers=containers({}), resources={section: shared}))
    assert allowed.layer is not Layer.ADMISSION


TOLERATION = st.fixed_dictionaries(
    {},
    optional={
        "key": st.sampled_from(["", "a"]),
        "operator": st.sampled_from(["", "Equal", "Exists", "Exist"]),
        "value": st.sampled_from(["", "5"]),
        "effect": st.sampled_from(["", "NoSchedule", "NoExecute", "Never"]),
        "tolerationSeconds": st.just(30),
    },
)


@given(found=st.lists(TOLERATION, max_size=2))
def test_tolerations_are_refused_as_the_api_server_does(found: list[Body]) -> None:
    ours = pod_fields.errors(manifest(body(containers=containers({}), tolerations=found)))
    theirs = tolerations(found, "spec.tolerations")
    assert sorted(f"{e.path}: {e.text}" for e in ours) == sorted(str(e) for e in theirs)


@pytest.mark.parametrize(
    "toleration",
    [
        {"operator": "Equal", "value": "5"},
        {"key": "a", "operator": "Exists", "value": "5"},
        {"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 30},
        {"key": "a b", "operator": "Exists"},
    ],
)
def test_a_bad_toleration_never_fits(toleration: Body) -> None:
    explanation = explained(body("Deployment", containers=containers({}), tolerations=[toleration]))
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.ADMISSION)
    [reason] = explanation.reasons
    assert reason.code == TolerationInvalid.code
    assert str(reason.facts["field"]).startswith("spec.template.spec.tolerations[0].")
    assert reason.remedy


@pytest.mark.parametrize(
    ("resources", "patch", "effect"),
    [
        ({"requests": {GPU: "1"}}, {"limits": {GPU: "1"}}, "the API server accepts it; fits a"),
        (
            {"limits": {GPU: "2"}, "requests": {GPU: "1"}},
            {"requests": {GPU: None}},
            "the API server accepts it; fits a",
        ),
        (
            {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}},
            {"limits": {"cpu": "2"}},
            "the API server accepts it; fits a",
        ),
        ({"requests": {GPU: "9"}}, {"limits": {GPU: "9"}}, "the API server accepts it; NEVER: node a"),
        ({"requests": {GPU: "1", "amd.com/gpu": "-1"}}, {"limits": {GPU: "1"}}, "resolves this; then: "),
    ],
    ids=["no limit", "unequal", "above the limit", "too many", "more is wrong"],
)
def test_adm_2_3_what_is_certain_is_given_as_a_patch_and_tried(
    resources: Body, patch: Body, effect: str
) -> None:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", GPU: "2"}
    node: Body = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}
    node["status"] = {"allocatable": amounts, "capacity": amounts}
    for kind in ("Pod", "Deployment"):
        explanation = explained(body(kind, containers=containers({}, resources)), node)
        found = next(remedy for remedy in explanation.remedies if remedy.patch)
        inner: Body = {"spec": {"containers": [{"name": "c1", "resources": patch}]}}
        assert found.patch == (inner if kind == "Pod" else {"spec": {"template": inner}})
        assert found.effect.startswith(effect)


@pytest.mark.parametrize(
    ("used", "memory", "effect"),
    [
        ("0", "1Gi", "the API server accepts the pod; fits a"),
        ("768Mi", "256Mi", "the API server accepts the pod; fits a"),
        ("1Gi", "16Gi", "resolves this; then: the quota q allows requests.memory=1Gi"),
    ],
    ids=["all of it", "what is left", "nothing is left"],
)
def test_adm_9_an_example_is_no_more_than_the_quota_has_left(used: str, memory: str, effect: str) -> None:
    hard = {"limits.cpu": "10", "requests.memory": "1Gi"}
    quota: Body = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}
    quota |= {"spec": {"hard": hard}, "status": {"hard": hard, "used": {**hard, "limits.cpu": "0"}}}
    quota["metadata"]["namespace"] = "default"
    quota["status"]["used"]["requests.memory"] = used
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    node: Body = {"kind": "Node", "apiVersion": "v1", "metadata": {"name": "a"}}
    node["status"] = {"allocatable": amounts, "capacity": amounts}
    explanation = explained(body(containers=containers({"requests": {"cpu": "1"}})), node, quota)
    [remedy] = explanation.remedies
    assert remedy.action.endswith(f", for instance cpu: 1, memory: {memory}")
    assert remedy.effect.startswith(effect)
    resources = {"limits": {"cpu": "1"}, "requests": {"memory": memory}}
    assert remedy.patch == {"spec": {"containers": [{"name": "c0", "resources": resources}]}}


SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
STRANGE = {"matchExpressions": [{"key": "a", "operator": "=~", "values": [".*"]}]}
NO_LABEL = {"matchLabels": {"a": "^1$"}}


def spread(**changed: Any) -> Body:
    return {"topologySpreadConstraints": [{**SPREAD, **changed}]}


def apart(**term: Any) -> Body:
    required = [{"topologyKey": "zone", **term}]
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (spread(labelSelector=STRANGE), "labelSelector.matchExpressions[0].operator"),
        (spread(labelSelector=NO_LABEL), "labelSelector.matchLabels"),
        (spread(labelSelector={"matchExpressions": [{"key": "a", "operator": "In"}]}), "].values"),
        (spread(labelSelector={"matchExpressions": [{"key": "", "operator": "Exists"}]}), "].key"),
        (
            spread(labelSelector={"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
            "].values",
        ),
        (spread(whenUnsatisfiable="Nonsense"), ".whenUnsatisfiable"),
        (spread(nodeTaintsPolicy="Wat"), ".nodeTaintsPolicy"),
        (spread(nodeAffinityPolicy="Wat"), ".nodeAffinityPolicy"),
        (spread(maxSkew=0), ".maxSkew"),
        (spread(minDomains=0), ".minDomains"),
        (spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2), ".minDomains"),
        (spread(topologyKey=""), ".topologyKey"),
        (apart(labelSelector=STRANGE), "labelSelector.matchExpressions[0].operator"),
        (apart(labelSelector=NO_LABEL), "labelSelector.matchLabels"),
        (apart(namespaceSelector=NO_LABEL), "namespaceSelector.matchLabels"),
        (apart(labelSelector={}, topologyKey=""), ".topologyKey"),
    ],
)
def test_spreading_and_affinity_that_no_server_takes(spec: Body, field: str) -> None:
    """Refused as a manifest, where the twin refuses it; of a pod said to be there nothing is guessed."""
    explanation = explained(body(containers=containers({}), **spec))
    assert (explanation.verdict, explanation.layer) == (Verdict.NEVER, Layer.ADMISSION)
    assert {reason.code for reason in explanation.reasons} == {PodPlacementInvalid.code}
    assert any(field in str(reason.facts["field"]) for reason in explanation.reasons)
    theirs = [
        *affinity(spec.get("affinity", {}), "spec.affinity"),
        *spread_constraints(spec.get("topologySpreadConstraints", []), "spec.topologySpreadConstraints"),
    ]
    ours = [*pod_fields.errors(manifest(body(containers=containers({}), **spec)))]
    assert {e.path for e in ours} == {e.field for e in theirs}
    assert {f"{e.path}: {e.text}" for e in ours if e.text} <= {str(e) for e in theirs}
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", "labels": {"zone": "z"}},
        "status": {"allocatable": {"pods": "9"}},
    }
    items: list[Any] = [node, body(containers=containers({}), **spec)]
    snapshot = snapshot_from_documents([{"kind": "List", "items": items}])
    pod = find_pod(snapshot, "default", "p")
    assert pod is not None
    there = explain(pod, snapshot)
    assert there.verdict is Verdict.UNKNOWN
    assert Unreadable.code in {reason.code for reason in there.reasons}


def test_good_spreading_and_affinity_are_let_in() -> None:
    selector = {"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}
    for spec in (
        spread(labelSelector=selector, minDomains=2, nodeTaintsPolicy="Honor"),
        apart(labelSelector=selector),
    ):
        assert explained(body(containers=containers({}), **spec)).layer is not Layer.ADMISSION
