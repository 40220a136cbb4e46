"""The values that the server fills in where they depend on others: `RULES`, a function for a type.

A pod template gets what a pod gets, except the rules of `core/v1.Pod` itself.

Source: k8s.io/kubernetes and k8s.io/apiextensions-apiserver (pkg/apis/*/v1/defaults.go, conversion.go).
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from typing import Final

from tonnage.decide.kubernetes.api.encoding.body import copy_json
from tonnage.decide.kubernetes.api.pod_amounts import together
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import mapping
from tonnage.model.kubernetes.well_known import NAMESPACE_NAME

_NAMES: Final[tuple[str, ...]] = ("plural", "singular", "shortNames", "kind", "listKind", "categories")
"""Names of a custom kind, in Go's order."""


def _objects(value: JsonValue) -> list[JsonObject]:
    return [element for element in value if isinstance(element, dict)] if isinstance(value, list) else []


def _object(holder: JsonObject, key: str) -> JsonObject:
    """The object under a key, put there if it is missing."""
    value = holder.setdefault(key, {})
    assert isinstance(value, dict)
    return value


def _pod(obj: JsonObject) -> None:
    spec = _object(obj, "spec")
    containers = [*_objects(spec.get("containers")), *_objects(spec.get("initContainers"))]
    for container in containers:
        resources = _object(container, "resources")
        limits = resources.get("limits")
        if isinstance(limits, dict):
            requests = _object(resources, "requests")
            resources["requests"] = dict(sorted({**limits, **requests}.items()))
    spec.setdefault("enableServiceLinks", True)
    seconds = spec.get("terminationGracePeriodSeconds")
    if isinstance(seconds, int) and seconds < 0:
        spec["terminationGracePeriodSeconds"] = 1  # Templates keep what they say.
    _same_list(_object(obj, "status"), "podIP", "podIPs", "ip")
    if spec.get("hostNetwork"):
        for container in containers:
            for port in _objects(container.get("ports")):
                port.setdefault("hostPort", port.get("containerPort"))
    _pod_level(_object(obj, "spec"))


def _pod_level(spec: JsonObject) -> None:
    """Requests of a pod as a whole that it leaves out: what its containers ask for, else its limits."""
    own = spec.get("resources")
    limits = own.get("limits") if isinstance(own, dict) else None
    if not isinstance(own, dict) or not isinstance(limits, dict) or not limits:
        return
    own_requests = own.get("requests")
    of_containers = {
        name: amount for name, amount in together(spec, "requests").items() if name in ("cpu", "memory")
    }
    shared = {
        name: amount
        for name, amount in limits.items()
        if name in ("cpu", "memory") or name.startswith("hugepages-")
    }
    requests = {**shared, **of_containers, **(own_requests if isinstance(own_requests, dict) else {})}
    if requests:
        own["requests"] = dict(sorted(requests.items()))


def _same_list(holder: JsonObject, single: str, many: str, key: str) -> None:
    """Let a field and the list whose first element it is say the same; the field wins."""
    listed = holder.get(many)
    first = listed[0] if isinstance(listed, list) and listed else None
    if holder.get(single) and holder[single] != (first.get(key) if isinstance(first, dict) else first):
        holder[many] = [{key: holder[single]} if key else holder[single]]
    elif isinstance(listed, list) and listed and not holder.get(single):
        first = listed[0].get(key) if isinstance(listed[0], dict) else listed[0]
        if first:
            holder[single] = first


def _pod_spec(obj: JsonObject) -> None:
    if account := obj.get("serviceAccountName") or obj.get("serviceAccount"):
        obj["serviceAccountName"] = obj["serviceAccount"] = account


def _node(obj: JsonObject) -> None:
    _same_list(_object(obj, "spec"), "podCIDR", "podCIDRs", "")


def _secret(obj: JsonObject) -> None:
    """Plain text that a client may write instead of base64."""
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict) and plain:
        encoded = _object(obj, "data")
        encoded |= {key: b64encode(str(value).encode()).decode("ascii") for key, value in plain.items()}
        obj["data"] = dict(sorted(encoded.items()))


_IMAGE: Final = re.compile(
    r"(?:(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*"
    r"|\[[0-9A-Fa-f:]+\])(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?P<digest>@[A-Za-z][A-Za-z0-9+._-]*:[0-9a-fA-F]{32,})?"
)


