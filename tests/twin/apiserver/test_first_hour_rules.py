"""Rules that a first hour with kubectl showed: warnings, patches, second names, admission, tables."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tonnage.model.json import JsonValue
from tonnage.twin.apiserver.printers.policies import POLICIES
from tonnage.twin.apiserver.versions.events import renamed_event, stored_event, stored_path
from tonnage.twin.apiserver.writing.patches import converter_text
from tonnage.wire.schema import load_schema


async def test_a_new_node_is_tainted_once(running: Any) -> None:
    taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
    for name, taints in (("a", []), ("b", [taint])):
        body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}}
        answer = await running.http("POST", "/api/v1/nodes", body)
        assert answer.json["spec"]["taints"] == [taint]


async def test_a_pod_needs_its_service_account(kubectl: Any) -> None:
    overrides = '--overrides={"spec":{"serviceAccountName":"robot"}}'
    refused = await kubectl.attempt(["run", "p", "--image=x", overrides])
    assert refused.err.endswith('service account default/robot: serviceaccount "robot" not found\n')
    await kubectl("create serviceaccount robot")
    await kubectl(["run", "p", "--image=x", overrides])


async def test_no_default_class_comes_back_to_an_ingress(running: Any) -> None:
    base = "/apis/networking.k8s.io/v1"
    marked = {"name": "c", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
    chosen = {"metadata": marked, "spec": {"controller": "a.b/c"}}
    await running.http("POST", f"{base}/ingressclasses", chosen)
    backend = {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    ingresses = f"{base}/namespaces/default/ingresses"
    made = await running.http("POST", ingresses, {"metadata": {"name": "i"}, "spec": backend})
    assert made.json["spec"]["ingressClassName"] == "c"
    again = {"metadata": {"name": "i", "resourceVersion": made.json["metadata"]["resourceVersion"]}}
    put = await running.http("PUT", f"{ingresses}/i", {**again, "spec": backend})
    assert "ingressClassName" not in put.json["spec"]


async def test_events_have_a_second_name(running: Any, kubectl: Any) -> None:
    body = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "train", "namespace": "default"},
        "message": "hello",
        "reason": "Said",
        "type": "Normal",
        "source": {"component": "test"},
    }
    await running.http("POST", "/api/v1/namespaces/default/events", body)
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = (await running.http("GET", f"{path}/e")).json
    assert (event["apiVersion"], event["note"], event["regarding"]["name"]) == (
        "events.k8s.io/v1",
        "hello",
        "train",
    )
    listed = (await running.http("GET", f"{path}?fieldSelector=regarding.name%3Dtrain")).json
    assert [item["note"] for item in listed["items"]] == ["hello"]
    assert (await running.http("GET", f"{path}?fieldSelector=regarding.name%3Dx")).json["items"] == []
    table = await kubectl("get events.events.k8s.io")
    assert table.rows[0][1:] == ["Normal", "Said", "pod/train", "hello"]


def test_both_names_of_an_event_say_the_same() -> None:
    stored: dict[str, JsonValue] = {"apiVersion": "v1", "message": "m", "count": 2, "source": {"host": "h"}}
    shown = renamed_event(stored)
    reporter: dict[str, JsonValue] = {"reportingComponent": "", "reportingInstance": ""}
    assert stored_event(shown) == {**stored, "eventTime": None, **reporter}
    assert stored_path("regarding.name") == "involvedObject.name"
    assert stored_path("metadata.name") == "metadata.name"


@pytest.mark.parametrize(
    ("decoder", "converter"),
    [
        ("string into Go struct field S.replicas of type int32", "unrecognized type: int32"),
        ("number 1.5 into Go struct field S.replicas of type int32", "cannot convert float64 to int32"),
        ("number into Go struct field M.labels of type string", "cannot convert int64 to string"),
        ("bool into Go struct field M.labels of type string", "unrecognized type: string"),
        ("string into Go struct field S.args of type []string", "cannot restore slice from string"),
        ("array into Go struct field M.labels of type map[string]string", "cannot restore map from slice"),
        ("string into Go struct field P.spec of type v1.PodSpec", "cannot restore struct from: string"),
    ],
)
def test_strategic_patches_name_types_as_the_converter_does(decoder: str, converter: str) -> None:
    assert converter_text(load_schema(), f"json: cannot unmarshal {decoder}") == converter


def test_texts_about_values_stay_as_they_are() -> None:
    assert converter_text(load_schema(), "quantities must match") == "quantities must match"


async def test_a_patch_that_makes_no_object_is_invalid(running: Any) -> None:
    await running.http("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}})
    path = "/api/v1/namespaces/default/configmaps/c"
    for kind in ("merge-patch", "strategic-merge-patch"):
        headers = {"content-type": f"application/{kind}+json"}
        answer = await running.http("PATCH", path, {"data": {"a": 1}}, **headers)
        assert (answer.code, answer.json["reason"]) == (422, "Invalid")
        assert answer.json["message"].startswith(' "" is invalid: patch: Invalid value: ')


async def test_node_ports_are_in_their_range_and_given_once(kubectl: Any) -> None:
    await kubectl("create service nodeport a --tcp=80 --node-port=30080")
    taken = await kubectl.attempt("create service nodeport b --tcp=80 --node-port=30080")
    assert "spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated" in taken.err
    outside = await kubectl.attempt("create service nodeport c --tcp=80 --node-port=80")
    assert "The range of valid ports is 30000-32767" in outside.err
    await kubectl("label service a x=y")


@pytest.mark.parametrize(
    ("metric", "current", "shown"),
    [
        ({"type": "Utilization", "averageUtilization": 80}, {}, "cpu: <unknown>/80%"),
        ({"type": "Utilization", "averageUtilization": 80}, {"averageUtilization": 3}, "cpu: 3%/80%"),
        ({"type": "AverageValue", "averageValue": "1"}, {"averageValue": "200m"}, "cpu: 200m/1"),
    ],
)
def test_an_autoscaler_shows_its_targets(metric: Any, current: Any, shown: str) -> None:
    status: JsonValue = [{"type": "Resource", "resource": {"name": "cpu", "current": current}}]
    autoscaler: dict[str, JsonValue] = {
        "metadata": {"name": "a"},
        "spec": {"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": metric}}]},
        "status": {"currentMetrics": status if current else []},
    }
    row = POLICIES["autoscaling", "horizontalpodautoscalers"].cells(autoscaler, datetime.now(UTC))
    assert row[2] == shown


async def test_a_refusal_names_the_prefix_of_a_generated_name(running: Any) -> None:
    body = {
        "metadata": {"generateName": "web-"},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]},
    }
    answer = await running.http("POST", "/api/v1/namespaces/default/pods", body)
    assert answer.json["message"].startswith('pods "web-" is forbidden: error looking up service account')


async def test_a_deletion_of_another_object_of_that_name_is_refused(running: Any) -> None:
    path = "/api/v1/namespaces/default/configmaps"
    uid = (await running.http("POST", path, {"metadata": {"name": "c"}})).json["metadata"]["uid"]
    answer = await running.http("DELETE", f"{path}/c", {"preconditions": {"uid": "other"}})
    assert answer.code == 409
    assert answer.json["message"] == (
        'Operation cannot be fulfilled on ConfigMap "c": the UID in the precondition (other) '
        f"does not match the UID in record ({uid}). The object might have been deleted and then recreated"
    )


def test_a_text_in_place_of_amounts_is_no_map() -> None:
    """As a genuine server says it of a strategic patch."""
    field = "ResourceRequirements.requests"
    detail = f"json: cannot unmarshal string into Go struct field {field} of type v1.ResourceList"
    assert converter_text(load_schema(), detail) == "cannot restore map from string"


@pytest.mark.parametrize(
    ("address", "why"),
    [
        (
            "10.96.0.1",
            's: Invalid value: ["{0}"]: failed to allocate IP {0}: provided IP is already allocated',
        ),
        (
            "1.2.3.4",
            's: Invalid value: ["{0}"]: failed to allocate IP {0}: {1} does not match the current range',
        ),
        ("x", '{2}: Invalid value: "{0}": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)'),
        ("2001:db8::1", '{2}: Invalid value: ["{0}"]: IPv6 is not configured on this cluster'),
    ],
    ids=["taken", "outside", "no address", "of the other family"],
)
async def test_an_address_that_cannot_be_given_is_refused_as_a_genuine_server_does(
    running: Any, address: str, why: str
) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}}
    answer = await running.http("POST", "/api/v1/namespaces/default/services", body)
    said = why.format(address, "the provided network", "s[0]")
    assert (answer.code, answer.json["message"]) == (422, f'Service "a" is invalid: spec.clusterIP{said}')


async def test_a_service_keeps_its_address(running: Any) -> None:
    path = "/api/v1/namespaces/default/services"
    body = {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    await running.http("POST", path, body)
    change = {"spec": {"clusterIP": "10.96.9.9", "clusterIPs": ["10.96.9.9"]}}
    headers = {"content-type": "application/merge-patch+json"}
    answer = await running.http("PATCH", f"{path}/a", change, **headers)
    why = 'spec.clusterIPs[0]: Invalid value: ["10.96.9.9"]: may not change once set'
    assert (answer.code, answer.json["message"]) == (422, f'Service "a" is invalid: {why}')


async def test_a_class_of_the_system_stays(kubectl: Any) -> None:
    refused = await kubectl.attempt("delete priorityclass system-node-critical")
    assert refused.err.endswith(": this is a system priority class and cannot be deleted\n")


async def test_a_namespace_that_is_finalized_is_what_its_writer_says(running: Any) -> None:
    path = "/api/v1/namespaces/ml"
    labels, held = {"kubernetes.io/metadata.name": "ml"}, ["a.test/held"]
    body: dict[str, Any] = {"metadata": {"name": "ml", "finalizers": held}}
    await running.http("POST", "/api/v1/namespaces", body)
    body["spec"] = {"finalizers": ["kubernetes", "baz"]}
    refused = (await running.http("PUT", f"{path}/finalize", body)).json
    assert refused["details"]["causes"][0]["field"] == "spec.finalizers[1]"
    body = {"metadata": {"name": "ml", "labels": {"a": "b"}}}
    done = (await running.http("PUT", f"{path}/finalize", body)).json
    assert (done["spec"], done["metadata"]["labels"]) == ({}, {"a": "b", **labels})
    assert "finalizers" not in done["metadata"]


async def test_nothing_is_changed_or_asked_for_in_a_namespace_that_is_missing(running: Any) -> None:
    token = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    answer = await running.http("POST", "/api/v1/namespaces/no/serviceaccounts/a/token", token)
    assert answer.json["message"] == 'namespaces "no" not found'


async def test_a_namespace_has_preconditions_in_words_of_its_own(running: Any) -> None:
    await running.http("POST", "/api/v1/namespaces", {"metadata": {"name": "ml"}})
    options = {"preconditions": {"uid": "x"}}
    answer = await running.http("DELETE", "/api/v1/namespaces/ml", options)
    assert ": Precondition failed: UID in precondition: x, UID in object meta: " in answer.json["message"]


async def test_what_a_quota_is_said_to_use_must_be_amounts_of_something(running: Any) -> None:
    path = "/api/v1/namespaces/default/resourcequotas"
    await running.http("POST", path, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": 1}}})
    body = {"metadata": {"name": "q"}, "status": {"hard": {"foo": 1}, "used": {"cpu": "-1"}}}
    answer = await running.http("PUT", f"{path}/q/status", body)
    fields = {cause["field"] for cause in answer.json["details"]["causes"]}
    assert fields == {"status.hard[foo]", "status.used[cpu]"}
