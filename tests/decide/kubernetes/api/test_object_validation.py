"""What the twin's API server refuses, word for word; ADM-1, ADM-2 and ADM-3 first."""

from __future__ import annotations

from typing import Any

import pytest

from support.random_bodies import UNCHECKED
from tonnage.decide.kubernetes.api.defaults.apply import apply_defaults
from tonnage.decide.kubernetes.api.encoding.decode import decode
from tonnage.decide.kubernetes.api.problems import invalid_status
from tonnage.decide.kubernetes.api.validate import validate_create, validate_update
from tonnage.decide.kubernetes.api.validation.pods.pod import ephemeral_update
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.well_known import MIRROR
from tonnage.wire.schema import KindRow, load_schema

UNIQUE: dict[str, Any] = {"name": "p", "namespace": "ml"}


def row(group: str, kind: str, version: str = "v1") -> KindRow:
    kind_type = load_schema().kind(group, version, kind)
    assert kind_type is not None
    return kind_type


def stored(kind_row: KindRow, body: dict[str, Any]) -> JsonObject:
    """The object as the server would store it, but for the checks."""
    return apply_defaults(load_schema(), kind_row, decode(load_schema(), kind_row.type, body).value)


def pod(**container: Any) -> JsonObject:
    body = {"metadata": UNIQUE, "spec": {"containers": [{"name": "main", "image": "cuda", **container}]}}
    return stored(row("", "Pod"), body)


def message(kind_row: KindRow, obj: JsonObject, name: str) -> str:
    errors = validate_create(kind_row, obj)
    assert errors
    return str(invalid_status(kind_row, name, errors)["message"])


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        pytest.param(
            {"limits": {"nvidia.com/gpu": 0.5}},
            'Pod "p" is invalid: '
            "[spec.containers[0].resources.limits[nvidia.com/gpu]: "
            'Invalid value: "500m": must be an integer, '
            "spec.containers[0].resources.requests[nvidia.com/gpu]: "
            'Invalid value: "500m": must be an integer]',
            id="ADM-1: half a GPU is no integer",
        ),
        pytest.param(
            {"requests": {"nvidia.com/gpu": 1}},
            'Pod "p" is invalid: spec.containers[0].resources.limits: '
            "Required value: Limit must be set for non overcommitable resources",
            id="ADM-2: a GPU under requests alone",
        ),
        pytest.param(
            {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 2}},
            'Pod "p" is invalid: spec.containers[0].resources.requests: '
            'Invalid value: "2": must be equal to nvidia.com/gpu limit of 1',
            id="ADM-3: request above limit",
        ),
        pytest.param(
            {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 1}},
            'Pod "p" is invalid: spec.containers[0].resources.requests: '
            'Invalid value: "1": must be equal to nvidia.com/gpu limit of 2',
            id="ADM-3: request below limit",
        ),
    ],
)
def test_gpu_resources_are_refused_in_the_servers_words(resources: dict[str, Any], text: str) -> None:
    assert message(row("", "Pod"), pod(resources=resources), "p") == text


def test_gpu_resources_that_agree_are_taken() -> None:
    assert validate_create(row("", "Pod"), pod(resources={"limits": {"nvidia.com/gpu": 1, "cpu": 2}})) == ()


def test_every_problem_is_a_cause_with_its_field() -> None:
    errors = validate_create(row("", "Pod"), pod(name="Main", image="", imagePullPolicy="Sometimes"))
    status: Any = invalid_status(row("", "Pod"), "p", errors)
    assert (status["code"], status["reason"], status["details"]["kind"]) == (422, "Invalid", "Pod")
    assert [(cause["field"], cause["reason"]) for cause in status["details"]["causes"]] == [
        ("spec.containers[0].name", "FieldValueInvalid"),
        ("spec.containers[0].image", "FieldValueRequired"),
        ("spec.containers[0].imagePullPolicy", "FieldValueNotSupported"),
    ]


