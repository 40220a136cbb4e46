"""Defaults that are constants: for each type of the schema table, the fields and the values that they get.

Adding one is one line. Defaults that the table itself states (`+default` markers) are not repeated here.

Source: k8s.io/kubernetes and k8s.io/apiextensions-apiserver (pkg/apis/*/v1/defaults.go).
"""

from __future__ import annotations

from typing import Final

from tonnage.model.json import JsonObject

_MODE: Final = 0o644
_HISTORY: Final[JsonObject] = {"replicas": 1, "revisionHistoryLimit": 10}
_CONTAINER: Final[JsonObject] = {
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
}
_WEBHOOK: Final[JsonObject] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}

DEFAULTS: Final[dict[str, JsonObject]] = {
    "core/v1.PodSpec": {
        "restartPolicy": "Always",
        "terminationGracePeriodSeconds": 30,
        "dnsPolicy": "ClusterFirst",
        "securityContext": {},
        "schedulerName": "default-scheduler",
    },
    "core/v1.Container": _CONTAINER,
    "core/v1.Probe": {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3},
    "core/v1.HTTPGetAction": {"path": "/", "scheme": "HTTP"},
    "core/v1.SecretVolumeSource": {"defaultMode": _MODE},
    "core/v1.ConfigMapVolumeSource": {"defaultMode": _MODE},
    "core/v1.DownwardAPIVolumeSource": {"defaultMode": _MODE},
    "core/v1.ProjectedVolumeSource": {"defaultMode": _MODE},
    "core/v1.HostPathVolumeSource": {"type": ""},
    "core/v1.ServiceAccountTokenProjection": {"expirationSeconds": 3600},
    "core/v1.ObjectFieldSelector": {"apiVersion": "v1"},
    "core/v1.Secret": {"type": "Opaque"},
    "core/v1.NamespaceStatus": {"phase": "Active"},
    "core/v1.PersistentVolumeStatus": {"phase": "Pending"},
    "core/v1.PersistentVolumeSpec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
    "core/v1.PersistentVolumeClaimStatus": {"phase": "Pending"},
    "core/v1.PersistentVolumeClaimSpec": {"volumeMode": "Filesystem"},
    "core/v1.EndpointPort": {"protocol": "TCP"},
    "core/v1.ServicePort": {"protocol": "TCP"},
    "core/v1.ServiceSpec": {"sessionAffinity": "None", "type": "ClusterIP"},
    "apps/v1.DeploymentSpec": {**_HISTORY, "progressDeadlineSeconds": 600},
    "apps/v1.DeploymentStrategy": {"type": "RollingUpdate"},
    "apps/v1.ReplicaSetSpec": {"replicas": 1},
    "apps/v1.DaemonSetSpec": {"revisionHistoryLimit": 10},
    "apps/v1.DaemonSetUpdateStrategy": {"type": "RollingUpdate"},
    "apps/v1.StatefulSetSpec": {
        **_HISTORY,
        "podManagementPolicy": "OrderedReady",
        "persistentVolumeClaimRetentionPolicy": {},
    },
    "apps/v1.RollingUpdateStatefulSetStrategy": {"partition": 0},
    "apps/v1.StatefulSetPersistentVolumeClaimRetentionPolicy": {
        "whenDeleted": "Retain",
        "whenScaled": "Retain",
    },
    "batch/v1.PodFailurePolicyOnPodConditionsPattern": {"status": "True"},
    "batch/v1.CronJobSpec": {
        "concurrencyPolicy": "Allow",
        "suspend": False,
        "successfulJobsHistoryLimit": 3,
        "failedJobsHistoryLimit": 1,
    },
    "scheduling/v1.PriorityClass": {"preemptionPolicy": "PreemptLowerPriority"},
    "networking/v1.NetworkPolicyPort": {"protocol": "TCP"},
    "networking/v1.IngressClassParametersReference": {"scope": "Cluster"},
    "autoscaling/v1.HorizontalPodAutoscalerSpec": {"minReplicas": 1},
    "autoscaling/v2.HorizontalPodAutoscalerSpec": {
        "minReplicas": 1,
        "metrics": [
            {
                "type": "Resource",
                "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
            }
        ],
    },
    "storage/v1.StorageClass": {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
    "storage/v1.CSIDriverSpec": {
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "volumeLifecycleModes": ["Persistent"],
        "requiresRepublish": False,
        "seLinuxMount": False,
    },
    "authentication/v1.TokenRequestSpec": {"expirationSeconds": 3600},
    "rbac/v1.RoleRef": {"apiGroup": "rbac.authorization.k8s.io"},
    "discovery/v1.EndpointPort": {"name": "", "protocol": "TCP"},
    "apiextensions/v1.CustomResourceDefinitionSpec": {"conversion": {"strategy": "None"}},
    "apiextensions/v1.ServiceReference": {"port": 443},
    "apiregistration/v1.ServiceReference": {"port": 443},
    "flowcontrol/v1.FlowSchemaSpec": {"matchingPrecedence": 1000},
    "flowcontrol/v1.ExemptPriorityLevelConfiguration": {"nominalConcurrencyShares": 0, "lendablePercent": 0},
    "flowcontrol/v1.LimitedPriorityLevelConfiguration": {
        "nominalConcurrencyShares": 30,
        "lendablePercent": 0,
    },
    "flowcontrol/v1.QueuingConfiguration": {"handSize": 8, "queues": 64, "queueLengthLimit": 50},
    "admissionregistration/v1.ServiceReference": {"port": 443},
    "core/v1.EphemeralContainer": _CONTAINER,
    "admissionregistration/v1.ValidatingWebhook": _WEBHOOK,
    "admissionregistration/v1.MutatingWebhook": {**_WEBHOOK, "reinvocationPolicy": "Never"},
    "admissionregistration/v1.ValidatingAdmissionPolicySpec": {"failurePolicy": "Fail"},
    "admissionregistration/v1.MatchResources": {
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
    },
    "admissionregistration/v1.RuleWithOperations": {"scope": "*"},
    "admissionregistration/v1.NamedRuleWithOperations": {"scope": "*"},
}
