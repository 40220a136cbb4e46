"""The first line of a module that stands for a thing of Kubernetes has Kubernetes' own name of it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

import tonnage

_PACKAGE: Final = Path(tonnage.__file__).parent
UPSTREAM: Final = {
    "decide/kubernetes/admission/charges.py": "podEvaluator",
    "decide/kubernetes/admission/limit_ranges.py": "LimitRanger",
    "decide/kubernetes/admission/object_charges.py": "serviceEvaluator",
    "decide/kubernetes/admission/pod_security.py": "PodSecurity",
    "decide/kubernetes/admission/priority.py": "Priority",
    "decide/kubernetes/admission/quota.py": "ResourceQuota",
    "decide/kubernetes/admission/quota_refusals.py": "ResourceQuota",
    "decide/kubernetes/admission/quota_usage.py": "quota.Evaluator",
    "decide/kubernetes/admission/references.py": "RuntimeClass",
    "decide/kubernetes/admission/refusal.py": "admission.Interface",
    "decide/kubernetes/admission/scopes.py": "ResourceQuotaScope",
    "decide/kubernetes/admission/webhooks.py": "ValidatingAdmissionWebhook",
    "decide/kubernetes/claims/allocator.py": "structured.Allocator",
    "decide/kubernetes/claims/constraints.py": "matchAttributeConstraint",
    "decide/kubernetes/claims/counters.py": "CounterSet",
    "decide/kubernetes/claims/pod_claims.py": "DynamicResources.PreFilter",
    "decide/kubernetes/claims/pools.py": "GatherPools",
    "decide/kubernetes/kubelet/cpus.py": "cpumanager",
    "decide/kubernetes/kubelet/device_admission.py": "topologymanager.Scope",
    "decide/kubernetes/kubelet/devices.py": "devicemanager.ManagerImpl",
    "decide/kubernetes/kubelet/node_admission.py": "predicateAdmitHandler",
    "decide/kubernetes/kubelet/numa_memory.py": "memorymanager",
    "decide/kubernetes/kubelet/restarts.py": "ShouldContainerBeRestarted",
    "decide/kubernetes/kubelet/topology_manager.py": "topologymanager.Policy",
    "decide/kubernetes/scheduler/filtering.py": "findNodesThatFitPod",
    "decide/kubernetes/scheduler/filters/claims.py": "DynamicResources",
    "decide/kubernetes/scheduler/filters/node_affinity.py": "NodeAffinity",
    "decide/kubernetes/scheduler/filters/node_name.py": "NodeName",
    "decide/kubernetes/scheduler/filters/node_unschedulable.py": "NodeUnschedulable",
    "decide/kubernetes/scheduler/filters/pod_affinity.py": "InterPodAffinity",
    "decide/kubernetes/scheduler/filters/ports.py": "NodePorts",
    "decide/kubernetes/scheduler/filters/resources.py": "NodeResourcesFit",
    "decide/kubernetes/scheduler/filters/taints.py": "TaintToleration",
    "decide/kubernetes/scheduler/filters/topology_spread.py": "PodTopologySpread",
    "decide/kubernetes/scheduler/filters/volume_use.py": "VolumeRestrictions",
    "decide/kubernetes/scheduler/filters/volumes.py": "VolumeBinding",
    "decide/kubernetes/scheduler/fleet/preemption.py": "DefaultPreemption",
    "decide/kubernetes/scheduler/messages.py": "FitError",
    "decide/kubernetes/scheduler/preemption.py": "DefaultPreemption",
    "decide/kubernetes/scheduler/refusal.py": "FilterPlugin",
    "decide/kubernetes/scheduler/sampling.py": "numFeasibleNodesToFind",
    "decide/kubernetes/scheduler/scheduling.py": "schedulePod",
    "decide/kubernetes/scheduler/score_table.py": "NodePluginScores",
    "decide/kubernetes/scheduler/scores/balanced.py": "NodeResourcesBalancedAllocation",
    "decide/kubernetes/scheduler/scores/claims.py": "DynamicResources",
    "decide/kubernetes/scheduler/scores/image_locality.py": "ImageLocality",
    "decide/kubernetes/scheduler/scores/node_affinity.py": "NodeAffinity",
    "decide/kubernetes/scheduler/scores/pod_affinity.py": "InterPodAffinity",
    "decide/kubernetes/scheduler/scores/resources_fit.py": "NodeResourcesFit",
    "decide/kubernetes/scheduler/scores/storage.py": "VolumeBinding",
    "decide/kubernetes/scheduler/scores/taints.py": "TaintToleration",
    "decide/kubernetes/scheduler/scores/topology_spread.py": "PodTopologySpread",
    "decide/kubernetes/scheduler/scoring.py": "ScorePlugin",
    "loop/event_correlation.py": "EventCorrelator",
    "loop/events.py": "EventRecorder",
    "loop/expectations.py": "ControllerExpectations",
    "loop/informer.py": "SharedInformer",
    "loop/ownership.py": "ControllerRefManager",
    "loop/pod_control.py": "RealPodControl",
    "loop/volume_reservations.py": "GetBindVolumeToClaim",
    "loop/work_queue.py": "workqueue",
    "twin/controllers/budgets/disruption.py": "DisruptionController",
    "twin/controllers/budgets/plan.py": "PodDisruptionBudgetStatus",
    "twin/controllers/claim_reservations.py": "resourceclaim.Controller",
    "twin/controllers/controller_manager.py": "kube-controller-manager",
    "twin/controllers/daemons/daemon_set.py": "DaemonSetsController",
    "twin/controllers/daemons/history.py": "ControllerRevision",
    "twin/controllers/daemons/template.py": "NodeShouldRunDaemonPod",
    "twin/controllers/deletable_objects.py": "GraphBuilder",
    "twin/controllers/deployments/deployment.py": "DeploymentController",
    "twin/controllers/garbage_collector.py": "GarbageCollector",
    "twin/controllers/jobs/cron_job.py": "cronjob.ControllerV2",
    "twin/controllers/jobs/job.py": "job.Controller",
    "twin/controllers/jobs/tracking.py": "trackJobStatusAndRemoveFinalizers",
    "twin/controllers/namespaces.py": "NamespaceController",
    "twin/controllers/nodes/lifecycle.py": "nodelifecycle.Controller",
    "twin/controllers/nodes/taint_eviction.py": "tainteviction.Controller",
    "twin/controllers/nodes/zones.py": "RateLimitedTimedQueue",
    "twin/controllers/pod_claims.py": "resourceclaim.Controller",
    "twin/controllers/pod_garbage.py": "PodGCController",
    "twin/controllers/pod_state.py": "ActivePodsWithRanks",
    "twin/controllers/pod_templates.py": "GetPodFromTemplate",
    "twin/controllers/quotas/counted_objects.py": "QuotaMonitor",
    "twin/controllers/quotas/resource_quota.py": "resourcequota.Controller",
    "twin/controllers/replicas/replica_set.py": "ReplicaSetController",
    "twin/controllers/role_aggregation.py": "ClusterRoleAggregationController",
    "twin/controllers/services/api_endpoints.py": "kubernetesservice.Controller",
    "twin/controllers/services/endpoint_slices.py": "endpointslice.Controller",
    "twin/controllers/services/slice_plan.py": "endpointslice.Reconciler",
    "twin/controllers/stateful/plan.py": "StatefulSetControl",
    "twin/controllers/stateful/stateful_set.py": "StatefulSetController",
    "twin/controllers/system_namespaces.py": "systemnamespaces.Controller",
    "twin/controllers/trigger_times.py": "TriggerTimeTracker",
    "twin/controllers/volumes/binding.py": "PersistentVolumeController",
    "twin/controllers/volumes/ephemeral.py": "ephemeral.Controller",
    "twin/controllers/volumes/protection.py": "pvcprotection.Controller",
    "twin/kubelet/admission.py": "PodAdmitHandler",
    "twin/kubelet/containers/backoff.py": "flowcontrol.Backoff",
    "twin/kubelet/containers/environment.py": "makeEnvironmentVariables",
    "twin/kubelet/containers/probe_actions.py": "HandlerRunner",
    "twin/kubelet/containers/probes.py": "prober",
    "twin/kubelet/containers/restarts.py": "ShouldContainerBeRestarted",
    "twin/kubelet/containers/runtime_port.py": "kubecontainer.Runtime",
    "twin/kubelet/containers/security.py": "DetermineEffectiveSecurityContext",
    "twin/kubelet/containers/starter.py": "startContainer",
    "twin/kubelet/containers/termination.py": "killContainer",
    "twin/kubelet/devices/checkpoint.py": "kubelet_internal_checkpoint",
    "twin/kubelet/claims/manager.py": "dra.Manager",
    "twin/kubelet/devices/cpu_manager.py": "cpumanager",
    "twin/kubelet/devices/manager.py": "devicemanager.ManagerImpl",
    "twin/kubelet/devices/plugins.py": "endpointImpl",
    "twin/kubelet/devices/pod_resources.py": "PodResourcesLister",
    "twin/kubelet/devices/registration.py": "Registration",
    "twin/kubelet/hostnames.py": "GeneratePodHostNameAndDomain",
    "twin/kubelet/node_status.py": "tryUpdateNodeStatus",
    "twin/kubelet/pod_conditions.py": "GeneratePodReadyCondition",
    "twin/kubelet/pod_status.py": "generateAPIPodStatus",
    "twin/kubelet/pod_worker.py": "SyncPod",
    "twin/kubelet/pods.py": "podWorkers",
    "twin/kubelet/status_writers.py": "status.Manager",
    "twin/kubelet/volumes/account_tokens.py": "token.Manager",
    "twin/kubelet/volumes/mounting.py": "WaitForAttachAndMount",
    "twin/scheduler/cache.py": "cache.Cache",
    "twin/scheduler/claims.py": "DynamicResources",
    "twin/scheduler/device_grants.py": "AllocationResult",
    "twin/scheduler/events.py": "EventRecorder",
    "twin/scheduler/hints.py": "QueueingHintFn",
    "twin/scheduler/loop.py": "ScheduleOne",
    "twin/scheduler/queue.py": "PriorityQueue",
    "twin/scheduler/reports.py": "handleSchedulingFailure",
    "twin/scheduler/volume_hints.py": "QueueingHintFn",
    "twin/scheduler/volumes.py": "SchedulerVolumeBinder",
}
"""Module below `src/tonnage` -> the name by which a Kubernetes reader searches for it."""


def first_line(module: str) -> str:
    docstring = ast.get_docstring(ast.parse((_PACKAGE / module).read_text(encoding="utf-8"))) or ""
    return docstring.partition("\n")[0]


def test_the_first_line_has_the_upstream_name() -> None:
    lines = {module: first_line(module) for module in UPSTREAM}
    assert {module: lines[module] for module, name in UPSTREAM.items() if name not in lines[module]} == {}


@pytest.mark.parametrize("kind", ["filters", "scores"])
def test_every_scheduler_plugin_is_in_the_table(kind: str) -> None:
    folder = Path("decide/kubernetes/scheduler") / kind
    plugins = {
        str(folder / path.name)
        for path in (_PACKAGE / folder).glob("*.py")
        if path.name not in {"__init__.py", "order.py"}
    }
    assert plugins <= UPSTREAM.keys()