def test_a_workload_names_its_group_and_the_path_into_the_template() -> None:
    kind_row = row("apps", "Deployment")
    obj = stored(
        kind_row,
        {
            "metadata": UNIQUE,
            "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {
                    "metadata": {"labels": {"app": "y"}},
                    "spec": {
                        "containers": [{"name": "c", "image": "i", "resources": {"limits": {"a.b/c": 0.1}}}]
                    },
                },
            },
        },
    )
    text = message(kind_row, obj, "p")
    assert text.startswith(
        'Deployment.apps "p" is invalid: [spec.template.metadata.labels: Invalid value: {"app":"y"}: '
    )
    assert "`selector` does not match template `labels`" in text
    assert 'spec.template.spec.containers[0].resources.limits[a.b/c]: Invalid value: "100m"' in text


def changed(**spec: Any) -> tuple[JsonObject, JsonObject]:
    """A stored pod, and the same with a part of its spec changed."""
    old: Any = pod()
    old["metadata"] |= {"resourceVersion": "1", "uid": "u"}
    return {**old, "spec": {**old["spec"], **spec}}, old


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"activeDeadlineSeconds": 5}, id="a deadline"),
        pytest.param({"tolerations": [{"key": "a", "operator": "Exists"}]}, id="one more toleration"),
    ],
)
def test_a_pod_may_change(spec: dict[str, Any]) -> None:
    new, old = changed(**spec)
    assert validate_update(row("", "Pod"), new, old) == ()


def test_a_pods_image_may_change_and_its_resources_may_not() -> None:
    new, old = changed()
    container: Any = {**old["spec"]["containers"][0]}  # type: ignore[index, call-overload, dict-item]
    image: Any = {**new, "spec": {**old["spec"], "containers": [{**container, "image": "other"}]}}  # type: ignore[dict-item]
    assert validate_update(row("", "Pod"), image, old) == ()
    limits = {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}
    bigger: Any = {**new, "spec": {**old["spec"], "containers": [{**container, "resources": limits}]}}  # type: ignore[dict-item]
    (error,) = validate_update(row("", "Pod"), bigger, old)
    assert str(error).startswith(
        "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`"
    )
    shown = error.detail.partition("\n")[2].splitlines()
    assert shown[0].startswith("@@ -")
    changes = [line for line in shown[1:] if line[0] in "+-"]
    assert changes == [
        '-    "Limits": null,',
        '-    "Requests": null,',
        *('+    "Limits": {', '+     "nvidia.com/gpu": "1"', "+    },"),
        *('+    "Requests": {', '+     "nvidia.com/gpu": "1"', "+    },"),
    ]


@pytest.mark.parametrize(
    "said", [{"lifecycle": {}}, {"securityContext": {"runAsUser": 0, "privileged": False}}]
)
def test_not_even_an_empty_struct_or_a_zero_may_come_to_a_pod(said: dict[str, Any]) -> None:
    old, new = pod(), pod(**said)
    new["metadata"] = {**UNIQUE, "resourceVersion": "1"}
    assert [error.field for error in validate_update(row("", "Pod"), new, old)] == ["spec"]


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"securityContext": {"runAsNonRoot": False}}, id="a user that may be root"),
        pytest.param({"automountServiceAccountToken": False}, id="a token"),
        pytest.param({"hostUsers": True}, id="users of the host"),
    ],
)
def test_what_a_pod_says_for_the_first_time_is_a_change(spec: dict[str, Any]) -> None:
    new, old = changed(**spec)
    assert [error.field for error in validate_update(row("", "Pod"), new, old)] == ["spec"]


def test_containers_may_not_come_to_a_running_pod() -> None:
    new, old = changed(containers=[])
    assert "pod updates may not add or remove containers" in str(
        validate_update(row("", "Pod"), new, old)[-1]
    )


