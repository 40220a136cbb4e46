"""What `explain` is asked about: `TYPE NAME` as kubectl takes it, and the object of that name."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import click

from tonnage.cli.access.unseen import not_seen
from tonnage.diagnose.missing_kinds import has_read
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.verdict import Explanation
from tonnage.reading.custom_types import custom_type, custom_type_of

TYPES = {
    "Pod": ("pod", "pods", "po"),
    "Deployment": ("deployment", "deployments", "deploy", "deployment.apps", "deployments.apps"),
    "ReplicaSet": ("replicaset", "replicasets", "rs", "replicaset.apps", "replicasets.apps"),
    "StatefulSet": ("statefulset", "statefulsets", "sts", "statefulset.apps", "statefulsets.apps"),
    "DaemonSet": ("daemonset", "daemonsets", "ds", "daemonset.apps", "daemonsets.apps"),
    "Job": ("job", "jobs", "job.batch", "jobs.batch"),
    "CronJob": ("cronjob", "cronjobs", "cj", "cronjob.batch", "cronjobs.batch"),
    "Node": ("node", "nodes", "no"),
    "ResourceClaim": (
        *("claim", "claims", "resourceclaim", "resourceclaims"),
        *("resourceclaim.resource.k8s.io", "resourceclaims.resource.k8s.io"),
    ),
}
"""What each kind may be called; the names are kubectl's."""
KINDS = tuple(names[0] for kind, names in TYPES.items() if kind != "Pod")


def target_of(words: tuple[str, ...]) -> tuple[str, str]:
    """Kind and name of what `TYPE NAME` or `TYPE/NAME` names, types as in kubectl; else a pod's name."""
    kind, _, name = words[0].partition("/")
    parts = [kind, *([name] if name else []), *words[1:]]
    canonical = next((k for k, names in TYPES.items() if parts[0].lower() in names), None)
    custom = custom_type(parts[0]) if canonical is None else None
    canonical = custom.key if custom is not None else canonical
    if canonical is None and len(parts) == 1:
        return "Pod", parts[0]
    if canonical is None:
        raise click.UsageError(
            f"{parts[0][:100]} is no type that explain knows: pod, {', '.join(KINDS)}, "
            "or the kind of a workload's custom resource; -f FILE explains a manifest"
        )
    if len(parts) != 2:
        raise click.UsageError(f"give exactly one name: {canonical.partition('.')[0].lower()} NAME")
    return canonical, parts[1]


def explain_target(
    target: tuple[str, str],
    snapshot: Snapshot,
    namespace: str,
    version: str,
    objects: tuple[JsonObject, ...] = (),
) -> Explanation:
    """The explanation of one object of the cluster. `objects`: it and others, where its kind is a custom one.

    Raises:
        ConfigError: there is none of the name.
    """
    kind, name = target
    custom = custom_type_of(kind)
    if custom is not None:
        from tonnage.cli.explain.custom import explain_custom_target

        return explain_custom_target(custom, name, objects, snapshot, namespace, version)
    match kind:
        case "Pod":
            return _pod(name, snapshot, namespace, version)
        case "Node":
            return _node(name, snapshot, version)
        case "ResourceClaim":
            return _claim(name, snapshot, namespace, version)
        case _:
            return _workload(kind, name, snapshot, namespace, version)


def _pod(name: str, snapshot: Snapshot, namespace: str, version: str) -> Explanation:
    from tonnage.diagnose.explain.explain import explain, find_pod
    from tonnage.diagnose.explain.workloads.unchangeable import with_ways_to_change

    pod = find_pod(snapshot, namespace, name)
    if pod is not None:
        return with_ways_to_change(explain(pod, snapshot, version=version), pod)
    if not has_read("Pod", snapshot, namespace):
        raise not_seen("Pod", snapshot, f"pod {name}", "explain")
    if any(claim.key == (namespace, name) for claim in snapshot.claims):
        remedy = f"it is a ResourceClaim: tonnage explain claim {name} -n {namespace}"
        raise ConfigError(Problem(f'pod "{name}" not found', f"namespace {namespace}", remedy=remedy))
    keys = [(other.namespace, other.name) for other in snapshot.pods]
    raise _not_found("Pod", name, keys, namespace)


