"""What leaves a cluster in a snapshot: a planted secret never, names only where they may."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.adapters.snapshots.kinds import CAPTURED, CapturedKind
from tonnage.adapters.snapshots.redact import Level, Redactor
from tonnage.documents.node.gpu_status import node_gpu_status_crd

Body = dict[str, Any]
KINDS = {kind.kind: kind for kind in CAPTURED}
KEY = b"k" * 32
GPU = "nvidia.com/gpu"
UUID = "GPU-6a1f77c2-0b1d-4a52-9c01-5d3c5a0e9a27"


def redacted(body: Body, kind: str = "Pod", level: Level = Level.VALUES) -> Body:
    return Redactor(level, KEY).redacted(body, KINDS[kind])


def pod_with(secret: str, message: str = "") -> Body:
    """A pod with a secret in every place where people put them."""
    probe = {
        "exec": {"command": ["check", secret]},
        "httpGet": {"httpHeaders": [{"name": "a", "value": secret}]},
    }
    container = {
        "name": "c",
        "image": "registry.example/train:v1",
        "command": ["run", secret],
        "args": [f"--password={secret}"],
        "env": [
            {"name": "TOKEN", "value": secret},
            {"name": "REF", "valueFrom": {"secretKeyRef": {"name": "s", "key": secret}}},
        ],
        "envFrom": [{"secretRef": {"name": secret}}],
        "livenessProbe": probe,
        "lifecycle": {"postStart": probe},
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "volumeMounts": [{"name": "v", "mountPath": f"/{secret}"}],
    }
    waiting = {"waiting": {"reason": "RunContainerError", "message": message}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "train",
            "namespace": "ml",
            "labels": {"app": "train"},
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"token": secret}),
                "note": secret,
            },
            "managedFields": [{"manager": secret, "fieldsV1": {f"f:{secret}": {}}}],
        },
        "spec": {
            "containers": [container],
            "initContainers": [container],
            "volumes": [
                {"name": "v", "csi": {"driver": "d", "volumeAttributes": {"key": secret}}},
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {
                    "name": "own",
                    "ephemeral": {"volumeClaimTemplate": {"metadata": {"annotations": {"a": secret}}}},
                },
                {"name": "disk", "iscsi": {"targetPortal": secret}},
            ],
            "imagePullSecrets": [{"name": secret}],
            "serviceAccountName": "builder",
            "hostAliases": [{"ip": "10.0.0.1", "hostnames": [secret]}],
        },
        "status": {
            "phase": "Pending",
            "podIP": "10.1.2.3",
            "message": message,
            "containerStatuses": [
                {
                    "name": "c",
                    "state": waiting,
                    "lastState": {
                        "terminated": {"exitCode": 1, "reason": "Error", "message": f"log: {secret}"}
                    },
                }
            ],
        },
    }


SECRETS = st.text(st.characters(codec="utf-8", exclude_characters='"\\'), min_size=8, max_size=24).map(
    lambda text: f"s3cr3t{text}"
)


@given(SECRETS, st.sampled_from(Level))
def test_a_planted_secret_never_appears(secret: str, level: Level) -> None:
    message = f'error during container init: exec: "{secret}": no such file'
    body = pod_with(secret, message)
    workload = {"metadata": body["metadata"], "spec": {"template": {**body, "spec": body["spec"]}}}
    for kind, obj in [("Pod", body), *((k, workload) for k in ("Deployment", "Job", "StatefulSet"))]:
        assert "s3cr3t" not in json.dumps(redacted(obj, kind, level), ensure_ascii=False)


@pytest.mark.parametrize("level", Level)
def test_of_a_programs_last_words_the_known_ones_are_kept_and_nothing_else(level: Level) -> None:
    words = "alice's job 7\nRuntimeError: CUDA out of memory. Tried to allocate 2 GiB for bob\n"
    body = pod_with("s3cr3t-alpha", "x")
    state = body["status"]["containerStatuses"][0]["lastState"]
    state["terminated"]["message"] = words
    kept: Any = redacted(body, "Pod", level)
    told = kept["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"]
    assert told == "CUDA out of memory"


def places(rules: Any, secret: str) -> Any:
    """An object with every field of an allow-list, and beside each of them one that is on none."""
    if not isinstance(rules, dict):
        return [{"key": "k", "name": "n", "password": secret, "data": {"p": secret}}, {"secretRef": secret}]
    return {"password": secret, **{key: places(rule, secret) for key, rule in rules.items()}}


@pytest.mark.parametrize("kind", CAPTURED, ids=lambda kind: kind.kind)
def test_fields_that_no_list_names_are_left_out_at_every_depth(kind: CapturedKind) -> None:
    rules: Any = {**kind.rules}
    body = redacted(_without_whole(places(rules, "s3cr3t"), rules), kind.kind)
    assert "s3cr3t" not in json.dumps(body)


def _without_whole(body: Any, rules: Any) -> Any:
    """Fields that are kept as they are (selectors of devices, counters) hold what people write there."""
    if isinstance(body, dict) and isinstance(rules, dict):
        return {
            key: _without_whole(part, rules.get(key))
            for key, part in body.items()
            if getattr(rules.get(key), "name", "") != "WHOLE"
        }
    return body


def test_no_kind_that_holds_secrets_is_captured() -> None:
    assert not {"Secret", "ConfigMap", "Event"} & KINDS.keys()
    assert KINDS["ServiceAccount"].fields == {}  # that it is there, and nothing of it


def test_what_decides_a_placement_is_kept() -> None:
    body = pod_with("hunter2hunter2", "Back-off pulling image")
    body["spec"] |= {
        "nodeSelector": {"pool": "a"},
        "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "tolerationSeconds": 5}],
        "priorityClassName": "high",
    }
    kept = redacted(body)
    (container,) = kept["spec"]["containers"]
    assert container == {
        "name": "c",
        "image": "registry.example/train:v1",
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
        "env": [{"name": "TOKEN"}, {"name": "REF"}],
    }
    assert kept["spec"]["tolerations"] == body["spec"]["tolerations"]
    assert kept["spec"]["volumes"] == [
        {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "own", "ephemeral": {}},
        {"name": "disk", "iscsi": {}},
    ]
    assert kept["status"]["message"] == "Back-off pulling image"
    assert "podIP" not in kept["status"]


def test_what_pod_security_looks_at_is_kept_of_a_pod_as_a_whole() -> None:
    body = pod_with("hunter2hunter2")
    looked_at = {
        "hostPID": True,
        "hostIPC": False,
        "hostUsers": False,
        "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    }
    body["spec"] |= looked_at
    assert looked_at.items() <= redacted(body)["spec"].items()
    body["spec"]["securityContext"] = {
        "fsGroup": 7,
        "sysctls": [{"name": "net.core.somaxconn", "value": "9"}],
    }
    assert redacted(body)["spec"]["securityContext"] == {"sysctls": [{"name": "net.core.somaxconn"}]}


def named_pod(name: str, node: str) -> Body:
    term = {
        "topologyKey": "rack",
        "labelSelector": {"matchLabels": {"app": "acme"}},
        "namespaces": ["acme-ml"],
    }
    fields = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return {
        "metadata": {
            "name": name,
            "namespace": "acme-ml",
            "labels": {"app": "acme", "size": "3"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "acme-rs", "controller": True}],
        },
        "spec": {
            "nodeName": node,
            "nodeSelector": {
                "kubernetes.io/hostname": node,
                "acme.example/pool": "acme",
                "nvidia.com/gpu.count": "8",
            },
            "affinity": {
                "podAffinity": {required: [term]},
                "nodeAffinity": {required: {"nodeSelectorTerms": [{"matchFields": [fields]}]}},
            },
            "containers": [{"name": "acme", "image": "acme.example/acme:acme-1@sha256:00"}],
        },
    }


def test_names_get_pseudonyms_and_what_points_to_them_still_does() -> None:
    redactor = Redactor(Level.NAMES, KEY)
    named = {"kubernetes.io/hostname": "acme-7", "acme.example/pool": "acme"}
    status = {"images": [{"names": ["acme.example/acme:acme-1"]}], "capacity": {"nvidia.com/gpu": "8"}}
    whole: Body = {"metadata": {"name": "acme-7", "labels": named}, "status": status}
    node: Any = redactor.redacted(whole, KINDS["Node"])
    pod = redactor.redacted(named_pod("acme-train", "acme-7"), KINDS["Pod"])
    assert "acme" not in json.dumps([node, pod])
    name = node["metadata"]["name"]
    spec: Any = pod["spec"]
    assert (spec["nodeName"], spec["nodeSelector"]["kubernetes.io/hostname"]) == (name, name)
    assert spec["nodeSelector"].items() >= {"nvidia.com/gpu.count": "8"}.items()
    labels: Any = node["metadata"]["labels"]
    assert spec["nodeSelector"] == {**labels, "nvidia.com/gpu.count": "8"}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    (term,) = spec["affinity"]["podAffinity"][required]
    meta: Any = pod["metadata"]
    assert term["labelSelector"]["matchLabels"].items() <= meta["labels"].items()
    assert term["namespaces"] == [meta["namespace"]]
    (field,) = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"][0]["matchFields"]
    assert field["values"] == [name]
    (image,) = [c["image"] for c in spec["containers"]]
    told: Any = node["status"]["images"]
    assert image.partition("@")[0] in told[0]["names"]
    untagged: Body = {"spec": {"containers": [{"image": "acme:latest"}]}}
    latest: Any = redactor.redacted(untagged, KINDS["Pod"])
    assert latest["spec"]["containers"][0]["image"].endswith(":latest")
    replica_set: Any = redactor.redacted({"metadata": {"name": "acme-rs"}}, KINDS["ReplicaSet"])
    assert meta["ownerReferences"][0]["name"] == replica_set["metadata"]["name"]


def _pseudonym(kind: str, body: Body, *path: str | int) -> Any:
    """What a part of an object becomes."""
    part: Any = redacted(body, kind, Level.NAMES)
    for key in path:
        part = part[key]
    return part


def _name_of(kind: str, name: str = "acme") -> str:
    return str(_pseudonym(kind, {"metadata": {"name": name}}, "metadata", "name"))


@pytest.mark.parametrize("kind", ["NodeGPUStatus", "CSINode"])
def test_what_is_named_after_a_node_gets_the_pseudonym_of_the_node(kind: str) -> None:
    assert _name_of(kind) == _name_of("Node")


def _pod_asking(resource: str) -> Body:
    return {"spec": {"containers": [{"resources": {"limits": {resource: "1"}}}]}}


IN_CLAIMS, IN_QUOTAS = "deviceclass.resource.kubernetes.io/", ".deviceclass.resource.k8s.io/devices"
IN_STORAGE = ".storageclass.storage.k8s.io/requests.storage"
CLASS_RESOURCES = {
    f"{IN_CLAIMS}acme": f"{IN_CLAIMS}{{DeviceClass}}",
    f"requests.{IN_CLAIMS}acme": f"requests.{IN_CLAIMS}{{DeviceClass}}",
    f"acme{IN_QUOTAS}": f"{{DeviceClass}}{IN_QUOTAS}",
    f"acme{IN_STORAGE}": f"{{StorageClass}}{IN_STORAGE}",
    "nvidia.com/gpu": "nvidia.com/gpu",
}


@pytest.mark.parametrize("resource", CLASS_RESOURCES)
def test_the_resource_of_a_class_names_the_class_by_its_pseudonym(resource: str) -> None:
    names = {kind: _name_of(kind) for kind in ("DeviceClass", "StorageClass")}
    expected = CLASS_RESOURCES[resource].format(**names)
    hard = _pseudonym("ResourceQuota", {"spec": {"hard": {resource: "4"}}}, "spec", "hard")
    limits = _pseudonym("Pod", _pod_asking(resource), "spec", "containers", 0, "resources", "limits")
    assert (hard, limits) == ({expected: "4"}, {expected: "1"})
    assert redacted(_pod_asking(resource))["spec"] == _pod_asking(resource)["spec"]


def test_a_holder_by_a_claim_is_found_by_the_claims_pseudonym() -> None:
    holder = {"namespace": "ml", "pod": "train", "resource": "ml/train-gpu-x7k2p", "ids": []}
    status: Body = {"devices": [{"uuid": "GPU-1", "holders": [holder, {**holder, "resource": GPU}]}]}
    redactor = Redactor(Level.NAMES, KEY)
    body: Body = {"metadata": {"name": "a"}, "status": status}
    named: Body = {"metadata": {"namespace": "ml", "name": "train-gpu-x7k2p"}}
    report: Any = redactor.redacted(body, KINDS["NodeGPUStatus"])
    claim: Any = redactor.redacted(named, KINDS["ResourceClaim"])
    held, plain = report["status"]["devices"][0]["holders"]
    assert held["resource"] == f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
    assert plain["resource"] == GPU


def test_a_pods_runtime_class_is_found_by_its_pseudonym() -> None:
    body: Body = {"spec": {"runtimeClassName": "acme"}}
    assert _pseudonym("Pod", body, "spec", "runtimeClassName") == _name_of("RuntimeClass")


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("acme/configs[timeslice-4]", r"namespace-[0-9a-f]{12}/configmap-[0-9a-f]{12}\[timeslice-4\]"),
        ("/etc/acme/config.yaml", r"\[redacted\]"),
        ("", ""),
    ],
)
def test_the_source_of_a_configuration_keeps_its_key_and_loses_its_names(source: str, kept: str) -> None:
    body: Body = {"status": {"config": {"source": source, "key": "timeslice-4"}}}
    config = _pseudonym("NodeGPUStatus", body, "status", "config")
    assert config["key"] == "timeslice-4"
    assert re.fullmatch(kept, config["source"])


def test_of_a_message_pseudonyms_keep_what_the_catalogue_knows_without_names() -> None:
    message = "Allocate failed: no binding pod found on node acme-7, which acme made"
    body: Body = {"status": {"message": message, "conditions": [{"message": "acme waits"}]}}
    status = _pseudonym("Pod", body, "status")
    assert status["message"] == "no binding pod found on node [redacted]"
    assert status["conditions"] == [{"message": "[redacted]"}]


def test_what_an_agent_says_of_a_device_stays_without_its_number() -> None:
    body: Body = {"status": {"devices": [{"uuid": UUID, "reason": f"Xid 79 on {UUID}"}]}}
    (device,) = _pseudonym("NodeGPUStatus", body, "status", "devices")
    assert device["reason"] == f"Xid 79 on {device['uuid']}"


def test_devices_keep_their_kind_and_lose_their_number() -> None:
    holder = {"namespace": "acme", "pod": "acme", "container": "c", "resource": "r", "ids": [f"{UUID}::1"]}
    body = {"status": {"devices": [{"uuid": UUID, "product": "NVIDIA H200", "holders": [holder]}]}}
    (device,) = redacted(body, "NodeGPUStatus", Level.NAMES)["status"]["devices"]
    assert device["uuid"].startswith("GPU-")
    assert UUID not in json.dumps(device)
    assert device["product"] == "NVIDIA H200"
    assert device["holders"][0]["ids"] == [f"{device['uuid']}::1"]


def test_all_that_an_agent_publishes_is_on_the_list() -> None:
    published: Any = node_gpu_status_crd()
    (version,) = published["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert list(missing(status, KINDS["NodeGPUStatus"].fields["status"], "status")) == []


def missing(schema: Any, rules: Any, path: str) -> Iterator[str]:
    """Fields of a schema that an allow-list does not name."""
    schema = schema.get("items", schema)
    for name, child in schema.get("properties", {}).items() if isinstance(rules, dict) else ():
        if name in rules:
            yield from missing(child, rules[name], f"{path}.{name}")
        else:
            yield f"{path}.{name}"


def test_pseudonyms_of_two_snapshots_have_nothing_in_common() -> None:
    body: Body = {"metadata": {"name": "acme"}}
    one, other = (Redactor(Level.NAMES, key).redacted(body, KINDS["Node"]) for key in (KEY, b"x" * 32))
    assert one != other


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(
    st.sampled_from(CAPTURED),
    st.sampled_from(Level),
    st.dictionaries(st.sampled_from(["metadata", "spec", "status", "value"]), JSON),
    st.dictionaries(
        st.sampled_from(
            ["labels", "taints", "volumes", "containers", "affinity", "tolerations", "devices", "hard"]
        ),
        JSON,
    ),
)
def test_objects_of_any_shape_are_redacted_without_raising(
    kind: CapturedKind, level: Level, body: Body, part: Body
) -> None:
    other: Body = {"metadata": part, "spec": part, "status": part}
    for obj in (body, other):
        kept = Redactor(level, KEY).redacted(obj, kind)
        assert list(kept)[:3] == ["apiVersion", "kind", "metadata"]
        json.dumps(kept)
