"""kube-controller-manager: all workload and node controllers in one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from tonnage.loop.informer import Informers
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
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
from tonnage.twin.controllers.quotas.resource_quota import ResourceQuotaController
from tonnage.twin.controllers.replicas.replica_set import ReplicaSetController, ReplicationManager
from tonnage.twin.controllers.role_aggregation import RoleAggregationController
from tonnage.twin.controllers.services.endpoint_slices import EndpointSlicesController
from tonnage.twin.controllers.stateful.stateful_set import StatefulSetController
from tonnage.twin.controllers.volumes.binding import VolumeBindingController
from tonnage.twin.controllers.volumes.ephemeral import EphemeralVolumeController
from tonnage.twin.controllers.volumes.protection import VolumeProtectionController

_OF_CLAIMS: Final = ("resource-claim-controller", "ResourceClaimController")
_OF_ROLES: Final = "clusterrole-aggregation-controller"
"""Accounts, and the managers as which they apply."""


class ClientOfAccount(Protocol):
    """The client of an account in kube-system, which owns what it applies as `manager`."""

    def __call__(self, account: str, manager: str = ..., /) -> KubernetesApi: ...


async def run_controllers(
    client_of: ClientOfAccount,
    clock: Clock,
    informers: Informers,
    *,
    root_ca: str = "",
    vouched: Callable[[str], bool] = lambda _name: False,
) -> None:
    """Run them all until cancelled. What is wrong with one of them ends all.

    Each speaks to the server under the account that it has in a genuine controller manager. `root_ca` is the
    API server's CA (PEM), which every namespace is told. Nodes that are `vouched` for need
    no heartbeats.
    """
    async with asyncio.TaskGroup() as group:
        for controller in (
            NamespaceController(client_of("namespace-controller"), clock, informers, root_ca=root_ca),
            ReplicaSetController(client_of("replicaset-controller"), clock, informers),
            ReplicationManager(client_of("replication-controller"), clock, informers),
            DeploymentController(client_of("deployment-controller"), clock, informers),
            DaemonSetController(client_of("daemon-set-controller"), clock, informers),
            NodeLifecycleController(client_of("node-controller"), clock, informers, vouched=vouched),
            TaintEvictionController(client_of("node-controller"), clock, informers),
            PodGarbageController(client_of("pod-garbage-collector"), clock, informers),
            ResourceQuotaController(client_of("resourcequota-controller"), clock, informers),
            DisruptionController(client_of("disruption-controller"), clock, informers),
            VolumeProtectionController(client_of("pvc-protection-controller"), clock, informers),
            VolumeBindingController(client_of("persistent-volume-binder"), clock, informers),
            EphemeralVolumeController(client_of("ephemeral-volume-controller"), clock, informers),
            PodClaimsController(
                client_of("resource-claim-controller"), clock, informers, client_of(*_OF_CLAIMS)
            ),
            ClaimReservationsController(client_of("resource-claim-controller"), clock, informers),
            RoleAggregationController(client_of(_OF_ROLES, _OF_ROLES), clock, informers),
            EndpointSlicesController(client_of("endpointslice-controller"), clock, informers),
            JobController(client_of("job-controller"), clock, informers),
            CronJobController(client_of("cronjob-controller"), clock, informers),
            StatefulSetController(client_of("statefulset-controller"), clock, informers),
            # The last: it takes the copies that others have asked for, of which it reads the metadata alone.
            GarbageCollector(client_of("generic-garbage-collector"), clock, informers),
        ):
            group.create_task(controller.run())