def _claim(name: str, snapshot: Snapshot, namespace: str, version: str) -> Explanation:
    """The explanation of a pod that uses the claim: one that waits, if any does."""
    from tonnage.diagnose.fleet.claim_pools import pods_by_claim

    claim = next((claim for claim in snapshot.claims if claim.key == (namespace, name)), None)
    if claim is None:
        if not has_read("ResourceClaim", snapshot, namespace):
            raise not_seen("ResourceClaim", snapshot, f"resourceclaim {name}", "explain")
        raise _not_found("ResourceClaim", name, [other.key for other in snapshot.claims], namespace)
    pods = sorted(
        pods_by_claim(snapshot.pods, [claim]).get(claim.key, ()),
        key=lambda pod: pod.status.phase != "Pending",
    )
    if pods:
        return _pod(pods[0].name, snapshot, namespace, version)
    if not has_read("Pod", snapshot, namespace):
        raise not_seen("Pod", snapshot, f"who uses the resourceclaim {name}", "explain")
    why = "devices are allocated with the first pod" if claim.allocation is None else "it keeps its devices"
    remedy = f"tonnage claims {name} -n {namespace}"
    raise ConfigError(
        Problem(f'no pod uses the resourceclaim "{name}"', f"namespace {namespace}", why, remedy)
    )


def _node(name: str, snapshot: Snapshot, version: str) -> Explanation:
    from tonnage.diagnose.explain.nodes.whole_node import explain_node

    explanation = explain_node(name, snapshot, version=version)
    if explanation is not None:
        return explanation
    if "Node" in snapshot.missing:
        raise not_seen("Node", snapshot, f"node {name}", "explain")
    names = [node.name for node in snapshot.nodes]
    near = get_close_matches(name, names, n=1)
    remedy = f"use {near[0]} if you meant that" if near else "kubectl get nodes"
    raise ConfigError(Problem(f'node "{name}" not found', "the cluster", remedy=remedy))


def _workload(kind: str, name: str, snapshot: Snapshot, namespace: str, version: str) -> Explanation:
    from tonnage.diagnose.explain.workloads.missing_pods import explain_workload, find_workload
    from tonnage.diagnose.explain.workloads.unchangeable import with_ways_to_change
    from tonnage.model.kubernetes.workloads import WorkloadKey
    from tonnage.reading.documents import manifest_of

    workload = find_workload(snapshot, WorkloadKey(kind, namespace, name))
    if workload is not None:
        manifest = manifest_of(workload, snapshot.priority_classes)
        return with_ways_to_change(explain_workload(workload, manifest, snapshot, version=version))
    keys = [(other.key.namespace, other.key.name) for other in snapshot.workloads if other.key.kind == kind]
    if kind in snapshot.unread_in(namespace):
        raise not_seen(kind, snapshot, f"{kind.lower()} {name}", "explain")
    raise _not_found(kind, name, keys, namespace)


def _not_found(kind: str, name: str, keys: Iterable[tuple[str, str]], namespace: str) -> ConfigError:
    """That there is none in the namespace; where one of the name is, or what is nearly called so."""
    near = get_close_matches(name, [other for space, other in keys if space == namespace], n=1)
    elsewhere = [space for space, other in keys if other == name]
    remedy = f"use {near[0]} if you meant that" if near else f"kubectl get {kind.lower()}s -A"
    return ConfigError(
        Problem(
            f'{kind.lower()} "{name}" not found',
            f"namespace {namespace}",
            remedy=f"it is in {elsewhere[0]}: -n {elsewhere[0]}" if elsewhere else remedy,
        )
    )
