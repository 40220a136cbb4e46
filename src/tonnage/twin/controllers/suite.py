"""All workload and node controllers, as one controller manager runs them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.twin.controllers.cron_job import CronJobController
from tonnage.twin.controllers.daemon_set import DaemonSetController
from tonnage.twin.controllers.deployment import DeploymentController
from tonnage.twin.controllers.disruption import DisruptionController
from tonnage.twin.controllers.garbage_collector import GarbageCollector
from tonnage.twin.controllers.job import JobController
from tonnage.twin.controllers.namespaces import NamespaceController
from tonnage.twin.controllers.node_lifecycle import NodeLifecycleController
from tonnage.twin.controllers.pod_garbage import PodGarbageController
from tonnage.twin.controllers.replica_set import ReplicaSetController
from tonnage.twin.controllers.resource_quota import ResourceQuotaController
from tonnage.twin.controllers.role_aggregation import RoleAggregationController
from tonnage.twin.controllers.stateful_set import StatefulSetController
from tonnage.twin.controllers.taint_eviction import TaintEvictionController
from tonnage.twin.controllers.volume_protection import VolumeProtectionController


async def run_controllers(
    api: KubernetesApi,
    clock: Clock,
    *,
    root_ca: str = "",
    vouched: Callable[[str], bool] = lambda _name: False,
) -> None:
    """Run them all until cancelled. What is wrong with one of them ends all.

    `root_ca` is the API server's CA (PEM), which every namespace is told. Nodes that are `vouched` for need
    no heartbeats.
    """
    async with asyncio.TaskGroup() as group:
        for controller in (
            NamespaceController(api, clock, root_ca=root_ca),
            ReplicaSetController(api, clock),
            DeploymentController(api, clock),
            DaemonSetController(api, clock),
            GarbageCollector(api, clock),
            NodeLifecycleController(api, clock, vouched=vouched),
            TaintEvictionController(api, clock),
            PodGarbageController(api, clock),
            ResourceQuotaController(api, clock),
            DisruptionController(api, clock),
            VolumeProtectionController(api, clock),
            RoleAggregationController(api, clock),
            JobController(api, clock),
            CronJobController(api, clock),
            StatefulSetController(api, clock),
        ):
            group.create_task(controller.run())
