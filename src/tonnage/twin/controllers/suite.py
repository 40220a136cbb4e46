"""All workload and node controllers, as one controller manager runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from tonnage.loop.informer import Informers
from tonnage.model.json import JsonObject
from tonnage.ports import Clock, KubernetesApi
from tonnage.twin.apiserver.authentication.users import account_user
from tonnage.twin.apiserver.local import LocalKubernetes
from tonnage.twin.controllers.account_secrets import AccountSecretsController
from tonnage.twin.controllers.budgets.disruption import DisruptionController
from tonnage.twin.controllers.claim_reservations import ClaimReservationsController
from tonnage.twin.controllers.daemons.daemon_set import DaemonSetController
from tonnage.twin.controllers.deployments.deployment import DeploymentController
from tonnage.twin.controllers.garbage_collector import GarbageCollector
from tonnage.twin.controllers.jobs.cron_job import CronJobController
from tonnage.twin.controllers.jobs.job import JobController
from tonnage.twin.controllers.namespaces import NamespaceController
from tonnage.twin.controllers.nodes.lifecycle import NodeLifecycleController
from tonnage.twin.controllers.nodes.taint_eviction import TaintEvictionController
from tonnage.twin.controllers.pod_claims import PodClaimsController
from tonnage.twin.controllers.pod_garbage import PodGarbageController
from tonnage.twin.controllers.policy_status import PolicyStatusController
from tonnage.twin.controllers.quotas.resource_quota import ResourceQuotaController
from tonnage.twin.controllers.replicas.replica_set import ReplicaSetController, ReplicationManager
from tonnage.twin.controllers.role_aggregation import RoleAggregationController
from tonnage.twin.controllers.services.endpoints import EndpointsController
from tonnage.twin.controllers.stateful.stateful_set import StatefulSetController
from tonnage.twin.controllers.volumes.binding import VolumeBindingController
from tonnage.twin.controllers.volumes.ephemeral import EphemeralVolumeController
from tonnage.twin.controllers.volumes.protection import VolumeProtectionController

_OF_CLAIMS: Final = ("resource-claim-controller", "ResourceClaimController")
_OF_ROLES: Final = "clusterrole-aggregation-controller"
_OF_POLICIES: Final = ("validatingadmissionpolicy-status-controller", "validatingadmissionpolicy-status")
"""Accounts, and the managers as which they apply."""


async def run_controllers(
    api: KubernetesApi,
    clock: Clock,
    informers: Informers,
    *,
    root_ca: str = "",
    sign: Callable[[JsonObject], str] | None = None,
    vouched: Callable[[str], bool] = lambda _name: False,
) -> None:
    """Run them all until cancelled. What is wrong with one of them ends all.

    `root_ca` is the API server's CA (PEM), which every namespace is told; `sign` makes tokens of claims for
    Secrets that want one. Nodes that are `vouched` for need no heartbeats.
    """
    async with asyncio.TaskGroup() as group:
        for controller in (
            NamespaceController(_own(api, "namespace-controller"), clock, informers, root_ca=root_ca),
            ReplicaSetController(_own(api, "replicaset-controller"), clock, informers),
            ReplicationManager(_own(api, "replication-controller"), clock, informers),
            DeploymentController(_own(api, "deployment-controller"), clock, informers),
            DaemonSetController(_own(api, "daemon-set-controller"), clock, informers),
            NodeLifecycleController(_own(api, "node-controller"), clock, informers, vouched=vouched),
            TaintEvictionController(_own(api, "node-controller"), clock, informers),
            PodGarbageController(_own(api, "pod-garbage-collector"), clock, informers),
            ResourceQuotaController(_own(api, "resourcequota-controller"), clock, informers),
            DisruptionController(_own(api, "disruption-controller"), clock, informers),
            VolumeProtectionController(_own(api, "pvc-protection-controller"), clock, informers),
            VolumeBindingController(_own(api, "persistent-volume-binder"), clock, informers),
            EphemeralVolumeController(_own(api, "ephemeral-volume-controller"), clock, informers),
            PodClaimsController(
                _own(api, "resource-claim-controller"), clock, informers, _own(api, *_OF_CLAIMS)
            ),
            ClaimReservationsController(_own(api, "resource-claim-controller"), clock, informers),
            RoleAggregationController(_own(api, _OF_ROLES, _OF_ROLES), clock, informers),
            PolicyStatusController(_own(api, *_OF_POLICIES), clock, informers),
            EndpointsController(_own(api, "endpoint-controller"), clock, informers),
            JobController(_own(api, "job-controller"), clock, informers),
            CronJobController(_own(api, "cronjob-controller"), clock, informers),
            StatefulSetController(_own(api, "statefulset-controller"), clock, informers),
            # The last: it takes the copies that others have asked for, of which it reads the metadata alone.
            GarbageCollector(_own(api, "generic-garbage-collector"), clock, informers),
        ):
            group.create_task(controller.run())
        if sign is not None:
            tokens = _own(api, "token-controller")
            group.create_task(
                AccountSecretsController(tokens, clock, informers, root_ca=root_ca, sign=sign).run()
            )


def _own(api: KubernetesApi, account: str, manager: str = "") -> KubernetesApi:
    """The client under the name of the account that this controller has in a genuine controller manager."""
    if not isinstance(api, LocalKubernetes):
        return api
    return api.acting_as(account_user("kube-system", account), manager)
