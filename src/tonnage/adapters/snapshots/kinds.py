"""The kinds that a captured cluster holds. None that carries secrets is among them (Secret, ConfigMap)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tonnage.adapters.snapshots.field_rules import FieldMark, ObjectName, Rules
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
    """A kind at its API path, and what is kept of its objects beside the metadata.

    `named_after`: the kind whose objects' names its own objects bear, so that their pseudonyms are the same.
    """

    api_version: str
    kind: str
    plural: str
    fields: Rules
    namespaced: bool = True
    named_after: str = ""

    @property
    def rules(self) -> Rules:
        """The allow-list of a whole object."""
        named = ObjectName((self.named_after or self.kind).lower())
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
        "spec": {"unschedulable": FieldMark.SCALAR, "taints": FieldMark.KEYED},
        "status": {
            "capacity": FieldMark.AMOUNTS,
            "allocatable": FieldMark.AMOUNTS,
            "conditions": CONDITION,
            "images": {"names": FieldMark.IMAGE, "sizeBytes": FieldMark.SCALAR},
            "runtimeHandlers": {"name": FieldMark.SCALAR},
            "nodeInfo": {
                "kubeletVersion": FieldMark.SCALAR,
                "containerRuntimeVersion": FieldMark.SCALAR,
                "kernelVersion": FieldMark.SCALAR,
                "osImage": FieldMark.SCALAR,
                "operatingSystem": FieldMark.SCALAR,
                "architecture": FieldMark.SCALAR,
            },
        },
    }, namespaced=False),
    CapturedKind("v1", "Namespace", "namespaces", {"status": {"phase": FieldMark.SCALAR}}, namespaced=False),
    CapturedKind("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses", {
        "value": FieldMark.SCALAR,
        "globalDefault": FieldMark.SCALAR,
        "preemptionPolicy": FieldMark.SCALAR,
    }, namespaced=False),
    CapturedKind("tonnage.dev/v1alpha1", "NodeGPUStatus", "nodegpustatuses", {
        "status": AGENT_STATUS,
    }, namespaced=False, named_after="Node"),
    CapturedKind("v1", "ResourceQuota", "resourcequotas", {
        "spec": {
            "hard": FieldMark.AMOUNTS,
            "scopes": FieldMark.SCALAR,
            "scopeSelector": {
                "matchExpressions": {
                    "scopeName": FieldMark.SCALAR,
                    "operator": FieldMark.SCALAR,
                    "values": ObjectName("priorityclass"),
                },
            },
        },
        "status": {"hard": FieldMark.AMOUNTS, "used": FieldMark.AMOUNTS},
    }),
    CapturedKind("v1", "LimitRange", "limitranges", {"spec": {"limits": FieldMark.WHOLE}}),
    CapturedKind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets", {
        "spec": {"selector": SELECTOR, "minAvailable": FieldMark.SCALAR, "maxUnavailable": FieldMark.SCALAR},
        "status": {"disruptionsAllowed": FieldMark.SCALAR, "disruptedPods": FieldMark.BY_POD},
    }),
    CapturedKind("v1", "Service", "services", {"spec": {"selector": FieldMark.LABELS}}),
    CapturedKind("v1", "ReplicationController", "replicationcontrollers", {
        "spec": {"selector": FieldMark.LABELS},
    }),
    CapturedKind("apps/v1", "Deployment", "deployments", WORKLOAD),
    CapturedKind("apps/v1", "ReplicaSet", "replicasets", WORKLOAD),
    CapturedKind("apps/v1", "StatefulSet", "statefulsets", WORKLOAD),
    CapturedKind("apps/v1", "DaemonSet", "daemonsets", WORKLOAD),
    CapturedKind("batch/v1", "Job", "jobs", WORKLOAD),
    CapturedKind("batch/v1", "CronJob", "cronjobs", CRON_WORKLOAD),
    CapturedKind("v1", "ServiceAccount", "serviceaccounts", {}),
    CapturedKind("node.k8s.io/v1", "RuntimeClass", "runtimeclasses", {
        "handler": FieldMark.SCALAR,
        "overhead": {"podFixed": FieldMark.AMOUNTS},
        "scheduling": {"nodeSelector": FieldMark.LABELS, "tolerations": FieldMark.KEYED},
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
        {
            "spec": {
                "policyName": ObjectName("validatingadmissionpolicy"),
                "validationActions": FieldMark.SCALAR,
            }
        },
        namespaced=False,
    ),
    CapturedKind("resource.k8s.io/v1", "DeviceClass", "deviceclasses", {
        "spec": {"selectors": FieldMark.WHOLE, "extendedResourceName": FieldMark.SCALAR},
    }, namespaced=False),
    CapturedKind("resource.k8s.io/v1", "ResourceSlice", "resourceslices", {
        "spec": {
            "driver": FieldMark.SCALAR,
            "nodeName": NODE,
            "allNodes": FieldMark.SCALAR,
            "nodeSelector": NODE_SELECTOR,
            "perDeviceNodeSelection": FieldMark.SCALAR,
            "pool": {"name": NODE, "generation": FieldMark.SCALAR, "resourceSliceCount": FieldMark.SCALAR},
            "sharedCounters": FieldMark.WHOLE,
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
                "allocationTimestamp": FieldMark.SCALAR,
            },
            "reservedFor": {
                "apiGroup": FieldMark.SCALAR,
                "resource": FieldMark.SCALAR,
                "name": ObjectName("pod"),
                "uid": FieldMark.SCALAR,
            },
        },
    }),
    CapturedKind("v1", "PersistentVolumeClaim", "persistentvolumeclaims", {
        "spec": {
            "volumeName": ObjectName("persistentvolume"),
            "storageClassName": ObjectName("storageclass"),
            "accessModes": FieldMark.SCALAR,
            "volumeMode": FieldMark.SCALAR,
            "volumeAttributesClassName": ObjectName("volumeattributesclass"),
            "selector": SELECTOR,
            "resources": AMOUNTS,
        },
        "status": {"phase": FieldMark.SCALAR},
    }),
    CapturedKind("kueue.x-k8s.io/v1beta1", "Workload", "workloads", {
        "spec": {"queueName": ObjectName("queue")},
        "status": {"conditions": CONDITION},
    }),
    CapturedKind("v1", "PersistentVolume", "persistentvolumes", {
        "spec": {
            "capacity": FieldMark.AMOUNTS,
            "accessModes": FieldMark.SCALAR,
            "volumeMode": FieldMark.SCALAR,
            "volumeAttributesClassName": ObjectName("volumeattributesclass"),
            "storageClassName": ObjectName("storageclass"),
            "claimRef": {
                "namespace": NAMESPACE, "name": ObjectName("persistentvolumeclaim"), "uid": FieldMark.SCALAR
            },
            "nodeAffinity": {"required": NODE_SELECTOR},
            "csi": {"driver": FieldMark.SCALAR},
            **{source: {} for source in KNOWN_SOURCES if source != "csi"},
        },
        "status": {"phase": FieldMark.SCALAR},
    }, namespaced=False),
    CapturedKind("storage.k8s.io/v1", "StorageClass", "storageclasses", {
        "provisioner": FieldMark.SCALAR,
        "volumeBindingMode": FieldMark.SCALAR,
        "allowedTopologies": {"matchLabelExpressions": FieldMark.KEYED},
    }, namespaced=False),
    CapturedKind("storage.k8s.io/v1", "CSINode", "csinodes", {
        "spec": {"drivers": {"name": FieldMark.SCALAR, "allocatable": {"count": FieldMark.SCALAR}}},
    }, namespaced=False, named_after="Node"),
    CapturedKind("storage.k8s.io/v1", "CSIDriver", "csidrivers", {
        "spec": {"storageCapacity": FieldMark.SCALAR, "preventPodSchedulingIfMissing": FieldMark.SCALAR},
    }, namespaced=False),
    CapturedKind("storage.k8s.io/v1", "CSIStorageCapacity", "csistoragecapacities", {
        "storageClassName": ObjectName("storageclass"),
        "capacity": FieldMark.SCALAR,
        "maximumVolumeSize": FieldMark.SCALAR,
        "nodeTopology": SELECTOR,
    }),
    CapturedKind("storage.k8s.io/v1", "VolumeAttachment", "volumeattachments", {
        "spec": {
            "attacher": FieldMark.SCALAR,
            "nodeName": ObjectName("node"),
            "source": {"persistentVolumeName": ObjectName("persistentvolume")},
        },
    }, namespaced=False),
    CapturedKind("v1", "Pod", "pods", {"spec": POD_SPEC, "status": POD_STATUS}),
)  # fmt: skip
"""In the order of the file; pods, of which there are the most, come last."""
