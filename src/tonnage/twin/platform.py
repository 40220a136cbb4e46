"""What Tonnage installs on a cluster, as the twin installs it: namespace, configuration, CRDs, the agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Final

from tonnage.model.json import JsonObject, JsonValue, parsed_json
from tonnage.model.json_access import at, items, mapping, mappings, put, text
from tonnage.twin.machines import LIGHT_LABEL
from tonnage.wire.kinds import (
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CUSTOM_RESOURCE,
    DAEMON_SET,
    DEPLOYMENT,
    DEVICE_CLASS,
    DISRUPTION_BUDGET,
    NAMESPACE,
    PRIORITY_CLASS,
    ROLE,
    ROLE_BINDING,
    SERVICE_ACCOUNT,
    Kind,
)
from tonnage.wire.objects import Object

SYSTEM_NAMESPACE: Final = "tonnage-system"
OPERATOR_NAMESPACE: Final = "gpu-operator"
CONFIG_MAP_NAME: Final = "device-plugin-config"
EXPORTER_PORT: Final = 9400
CONTROLLER_PORT: Final = 9411
AGENT_IMAGE: Final = "tonnage.invalid/agent"
"""No registry can carry it: names in `.invalid` resolve nowhere (RFC 2606). Nodes of the twin have it."""

_KINDS: Final[Mapping[str, Kind[Object]]] = {
    kind.kind: kind
    for kind in (
        *(CUSTOM_RESOURCE, SERVICE_ACCOUNT),
        *(CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING),
        *(DEVICE_CLASS, PRIORITY_CLASS, DAEMON_SET, DEPLOYMENT, DISRUPTION_BUDGET),
    )
}
_FIELDS_LEFT_OUT: Final = frozenset(
    {
        # Pretended pods have no network of their own: nobody reaches a metrics port to probe it.
        *("ports", "startupProbe", "livenessProbe", "readinessProbe"),
        # All agents are tasks of one process: none takes from its pretended node what pods could use.
        "resources",
    }
)
"""Of the agent's container, on a pretended node."""
_ARGS_LEFT_OUT: Final = (
    "--metrics-address",  # as the ports
    "--mig-evict",  # agents have the right; whether they use it, a person or a lab decides
    *("--driver-root", "--driver-root-ctr-path"),  # a pretended node has no driver's files
)
_VOLUMES_LEFT_OUT: Final = ("driver-root",)


def platform_objects(
    configs: Mapping[str, str],
    kubeconfig: Path,
    *,
    light: bool = False,
    controller: bool = False,
    drivers: bool = False,
) -> Iterator[tuple[Kind[Object], str | None, JsonObject]]:
    """Every object with its kind and namespace, in the order in which they can be created.

    `configs` is the data of the device-plugin ConfigMap; `kubeconfig` is where agents find the API server;
    `light`: there are nodes on which no agent can run; `controller`: the cluster controller runs, too, and
    with `drivers` installs them.
    """
    contents: JsonObject = dict(configs)
    yield NAMESPACE, None, {"metadata": {"name": SYSTEM_NAMESPACE}}
    yield CONFIG_MAP, SYSTEM_NAMESPACE, {"metadata": {"name": CONFIG_MAP_NAME}, "data": contents}
    agents = agent_daemon_set(kubeconfig, light=light, operands=controller)
    for body in _chart_objects():
        kind, namespace = _KINDS[text(body, "kind")], text(body, "metadata", "namespace") or None
        yield kind, namespace, body if kind is not DAEMON_SET else agents
    if controller:
        yield from _controller_objects(kubeconfig, drivers=drivers)