def test_a_selector_never_changes() -> None:
    kind_row = row("apps", "DaemonSet")

    def daemon_set(label: str) -> JsonObject:
        template = {
            "metadata": {"labels": {"app": label}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        spec = {"selector": {"matchLabels": {"app": label}}, "template": template}
        return stored(kind_row, {"metadata": {**UNIQUE, "resourceVersion": "1"}, "spec": spec})

    (error,) = validate_update(kind_row, daemon_set("y"), daemon_set("x"))
    assert str(error) == 'spec.selector: Invalid value: {"matchLabels":{"app":"y"}}: field is immutable'


@pytest.mark.parametrize(
    ("meta", "field", "detail"),
    [
        pytest.param(
            {"resourceVersion": ""},
            "metadata.resourceVersion",
            "must be specified for an update",
            id="no version",
        ),
        pytest.param({"name": "q"}, "metadata.name", "field is immutable", id="another name"),
        pytest.param({"uid": "v"}, "metadata.uid", "field is immutable", id="another uid"),
    ],
)
def test_identity_stays_in_an_update(meta: dict[str, str], field: str, detail: str) -> None:
    new, old = changed()
    errors = validate_update(row("", "Pod"), {**new, "metadata": {**new["metadata"], **meta}}, old)  # type: ignore[dict-item]
    assert (field, detail) in [(error.field, error.detail) for error in errors]


@pytest.mark.parametrize(
    ("kind", "subresource", "fields"),
    [
        pytest.param("ConfigMap", "", {"metadata.finalizers[0]", "metadata.finalizers"}, id="all rules"),
        pytest.param("Service", "", {"metadata.finalizers[0]", "metadata.finalizers"}, id="common rules"),
        pytest.param("Pod", "status", {"metadata.finalizers[0]", "metadata.finalizers"}, id="status"),
    ],
)
def test_finalizers_that_an_update_brings_are_checked(kind: str, subresource: str, fields: set[str]) -> None:
    kind_row = row("", kind)
    metadata: JsonObject = {**UNIQUE, "resourceVersion": "1"}
    old = stored(kind_row, {"metadata": metadata})
    new: JsonObject = {**old, "metadata": {**metadata, "finalizers": ["no name"]}}
    errors = validate_update(kind_row, new, old, subresource)
    assert {error.field for error in errors if error.field.startswith("metadata")} == fields


def test_a_config_map_that_is_immutable_stays() -> None:
    kind_row = row("", "ConfigMap")
    old = stored(
        kind_row, {"metadata": {**UNIQUE, "resourceVersion": "1"}, "data": {"a": "1"}, "immutable": True}
    )
    new: JsonObject = {**old, "data": {"a": "2"}}
    assert [str(error) for error in validate_update(kind_row, new, old)] == [
        "data: Forbidden: field is immutable when `immutable` is set"
    ]


def test_status_updates_are_not_held_to_the_spec() -> None:
    new, old = changed(containers=[])
    assert validate_update(row("", "Pod"), new, old, "status") == ()


def definition(schema: dict[str, Any], **spec: Any) -> JsonObject:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    body = {
        "metadata": {"name": "gpus.tonnage.dev"},
        "spec": {
            "group": "tonnage.dev",
            "names": {"plural": "gpus", "kind": "GPU"},
            "scope": "Namespaced",
            "versions": [version],
            **spec,
        },
    }
    return stored(row("apiextensions.k8s.io", "CustomResourceDefinition"), body)


@pytest.mark.parametrize(
    ("schema", "spec", "error"),
    [
        pytest.param(
            {"type": "object"},
            {"group": "other.dev"},
            "metadata.name: Invalid value",
            id="name and group differ",
        ),
        pytest.param(
            {"type": "object"},
            {"scope": "World"},
            'spec.scope: Unsupported value: "World"',
            id="no such scope",
        ),
        pytest.param(
            {"type": "object"},
            {"versions": []},
            "spec.versions: Invalid value: []",
            id="no version is stored",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {}}},
            {},
            "spec.validation.openAPIV3Schema.properties[a].type: Required value: "
            "must not be empty for specified object fields",
            id="a field without a type",
        ),
        pytest.param(
            {"type": "object", "properties": {"a": {"type": "array"}}},
            {},
            "spec.validation.openAPIV3Schema.properties[a].items: Required value: must be specified",
            id="a list of nothing",
        ),
    ],
)
def test_definitions_that_are_refused(schema: dict[str, Any], spec: dict[str, Any], error: str) -> None:
    errors = validate_create(
        row("apiextensions.k8s.io", "CustomResourceDefinition"), definition(schema, **spec)
    )
    assert any(str(one).startswith(error) for one in errors), [str(error) for error in errors]


