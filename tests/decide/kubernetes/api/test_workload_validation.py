"""Selectors of workloads, their data and their networks are refused in a genuine server's words."""

from __future__ import annotations

from typing import Any

import pytest

from support.apply_scenes import merged_json
from tonnage.decide.kubernetes.api.defaults.apply import apply_defaults
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.validate import validate_create, validate_update
from tonnage.model.json import JsonObject
from tonnage.wire.schema import load_schema

META = {"name": "p", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
NO_POLICY = "restartPolicy: Required value: must specify restartPolicy when restart rules are used"
TEMPLATE: dict[str, Any] = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
WORKLOAD: dict[str, Any] = {"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}}
UNREADABLE = {
    "spec": {"selector": {"matchLabels": None, "matchExpressions": [{"key": "a", "operator": "Gt"}]}}
}
NO_OPERATOR = 'spec.selector.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator'
NO_MODE = "Required value: at least 1 access mode is required"
SHOWN = '{"matchExpressions":[{"key":"a","operator":"Gt"}]}'


def stored(api_version: str, kind: str, body: Any) -> JsonObject:
    group, _, version = api_version.rpartition("/")
    kind_row = load_schema().kind(group, version, kind)
    assert kind_row is not None
    metadata = META if kind_row.namespaced else {**META, "namespace": ""}
    body = {"metadata": metadata, **body}
    return apply_defaults(load_schema(), kind_row, decode(load_schema(), kind_row.type, body).value)


def said(api_version: str, kind: str, body: Any, old: Any = None) -> list[str]:
    group, _, version = api_version.rpartition("/")
    kind_row = load_schema().kind(group, version, kind)
    assert kind_row is not None
    new = stored(api_version, kind, body)
    if old is None:
        return [str(error) for error in validate_create(kind_row, new)]
    return [str(error) for error in validate_update(kind_row, new, stored(api_version, kind, old))]


@pytest.mark.parametrize(
    ("kind", "changes", "errors"),
    [
        pytest.param(
            "Deployment",
            UNREADABLE,
            [NO_OPERATOR, f"spec.selector: Invalid value: {SHOWN}: invalid label selector"],
            id="a Deployment whose selector cannot be read has no template looked at",
        ),
        pytest.param(
            "ReplicaSet",
            UNREADABLE,
            [NO_OPERATOR, f"spec.selector: Invalid value: {SHOWN}: invalid label selector"],
            id="nor has a ReplicaSet",
        ),
        pytest.param(
            "StatefulSet",
            {**UNREADABLE, "spec": {**UNREADABLE["spec"], "template": {"spec": {"containers": []}}}},
            [NO_OPERATOR, f"spec.selector: Invalid value: {SHOWN}"],
            id="nor has a StatefulSet",
        ),
        pytest.param(
            "DaemonSet",
            UNREADABLE,
            [NO_OPERATOR],
            id="of a DaemonSet it is looked at, but not matched",
        ),
        pytest.param(
            "DaemonSet",
            {"spec": {"updateStrategy": {"type": "Now", "rollingUpdate": {}}}},
            [
                (
                    'spec.updateStrategy: Unsupported value: {"Type":"Now","RollingUpdate":'
                    '{"MaxUnavailable":0,"MaxSurge":0}}: supported values: "RollingUpdate", "OnDelete"'
                )
            ],
            id="only who rolls has defaults for it",
        ),
        pytest.param(
            "Deployment",
            {"spec": {"strategy": {"rollingUpdate": {"maxSurge": "5", "maxUnavailable": 0}}}},
            [
                (
                    'spec.strategy.rollingUpdate.maxSurge: Invalid value: "5": a valid percent string must '
                    "be a numeric string followed by an ending '%' "
                    "(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"
                )
            ],
            id="a number in quotes is no percentage, but a number",
        ),
        pytest.param(
            "StatefulSet",
            {"spec": {"volumeClaimTemplates": [{"spec": {}}, {"spec": {}}]}},
            [
                f"spec.volumeClaimTemplates[0].spec.accessModes: {NO_MODE}",
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
                f"spec.volumeClaimTemplates[1].spec.accessModes: {NO_MODE}",
                "spec.volumeClaimTemplates[1].spec.resources[storage]: Required value",
                "spec.template.spec.volumes[0].persistentVolumeClaim.claimName: Required value",
                "spec.template.spec.volumes[0].name: Required value",
            ],
            id="claims of one name are one volume",
        ),
    ],
)
def test_a_new_workload(kind: str, changes: dict[str, Any], errors: list[str]) -> None:
    assert said("apps/v1", kind, merged_json(WORKLOAD, changes)) == errors


@pytest.mark.parametrize(
    ("part", "policy", "errors"),
    [
        pytest.param("initContainers", {}, [NO_POLICY], id="rules of an init container need a policy"),
        pytest.param(
            "containers",
            {"restartPolicy": ""},
            [
                'restartPolicy: Unsupported value: "": supported values: "Always", "Never", "OnFailure"',
                'restartPolicyRules[0].action: Unsupported value: "x": supported values: "Restart"',
                "restartPolicyRules[0].exitCodes: Required value: must be specified",
            ],
            id="an empty policy is one, and none that is known",
        ),
    ],
)
def test_when_a_container_starts_again(part: str, policy: dict[str, Any], errors: list[str]) -> None:
    own = {"name": "d", "image": "i", "restartPolicyRules": [{"action": "x"}], **policy}
    found = [own] if part == "initContainers" else [*TEMPLATE["spec"]["containers"], own]
    body = merged_json(WORKLOAD, {"spec": {"template": {"spec": {part: found}}}})
    where = f"spec.template.spec.{part}[{len(found) - 1}]."
    assert said("apps/v1", "Deployment", body) == [where + error for error in errors]


def test_claims_without_a_name_are_none_that_a_container_may_have() -> None:
    asking = {"name": "c", "image": "i", "resources": {"claims": [{"name": "g"}]}}
    claims = [{"name": name, "resourceClaimName": "x"} for name in ("", "h")]
    template = {**TEMPLATE, "spec": {"containers": [asking], "resourceClaims": claims}}
    where = "spec.template.spec"
    assert said("apps/v1", "Deployment", merged_json(WORKLOAD, {"spec": {"template": template}})) == [
        f"{where}.resourceClaims[0].name: Required value",
        (
            f'{where}.containers[0].resources.claims[0]: Not found: "g": '
            "must be one of the names in pod.spec.resourceClaims: h"
        ),
    ]


def test_the_selector_of_a_daemon_set_is_told_first() -> None:
    empty = {"spec": {"selector": {}, "template": TEMPLATE}}
    assert said("apps/v1", "DaemonSet", empty, WORKLOAD) == [
        "spec.selector: Invalid value: {}: field is immutable",
        "spec.selector: Invalid value: {}: empty selector is invalid for daemonset",
    ]


@pytest.mark.parametrize(
    ("body", "old", "errors"),
    [
        pytest.param(
            {"revision": -1},
            None,
            [
                "revision: Invalid value: -1: must be greater than or equal to 0",
                "data: Required value: data is mandatory",
            ],
            id="none without data",
        ),
        pytest.param(
            {"data": [1]},
            None,
            ["data: Required value: data must be a valid JSON object"],
            id="data are an object",
        ),
        pytest.param(
            {"data": {"a": 2}},
            {"data": {"a": 1}},
            ['data: Invalid value: {"a":2}: field is immutable'],
            id="data stay",
        ),
        pytest.param(
            {"revision": 2, "data": {"a": 1}}, {"revision": 1, "data": {"a": 1}}, [], id="numbers may rise"
        ),
    ],
)
def test_a_controller_revision(body: dict[str, Any], old: dict[str, Any] | None, errors: list[str]) -> None:
    assert said("apps/v1", "ControllerRevision", body, old) == errors


@pytest.mark.parametrize(
    ("ranges", "errors"),
    [
        pytest.param(["10.0.0.0/24", "fd00::/64"], [], id="one of each family"),
        pytest.param(
            ["10.0.0.0/24", "x"],
            [
                (
                    'spec.podCIDRs[1]: Invalid value: "x": must be a valid CIDR value, '
                    "(e.g. 10.9.8.0/24 or 2001:db8::/64)"
                ),
                (
                    "spec.podCIDRs: Internal error: invalid PodCIDRs. failed to check with dual stack with "
                    "error:invalid CIDR[1]: <nil> (invalid CIDR address: x)"
                ),
                (
                    'spec.podCIDRs: Invalid value: ["10.0.0.0/24","x"]: '
                    "may specify no more than one CIDR for each IP family"
                ),
            ],
            id="a range is one",
        ),
    ],
)
def test_the_networks_of_a_nodes_pods(ranges: list[str], errors: list[str]) -> None:
    assert said("v1", "Node", {"spec": {"podCIDRs": ranges}}) == errors


def test_a_runtime_class_tolerates_a_thing_once_and_is_checked_when_it_changes() -> None:
    twice = [{"key": "a", "operator": "Exists"}] * 2
    assert said("node.k8s.io/v1", "RuntimeClass", {"handler": "h", "scheduling": {"tolerations": twice}}) == [
        (
            "scheduling.tolerations[1]: Duplicate value: "
            '{"Key":"a","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}'
        )
    ]
    changed = {"handler": "g", "scheduling": {"nodeSelector": {"a": "b c"}}}
    fields = [
        error.split(":")[0] for error in said("node.k8s.io/v1", "RuntimeClass", changed, {"handler": "h"})
    ]
    assert fields == ["scheduling.nodeSelector", "handler"]
