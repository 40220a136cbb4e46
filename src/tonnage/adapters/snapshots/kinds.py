"""The kinds that a captured cluster holds. None that carries secrets is among them (Secret, ConfigMap)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.adapters.snapshots.field_rules import Mark, Named, Rules
from tonnage.adapters.snapshots.fields import (
    ADMISSION_POLICY,
    AGENT_STATUS,
    ALLOCATED,
    AMOUNTS,
    CONDITION,
    CRON_WORKLOAD,
    DEVICES,
    META,
    NAMESPACE,
    NODE,
    NODE_SELECTOR,
    POD_SPEC,
    POD_STATUS,
    SELECTOR,
    SLICE_DEVICE,
    WEBHOOKS,
    WORKLOAD,
)
from tonnage.reading.volumes import KNOWN_SOURCES


@dataclass(frozen=True, slots=True)
class CapturedKind:
    """A kind at its API path, and what is kept of its objects beside the metadata."""

    api_version: str
    kind: str
    plural: str
    fields: Rules
    namespaced: bool = True

    @property
    def rules(self) -> Rules:
        """The allow-list of a whole object."""
        named = Named(self.kind.lower())
        return {"metadata": {"name": named, "generateName": named, **META}, **self.fields}

    def path(self, namespace: str | None) -> str:
        """URL path of the collection.

        >>> CAPTURED[0].path(None)
        '/api/v1/nodes'
        """
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        within = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{root}{within}/{self.plural}"


CAPTURED: Final = (
    CapturedKind("v1", "Node", "nodes", {
        "spec": {"unschedulable": Mark.SCALAR, "taints": Mark.KEYED},
        "status": {
            "capacity": Mark.AMOUNTS,
            "allocatable": Mark.AMOUNTS,
            "conditions": CONDITION,
            "images": {"names": Mark.IMAGE, "sizeBytes": Mark.SCALAR},
            "runtimeHandlers": {"name": Mark.SCALAR},
            "nodeInfo": {
                "kubeletVersion": Mark.SCALAR,
                "containerRuntimeVersion": Mark.SCALAR,
                "kernelVersion": Mark.SCALAR,
                "osImage": Mark.SCALAR,
                "operatingSystem": Mark.SCALAR,
                "architecture": Mark.SCALAR,
            },
        },
    }, namespaced=False),
    CapturedKind("v1", "Namespace", "namespaces", {"status": {"phase": Mark.SCALAR}}, namespaced=False),
    CapturedKind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", {
        "value": Mark.SCALAR,
        "globalDefault": Mark.SCALAR,
        "preemptionPolicy": Mark.SCALAR,
    }, namespaced=False),
    CapturedKind("tonnage.dev/v1alpha1", "NodeGPUStatus", "nodegpustatuses", {
        "status": AGENT_STATUS,
    }, namespaced=False),
    CapturedKind("v1", "ResourceQuota", "resourcequotas", {
        "spec": {
            "hard": Mark.AMOUNTS,
            "scopes": Mark.SCALAR,
            "scopeSelector": {
                "matchExpressions": {
                    "scopeName": Mark.SCALAR,
                    "operator": Mark.SCALAR,
                    "values": Named("priorityclass"),
                },
            },
        },
        "status": {"hard": Mark.AMOUNTS, "used": Mark.AMOUNTS},
    }),
    CapturedKind("v1", "LimitRange", "limitranges", {"spec": {"limits": Mark.WHOLE}}),
    CapturedKind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", {
        "spec": {"selector": SELECTOR, "minAvailable": Mark.SCALAR, "maxUnavailable": Mark.SCALAR},
        "status": {"disruptionsAllowed": Mark.SCALAR, "disruptedPods": Mark.BY_POD},
    }),
    CapturedKind("v1", "Service", "services", {"spec": {"selector": Mark.LABELS}}),
    CapturedKind("v1", "ReplicationController", "replicationcontrollers", {
        "spec": {"selector": Mark.LABELS},
    }),
    CapturedKind("apps/v1", "Deployment", "deployments", WORKLOAD),
    CapturedKind("apps/v1", "ReplicaSet", "replicasets", WORKLOAD),
    CapturedKind("apps/v1", "StatefulSet", "statefulsets", WORKLOAD),
    CapturedKind("apps/v1", "DaemonSet", "daemonsets", WORKLOAD),
    CapturedKind("batch/v1", "Job", "jobs", WORKLOAD),
    CapturedKind("batch/v1", "CronJob", "cronjobs", CRON_WORKLOAD),
    CapturedKind("v1", "ServiceAccount", "serviceaccounts", {}),
    CapturedKind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", {
        "handler": Mark.SCALAR,
        "overhead": {"podFixed": Mark.AMOUNTS},
        "scheduling": {"nodeSelector": Mark.LABELS, "tolerations": Mark.KEYED},
    }, namespaced=False),
    *(
        CapturedKind(
            "admissionregistration.k8s.io/v1",
            f"{kind}WebhookConfiguration",
            f"{kind.lower()}webhookconfigurations",
            WEBHOOKS,
            namespaced=False,
        )
        for kind in ("Mutating", "Validating")
    ),
    CapturedKind(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        ADMISSION_POLICY,
        namespaced=False,
    ),
    CapturedKind(
        "admissionregistration.k8s.io/v1",
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        {"spec": {"policyName": Named("validatingadmissionpolicy"), "validationActions": Mark.SCALAR}},
        namespaced=False,
    ),
    CapturedKind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", {
        "spec": {"selectors": Mark.WHOLE, "extendedResourceName": Mark.SCALAR},
    }, namespaced=False),
    CapturedKind("resource.k8s.io/v1", "ResourceSlice", "resourceslices", {
        "spec": {
            "driver": Mark.SCALAR,
            "nodeName": NODE,
            "allNodes": Mark.SCALAR,
            "nodeSelector": NODE_SELECTOR,
            "perDeviceNodeSelection": Mark.SCALAR,
            "pool": {"name": NODE, "generation": Mark.SCALAR, "resourceSliceCount": Mark.SCALAR},
            "sharedCounters": Mark.WHOLE,
            "devices": SLICE_DEVICE,
        },
    }, namespaced=False),
    CapturedKind("resource.k8s.io/v1", "ResourceClaimTemplate", "resourceclaimtemplates", {
        "spec": {"spec": {"devices": DEVICES}},
    }),
    CapturedKind("resource.k8s.io/v1", "ResourceClaim", "resourceclaims", {
        "spec": {"devices": DEVICES},
        "status": {
            "allocation": {
                "devices": {"results": ALLOCATED},
                "nodeSelector": NODE_SELECTOR,
                "allocationTimestamp": Mark.SCALAR,
            },
            "reservedFor": {
                "apiGroup": Mark.SCALAR,
                "resource": Mark.SCALAR,
                "name": Named("pod"),
                "uid": Mark.SCALAR,
            },
        },
    }),
    CapturedKind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", {
        "spec": {
            "volumeName": Named("persistentvolume"),
            "storageClassName": Named("storageclass"),
            "accessModes": Mark.SCALAR,
            "volumeMode": Mark.SCALAR,
            "volumeAttributesClassName": Named("volumeattributesclass"),
            "selector": SELECTOR,
            "resources": AMOUNTS,
        },
        "status": {"phase": Mark.SCALAR},
    }),
    CapturedKind("kueue.x-k8s.io/v1beta1", "Workload", "workloads", {
        "spec": {"queueName": Named("queue")},
        "status": {"conditions": CONDITION},
    }),
    CapturedKind("v1", "PersistentVolume", "persistentvolumes", {
        "spec": {
            "capacity": Mark.AMOUNTS,
            "accessModes": Mark.SCALAR,
            "volumeMode": Mark.SCALAR,
            "volumeAttributesClassName": Named("volumeattributesclass"),
            "storageClassName": Named("storageclass"),
            "claimRef": {
                "namespace": NAMESPACE, "name": Named("persistentvolumeclaim"), "uid": Mark.SCALAR
            },
            "nodeAffinity": {"required": NODE_SELECTOR},
            "csi": {"driver": Mark.SCALAR},
            **{source: {} for source in KNOWN_SOURCES if source != "csi"},
        },
        "status": {"phase": Mark.SCALAR},
    }, namespaced=False),
    CapturedKind("storage.k8s.io/v1", "StorageClass", "storageclasses", {
        "provisioner": Mark.SCALAR,
        "volumeBindingMode": Mark.SCALAR,
        "allowedTopologies": {"matchLabelExpressions": Mark.KEYED},
    }, namespaced=False),
    CapturedKind("storage.k8s.io/v1", "CSINode", "csinodes", {
        "spec": {"drivers": {"name": Mark.SCALAR, "allocatable": {"count": Mark.SCALAR}}},
    }, namespaced=False),
    CapturedKind("storage.k8s.io/v1", "CSIDriver", "csidrivers", {
        "spec": {"storageCapacity": Mark.SCALAR, "preventPodSchedulingIfMissing": Mark.SCALAR},
    }, namespaced=False),
    CapturedKind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", {
        "storageClassName": Named("storageclass"),
        "capacity": Mark.SCALAR,
        "maximumVolumeSize": Mark.SCALAR,
        "nodeTopology": SELECTOR,
    }),
    CapturedKind("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", {
        "spec": {
            "attacher": Mark.SCALAR,
            "nodeName": Named("node"),
            "source": {"persistentVolumeName": Named("persistentvolume")},
        },
    }, namespaced=False),
    CapturedKind("v1", "Pod", "pods", {"spec": POD_SPEC, "status": POD_STATUS}),
)  # fmt: skip
"""In the order of the file; pods, of which there are the most, come last."""
