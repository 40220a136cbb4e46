"""Drivers: DaemonSets for each group of nodes, their preflight, and their upgrade node by node."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final

from tonnage.controller.context import ControllerContext
from tonnage.controller.operator.cordons import with_cordon
from tonnage.controller.operator.driver_files import with_file_names
from tonnage.controller.operator.driver_images import ImageBook
from tonnage.controller.operator.leaving_pods import LeavingPods
from tonnage.controller.operator.node_loop import PolicyInForce, reports_of
from tonnage.controller.operator.unmade_pods import UnmadePods
from tonnage.decide.cluster.operate.drivers.daemon_set import (
    COMPONENT,
    DRIVER_COMPONENT,
    MANAGED_BY,
    MANAGER_NAME,
)
from tonnage.decide.cluster.operate.drivers.images import policy_refusal
from tonnage.decide.cluster.operate.drivers.node_upgrade import NodeStep, UpgradingNode
from tonnage.decide.cluster.operate.drivers.report import (
    DriverReport,
    conditions_of,
    conditions_without_drivers,
    driver_status,
)
from tonnage.decide.cluster.operate.drivers.rollout import (
    DriverCluster,
    DriverRollout,
    members_by_owner,
    needed_images,
    problems_for,
    rollout,
)
from tonnage.decide.cluster.operate.drivers.states import FAILURE, UNDER_WAY, UpgradeState
from tonnage.decide.cluster.operate.drivers.upgrade import left_paused, upgrade_steps
from tonnage.decide.cluster.operate.refusals import RefusedRequest, is_refusal
from tonnage.loop.informer import Informer, Key
from tonnage.loop.refusals import passing_over
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.model.actions.cluster import PatchDriverStatus, PatchNode
from tonnage.model.drivers.node import GROUP_LABEL
from tonnage.model.drivers.policy import DriverOwnerKind, DriverPolicy, UpgradePolicy
from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.reading.driver_policy import (
    cluster_driver_policy,
    driver_node_from,
    driver_pod_from,
    nvidia_driver_policy,
    standing_daemon_set,
)
from tonnage.wire.kinds import CLUSTER_POLICY, DAEMON_SET, NODE, NVIDIA_DRIVER, POD
from tonnage.wire.objects import ConfigMap, DaemonSet, Pod

_ALL: Final = "all"
_SOON_S: Final = 0.25
_UNDER_WAY_S: Final = 5.0
_AT_REST_S: Final = 30.0
_LONGEST: Final = 300
_DISABLED: Final = "no ClusterPolicy sets driver.useNvidiaDriverCRD"
_LOG: Final = logging.getLogger(__name__)


class DriverLoop:
    """Looks at all drivers soon after something changed, and now and then: time alone ends some waits."""

    def __init__(
        self, context: ControllerContext, images: ImageBook, config_maps: Informer[ConfigMap]
    ) -> None:
        self._context = context
        self._images = images
        self._config_maps = config_maps
        config_maps.notify(self._changed)
        self._queue: WorkQueue[str] = WorkQueue(context.clock)
        self._cluster_policies = context.copies.of(CLUSTER_POLICY, self._changed)
        self._policy = PolicyInForce(self._cluster_policies)
        self._drivers = context.copies.of(NVIDIA_DRIVER, self._changed)
        self._nodes = context.copies.of(NODE, self._changed)
        self._reports = reports_of(context, self._changed)
        namespace = context.operator_namespace
        self._sets: Informer[DaemonSet] = Informer(
            *(context.api, DAEMON_SET, context.clock),
            namespace=namespace,
            label_selector=f"{COMPONENT}={DRIVER_COMPONENT},{MANAGED_BY}={MANAGER_NAME}",
            on_change=self._changed,
        )
        self._pods: Informer[Pod] = Informer(
            *(context.api, POD, context.clock),
            namespace=namespace,
            label_selector=f"{COMPONENT}={DRIVER_COMPONENT}",
            on_change=self._changed,
        )
        self._leaving = LeavingPods(context)
        self._unmade = UnmadePods(context.clock, namespace)
        self._refusals: dict[str, str] = {}
        self._reports_by_owner: dict[str, DriverReport] = {}
        self._has_looked = False

    @property
    def copies(self) -> tuple[Informer[DaemonSet] | Informer[Pod], ...]:
        """The copies that nobody else keeps fresh."""
        return self._sets, self._pods

    def conditions(self, policy: str, status: JsonObject) -> list[JsonObject]:
        """The conditions of a ClusterPolicy's own drivers; `status` has those that were said last."""
        report = self._reports_by_owner.get(f"{DriverOwnerKind.CLUSTER_POLICY} {policy}")
        if report is None:
            return conditions_without_drivers(status) if self._has_looked else []
        return conditions_of(report)

    def problem(self, policy: str) -> str:
        """Why a ClusterPolicy's own drivers stay as they are whatever it says; empty: they follow it."""
        report = self._reports_by_owner.get(f"{DriverOwnerKind.CLUSTER_POLICY} {policy}")
        if report is None or report.refusal is None:
            return ""
        return f"{report.refusal.message}; drivers stay as they are"

    def without_pods(self) -> list[RefusedRequest]:
        """DaemonSets of drivers whose pods have not been made for a minute."""
        return self._unmade.current(self._sets)

    async def run(self) -> None:
        """Reconcile until cancelled."""
        self._queue.add(_ALL)
        await work(self._queue, self._reconcile)

    async def look_once(self) -> None:
        """Look at all drivers."""
        await self._reconcile(_ALL)

    def _changed(self, _key: Key) -> None:
        self._queue.add_after(_ALL, _SOON_S)

    async def _reconcile(self, _key: str) -> float:
        """Preflights and DaemonSets first, then a step of each node, then the policies' statuses."""
        self._context.counters.turned("drivers")
        disabled = ""
        winner = self._policy()
        policies: list[DriverPolicy] = []
        current = None if winner is None else self._cluster_policies.get(winner.name)
        if current is not None:
            own = cluster_driver_policy(current)
            disabled = "" if own is None else _DISABLED
            policies = [nvidia_driver_policy(driver) for driver in self._drivers] if own is None else [own]
        else:
            disabled = _DISABLED
        namespace = self._context.operator_namespace
        cluster = self._cluster([with_file_names(named, self._config_maps, namespace) for named in policies])
        cluster = replace(cluster, images=await self._images.answers(needed_images(cluster)))
        plan = rollout(cluster)
        cluster = replace(cluster, refused=await self._write(plan))
        under_way = await self._upgrade(cluster, plan)
        if disabled:
            policies = [nvidia_driver_policy(driver) for driver in self._drivers]
        await self._say(policies, disabled)
        return _UNDER_WAY_S if under_way else _AT_REST_S

    def _cluster(self, policies: list[DriverPolicy]) -> DriverCluster:
        nodes = []
        for judged in self._context.readiness.nodes(self._context.clock.now()):
            node = self._nodes.get(judged.node)
            assert node is not None  # it was just read of the same copy
            nodes.append(driver_node_from(node, self._reports.get(judged.node), judged.why))
        pods = [driver_pod_from(pod) for pod in self._pods]
        # Of two on a node, one of which ends, the other counts.
        ordered = sorted(pods, key=lambda pod: not pod.terminating)
        return DriverCluster(
            policies,
            nodes,
            pods={pod.node: pod for pod in ordered if pod.node},
            standing={daemons.metadata.name: standing_daemon_set(daemons) for daemons in self._sets},
            namespace=self._context.operator_namespace,
        )

    async def _write(self, plan: DriverRollout) -> dict[str, str]:
        """Why DaemonSets are refused, by name. What is refused keeps no other from being written.

        DaemonSets before labels: a node that is labelled for none that exists waits for nothing. Where one is
        refused, those that stand stay: its nodes may still have their drivers from there.
        """
        perform = self._context.performer.perform
        refused: dict[str, str] = {}
        for applied in plan.apply:
            try:
                await perform(applied)
            except ApiError as error:
                if not is_refusal(error.code):
                    raise
                refused[applied.name] = error.message[:_LONGEST]
        for change in plan.labels:
            node = self._nodes.get(change.node)
            if node is not None and change.labels.get(GROUP_LABEL) not in refused:
                metadata: JsonObject = {
                    "labels": dict(change.labels),
                    "annotations": dict(change.annotations),
                    "resourceVersion": node.metadata.resource_version,
                }
                await self._on_node(change.node, PatchNode(change.node, {"metadata": metadata}))
        for deleted in () if refused else plan.delete:
            with passing_over(404, 409):  # it is gone, or another one by now
                reading = self._context.api.get(DAEMON_SET, deleted.name, deleted.namespace)
                _, sight = await self._context.performer.look(deleted.subject, reading)
                await perform(deleted, sight)
        return refused

    async def _upgrade(self, cluster: DriverCluster, plan: DriverRollout) -> bool:
        """One step of each node; whether any upgrade is under way."""
        now = self._context.clock.now()
        reports: dict[str, DriverReport] = {}
        under_way = False
        labelled = {change.node for change in plan.labels}
        for policy, nodes in members_by_owner(cluster, plan):
            upgrades = UpgradePolicy() if policy is None else policy.upgrades
            with_cordons = [await with_cordon(node, self._context.api) for node in nodes]
            members = [await self._leaving.of(member, upgrades) for member in with_cordons]
            disabled = "" if policy is None else policy.upgrades_disabled
            steps = upgrade_steps(members, upgrades, now, disabled=disabled)
            waits: dict[str, str] = {}
            for member, step in zip(sorted(members, key=lambda member: member.node.name), steps, strict=True):
                under_way = under_way or member.state in UNDER_WAY
                if member.node.name not in labelled:  # what was judged is changed already
                    await self._step(member, step)
                refused = self._refusals.get(member.node.name, "")
                waiting = member.held if member.group in cluster.refused else step.waits
                waits[member.node.name] = f"{waiting}; {refused}" if refused else waiting
            if policy is not None:
                problems = problems_for(policy, (member.node.name for member in members), plan)
                refusal = plan.assigned.refused.get(policy.owner.name)
                reports[str(policy.owner)] = DriverReport(tuple(members), problems, waits, refusal)
        for policy in cluster.policies:
            if policy.enabled and str(policy.owner) not in reports:
                refusal = plan.assigned.refused.get(policy.owner.name)
                problems = problems_for(policy, (), plan)
                reports[str(policy.owner)] = DriverReport(problems=problems, refusal=refusal)
        if reports != self._reports_by_owner or not self._has_looked:
            self._reports_by_owner, self._has_looked = reports, True
            self._context.policy_turns.soon()
        return under_way

    async def _step(self, member: UpgradingNode, step: NodeStep) -> None:
        name = member.node.name
        self._refusals.pop(name, None)
        patch = step.patch(member.node.resource_version)
        if patch is not None and await self._on_node(name, PatchNode(name, patch)):
            await self._tell(member, step)
        for pod in step.evict:
            await self._evict(name, pod.namespace, pod.name)
        if step.restart is not None:
            await self._evict(name, step.restart.namespace, step.restart.name)
        paused = left_paused(member)
        if paused is not None and patch is None:
            labels: JsonObject = dict.fromkeys(paused.labels, "true")
            metadata: JsonObject = {"labels": labels, "resourceVersion": member.node.resource_version}
            await self._on_node(name, PatchNode(name, {"metadata": metadata}))

    async def _on_node(self, name: str, action: PatchNode) -> bool:
        """Whether it was done. A node whose write is refused holds up no other."""
        try:
            return await self._context.performer.perform(action)
        except ApiError as error:
            if error.code == 409:
                self._queue.add_after(_ALL, _SOON_S)  # it has changed since; look again
            elif error.code != 404:
                self._refusals[name] = f"the API server refuses to change it: {error.message[:_LONGEST]}"
                _LOG.warning("node not changed: node=%s error=%s", name, error)
            return False

    async def _evict(self, node: str, namespace: str, name: str) -> None:
        refused = await self._leaving.evict(namespace, name)
        if refused:
            self._refusals[node] = f"{namespace}/{name} is not evicted: {refused}"

    async def _tell(self, member: UpgradingNode, step: NodeStep) -> None:
        """Say on the Node where its upgrade stands; nowhere when it is forgotten."""
        node = self._nodes.get(member.node.name)
        if node is None or not step.to or (step.to is UpgradeState.DONE and not member.state):
            return
        failed = step.to is UpgradeState.FAILED
        message = str(step.annotations.get(FAILURE) or f"the driver's upgrade is at {step.to}")
        reason = "DriverUpgradeFailed" if failed else "DriverUpgrade"
        await self._context.events.emit(node, "Warning" if failed else "Normal", reason, message)

    async def _say(self, policies: list[DriverPolicy], disabled: str) -> None:
        """The status of every NVIDIADriver; a ClusterPolicy's is written with the rest of it."""
        now = self._context.clock.now()
        for policy in policies:
            if policy.owner.kind is not DriverOwnerKind.NVIDIA_DRIVER:
                continue
            report = self._reports_by_owner.get(
                str(policy.owner), DriverReport(refusal=policy_refusal(policy))
            )
            namespace = self._context.operator_namespace
            status = driver_status(policy, report, namespace, now, disabled=disabled)
            current = self._drivers.get(policy.owner.name)
            if status is None or current is None:
                continue
            metadata: JsonObject = {"resourceVersion": current.metadata.resource_version}
            action = PatchDriverStatus(policy.owner.name, {"metadata": metadata, "status": status})
            await self._context.performer.perform(action)
