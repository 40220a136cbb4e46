"""What the status of pods, nodes, quotas and Jobs may say, in a genuine server's words."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.decide.kubernetes.api.decode import decode
from tonnage.decide.kubernetes.api.filling import apply_defaults
from tonnage.decide.kubernetes.api.validate import validate_update
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.pods.statuses import complete_status
from tonnage.wire.schema import KindRow, load_schema

META = {"name": "p", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
TRUE = {"status": "True"}


def row(api_version: str, kind: str) -> KindRow:
    group, _, version = api_version.rpartition("/")
    found = load_schema().kind(group, version, kind)
    assert found is not None
    return found


def stored(kind_row: KindRow, spec: dict[str, Any], status: dict[str, Any]) -> JsonObject:
    body: Any = {"metadata": META, "spec": spec, "status": status}
    return apply_defaults(load_schema(), kind_row, decode(load_schema(), kind_row.type, body).value)


def said(
    api_version: str, kind: str, spec: dict[str, Any], old: dict[str, Any], new: dict[str, Any]
) -> list[str]:
    kind_row = row(api_version, kind)
    before, after = stored(kind_row, spec, old), stored(kind_row, spec, new)
    return [str(error) for error in validate_update(kind_row, after, before, "status")]


ENDED = {"name": "c", "state": {"terminated": {"exitCode": 1}}}
RUNS = {"name": "c", "state": {"running": {}}}
BACK = "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"
NO_ADDRESS = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
ONE_PER_FAMILY = "may specify no more than one IP for each IP family"


@pytest.mark.parametrize(
    ("spec", "old", "new", "errors"),
    [
        pytest.param(
            {},
            {"qosClass": "BestEffort"},
            {"qosClass": "Burstable"},
            ['status.qosClass: Invalid value: "Burstable": field is immutable'],
            id="a class of service stays",
        ),
        pytest.param(
            {},
            {},
            {"podIP": "x"},
            [f'status.podIPs[0]: Invalid value: "x": {NO_ADDRESS}'],
            id="an address is one",
        ),
        pytest.param({}, {"podIP": "x"}, {"podIP": "x"}, [], id="an old address may be none"),
        pytest.param(
            {},
            {},
            {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}]},
            [f'status.podIPs: Invalid value: [{{"IP":"10.0.0.1"}},{{"IP":"10.0.0.2"}}]: {ONE_PER_FAMILY}'],
            id="two addresses are of two families",
        ),
        pytest.param({}, {}, {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}, [], id="as these are"),
        pytest.param(
            {},
            {},
            {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}]},
            ['status.hostIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `hostIP`'],
            id="the first address of a host is its address",
        ),
        pytest.param(
            {"nodeName": "n"},
            {},
            {"nominatedNodeName": "m"},
            [
                (
                    "status.nominatedNodeName: Forbidden: "
                    "may not be set on pods that are already bound to a node"
                ),
            ],
            id="who has a node waits for none",
        ),
        pytest.param(
            {},
            {},
            {"conditions": [{"type": "Ready", "status": "True", "observedGeneration": -1}]},
            [
                "status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer",
            ],
            id="generations count from nothing",
        ),
        pytest.param(
            {},
            {},
            {"resourceClaimStatuses": [{"name": "g"}]},
            [
                (
                    'status.resourceClaimStatuses[0].name: Invalid value: "g": '
                    "must match the name of an entry in `spec.resourceClaims`"
                ),
            ],
            id="a claim is one of the pod's",
        ),
        pytest.param(
            {"restartPolicy": "Never"},
            {"containerStatuses": [ENDED]},
            {"containerStatuses": [RUNS]},
            [BACK],
            id="what has ended for good runs no more",
        ),
        pytest.param(
            {"restartPolicy": "OnFailure"},
            {"containerStatuses": [ENDED]},
            {"containerStatuses": [RUNS]},
            [],
            id="what failed may run again",
        ),
    ],
)
def test_the_status_of_a_pod(
    spec: dict[str, Any], old: dict[str, Any], new: dict[str, Any], errors: list[str]
) -> None:
    whole = {"containers": [{"name": "c", "image": "i"}], **spec}
    assert said("v1", "Pod", whole, old, new) == errors


def test_what_a_writer_leaves_out_of_a_pods_status_stays_and_gated_fields_go() -> None:
    old = {
        "status": {
            "qosClass": "BestEffort",
            "observedGeneration": 3,
            "conditions": [{"type": "Ready", "observedGeneration": 2}],
        }
    }
    new: Any = {
        "status": {
            "conditions": [{"type": "Ready"}, {"type": "Ready"}],
            "resources": {},
            "containerStatuses": [{"name": "c", "allocatedResourcesStatus": []}],
        }
    }
    complete_status(new, old)  # type: ignore[arg-type]
    assert new["status"] == {
        "qosClass": "BestEffort",
        "observedGeneration": 3,
        "conditions": [{"type": "Ready", "observedGeneration": 2}, {"type": "Ready"}],
        "containerStatuses": [{"name": "c"}],
    }


def test_what_a_quota_counts_is_what_quotas_bound() -> None:
    assert said("v1", "ResourceQuota", {}, {}, {"used": {"pods": "1", "cats": "2"}}) == [
        'status.used[cats]: Invalid value: "cats": must be a standard resource type or fully qualified',
        'status.used[cats]: Invalid value: "cats": must be a standard resource for quota',
    ]


def test_what_a_node_can_do_is_told_in_order() -> None:
    assert [
        error.partition(" must start")[0]
        for error in said("v1", "Node", {}, {}, {"declaredFeatures": ["B", "A", "A", "b"]})
    ] == [
        'status.declaredFeatures[1]: Invalid value: "A": list must be sorted alphabetically',
        'status.declaredFeatures[2]: Duplicate value: "A"',
        'status.declaredFeatures[3]: Invalid value: "b": invalid feature name "b":',
    ]
