"""What is kept of the parts of objects: an allow-list.

Neither values of environment variables, command lines, annotations, options of volumes nor addresses of nodes
and pods are on it.
"""

from __future__ import annotations

from typing import Final

from tonnage.adapters.snapshots.field_rules import Mark, Named, Rules

NODE: Final = Named("node")
NAMESPACE: Final = Named("namespace")
_CONTAINER_NAME: Final = Named("container")
_CLAIM_NAME: Final = Named("claim")
SELECTOR: Final[Rules] = {"matchLabels": Mark.LABELS, "matchExpressions": Mark.KEYED}
_NODE_TERM: Final[Rules] = {"matchExpressions": Mark.KEYED, "matchFields": Mark.NODE_FIELDS}
NODE_SELECTOR: Final[Rules] = {"nodeSelectorTerms": _NODE_TERM}
AMOUNTS: Final[Rules] = {"requests": Mark.AMOUNTS, "limits": Mark.AMOUNTS}

META: Final[Rules] = {
    "namespace": NAMESPACE,
    "uid": Mark.KEPT,
    "resourceVersion": Mark.KEPT,
    "generation": Mark.KEPT,
    "creationTimestamp": Mark.KEPT,
    "deletionTimestamp": Mark.KEPT,
    "deletionGracePeriodSeconds": Mark.KEPT,
    "labels": Mark.LABELS,
    "annotations": Mark.NOTES,
    "ownerReferences": Mark.OWNER,
    "finalizers": Mark.LABEL_KEY,
}
CONDITION: Final[Rules] = {
    "type": Mark.KEPT,
    "status": Mark.KEPT,
    "reason": Mark.KEPT,
    "message": Mark.TEXT,
    "lastTransitionTime": Mark.KEPT,
}
_CONTEXT: Final[Rules] = {
    "privileged": Mark.KEPT,
    "allowPrivilegeEscalation": Mark.KEPT,
    "runAsNonRoot": Mark.KEPT,
    "runAsUser": Mark.KEPT,
    "procMount": Mark.KEPT,
    "capabilities": {"add": Mark.KEPT, "drop": Mark.KEPT},
    "seccompProfile": {"type": Mark.KEPT},
    "appArmorProfile": {"type": Mark.KEPT},
    "seLinuxOptions": {"type": Mark.KEPT},
    "windowsOptions": {"hostProcess": Mark.KEPT},
}
_POD_CONTEXT: Final[Rules] = {**_CONTEXT, "sysctls": {"name": Mark.KEPT}}
_CONTAINER: Final[Rules] = {
    "name": _CONTAINER_NAME,
    "securityContext": _CONTEXT,
    "image": Mark.IMAGE,
    "resources": {**AMOUNTS, "claims": {"name": _CLAIM_NAME, "request": Mark.KEPT}},
    "env": {"name": Mark.VARIABLE},
    "ports": {
        "containerPort": Mark.KEPT,
        "hostPort": Mark.KEPT,
        "hostIP": Mark.KEPT,
        "protocol": Mark.KEPT,
    },
    "restartPolicy": Mark.KEPT,
    "imagePullPolicy": Mark.KEPT,
}
_POD_TERM: Final[Rules] = {
    "topologyKey": Mark.LABEL_KEY,
    "labelSelector": SELECTOR,
    "namespaces": NAMESPACE,
    "namespaceSelector": SELECTOR,
    "matchLabelKeys": Mark.LABEL_KEY,
    "mismatchLabelKeys": Mark.LABEL_KEY,
}
_POD_TERMS: Final[Rules] = {
    "requiredDuringSchedulingIgnoredDuringExecution": _POD_TERM,
    "preferredDuringSchedulingIgnoredDuringExecution": {"weight": Mark.KEPT, "podAffinityTerm": _POD_TERM},
}
_NODE_AFFINITY: Final[Rules] = {
    "requiredDuringSchedulingIgnoredDuringExecution": NODE_SELECTOR,
    "preferredDuringSchedulingIgnoredDuringExecution": {"weight": Mark.KEPT, "preference": _NODE_TERM},
}
POD_SPEC: Final[Rules] = {
    "nodeName": NODE,
    "schedulerName": Named("scheduler"),
    "serviceAccountName": Named("serviceaccount"),
    "containers": _CONTAINER,
    "initContainers": _CONTAINER,
    "nodeSelector": Mark.LABELS,
    "affinity": {"nodeAffinity": _NODE_AFFINITY, "podAffinity": _POD_TERMS, "podAntiAffinity": _POD_TERMS},
    "tolerations": Mark.KEYED,
    "priority": Mark.KEPT,
    "priorityClassName": Named("priorityclass"),
    "preemptionPolicy": Mark.KEPT,
    "restartPolicy": Mark.KEPT,
    "runtimeClassName": Mark.KEPT,
    "overhead": Mark.AMOUNTS,
    "resources": AMOUNTS,
    "schedulingGates": {"name": Mark.LABEL_KEY},
    "topologySpreadConstraints": {
        "topologyKey": Mark.LABEL_KEY,
        "maxSkew": Mark.KEPT,
        "minDomains": Mark.KEPT,
        "whenUnsatisfiable": Mark.KEPT,
        "labelSelector": SELECTOR,
        "matchLabelKeys": Mark.LABEL_KEY,
        "nodeAffinityPolicy": Mark.KEPT,
        "nodeTaintsPolicy": Mark.KEPT,
    },
    "resourceClaims": {
        "name": _CLAIM_NAME,
        "resourceClaimName": Named("resourceclaim"),
        "resourceClaimTemplateName": Named("resourceclaimtemplate"),
    },
    "volumes": Mark.VOLUME,
    "terminationGracePeriodSeconds": Mark.KEPT,
    "securityContext": _POD_CONTEXT,
    "hostNetwork": Mark.KEPT,
    "hostPID": Mark.KEPT,
    "hostIPC": Mark.KEPT,
    "hostUsers": Mark.KEPT,
    "activeDeadlineSeconds": Mark.KEPT,
}
_ENDED: Final[Rules] = {
    "exitCode": Mark.KEPT,
    "signal": Mark.KEPT,
    "reason": Mark.KEPT,
    "message": Mark.LAST_WORDS,
    "startedAt": Mark.KEPT,
    "finishedAt": Mark.KEPT,
}
_CONTAINER_STATE: Final[Rules] = {
    "waiting": {"reason": Mark.KEPT, "message": Mark.TEXT},
    "running": {"startedAt": Mark.KEPT},
    "terminated": _ENDED,
}
_CONTAINER_STATUS: Final[Rules] = {
    "name": _CONTAINER_NAME,
    "ready": Mark.KEPT,
    "started": Mark.KEPT,
    "restartCount": Mark.KEPT,
    "allocatedResources": Mark.AMOUNTS,
    "resources": {"requests": Mark.AMOUNTS},
    "state": _CONTAINER_STATE,
    "lastState": _CONTAINER_STATE,
}
POD_STATUS: Final[Rules] = {
    "phase": Mark.KEPT,
    "reason": Mark.KEPT,
    "message": Mark.TEXT,
    "conditions": CONDITION,
    "initContainerStatuses": _CONTAINER_STATUS,
    "containerStatuses": _CONTAINER_STATUS,
    "startTime": Mark.KEPT,
    "nominatedNodeName": NODE,
    "qosClass": Mark.KEPT,
    "resourceClaimStatuses": {"name": _CLAIM_NAME, "resourceClaimName": Named("resourceclaim")},
    "extendedResourceClaimStatus": {
        "resourceClaimName": Named("resourceclaim"),
        "requestMappings": {
            "containerName": _CONTAINER_NAME,
            "resourceName": Mark.KEPT,
            "requestName": Mark.KEPT,
        },
    },
}
_TEMPLATE: Final[Rules] = {"metadata": {"labels": Mark.LABELS}, "spec": POD_SPEC}
WORKLOAD: Final[Rules] = {
    "spec": {
        "replicas": Mark.KEPT,
        "parallelism": Mark.KEPT,
        "completions": Mark.KEPT,
        "suspend": Mark.KEPT,
        "backoffLimit": Mark.KEPT,
        "activeDeadlineSeconds": Mark.KEPT,
        "progressDeadlineSeconds": Mark.KEPT,
        "podManagementPolicy": Mark.KEPT,
        "paused": Mark.KEPT,
        "selector": SELECTOR,
        "template": _TEMPLATE,
    },
    "status": {
        "startTime": Mark.KEPT,
        "replicas": Mark.KEPT,
        "readyReplicas": Mark.KEPT,
        "availableReplicas": Mark.KEPT,
        "desiredNumberScheduled": Mark.KEPT,
        "numberReady": Mark.KEPT,
        "active": Mark.KEPT,
        "succeeded": Mark.KEPT,
        "failed": Mark.KEPT,
        "observedGeneration": Mark.KEPT,
        "conditions": CONDITION,
    },
}
CRON_WORKLOAD: Final[Rules] = {
    "spec": {
        "schedule": Mark.KEPT,
        "suspend": Mark.KEPT,
        "jobTemplate": {"spec": WORKLOAD["spec"]},
    },
}
_WEBHOOK_SERVICE: Final[Rules] = {"namespace": NAMESPACE, "name": Named("service"), "port": Mark.KEPT}
WEBHOOKS: Final[Rules] = {
    "webhooks": {
        "name": Named("webhook"),
        "clientConfig": {"service": _WEBHOOK_SERVICE},
        "failurePolicy": Mark.KEPT,
        "timeoutSeconds": Mark.KEPT,
        "namespaceSelector": SELECTOR,
        "objectSelector": SELECTOR,
        "matchConditions": {"name": Named("condition")},
        "rules": {"operations": Mark.KEPT, "apiGroups": Mark.KEPT, "resources": Mark.KEPT},
    },
}
"""Neither URLs nor certificates."""
ADMISSION_POLICY: Final[Rules] = {
    "spec": {
        "matchConstraints": {
            "namespaceSelector": SELECTOR,
            "objectSelector": SELECTOR,
            "resourceRules": {"operations": Mark.KEPT, "apiGroups": Mark.KEPT, "resources": Mark.KEPT},
        },
        "matchConditions": {"name": Named("condition")},
    },
}
"""Not the expressions."""
_EXACT: Final[Rules] = {
    "name": Mark.KEPT,
    "deviceClassName": Named("deviceclass"),
    "allocationMode": Mark.KEPT,
    "count": Mark.KEPT,
    "adminAccess": Mark.KEPT,
    "selectors": Mark.WHOLE,
    "tolerations": Mark.KEYED,
    "capacity": Mark.WHOLE,
}
DEVICES: Final[Rules] = {
    "requests": {**_EXACT, "exactly": _EXACT, "firstAvailable": _EXACT},
    "constraints": Mark.WHOLE,
}
_AGENT_DEVICE: Final[Rules] = {
    "uuid": Mark.KEPT,
    "index": Mark.KEPT,
    "product": Mark.KEPT,
    "memoryMiB": Mark.KEPT,
    "memoryUsedMiB": Mark.KEPT,
    "computeCapability": Mark.KEPT,
    "pciBusID": Mark.KEPT,
    "numaNode": Mark.KEPT,
    "clique": Mark.KEPT,
    "links": Mark.WHOLE,
    "migEnabled": Mark.KEPT,
    "migDevices": {
        "uuid": Mark.KEPT,
        "index": Mark.KEPT,
        "profile": Mark.KEPT,
        "gpuInstance": Mark.KEPT,
        "computeInstance": Mark.KEPT,
        "memoryMiB": Mark.KEPT,
        "placement": {"start": Mark.KEPT, "size": Mark.KEPT},
        "health": Mark.KEPT,
        "reason": Mark.TEXT,
        "resource": Mark.KEPT,
    },
    "health": Mark.KEPT,
    "reason": Mark.TEXT,
    "resource": Mark.KEPT,
    "replicas": Mark.KEPT,
    "holders": {
        "namespace": NAMESPACE,
        "pod": Named("pod"),
        "container": _CONTAINER_NAME,
        "resource": Mark.KEPT,
        "ids": Mark.KEPT,
    },
}
AGENT_STATUS: Final[Rules] = {
    "updatedAt": Mark.KEPT,
    "driverVersion": Mark.KEPT,
    "cudaVersion": Mark.KEPT,
    "deviceCount": Mark.KEPT,
    "healthyCount": Mark.KEPT,
    "config": {
        "source": Mark.TEXT,
        "key": Mark.TEXT,
        "error": Mark.TEXT,
        "migStrategy": Mark.KEPT,
        "deviceList": Mark.TEXT,
    },
    "resources": Mark.WHOLE,
    "devices": _AGENT_DEVICE,
    "runtime": {
        "name": Mark.KEPT,
        "version": Mark.KEPT,
        "cdi": Mark.KEPT,
        "cdiReason": Mark.TEXT,
        "nri": Mark.KEPT,
        "nriReason": Mark.TEXT,
    },
    "kubelet": {
        "version": Mark.KEPT,
        "topologyManagerPolicy": Mark.KEPT,
        "topologyManagerScope": Mark.KEPT,
        "cpuManagerPolicy": Mark.KEPT,
        "memoryManagerPolicy": Mark.KEPT,
        "sources": Mark.TEXT,
        "reason": Mark.TEXT,
    },
    "problems": Mark.TEXT,
}
ALLOCATED: Final[Rules] = {
    "request": Mark.KEPT,
    "driver": Mark.KEPT,
    "pool": NODE,
    "device": Mark.KEPT,
    "adminAccess": Mark.KEPT,
    "shareID": Mark.KEPT,
    "consumedCapacity": Mark.WHOLE,
}
_SLICE_DEVICE: Final[Rules] = {
    "name": Mark.KEPT,
    "attributes": Mark.WHOLE,
    "capacity": Mark.WHOLE,
    "consumesCounters": Mark.WHOLE,
    "nodeName": NODE,
    "nodeSelector": NODE_SELECTOR,
    "allNodes": Mark.KEPT,
    "allowMultipleAllocations": Mark.KEPT,
    "taints": Mark.KEYED,
    "bindingConditions": Mark.KEPT,
    "bindingFailureConditions": Mark.KEPT,
    "bindsToNode": Mark.KEPT,
}
SLICE_DEVICE: Final[Rules] = {**_SLICE_DEVICE, "basic": _SLICE_DEVICE}
"""`basic` is a level that v1beta1 has."""
