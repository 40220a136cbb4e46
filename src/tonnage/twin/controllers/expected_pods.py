"""How many pods the controller of a pod is asked for, whatever its kind."""

from __future__ import annotations

import asyncio

from tonnage.loop.informer import Informers
from tonnage.loop.ownership import controller_of
from tonnage.loop.refusals import or_none
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.budgets.plan import ExpectedPods
from tonnage.twin.controllers.custom_scales import count_at, custom_versions
from tonnage.wire.kinds import DEPLOYMENT, REPLICA_SET, Kind
from tonnage.wire.objects import OwnerReference
from tonnage.wire.policies import PodMaker
from tonnage.wire.schema import load_schema


class Scales:
    """Reads ReplicaSets and Deployments in copies, anything else through its scale subresource."""

    def __init__(self, api: KubernetesApi, informers: Informers) -> None:
        self._api = api
        self._sets = informers.of(REPLICA_SET)
        self._deployments = informers.of(DEPLOYMENT)

    async def run(self) -> None:
        """Keep the copies until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._sets.run())
            group.create_task(self._deployments.run())

    async def synced(self) -> None:
        """Return once the copies are there."""
        await self._sets.synced()
        await self._deployments.synced()

    async def of(self, owner: OwnerReference, namespace: str) -> ExpectedPods | None:
        """The scale, None where the controller is gone. Raises ClusterError."""
        if owner.kind == REPLICA_SET.kind and owner.api_version == REPLICA_SET.api_version:
            return self._of_set(owner, namespace)
        group, _, version = owner.api_version.rpartition("/")
        row = load_schema().kind(group, version, owner.kind)
        if row is not None:
            if row.subresource("scale") is None:
                return ExpectedPods(
                    owner.uid, problem=f"{row.resource} does not implement the scale subresource"
                )
            kind = Kind(row.group, row.version, row.kind, row.plural, row.namespaced, PodMaker)
            return await self._custom_scale(kind, owner, namespace, ("replicas",))
        return await self._custom(group, version, owner, namespace)

    def _of_set(self, owner: OwnerReference, namespace: str) -> ExpectedPods | None:
        replica_set = self._sets.get(owner.name, namespace)
        if replica_set is None or replica_set.metadata.uid != owner.uid:
            return None
        above = controller_of(replica_set)
        if above is None or above.kind != DEPLOYMENT.kind:
            return ExpectedPods(replica_set.metadata.uid, replica_set.spec.replicas)
        deployment = self._deployments.get(above.name, namespace)
        if deployment is None or deployment.metadata.uid != above.uid:
            return None
        return ExpectedPods(deployment.metadata.uid, deployment.spec.replicas)

    async def _custom(
        self, group: str, version: str, owner: OwnerReference, namespace: str
    ) -> ExpectedPods | None:
        for custom in await custom_versions(self._api, group, owner.kind) or ():
            if custom.kind.version != version:
                continue
            if custom.replicas is None:
                why = f"{custom.kind.plural}.{group} does not implement the scale subresource"
                return ExpectedPods(owner.uid, problem=why)
            return await self._custom_scale(custom.kind, owner, namespace, custom.replicas)
        why = f'no matches for kind "{owner.kind}" in version "{owner.api_version}"'
        return ExpectedPods(owner.uid, problem=why)

    async def _custom_scale(
        self, kind: Kind[PodMaker], owner: OwnerReference, namespace: str, path: tuple[str, ...]
    ) -> ExpectedPods | None:
        scaled = await or_none(self._api.get(kind, owner.name, namespace if kind.namespaced else None))
        if scaled is None or scaled.metadata.uid != owner.uid:
            return None
        return ExpectedPods(owner.uid, count_at(scaled.spec, path))
