"""What the status of pods, nodes, quotas and Jobs may say, in a genuine server's words."""

from __future__ import annotations

from typing import Any

from tonnage.decide.kubernetes.api.defaults.apply import apply_defaults
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.validate import validate_update
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.pods.statuses import complete_status
from tonnage.wire.schema import KindRow, load_schema

META = {"name": "p", "namespace": "ml", "uid": "u", "resourceVersion": "1"}
TRUE = {"status": "True"}


def row(api_version: str, kind: str) -> KindRow:
    group, _, version = api_version.rpartition("/")
    kind_type = load_schema().kind(group, version, kind)
    assert kind_type is not None
    return kind_type


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
