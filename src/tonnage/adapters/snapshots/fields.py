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
    "uid": Mark.SCALAR,
    "resourceVersion": Mark.SCALAR,
    "generation": Mark.SCALAR,
    "creationTimestamp": Mark.SCALAR,
    "deletionTimestamp": Mark.SCALAR,
    "deletionGracePeriodSeconds": Mark.SCALAR,
    "labels": Mark.LABELS,
    "annotations": Mark.NOTES,
    "ownerReferences": Mark.OWNER,
    "finalizers": Mark.LABEL_KEY,
}
CONDITION: Final[Rules] = {
    "type": Mark.SCALAR,
    "status": Mark.SCALAR,
    "reason": Mark.SCALAR,
    "message": Mark.TEXT,
    "lastTransitionTime": Mark.SCALAR,
}
_CONTEXT: Final[Rules] = {
    "privileged": Mark.SCALAR,
    "allowPrivilegeEscalation": Mark.SCALAR,
    "runAsNonRoot": Mark.SCALAR,
    "runAsUser": Mark.SCALAR,
    "procMount": Mark.SCALAR,
    "capabilities": {"add": Mark.SCALAR, "drop": Mark.SCALAR},
    "seccompProfile": {"type": Mark.SCALAR},
    "appArmorProfile": {"type": Mark.SCALAR},
    "seLinuxOptions": {"type": Mark.SCALAR},
    "windowsOptions": {"hostProcess": Mark.SCALAR},
}
_POD_CONTEXT: Final[Rules] = {**_CONTEXT, "sysctls": {"name": Mark.SCALAR}}
_CONTAINER: Final[Rules] = {
    "name": _CONTAINER_NAME,
    "securityContext": _CONTEXT,
    "image": Mark.IMAGE,
    "resources": {**AMOUNTS, "claims": {"name": _CLAIM_NAME, "request": Mark.SCALAR}},
    "env": {"name": Mark.VARIABLE},
    "ports": {
        "containerPort": Mark.SCALAR,
        "hostPort": Mark.SCALAR,
        "hostIP": Mark.SCALAR,
        "protocol": Mark.SCALAR,
    },
    "restartPolicy": Mark.SCALAR,
    "imagePullPolicy": Mark.SCALAR,
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
    "preferredDuringSchedulingIgnoredDuringExecution": {"weight": Mark.SCALAR, "podAffinityTerm": _POD_TERM},
}
_NODE_AFFINITY: Final[Rules] = {
    "requiredDuringSchedulingIgnoredDuringExecution": NODE_SELECTOR,
    "preferredDuringSchedulingIgnoredDuringExecution": {"weight": Mark.SCALAR, "preference": _NODE_TERM},
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
    "priority": Mark.SCALAR,
    "priorityClassName": Named("priorityclass"),
    "preemptionPolicy": Mark.SCALAR,
    "restartPolicy": Mark.SCALAR,
    "runtimeClassName": Mark.SCALAR,
    "overhead": Mark.AMOUNTS,
    "resources": AMOUNTS,
    "schedulingGates": {"name": Mark.LABEL_KEY},
    "topologySpreadConstraints": {
        "topologyKey": Mark.LABEL_KEY,
        "maxSkew": Mark.SCALAR,
        "minDomains": Mark.SCALAR,
        "whenUnsatisfiable": Mark.SCALAR,
        "labelSelector": SELECTOR,
        "matchLabelKeys": Mark.LABEL_KEY,
        "nodeAffinityPolicy": Mark.SCALAR,
        "nodeTaintsPolicy": Mark.SCALAR,
    },
    "resourceClaims": {
        "name": _CLAIM_NAME,
        "resourceClaimName": Named("resourceclaim"),
        "resourceClaimTemplateName": Named("resourceclaimtemplate"),
    },
    "volumes": Mark.VOLUME,
    "terminationGracePeriodSeconds": Mark.SCALAR,
    "securityContext": _POD_CONTEXT,
    "hostNetwork": Mark.SCALAR,
    "hostPID": Mark.SCALAR,
    "hostIPC": Mark.SCALAR,
    "hostUsers": Mark.SCALAR,
    "activeDeadlineSeconds": Mark.SCALAR,
}
_ENDED: Final[Rules] = {
    "exitCode": Mark.SCALAR,
    "signal": Mark.SCALAR,
    "reason": Mark.SCALAR,
    "message": Mark.LAST_WORDS,
    "startedAt": Mark.SCALAR,
    "finishedAt": Mark.SCALAR,
}
_CONTAINER_STATE: Final[Rules] = {
    "waiting": {"reason": Mark.SCALAR, "message": Mark.TEXT},
    "running": {"startedAt": Mark.SCALAR},
    "terminated": _ENDED,
}
_CONTAINER_STATUS: Final[Rules] = {
    "name": _CONTAINER_NAME,
    "ready": Mark.SCALAR,
    "started": Mark.SCALAR,
    "restartCount": Mark.SCALAR,
    "allocatedResources": Mark.AMOUNTS,
    "resources": {"requests": Mark.AMOUNTS},
    "state": _CONTAINER_STATE,
    "lastState": _CONTAINER_STATE,
}
POD_STATUS: Final[Rules] = {
    "phase": Mark.SCALAR,
    "reason": Mark.SCALAR,
    "message": Mark.TEXT,
    "conditions": CONDITION,
    "initContainerStatuses": _CONTAINER_STATUS,
    "containerStatuses": _CONTAINER_STATUS,
    "startTime": Mark.SCALAR,
    "nominatedNodeName": NODE,
    "qosClass": Mark.SCALAR,
    "resourceClaimStatuses": {"name": _CLAIM_NAME, "resourceClaimName": Named("resourceclaim")},
    "extendedResourceClaimStatus": {
        "resourceClaimName": Named("resourceclaim"),
        "requestMappings": {
            "containerName": _CONTAINER_NAME,
            "resourceName": Mark.SCALAR,
            "requestName": Mark.SCALAR,
        },
    },
}
_TEMPLATE: Final[Rules] = {"metadata": {"labels": Mark.LABELS}, "spec": POD_SPEC}
WORKLOAD: Final[Rules] = {
    "spec": {
        "replicas": Mark.SCALAR,
        "parallelism": Mark.SCALAR,
        "completions": Mark.SCALAR,
        "suspend": Mark.SCALAR,
        "backoffLimit": Mark.SCALAR,
        "activeDeadlineSeconds": Mark.SCALAR,
        "progressDeadlineSeconds": Mark.SCALAR,
        "podManagementPolicy": Mark.SCALAR,
        "paused": Mark.SCALAR,
        "selector": SELECTOR,
        "template": _TEMPLATE,
    },
    "status": {
        "startTime": Mark.SCALAR,
        "replicas": Mark.SCALAR,
        "readyReplicas": Mark.SCALAR,
        "availableReplicas": Mark.SCALAR,
        "desiredNumberScheduled": Mark.SCALAR,
        "numberReady": Mark.SCALAR,
        "active": Mark.SCALAR,
        "succeeded": Mark.SCALAR,
        "failed": Mark.SCALAR,
        "observedGeneration": Mark.SCALAR,
        "conditions": CONDITION,
    },
}
CRON_WORKLOAD: Final[Rules] = {
    "spec": {
        "schedule": Mark.SCALAR,
        "suspend": Mark.SCALAR,
        "jobTemplate": {"spec": WORKLOAD["spec"]},
    },
}
_WEBHOOK_SERVICE: Final[Rules] = {"namespace": NAMESPACE, "name": Named("service"), "port": Mark.SCALAR}
WEBHOOKS: Final[Rules] = {
    "webhooks": {
        "name": Named("webhook"),
        "clientConfig": {"service": _WEBHOOK_SERVICE},
        "failurePolicy": Mark.SCALAR,
        "timeoutSeconds": Mark.SCALAR,
        "namespaceSelector": SELECTOR,
        "objectSelector": SELECTOR,
        "matchConditions": {"name": Named("condition")},
        "rules": {"operations": Mark.SCALAR, "apiGroups": Mark.SCALAR, "resources": Mark.SCALAR},
    },
}
"""Neither URLs nor certificates."""
ADMISSION_POLICY: Final[Rules] = {
    "spec": {
        "matchConstraints": {
            "namespaceSelector": SELECTOR,
            "objectSelector": SELECTOR,
            "resourceRules": {"operations": Mark.SCALAR, "apiGroups": Mark.SCALAR, "resources": Mark.SCALAR},
        },
        "matchConditions": {"name": Named("condition")},
    },
}
"""Not the expressions."""
_EXACT: Final[Rules] = {
    "name": Mark.SCALAR,
    "deviceClassName": Named("deviceclass"),
    "allocationMode": Mark.SCALAR,
    "count": Mark.SCALAR,
    "adminAccess": Mark.SCALAR,
    "selectors": Mark.WHOLE,
    "tolerations": Mark.KEYED,
    "capacity": Mark.WHOLE,
}
DEVICES: Final[Rules] = {
    "requests": {**_EXACT, "exactly": _EXACT, "firstAvailable": _EXACT},
    "constraints": Mark.WHOLE,
}
_AGENT_DEVICE: Final[Rules] = {
    "uuid": Mark.SCALAR,
    "index": Mark.SCALAR,
    "product": Mark.SCALAR,
    "memoryMiB": Mark.SCALAR,
    "memoryUsedMiB": Mark.SCALAR,
    "computeCapability": Mark.SCALAR,
    "pciBusID": Mark.SCALAR,
    "numaNode": Mark.SCALAR,
    "clique": Mark.SCALAR,
    "links": Mark.WHOLE,
    "migEnabled": Mark.SCALAR,
    "migDevices": {
        "uuid": Mark.SCALAR,
        "index": Mark.SCALAR,
        "profile": Mark.SCALAR,
        "gpuInstance": Mark.SCALAR,
        "computeInstance": Mark.SCALAR,
        "memoryMiB": Mark.SCALAR,
        "placement": {"start": Mark.SCALAR, "size": Mark.SCALAR},
        "health": Mark.SCALAR,
        "reason": Mark.TEXT,
        "resource": Mark.SCALAR,
    },
    "health": Mark.SCALAR,
    "reason": Mark.TEXT,
    "resource": Mark.SCALAR,
    "replicas": Mark.SCALAR,
    "holders": {
        "namespace": NAMESPACE,
        "pod": Named("pod"),
        "container": _CONTAINER_NAME,
        "resource": Mark.SCALAR,
        "ids": Mark.SCALAR,
    },
}
AGENT_STATUS: Final[Rules] = {
    "updatedAt": Mark.SCALAR,
    "driverVersion": Mark.SCALAR,
    "cudaVersion": Mark.SCALAR,
    "deviceCount": Mark.SCALAR,
    "healthyCount": Mark.SCALAR,
    "config": {
        "source": Mark.TEXT,
        "key": Mark.TEXT,
        "error": Mark.TEXT,
        "migStrategy": Mark.SCALAR,
        "deviceList": Mark.TEXT,
    },
    "resources": Mark.WHOLE,
    "devices": _AGENT_DEVICE,
    "runtime": {
        "name": Mark.SCALAR,
        "version": Mark.SCALAR,
        "cdi": Mark.SCALAR,
        "cdiReason": Mark.TEXT,
        "nri": Mark.SCALAR,
        "nriReason": Mark.TEXT,
    },
    "kubelet": {
        "version": Mark.SCALAR,
        "topologyManagerPolicy": Mark.SCALAR,
        "topologyManagerScope": Mark.SCALAR,
        "cpuManagerPolicy": Mark.SCALAR,
        "memoryManagerPolicy": Mark.SCALAR,
        "sources": Mark.TEXT,
        "reason": Mark.TEXT,
    },
    "problems": Mark.TEXT,
}
ALLOCATED: Final[Rules] = {
    "request": Mark.SCALAR,
    "driver": Mark.SCALAR,
    "pool": NODE,
    "device": Mark.SCALAR,
    "adminAccess": Mark.SCALAR,
    "shareID": Mark.SCALAR,
    "consumedCapacity": Mark.WHOLE,
}
_SLICE_DEVICE: Final[Rules] = {
    "name": Mark.SCALAR,
    "attributes": Mark.WHOLE,
    "capacity": Mark.WHOLE,
    "consumesCounters": Mark.WHOLE,
    "nodeName": NODE,
    "nodeSelector": NODE_SELECTOR,
    "allNodes": Mark.SCALAR,
    "allowMultipleAllocations": Mark.SCALAR,
    "taints": Mark.KEYED,
    "bindingConditions": Mark.SCALAR,
    "bindingFailureConditions": Mark.SCALAR,
    "bindsToNode": Mark.SCALAR,
}
SLICE_DEVICE: Final[Rules] = {**_SLICE_DEVICE, "basic": _SLICE_DEVICE}
"""`basic` is a level that v1beta1 has."""