def test_a_good_definition_is_taken_with_its_names_filled_in() -> None:
    obj: Any = definition({"type": "object", "properties": {"spec": {"type": "object"}}})
    assert validate_create(row("apiextensions.k8s.io", "CustomResourceDefinition"), obj) == ()
    assert obj["spec"]["names"]["singular"] == "gpu"
    assert obj["spec"]["names"]["listKind"] == "GPUList"
    assert obj["status"]["storedVersions"] == ["v1"]


def test_names_that_a_definition_has_got_are_left_as_they_are() -> None:
    accepted = {"plural": "gpus", "kind": "GPU"}
    body = {"metadata": {"name": "gpus.example.com"}, "status": {"acceptedNames": accepted}}
    obj: Any = stored(row("apiextensions.k8s.io", "CustomResourceDefinition"), body)
    assert obj["status"]["acceptedNames"] == accepted


@pytest.mark.parametrize("section", ["limits", "requests"])
def test_a_device_of_the_whole_pod_is_refused(section: str) -> None:
    new_pod = pod()
    spec = new_pod["spec"]
    assert isinstance(spec, dict)
    spec["resources"] = {section: {"cpu": "1", "hugepages-2Mi": "2Mi", "nvidia.com/gpu": "1"}}
    errors = validate_create(row("", "Pod"), new_pod)
    assert f"spec.resources.{section}[nvidia.com/gpu]" in [error.field for error in errors]


def test_not_even_an_event_changes_its_uid() -> None:
    event: Any = {"metadata": {"name": "e", "namespace": "lab", "uid": "a", "resourceVersion": "1"}}
    other: Any = {"metadata": {**event["metadata"], "uid": "b"}}
    error = validate_update(row("", "Event"), other, event)[0]
    assert str(error) == 'metadata.uid: Invalid value: "b": field is immutable'
    errors = validate_update(row("", "Event"), event, event)
    assert not [entry for entry in errors if entry.field.startswith("metadata")]


@pytest.mark.parametrize(
    ("name", "taken"), [("A_b", True), ("a:b", True), ("a/b", False), ("..", False), ("a%b", False)]
)
@pytest.mark.parametrize(
    ("group", "kind"),
    [("policy", "PodDisruptionBudget"), ("certificates.k8s.io", "CertificateSigningRequest")],
)
def test_some_names_are_whatever_a_path_may_hold(group: str, kind: str, name: str, taken: bool) -> None:
    obj = stored(row(group, kind), {"metadata": {"name": name, "namespace": "ml"}})
    fields = [error.field for error in validate_create(row(group, kind), obj)]
    assert ("metadata.name" not in fields) == taken


def test_a_pods_node_may_be_named_as_it_was_once() -> None:
    source = {"fieldRef": {"fieldPath": "spec.host"}}
    assert not validate_create(row("", "Pod"), pod(env=[{"name": "NODE", "valueFrom": source}]))


@pytest.mark.parametrize("kind", sorted(UNCHECKED))
def test_a_kind_of_whose_fields_nothing_is_checked_is_read_strictly_and_has_a_name(kind: str) -> None:
    schema = load_schema()
    found = max((one for one in schema.kinds if one.kind == kind), key=lambda one: one.version)
    body: dict[str, Any] = {"metadata": {"name": "x", "labels": {"a": 1}}}
    with pytest.raises(ApiError, match="cannot unmarshal number"):
        decode(schema, found.type, body)
    decoded = decode(schema, found.type, {"metadata": {"name": "../x"}, "nonsense": 1})
    assert decoded.unknown == ('unknown field "nonsense"',)
    assert "metadata.name" in [error.field for error in validate_create(found, decoded.value)]


@pytest.mark.parametrize(
    ("annotations", "refused"),
    [
        pytest.param({MIRROR: "hash"}, True, id="a mirror pod takes no ephemeral containers"),
        pytest.param({}, False, id="another pod takes them"),
    ],
)
def test_ephemeral_containers_of_a_static_pod(annotations: JsonObject, refused: bool) -> None:
    old: JsonObject = {"metadata": {"annotations": annotations}, "spec": {}}
    words = "static pods do not support ephemeral containers"
    assert any(error.detail == words for error in ephemeral_update(old, old)) is refused