def pull_policy(image: str) -> str:
    """Always for the tag `latest`, which is also meant by no tag and no digest.

    >>> pull_policy("nginx"), pull_policy("nginx:1.27"), pull_policy("host:5000/a/b")
    ('Always', 'IfNotPresent', 'Always')
    """
    match = _IMAGE.fullmatch(image)
    if match is None:
        return "IfNotPresent"
    tag = match["tag"] or ("" if match["digest"] else "latest")
    return "Always" if tag == "latest" else "IfNotPresent"


def _container(obj: JsonObject) -> None:
    if not obj.get("imagePullPolicy"):
        obj["imagePullPolicy"] = pull_policy(str(obj.get("image", "")))


def _volume(obj: JsonObject) -> None:
    if not any(value is not None for key, value in obj.items() if key != "name"):
        obj["emptyDir"] = {}
    image = obj.get("image")
    if isinstance(image, dict) and not image.get("pullPolicy"):
        image["pullPolicy"] = pull_policy(str(image.get("reference", "")))


def _namespace(obj: JsonObject) -> None:
    metadata = _object(obj, "metadata")
    if name := metadata.get("name"):
        _object(metadata, "labels")[NAMESPACE_NAME] = name


def _node_status(obj: JsonObject) -> None:
    if obj.get("allocatable") is None and obj.get("capacity"):
        obj["allocatable"] = copy_json(obj["capacity"])


def _limit_range_item(obj: JsonObject) -> None:
    if obj.get("type") != "Container":
        return
    parts = {key: value for key, value in obj.items() if isinstance(value, dict)}
    default = {**parts.get("max", {}), **parts.get("default", {})}
    request = {**parts.get("min", {}), **default, **parts.get("defaultRequest", {})}
    for key, value in (("default", default), ("defaultRequest", request)):
        if value:
            obj[key] = dict(sorted(value.items()))


def _service_spec(obj: JsonObject) -> None:
    affinity, kind = obj.get("sessionAffinity") or "None", obj.get("type") or "ClusterIP"
    if affinity == "None":
        obj.pop("sessionAffinityConfig", None)
    if affinity == "ClientIP":
        _object(_object(obj, "sessionAffinityConfig"), "clientIP").setdefault("timeoutSeconds", 10800)
    for port in _objects(obj.get("ports")):
        if port.get("targetPort") in (None, 0, ""):
            port["targetPort"] = port.get("port", 0)
    reachable = kind in ("NodePort", "LoadBalancer") or (kind == "ClusterIP" and bool(obj.get("externalIPs")))
    if reachable and not obj.get("externalTrafficPolicy"):
        obj["externalTrafficPolicy"] = "Cluster"
    if kind in ("NodePort", "LoadBalancer", "ClusterIP"):
        obj.setdefault("internalTrafficPolicy", "Cluster")
    if kind == "LoadBalancer":
        obj.setdefault("allocateLoadBalancerNodePorts", True)


def _service(obj: JsonObject) -> None:
    balancer = mapping(obj, "status", "loadBalancer")
    for ingress in _objects(balancer.get("ingress")):
        if ingress.get("ip"):
            ingress.setdefault("ipMode", "VIP")


def _rolling(unavailable: JsonValue, surge: JsonValue) -> Callable[[JsonObject], None]:
    """How many pods a rollout may miss and add; none where pods are not replaced by and by."""

    def fill(obj: JsonObject) -> None:
        rolls = (obj.get("type") or "RollingUpdate") == "RollingUpdate"
        if rolls:
            _object(obj, "rollingUpdate")
        if isinstance(rolling := obj.get("rollingUpdate"), dict):
            defaults = {"maxUnavailable": unavailable, "maxSurge": surge}
            obj["rollingUpdate"] = {
                key: rolling.get(key, value if rolls else 0) for key, value in defaults.items()
            }

    return fill


def _stateful_strategy(obj: JsonObject) -> None:
    if not obj.get("type"):
        obj["type"] = "RollingUpdate"
        _object(obj, "rollingUpdate")


def _daemon_set(obj: JsonObject) -> None:
    """An annotation that stands for a field of older versions."""
    annotations = _object(_object(obj, "metadata"), "annotations")
    annotations.setdefault("deprecated.daemonset.template.generation", "0")


def _stateful_spec(obj: JsonObject) -> None:
    for template in _objects(obj.get("volumeClaimTemplates")):
        template |= {"kind": "PersistentVolumeClaim", "apiVersion": "v1"}


