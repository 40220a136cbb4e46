"""Pods that the controller runs once at a node: as nobody, below all others, and in nobody's place."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tonnage.model.gpu_policy import GpuPolicy
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.operands import NODE_POD, OPERAND_LABEL, OperandImage

OF_NODE: Final = "tonnage.dev/node"
OF_SUBJECT: Final = "tonnage.dev/validation-subject"
"""Annotation of the pod: the node that it is for."""
PRIORITY_CLASS: Final = "tonnage-validation"
"""Below all others, and it preempts nobody."""
USERS: Final = "users-workload"
"""The container with an image that a user gave."""
_ANYBODY: Final = 65532
_CLAIM: Final = "device"


@dataclass(frozen=True, slots=True)
class SeenPod:
    """Such a pod: `code` is its exit status, None while it has none."""

    name: str
    uid: str
    created: datetime | None = None
    code: int | None = None
    ended: bool = False
    scheduled: bool = False
    message: str = ""
    subject: str = ""
    """What it validates, of the plan that it was made by."""


@dataclass(frozen=True, slots=True)
class NodePodPlan:
    """What it is to be: `app` heads its name and is its label, `module` of this package is what it runs."""

    app: str
    module: str
    resources: JsonObject
    template: str = ""
    """The ResourceClaimTemplate by which it claims a device; empty: it asks by `resources`."""
    subject: str = ""
    """What of the node it validates; empty: it does not."""
    image: str = ""
    """A user's, of which the own program is run; empty: `module` of ours."""


def pod_name(app: str, node: str) -> str:
    """The pod of a node, whose own name may be too long for one."""
    return f"{app}-{hashlib.sha256(node.encode()).hexdigest()[:10]}"


def owner_reference(policy: GpuPolicy) -> JsonObject:
    """What is deleted with the policy says so."""
    return {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "name": policy.name,
        "uid": policy.uid,
    }


def node_pod(
    plan: NodePodPlan, node: str, policy: GpuPolicy, image: OperandImage, namespace: str
) -> JsonObject:
    """The pod; where the node has no room it waits."""
    labels: JsonObject = {"app": plan.app, OPERAND_LABEL: NODE_POD}
    field: JsonObject = {"key": "metadata.name", "operator": "In", "values": [node]}
    required: JsonObject = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    tolerations: list[JsonValue] = [{"operator": "Exists"}]
    amounts = plan.resources
    if plan.template:
        amounts = {**amounts, "claims": [{"name": _CLAIM}]}
    ours: JsonObject = {
        "name": "workload",
        "image": image.path,
        "command": ["/usr/bin/python3", "-sPm", f"tonnage.{plan.module}"],
    }
    users: JsonObject = {
        "name": USERS,
        "image": plan.image,
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    container: JsonObject = {
        **(users if plan.image else ours),
        "resources": amounts,
        "securityContext": {
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        },
    }
    metadata: JsonObject = {
        "name": pod_name(plan.app, node),
        "namespace": namespace,
        "labels": labels,
        "annotations": {OF_NODE: node, **({OF_SUBJECT: plan.subject} if plan.subject else {})},
        "ownerReferences": [owner_reference(policy)],
    }
    spec: JsonObject = {
        **image.pull_fields(),
        "restartPolicy": "Never",
        "priorityClassName": PRIORITY_CLASS,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1,
        "tolerations": tolerations,
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}},
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _ANYBODY,
            "runAsGroup": _ANYBODY,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
    }
    if plan.template:
        spec["resourceClaims"] = [{"name": _CLAIM, "resourceClaimTemplateName": plan.template}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
