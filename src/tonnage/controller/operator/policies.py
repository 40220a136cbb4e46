"""ClusterPolicies: what the one in force asks of the agents, and the status of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.node_loop import reports_of
from tonnage.controller.operator.operand_sets import OperandLoop
from tonnage.controller.operator.policy_turns import ALL_POLICIES
from tonnage.decide.cluster.operate.drivers.report import conditions_without_drivers
from tonnage.decide.cluster.operate.plugin_configs import (
    ConfigCopy,
    claims_copy,
    config_copy,
    counters_copy,
    is_of_cluster,
    layouts_copy,
    released,
)
from tonnage.decide.cluster.operate.policy_status import in_force, judged, status_of
from tonnage.decide.cluster.operate.refusals import RefusedRequest, is_refusal, refusal_conditions
from tonnage.loop.informer import Informer, Key
from tonnage.loop.work_queue import work
from tonnage.model.actions.cluster import ApplyConfigMap, PatchPolicyStatus
from tonnage.model.errors import ApiError
from tonnage.model.gpu_policy import ConfigMapChoice, GpuPolicy, PolicyState, SeenConfigMap
from tonnage.model.json import JsonObject
from tonnage.model.names import AGENTS_CONFIG, AGENTS_COUNTERS, AGENTS_LAYOUTS
from tonnage.reading.gpu_policy import config_map_from, gpu_policy_from
from tonnage.wire.kinds import CLUSTER_POLICY, CONFIG_MAP, NODE
from tonnage.wire.nvidia import ClusterPolicy
from tonnage.wire.objects import ConfigMap

if TYPE_CHECKING:
    from tonnage.controller.operator.drivers import DriverLoop
    from tonnage.controller.operator.gpu_clusters import GpuClusterLoop
    from tonnage.controller.operator.rejected_pods import RejectedPodLoop

_AGAIN_S: Final = 30.0
"""An agent falls silent without an object that changes."""


class PolicyLoop:
    """Looks at all policies and nodes soon after something changed, and every half minute."""

    def __init__(
        self,
        context: ControllerContext,
        config_maps: Informer[ConfigMap],
        drivers: DriverLoop | None = None,
        rejected: RejectedPodLoop | None = None,
        clusters: GpuClusterLoop | None = None,
    ) -> None:
        self._context = context
        self._turns = context.policy_turns
        self._clusters = clusters
        self._drivers = drivers
        self._rejected = rejected
        self._policies = context.copies.of(CLUSTER_POLICY, self._changed)
        context.copies.of(NODE, self._changed)
        reports_of(context, self._changed)
        self._named = self._agents = config_maps
        config_maps.notify(self._changed)
        if context.namespace != context.operator_namespace:
            self._agents = Informer(
                *(context.api, CONFIG_MAP, context.clock),
                namespace=context.namespace,
                on_change=self._changed,
            )
        self._operands = OperandLoop(context, self._changed)

    @property
    def copies(self) -> tuple[Informer[Any], ...]:
        """The copies that nobody else keeps fresh."""
        own = () if self._agents is self._named else (self._agents,)
        return (*own, *self._operands.copies)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        self._turns.queue.add(ALL_POLICIES)
        await work(self._turns.queue, self._reconcile)

    async def look_once(self) -> None:
        """Look at every policy and node."""
        await self._reconcile(ALL_POLICIES)

    def _changed(self, _key: Key) -> None:
        self._turns.soon()

    async def _reconcile(self, _key: str) -> float:
        context = self._context
        context.counters.turned("policies")
        nodes = context.readiness.nodes(context.clock.now())
        context.counters.judged(nodes)
        drivers = self._drivers is not None
        read = {p.metadata.name: gpu_policy_from(p, drivers=drivers) for p in self._policies}
        winner = in_force(read.values())
        if winner is None:
            await self._leave()
        else:
            configs = await self._configure(winner)
            problem = await self._operands.follow(winner)
            problem = configs.problem or problem or self._driver_problem(winner.name)
            effects = (*winner.without_effect, *configs.without_effect)
            effects = (*effects, *self._operands.without_effect(winner))
            read[winner.name] = winner = replace(winner, without_effect=effects)
            refused: ApiError | None = None
            for policy in read.values():
                judgement = judged(policy, winner, nodes, problem, self._operands.not_ready())
                more = self._more_conditions(policy) if policy is winner else ()
                status = status_of(policy, judgement, context.operator_namespace, context.clock.now(), more)
                try:
                    await self._tell(policy, status)
                except ApiError as error:  # one that is refused keeps no other from being written
                    refused = refused or error
            if refused is not None:
                raise refused
        return _AGAIN_S

    async def _leave(self) -> None:
        """Take away what was made for a policy. The copies are fresh, so that there is none."""
        await self._operands.leave()
        gone = [released(self._agents_own(name)) for name in (AGENTS_LAYOUTS, AGENTS_COUNTERS)]
        for action in (self._without_policy(), *gone):
            if action is not None:
                await self._perform(action)

    def _without_policy(self) -> ApplyConfigMap | None:
        """How the agents' configurations follow a GPUCluster, or go where there is none."""
        own = self._agents_own(AGENTS_CONFIG)
        names = self._clusters.names() if self._clusters is not None else ()
        if names is None:  # not listed yet: what stands may be of one
            return None if is_of_cluster(own) else released(own)
        return claims_copy(names[0], own) if names else released(own)

    def _more_conditions(self, policy: GpuPolicy) -> Sequence[JsonObject]:
        """Those of the drivers that it asks for, of pods that nobody replaces, and of refused requests."""
        of_drivers = (
            conditions_without_drivers(policy.status)
            if self._drivers is None
            else self._drivers.conditions(policy.name, policy.status)
        )
        of_pods = [] if self._rejected is None else self._rejected.conditions(policy.status)
        refused = [*self._context.refused.current(), *self._operands.without_pods()]
        refused += [] if self._drivers is None else self._drivers.without_pods()
        return [*of_drivers, *of_pods, *refusal_conditions(refused, policy.status)]

    def _driver_problem(self, policy: str) -> str:
        """Why the policy's drivers cannot be as it says; empty: they can, or are not the controller's."""
        return "" if self._drivers is None else self._drivers.problem(policy)

    async def _configure(self, policy: GpuPolicy) -> ConfigCopy:
        """Have the agents' ConfigMaps follow the policy; what is without effect, or why they cannot."""
        operator = self._context.operator_namespace
        copies = (
            config_copy(
                policy, self._source(policy.plugin_config), self._agents_own(AGENTS_CONFIG), operator
            ),
            layouts_copy(policy, self._source(policy.mig_config), self._agents_own(AGENTS_LAYOUTS), operator),
            counters_copy(policy, self._source(policy.counters), self._agents_own(AGENTS_COUNTERS), operator),
        )
        for copy in copies:
            if copy.action is not None:
                await self._perform(copy.action)
        refusal = next((copy.refusal for copy in copies if copy.refusal), None)
        return ConfigCopy(refusal=refusal, without_effect=copies[0].without_effect)

    async def _perform(self, action: ApplyConfigMap) -> None:
        """A refusal keeps nothing else from being done; a condition speaks of it."""
        try:
            await self._context.performer.perform(action)
        except ApiError as error:
            if not is_refusal(error.code):
                raise

    def _source(self, choice: ConfigMapChoice) -> SeenConfigMap | None:
        named = self._named.get(choice.name, self._context.operator_namespace)
        return None if named is None else config_map_from(named)

    def _agents_own(self, name: str) -> SeenConfigMap:
        own = self._agents.get(name, self._context.namespace)
        return SeenConfigMap(self._context.namespace, name, {}) if own is None else config_map_from(own)

    async def _tell(self, policy: GpuPolicy, status: JsonObject | None) -> None:
        """Write the status, if it differs, and an Event where the state has changed."""
        context, name = self._context, policy.name
        current = self._policies.get(name)
        if current is None or status is None:
            return
        # With the version that was judged, so that a leader who was replaced writes nothing any more.
        metadata: JsonObject = {"resourceVersion": current.metadata.resource_version}
        try:
            await context.performer.perform(PatchPolicyStatus(name, {"metadata": metadata, "status": status}))
        except ApiError as error:
            if is_refusal(error.code):  # no condition can speak of it
                refused = RefusedRequest(f"ClusterPolicy {name}", error.message, error.code)
                words = f"the status cannot be written: {error.message}; {refused.remedy}"
                await context.events.emit(current, "Warning", refused.reason, words)
            raise
        if policy.status.get("state") != status["state"]:
            await self._announce(current, status)

    async def _announce(self, policy: ClusterPolicy, status: JsonObject) -> None:
        conditions = status["conditions"]
        assert isinstance(conditions, list)
        ready = next(c for c in conditions if isinstance(c, dict) and c.get("type") == "Ready")
        normal = status["state"] == PolicyState.READY
        await self._context.events.emit(
            policy, "Normal" if normal else "Warning", str(ready["reason"]), str(ready["message"])
        )