def _job(obj: JsonObject) -> None:
    spec, metadata = _object(obj, "spec"), _object(obj, "metadata")
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    spec.setdefault("parallelism", 1)
    for key, value in (("completionMode", "NonIndexed"), ("suspend", False), ("manualSelector", False)):
        spec.setdefault(key, value)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else (1 << 31) - 1)
    failure = spec.get("podFailurePolicy") is not None
    spec.setdefault("podReplacementPolicy", "Failed" if failure else "TerminatingOrFailed")
    labels = _object(_object(spec, "template"), "metadata").get("labels")
    if labels and not metadata.get("labels"):
        # The same labels, not a copy: what the server adds to the one it has added to the other.
        metadata["labels"] = labels


def _replication_controller(obj: JsonObject) -> None:
    spec = _object(obj, "spec")
    template = spec.get("template")
    labels = _object(template, "metadata").get("labels") if isinstance(template, dict) else None
    if labels:
        for holder, key in ((spec, "selector"), (_object(obj, "metadata"), "labels")):
            if not holder.get(key):
                holder[key] = copy_json(labels)


def _scaling_behavior(obj: JsonObject) -> None:
    up, down = _object(obj, "scaleUp"), _object(obj, "scaleDown")
    percent: JsonValue = {"type": "Percent", "value": 100, "periodSeconds": 15}
    pods: JsonValue = {"type": "Pods", "value": 4, "periodSeconds": 15}
    up.setdefault("stabilizationWindowSeconds", 0)
    for rules, policies in ((up, [pods, percent]), (down, [percent])):
        rules.setdefault("selectPolicy", "Max")
        if rules.get("policies") is None:
            rules["policies"] = copy_json(policies)


def _network_policy_spec(obj: JsonObject) -> None:
    if not obj.get("policyTypes"):
        obj["policyTypes"] = ["Ingress", "Egress"] if obj.get("egress") else ["Ingress"]


def _device_request(obj: JsonObject) -> None:
    if not obj.get("allocationMode"):
        obj["allocationMode"] = "ExactCount"
    if obj["allocationMode"] == "ExactCount" and not obj.get("count"):
        obj["count"] = 1


def _subject(obj: JsonObject) -> None:
    if not obj.get("apiGroup") and obj.get("kind") in ("User", "Group"):
        obj["apiGroup"] = "rbac.authorization.k8s.io"


def _custom_names(spec: JsonObject) -> None:
    """Names that a definition asks for; those that it has got are left as they are."""
    names = _object(spec, "names")
    kind = str(names.get("kind") or "")
    if not names.get("singular"):
        names["singular"] = kind.lower()
    if not names.get("listKind") and kind:
        names["listKind"] = f"{kind}List"
    ordered = {key: names[key] for key in _NAMES if key in names}
    names.clear()
    names.update(ordered)


def _custom_resource(obj: JsonObject) -> None:
    status = _object(obj, "status")
    if not status.get("storedVersions"):
        versions = _objects(_object(obj, "spec").get("versions"))
        status["storedVersions"] = [version.get("name") for version in versions if version.get("storage")][:1]


RULES: Final[dict[str, Callable[[JsonObject], None]]] = {
    "core/v1.Pod": _pod,
    "core/v1.PodSpec": _pod_spec,
    "core/v1.Node": _node,
    "core/v1.Secret": _secret,
    "core/v1.Container": _container,
    "core/v1.EphemeralContainer": _container,
    "core/v1.Volume": _volume,
    "core/v1.Namespace": _namespace,
    "core/v1.NodeStatus": _node_status,
    "core/v1.LimitRangeItem": _limit_range_item,
    "core/v1.Service": _service,
    "core/v1.ServiceSpec": _service_spec,
    "core/v1.ReplicationController": _replication_controller,
    "apps/v1.DeploymentStrategy": _rolling("25%", "25%"),
    "apps/v1.DaemonSetUpdateStrategy": _rolling(1, 0),
    "apps/v1.DaemonSet": _daemon_set,
    "apps/v1.StatefulSetSpec": _stateful_spec,
    "apps/v1.StatefulSetUpdateStrategy": _stateful_strategy,
    "batch/v1.Job": _job,
    "autoscaling/v2.HorizontalPodAutoscalerBehavior": _scaling_behavior,
    "networking/v1.NetworkPolicySpec": _network_policy_spec,
    "rbac/v1.Subject": _subject,
    "resource/v1.ExactDeviceRequest": _device_request,
    "resource/v1.DeviceSubRequest": _device_request,
    "apiextensions/v1.CustomResourceDefinitionSpec": _custom_names,
    "apiextensions/v1.CustomResourceDefinition": _custom_resource,
}