def _controller_objects(
    kubeconfig: Path, *, drivers: bool
) -> Iterator[tuple[Kind[Object], str | None, JsonObject]]:
    """The cluster controller as the chart installs it, and what a ClusterPolicy needs."""
    from tonnage.model.catalog.nvidia_kinds import nvidia_definition  # most clusters have no controller

    yield NAMESPACE, None, {"metadata": {"name": OPERATOR_NAMESPACE}}
    for plural in ("clusterpolicies", "gpuclusters", "nvidiadrivers"):
        yield CUSTOM_RESOURCE, None, nvidia_definition(plural)
    for body in mappings(parsed_json(files(__package__).joinpath("controller.json").read_bytes())):
        kind, namespace = _KINDS[text(body, "kind")], text(body, "metadata", "namespace") or None
        if kind is DEPLOYMENT:
            pod = at(body, "spec", "template", "spec")
            _pretend(pod, kubeconfig)
            for container in mappings(pod, "containers"):
                # It may; whether it does, the scenario says.
                args = [arg for arg in items(container, "args") if drivers or arg != "--drivers"]
                # Served at a loopback address of this machine, as the agents' device metrics.
                container["args"] = [*args, f"--metrics-address=:{CONTROLLER_PORT}"]
                container["ports"] = [{"name": "cluster", "containerPort": CONTROLLER_PORT}]
            not_light: JsonObject = {"key": LIGHT_LABEL, "operator": "DoesNotExist"}
            terms: JsonObject = {"nodeSelectorTerms": [{"matchExpressions": [not_light]}]}
            affinity: JsonObject = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
            put(body, affinity, "spec", "template", "spec", "affinity", "nodeAffinity")
        yield kind, namespace, body


def agent_daemon_set(kubeconfig: Path, *, light: bool = False, operands: bool = False) -> JsonObject:
    """The DaemonSet of the node agents: the chart's, but for what differs on a pretended node."""
    [daemon_set] = (obj for obj in _chart_objects() if obj["kind"] == DAEMON_SET.kind)
    pod = at(daemon_set, "spec", "template", "spec")
    _pretend(pod, kubeconfig)
    for container in mappings(pod, "containers"):
        # No node feature discovery runs there, so the agent keeps the labels that a node has from the start.
        # What people write over them in an exercise stays for longer than a minute.
        items(container, "args").extend(("--labels=direct", "--sleep-interval=10m"))
        if operands:
            items(container, "args").append("--operands")
        # Served at a loopback address of this machine, which an annotation of the pod names.
        items(container, "args").append(f"--exporter-address=:{EXPORTER_PORT}")
        container["ports"] = [{"name": "exporter", "containerPort": EXPORTER_PORT}]
    if light:  # where not all nodes have a kubelet
        required = at(pod, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
        for term in mappings(required, "nodeSelectorTerms"):
            items(term, "matchExpressions").append({"key": LIGHT_LABEL, "operator": "DoesNotExist"})
    return daemon_set


def _pretend(pod: JsonValue, kubeconfig: Path) -> None:
    """Have the pod's containers be what they are on a pretended node."""
    mapping(pod)["volumes"] = _volumes(pod, "volumes")
    for container in mappings(pod, "containers"):
        for field in _FIELDS_LEFT_OUT:
            container.pop(field, None)
        container["volumeMounts"] = _volumes(container, "volumeMounts")
        container["image"] = AGENT_IMAGE  # of every version
        container["args"] = [arg for arg in items(container, "args") if not _is_left_out(arg)]
        # Without a network of its own the agent finds the API server as kubectl does.
        items(container, "env").append({"name": "KUBECONFIG", "value": str(kubeconfig)})


def _chart_objects() -> list[JsonObject]:
    """The agents and what their account may, as the Helm chart installs them where agents divide GPUs."""
    return mappings(parsed_json(files(__package__).joinpath("agent.json").read_bytes()))


def _volumes(owner: JsonValue, key: str) -> list[JsonValue]:
    """The volumes, or their mounts, that a pretended node has."""
    return [volume for volume in mappings(owner, key) if text(volume, "name") not in _VOLUMES_LEFT_OUT]


def _is_left_out(arg: JsonValue) -> bool:
    return str(arg).partition("=")[0] in _ARGS_LEFT_OUT
