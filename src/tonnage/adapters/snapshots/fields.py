"""What is kept of the parts of objects: an allow-list.

Neither values of environment variables, command lines, annotations, options of volumes nor addresses of nodes
and pods are on it.
"""

from __future__ import annotations

from typing import Final

from tonnage.adapters.snapshots.field_rules import FieldMark, ObjectName, Rules

NODE: Final = ObjectName("node")
NAMESPACE: Final = ObjectName("namespace")
_CONTAINER_NAME: Final = ObjectName("container")
_CLAIM_NAME: Final = ObjectName("claim")
SELECTOR: Final[Rules] = {"matchLabels": FieldMark.LABELS, "matchExpressions": FieldMark.KEYED}
_NODE_TERM: Final[Rules] = {"matchExpressions": FieldMark.KEYED, "matchFields": FieldMark.NODE_FIELDS}
NODE_SELECTOR: Final[Rules] = {"nodeSelectorTerms": _NODE_TERM}
AMOUNTS: Final[Rules] = {"requests": FieldMark.AMOUNTS, "limits": FieldMark.AMOUNTS}

META: Final[Rules] = {
    "namespace": NAMESPACE,
    "uid": FieldMark.SCALAR,
    "resourceVersion": FieldMark.SCALAR,
    "generation": FieldMark.SCALAR,
    "creationTimestamp": FieldMark.SCALAR,
    "deletionTimestamp": FieldMark.SCALAR,
    "deletionGracePeriodSeconds": FieldMark.SCALAR,
    "labels": FieldMark.LABELS,
    "annotations": FieldMark.NOTES,
    "ownerReferences": FieldMark.OWNER,
    "finalizers": FieldMark.LABEL_KEY,
}
CONDITION: Final[Rules] = {
    "type": FieldMark.SCALAR,
    "status": FieldMark.SCALAR,
    "reason": FieldMark.SCALAR,
    "message": FieldMark.TEXT,
    "lastTransitionTime": FieldMark.SCALAR,
}
_CONTEXT: Final[Rules] = {
    "privileged": FieldMark.SCALAR,
    "allowPrivilegeEscalation": FieldMark.SCALAR,
    "runAsNonRoot": FieldMark.SCALAR,
    "runAsUser": FieldMark.SCALAR,
    "procMount": FieldMark.SCALAR,
    "capabilities": {"add": FieldMark.SCALAR, "drop": FieldMark.SCALAR},
    "seccompProfile": {"type": FieldMark.SCALAR},
    "appArmorProfile": {"type": FieldMark.SCALAR},
    "seLinuxOptions": {"type": FieldMark.SCALAR},
    "windowsOptions": {"hostProcess": FieldMark.SCALAR},
}
_POD_CONTEXT: Final[Rules] = {**_CONTEXT, "sysctls": {"name": FieldMark.SCALAR}}
_CONTAINER: Final[Rules] = {
    "name": _CONTAINER_NAME,
    "securityContext": _CONTEXT,
    "image": FieldMark.IMAGE,
    "resources": {**AMOUNTS, "claims": {"name": _CLAIM_NAME, "request": FieldMark.SCALAR}},
    "env": {"name": FieldMark.VARIABLE},
    "ports": {
        "containerPort": FieldMark.SCALAR,
        "hostPort": FieldMark.SCALAR,
        "hostIP": FieldMark.SCALAR,
        "protocol": FieldMark.SCALAR,
    },
    "restartPolicy": FieldMark.SCALAR,
    "imagePullPolicy": FieldMark.SCALAR,
}
_POD_TERM: Final[Rules] = {
    "topologyKey": FieldMark.LABEL_KEY,
    "labelSelector": SELECTOR,
    "namespaces": NAMESPACE,
    "namespaceSelector": SELECTOR,
    "matchLabelKeys": FieldMark.LABEL_KEY,
    "mismatchLabelKeys": FieldMark.LABEL_KEY,
}
_POD_TERMS: Final[Rules] = {
    "requiredDuringSchedulingIgnoredDuringExecution": _POD_TERM,
    "preferredDuringSchedulingIgnoredDuringExecution": {
        "weight": FieldMark.SCALAR,
        "podAffinityTerm": _POD_TERM,
    },
}
_NODE_AFFINITY: Final[Rules] = {
    "requiredDuringSchedulingIgnoredDuringExecution": NODE_SELECTOR,
    "preferredDuringSchedulingIgnoredDuringExecution": {"weight": FieldMark.SCALAR, "preference": _NODE_TERM},
}
POD_SPEC: Final[Rules] = {
    "nodeName": NODE,
    "schedulerName": ObjectName("scheduler"),
    "serviceAccountName": ObjectName("serviceaccount"),
    "containers": _CONTAINER,
    "initContainers": _CONTAINER,
    "nodeSelector": FieldMark.LABELS,
    "affinity": {"nodeAffinity": _NODE_AFFINITY, "podAffinity": _POD_TERMS, "podAntiAffinity": _POD_TERMS},
    "tolerations": FieldMark.KEYED,
    "priority": FieldMark.SCALAR,
    "priorityClassName": ObjectName("priorityclass"),
    "preemptionPolicy": FieldMark.SCALAR,
    "restartPolicy": FieldMark.SCALAR,
    "runtimeClassName": ObjectName("runtimeclass"),
    "overhead": FieldMark.AMOUNTS,
    "resources": AMOUNTS,
    "schedulingGates": {"name": FieldMark.LABEL_KEY},
    "topologySpreadConstraints": {
        "topologyKey": FieldMark.LABEL_KEY,
        "maxSkew": FieldMark.SCALAR,
        "minDomains": FieldMark.SCALAR,
        "whenUnsatisfiable": FieldMark.SCALAR,
        "labelSelector": SELECTOR,
        "matchLabelKeys": FieldMark.LABEL_KEY,
        "nodeAffinityPolicy": FieldMark.SCALAR,
        "nodeTaintsPolicy": FieldMark.SCALAR,
    },
    "resourceClaims": {
        "name": _CLAIM_NAME,
        "resourceClaimName": ObjectName("resourceclaim"),
        "resourceClaimTemplateName": ObjectName("resourceclaimtemplate"),
    },
    "volumes": FieldMark.VOLUME,
    "terminationGracePeriodSeconds": FieldMark.SCALAR,
    "securityContext": _POD_CONTEXT,
    "hostNetwork": FieldMark.SCALAR,
    "hostPID": FieldMark.SCALAR,
    "hostIPC": FieldMark.SCALAR,
    "hostUsers": FieldMark.SCALAR,
    "activeDeadlineSeconds": FieldMark.SCALAR,
}
_ENDED: Final[Rules] = {
    "exitCode": FieldMark.SCALAR,
    "signal": FieldMark.SCALAR,
    "reason": FieldMark.SCALAR,
    "message": FieldMark.LAST_WORDS,
    "startedAt": FieldMark.SCALAR,
    "finishedAt": FieldMark.SCALAR,
}
_CONTAINER_STATE: Final[Rules] = {
    "waiting": {"reason": FieldMark.SCALAR, "message": FieldMark.TEXT},
    "running": {"startedAt": FieldMark.SCALAR},
    "terminated": _ENDED,
}
_CONTAINER_STATUS: Final[Rules] = {
    "name": _CONTAINER_NAME,
    "ready": FieldMark.SCALAR,
    "started": FieldMark.SCALAR,
    "restartCount": FieldMark.SCALAR,
    "allocatedResources": FieldMark.AMOUNTS,
    "resources": {"requests": FieldMark.AMOUNTS},
    "state": _CONTAINER_STATE,
    "lastState": _CONTAINER_STATE,
}
POD_STATUS: Final[Rules] = {
    "phase": FieldMark.SCALAR,
    "reason": FieldMark.SCALAR,
    "message": FieldMark.TEXT,
    "conditions": CONDITION,
    "initContainerStatuses": _CONTAINER_STATUS,
    "containerStatuses": _CONTAINER_STATUS,
    "startTime": FieldMark.SCALAR,
    "nominatedNodeName": NODE,
    "qosClass": FieldMark.SCALAR,
    "resourceClaimStatuses": {"name": _CLAIM_NAME, "resourceClaimName": ObjectName("resourceclaim")},
    "extendedResourceClaimStatus": {
        "resourceClaimName": ObjectName("resourceclaim"),
        "requestMappings": {
            "containerName": _CONTAINER_NAME,
            "resourceName": FieldMark.RESOURCE,
            "requestName": FieldMark.SCALAR,
        },
    },
}
_TEMPLATE: Final[Rules] = {"metadata": {"labels": FieldMark.LABELS}, "spec": POD_SPEC}
WORKLOAD: Final[Rules] = {
    "spec": {
        "replicas": FieldMark.SCALAR,
        "parallelism": FieldMark.SCALAR,
        "completions": FieldMark.SCALAR,
        "suspend": FieldMark.SCALAR,
        "backoffLimit": FieldMark.SCALAR,
        "activeDeadlineSeconds": FieldMark.SCALAR,
        "progressDeadlineSeconds": FieldMark.SCALAR,
        "podManagementPolicy": FieldMark.SCALAR,
        "paused": FieldMark.SCALAR,
        "selector": SELECTOR,
        "template": _TEMPLATE,
    },
    "status": {
        "startTime": FieldMark.SCALAR,
        "replicas": FieldMark.SCALAR,
        "readyReplicas": FieldMark.SCALAR,
        "availableReplicas": FieldMark.SCALAR,
        "desiredNumberScheduled": FieldMark.SCALAR,
        "numberReady": FieldMark.SCALAR,
        "active": FieldMark.SCALAR,
        "succeeded": FieldMark.SCALAR,
        "failed": FieldMark.SCALAR,
        "observedGeneration": FieldMark.SCALAR,
        "conditions": CONDITION,
    },
}
CRON_WORKLOAD: Final[Rules] = {
    "spec": {
        "schedule": FieldMark.SCALAR,
        "suspend": FieldMark.SCALAR,
        "jobTemplate": {"spec": WORKLOAD["spec"]},
    },
}
_WEBHOOK_SERVICE: Final[Rules] = {
    "namespace": NAMESPACE,
    "name": ObjectName("service"),
    "port": FieldMark.SCALAR,
}
WEBHOOKS: Final[Rules] = {
    "webhooks": {
        "name": ObjectName("webhook"),
        "clientConfig": {"service": _WEBHOOK_SERVICE},
        "failurePolicy": FieldMark.SCALAR,
        "timeoutSeconds": FieldMark.SCALAR,
        "namespaceSelector": SELECTOR,
        "objectSelector": SELECTOR,
        "matchConditions": {"name": ObjectName("condition")},
        "rules": {
            "operations": FieldMark.SCALAR,
            "apiGroups": FieldMark.SCALAR,
            "resources": FieldMark.SCALAR,
        },
    },
}
"""Neither URLs nor certificates."""
ADMISSION_POLICY: Final[Rules] = {
    "spec": {
        "matchConstraints": {
            "namespaceSelector": SELECTOR,
            "objectSelector": SELECTOR,
            "resourceRules": {
                "operations": FieldMark.SCALAR,
                "apiGroups": FieldMark.SCALAR,
                "resources": FieldMark.SCALAR,
            },
        },
        "matchConditions": {"name": ObjectName("condition")},
    },
}
"""Not the expressions."""
_EXACT: Final[Rules] = {
    "name": FieldMark.SCALAR,
    "deviceClassName": ObjectName("deviceclass"),
    "allocationMode": FieldMark.SCALAR,
    "count": FieldMark.SCALAR,
    "adminAccess": FieldMark.SCALAR,
    "selectors": FieldMark.WHOLE,
    "tolerations": FieldMark.KEYED,
    "capacity": FieldMark.WHOLE,
}
DEVICES: Final[Rules] = {
    "requests": {**_EXACT, "exactly": _EXACT, "firstAvailable": _EXACT},
    "constraints": FieldMark.WHOLE,
}
_AGENT_DEVICE: Final[Rules] = {
    "uuid": FieldMark.SCALAR,
    "index": FieldMark.SCALAR,
    "product": FieldMark.SCALAR,
    "memoryMiB": FieldMark.SCALAR,
    "memoryUsedMiB": FieldMark.SCALAR,
    "computeCapability": FieldMark.SCALAR,
    "pciBusID": FieldMark.SCALAR,
    "numaNode": FieldMark.SCALAR,
    "clique": FieldMark.SCALAR,
    "fabric": FieldMark.SCALAR,
    "links": FieldMark.WHOLE,
    "migEnabled": FieldMark.SCALAR,
    "migDevices": {
        "uuid": FieldMark.SCALAR,
        "index": FieldMark.SCALAR,
        "profile": FieldMark.SCALAR,
        "gpuInstance": FieldMark.SCALAR,
        "computeInstance": FieldMark.SCALAR,
        "memoryMiB": FieldMark.SCALAR,
        "placement": {"start": FieldMark.SCALAR, "size": FieldMark.SCALAR},
        "health": FieldMark.SCALAR,
        "reason": FieldMark.SCALAR,
        "resource": FieldMark.SCALAR,
    },
    "health": FieldMark.SCALAR,
    "reason": FieldMark.SCALAR,
    "resource": FieldMark.SCALAR,
    "replicas": FieldMark.SCALAR,
    "holders": {
        "namespace": NAMESPACE,
        "pod": ObjectName("pod"),
        "container": _CONTAINER_NAME,
        "resource": FieldMark.RESOURCE,
        "ids": FieldMark.SCALAR,
    },
}
AGENT_STATUS: Final[Rules] = {
    "updatedAt": FieldMark.SCALAR,
    "heartbeatAt": FieldMark.SCALAR,
    "driverVersion": FieldMark.SCALAR,
    "cudaVersion": FieldMark.SCALAR,
    "deviceCount": FieldMark.SCALAR,
    "healthyCount": FieldMark.SCALAR,
    "config": {
        "source": FieldMark.CONFIG_SOURCE,
        "key": FieldMark.SCALAR,
        "error": FieldMark.TEXT,
        "migStrategy": FieldMark.SCALAR,
        "deviceList": FieldMark.TEXT,
    },
    "resources": FieldMark.WHOLE,
    "devices": _AGENT_DEVICE,
    "fabricWaitsSince": FieldMark.SCALAR,
    "claims": {
        "driver": FieldMark.SCALAR,
        "reason": FieldMark.TEXT,
        "devices": {"name": FieldMark.SCALAR, "uuid": FieldMark.SCALAR, "reason": FieldMark.TEXT},
    },
    "kubeletDevices": {"resource": FieldMark.SCALAR, "uuids": FieldMark.SCALAR},
    "host": {
        "systemID": FieldMark.SCALAR,
        "systemVersion": FieldMark.SCALAR,
        "kernel": FieldMark.SCALAR,
        "kernelHeaders": FieldMark.SCALAR,
        "gpusOnBus": FieldMark.SCALAR,
        "nouveauBound": FieldMark.SCALAR,
        "secureBoot": FieldMark.SCALAR,
        "moduleVersion": FieldMark.SCALAR,
        "driverOwner": FieldMark.SCALAR,
        "driverVersion": FieldMark.SCALAR,
    },
    "runtime": {
        "name": FieldMark.SCALAR,
        "version": FieldMark.SCALAR,
        "cdi": FieldMark.SCALAR,
        "cdiReason": FieldMark.TEXT,
        "nri": FieldMark.SCALAR,
        "nriReason": FieldMark.TEXT,
    },
    "kubelet": {
        "version": FieldMark.SCALAR,
        "topologyManagerPolicy": FieldMark.SCALAR,
        "topologyManagerScope": FieldMark.SCALAR,
        "cpuManagerPolicy": FieldMark.SCALAR,
        "memoryManagerPolicy": FieldMark.SCALAR,
        "sources": FieldMark.TEXT,
        "reason": FieldMark.TEXT,
    },
    "problems": FieldMark.TEXT,
    "validation": {
        "subject": FieldMark.SCALAR,
        "stages": {"stage": FieldMark.SCALAR, "outcome": FieldMark.SCALAR, "message": FieldMark.TEXT},
        "ranAt": FieldMark.SCALAR,
    },
}
ALLOCATED: Final[Rules] = {
    "request": FieldMark.SCALAR,
    "driver": FieldMark.SCALAR,
    "pool": NODE,
    "device": FieldMark.SCALAR,
    "adminAccess": FieldMark.SCALAR,
    "shareID": FieldMark.SCALAR,
    "consumedCapacity": FieldMark.WHOLE,
}
_SLICE_DEVICE: Final[Rules] = {
    "name": FieldMark.SCALAR,
    "attributes": FieldMark.WHOLE,
    "capacity": FieldMark.WHOLE,
    "consumesCounters": FieldMark.WHOLE,
    "nodeName": NODE,
    "nodeSelector": NODE_SELECTOR,
    "allNodes": FieldMark.SCALAR,
    "allowMultipleAllocations": FieldMark.SCALAR,
    "taints": FieldMark.KEYED,
    "bindingConditions": FieldMark.SCALAR,
    "bindingFailureConditions": FieldMark.SCALAR,
    "bindsToNode": FieldMark.SCALAR,
}
SLICE_DEVICE: Final[Rules] = {**_SLICE_DEVICE, "basic": _SLICE_DEVICE}
"""`basic` is a level that v1beta1 has."""
