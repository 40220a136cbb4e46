"""Whether an object may be created or changed: a table of rules by kind.

Adding a kind's rules is writing one function and naming it in `CREATE` (and in `UPDATE`, where an update is
checked differently). Every kind's metadata is checked, with or without an entry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tonnage.decide.kubernetes.api.problems import Errors
from tonnage.decide.kubernetes.api.validation import access, cluster, events, limits, policies, quotas
from tonnage.decide.kubernetes.api.validation.devices import claim_status, resource_claims, resource_slices
from tonnage.decide.kubernetes.api.validation.fields import FieldErrors
from tonnage.decide.kubernetes.api.validation.metadata import any_metadata, metadata_create, metadata_update
from tonnage.decide.kubernetes.api.validation.network import network_policies, services
from tonnage.decide.kubernetes.api.validation.pods import pod
from tonnage.decide.kubernetes.api.validation.storage import (
    persistent_volumes,
    storage_classes,
    volume_claims,
)
from tonnage.decide.kubernetes.api.validation.workloads import apps, jobs, stateful_sets
from tonnage.model.json import JsonObject
from tonnage.wire.schema import KindRow

GroupKind = tuple[str, str]


# Definitions bring the rules of schemas, more than all other kinds together: most programs need none of them.
def _definition(obj: JsonObject) -> FieldErrors:
    from tonnage.decide.kubernetes.api.validation.custom.definitions import definition

    return definition(obj)


def _definition_update(new: JsonObject, old: JsonObject) -> FieldErrors:
    from tonnage.decide.kubernetes.api.validation.custom.definitions import definition_update

    return definition_update(new, old)


def _definition_status(new: JsonObject, old: JsonObject) -> FieldErrors:
    from tonnage.decide.kubernetes.api.validation.custom.definitions import definition_status_update

    return definition_status_update(new, old)


CREATE: Final[dict[GroupKind, Callable[[JsonObject], FieldErrors]]] = {
    ("", "Pod"): pod.pod_create,
    ("", "Node"): cluster.node,
    ("", "Namespace"): cluster.namespace,
    ("", "ConfigMap"): cluster.config_map,
    ("", "Secret"): cluster.secret,
    ("", "Service"): services.service,
    ("", "PersistentVolume"): persistent_volumes.volume,
    ("", "PersistentVolumeClaim"): volume_claims.claim,
    ("networking.k8s.io", "NetworkPolicy"): network_policies.network_policy,
    ("storage.k8s.io", "StorageClass"): storage_classes.storage_class,
    ("", "ReplicationController"): apps.replication_controller,
    ("", "Event"): events.event,
    ("events.k8s.io", "Event"): events.renamed_event,
    ("", "ResourceQuota"): quotas.resource_quota,
    ("", "LimitRange"): limits.limit_range,
    ("node.k8s.io", "RuntimeClass"): limits.runtime_class,
    ("", "PodTemplate"): apps.template_of_pods,
    ("apps", "ControllerRevision"): apps.controller_revision,
    ("apps", "Deployment"): apps.deployment,
    ("apps", "ReplicaSet"): apps.replica_set,
    ("apps", "DaemonSet"): apps.daemon_set,
    ("apps", "StatefulSet"): stateful_sets.stateful_set,
    ("batch", "Job"): jobs.job,
    ("batch", "CronJob"): jobs.cron_job,
    ("policy", "PodDisruptionBudget"): apps.disruption_budget,
    ("scheduling.k8s.io", "PriorityClass"): cluster.priority_class,
    ("coordination.k8s.io", "Lease"): cluster.lease,
    ("rbac.authorization.k8s.io", "Role"): access.role,
    ("rbac.authorization.k8s.io", "ClusterRole"): access.cluster_role,
    ("rbac.authorization.k8s.io", "RoleBinding"): access.role_binding,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): access.cluster_role_binding,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition,
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): policies.webhooks_with_conditions,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy"): policies.policy,
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding"): policies.binding,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): policies.webhooks_with_conditions,
    ("resource.k8s.io", "DeviceClass"): resource_claims.device_class,
    ("resource.k8s.io", "ResourceClaim"): resource_claims.resource_claim,
    ("resource.k8s.io", "ResourceClaimTemplate"): resource_claims.claim_template,
    ("resource.k8s.io", "ResourceSlice"): resource_slices.resource_slice,
}
UPDATE: Final[dict[GroupKind, Callable[[JsonObject, JsonObject], FieldErrors]]] = {
    ("", "Pod"): pod.pod_update,
    ("", "Node"): cluster.node_update,
    ("", "ConfigMap"): cluster.config_map_update,
    ("", "Secret"): cluster.secret_update,
    ("", "ResourceQuota"): quotas.resource_quota_update,
    ("", "Service"): services.service_update,
    ("", "PersistentVolume"): persistent_volumes.volume_update,
    ("", "PersistentVolumeClaim"): volume_claims.claim_update,
    ("networking.k8s.io", "NetworkPolicy"): network_policies.network_policy_update,
    ("storage.k8s.io", "StorageClass"): storage_classes.storage_class_update,
    ("events.k8s.io", "Event"): events.renamed_event_update,
    ("node.k8s.io", "RuntimeClass"): limits.runtime_class_update,
    ("apps", "ControllerRevision"): apps.controller_revision_update,
    ("apps", "DaemonSet"): apps.daemon_set_update,
    ("apps", "StatefulSet"): stateful_sets.stateful_set_update,
    ("batch", "Job"): jobs.job_update,
    ("batch", "CronJob"): jobs.cron_job_update,
    ("scheduling.k8s.io", "PriorityClass"): cluster.priority_class_update,
    ("rbac.authorization.k8s.io", "RoleBinding"): access.role_binding_update,
    ("rbac.authorization.k8s.io", "ClusterRoleBinding"): access.cluster_role_binding_update,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition_update,
    ("resource.k8s.io", "DeviceClass"): resource_claims.device_class_update,
    ("resource.k8s.io", "ResourceClaim"): resource_claims.resource_claim_update,
    ("resource.k8s.io", "ResourceClaimTemplate"): resource_claims.claim_template_update,
    ("resource.k8s.io", "ResourceSlice"): resource_slices.resource_slice_update,
}
"""Kinds whose update is more than `CREATE` on the new object."""
FROZEN_SELECTORS: Final = (("apps", "Deployment"), ("apps", "ReplicaSet"))
"""Kinds whose selector never changes."""
NOT_AGAIN: Final = (("", "Namespace"),)
"""Kinds of whose content an update checks nothing."""
STATUS: Final[dict[GroupKind, Callable[[JsonObject, JsonObject], FieldErrors]]] = {
    ("", "Node"): cluster.node_status_update,
    ("", "Namespace"): cluster.namespace_status_update,
    ("", "ResourceQuota"): quotas.resource_quota_status,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): _definition_status,
    ("resource.k8s.io", "ResourceClaim"): claim_status.claim_status,
}
"""Rules of `status`; kinds that are missing have only their metadata checked."""
PARTS: Final[dict[tuple[str, str, str], Callable[[JsonObject, JsonObject], FieldErrors]]] = {
    ("", "Pod", "ephemeralcontainers"): pod.ephemeral_update,
    ("", "Namespace", "finalize"): cluster.namespace_finalizers,
}
"""Rules of subresources that change a part of their object."""
WITHOUT_METADATA_RULES: Final = (("", "Event"), ("events.k8s.io", "Event"), ("policy", "PodDisruptionBudget"))
"""Kinds whose own rules leave metadata alone; what all objects are held to is checked once these are met."""


def validate_create(kind_row: KindRow, obj: JsonObject) -> Errors:
    """Everything wrong with a new object, which has been decoded and defaulted and has its name."""
    key = (kind_row.group, kind_row.kind)
    rule = CREATE.get(key)
    own = () if rule is None else tuple(rule(obj))
    if key in WITHOUT_METADATA_RULES:
        return own or tuple(any_metadata(kind_row, obj))
    return (*metadata_create(kind_row, obj), *own)


def validate_update(kind_row: KindRow, new: JsonObject, old: JsonObject, subresource: str = "") -> Errors:
    """Everything wrong with a changed object against the stored one."""
    key = (kind_row.group, kind_row.kind)
    errors = list(metadata_update(kind_row, new, old, subresource))
    if subresource == "status":
        rule = STATUS.get(key)
        return tuple(errors if rule is None else [*errors, *rule(new, old)])
    part = PARTS.get((*key, subresource))
    if part is not None:
        return (*errors, *part(new, old))
    if key in UPDATE:
        return (*errors, *UPDATE[key](new, old))
    if key in CREATE and key not in NOT_AGAIN:
        errors += CREATE[key](new)
    if key in FROZEN_SELECTORS:
        errors += apps.selector_kept(new, old)
    return tuple(errors)
