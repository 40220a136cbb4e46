"""What the policy in force comes to: read from the cluster, and shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Final

from tonnage.cli.cluster import connected
from tonnage.cli.operator.drivers import (
    installs_drivers,
    show_conditions,
    show_nvidia_drivers,
    show_outlook,
)
from tonnage.cli.operator.namespaces import require_namespaces
from tonnage.cli.operator.objects import owned_objects
from tonnage.cli.operator.words import label_words, object_words
from tonnage.cli.options import Common
from tonnage.cli.terminal.output import emit, line, say
from tonnage.cli.terminal.tables import table
from tonnage.model.errors import ApiError

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.diagnose.operated import OperatedCluster, OperatedView
    from tonnage.diagnose.operated_drivers import OperatedDrivers
    from tonnage.model.json import JsonObject
    from tonnage.wire.nvidia import ClusterPolicy, NvidiaDriver
    from tonnage.wire.objects import Node, NodeGPUStatus

FEW_FIELDS: Final = 4


@dataclass(frozen=True, slots=True)
class OperatorPlace:
    """Where operator and agents are; `named` are the namespaces that the command line names, by option."""

    operator_namespace: str
    agents_namespace: str
    named: Mapping[str, str] = field(default_factory=dict)


async def operator_view(
    common: Common,
    place: OperatorPlace,
    added: Sequence[ClusterPolicy] = (),
    added_drivers: Sequence[NvidiaDriver] = (),
) -> tuple[OperatedView, OperatedDrivers] | None:
    """What the policy in force comes to, and its drivers; None: there is no policy.

    What is added takes the place of what has its name.
    """
    from tonnage.adapters.clock import SystemClock
    from tonnage.diagnose.operated import operated
    from tonnage.diagnose.operated_drivers import with_driver_problem

    async with connected(common) as api:
        await require_namespaces(api, place.named)
        objects = await _objects(api, added, place.operator_namespace, place.agents_namespace)
        view = operated(objects.cluster, SystemClock().now())
        if view is None:
            return None
        drivers = await _drivers(api, objects, view, added_drivers)
        return with_driver_problem(view, drivers.outlook), drivers


@dataclass(frozen=True, slots=True)
class _OperatorObjects:
    """What is seen of the cluster, as it is judged and as the API server has it."""

    cluster: OperatedCluster
    policies: Mapping[str, ClusterPolicy]
    nodes: Sequence[Node]
    reports: Mapping[str, NodeGPUStatus]
    drivers: bool
    """Whether the controller installs drivers."""


async def _drivers(
    api: HttpKubernetes, objects: _OperatorObjects, view: OperatedView, added: Sequence[NvidiaDriver]
) -> OperatedDrivers:
    """NVIDIADrivers, and what drivers come to where the controller installs any."""
    from tonnage.cli.operator.driver_reading import driver_cluster, labelled_node, nvidia_drivers
    from tonnage.diagnose.operated_drivers import OperatedDrivers, driver_outlook

    by_name = {driver.metadata.name: driver for driver in (*await nvidia_drivers(api), *added)}
    statuses = list(by_name.values())
    outlook = None
    if objects.drivers:
        labels = {shown.readiness.node: shown.labels for shown in view.nodes}
        nodes = [
            labelled_node(node, objects.reports.get(node.metadata.name), labels[node.metadata.name])
            for node in objects.nodes
            if node.metadata.name in labels
        ]
        namespace = objects.cluster.operator_namespace
        policy = objects.policies[view.policy.name]
        outlook = driver_outlook(await driver_cluster(api, policy, statuses, nodes, namespace))
    return OperatedDrivers(outlook, {driver.metadata.name: driver.status for driver in statuses})


async def _objects(
    api: HttpKubernetes, added: Sequence[ClusterPolicy], operator_namespace: str, agents_namespace: str
) -> _OperatorObjects:
    """What is seen of the cluster; policies that are added take the place of those of their names."""
    from tonnage.cli.operator.driver_reading import controller_installs_drivers
    from tonnage.diagnose.operated import OperatedCluster
    from tonnage.model.gpu_policy import SeenConfigMap
    from tonnage.model.names import AGENTS_CONFIG, AGENTS_COUNTERS, AGENTS_LAYOUTS
    from tonnage.reading.gpu_policy import config_map_from, gpu_policy_from, operated_node_from
    from tonnage.wire.kinds import CLUSTER_POLICY, CONFIG_MAP, NODE, NODE_GPU_STATUS

    try:
        policies = (await api.list(CLUSTER_POLICY)).items
    except ApiError as error:
        if error.code != 404:
            raise
        policies = []  # the kind is not served yet
    drivers = any(installs_drivers(policy.status) for policy in policies)
    drivers = drivers or await controller_installs_drivers(api, agents_namespace)
    by_name = {policy.metadata.name: policy for policy in policies}
    for policy in added:
        if (current := by_name.get(policy.metadata.name)) is not None:
            policy.metadata.creation_timestamp = current.metadata.creation_timestamp
            policy.metadata.uid = current.metadata.uid
        by_name[policy.metadata.name] = policy
    nodes = (await api.list(NODE)).items
    reports = {report.metadata.name: report for report in (await api.list(NODE_GPU_STATUS)).items}
    configs = (await api.list(CONFIG_MAP, namespace=operator_namespace)).items
    own = {
        config.metadata.name: config_map_from(config)
        for config in (await api.list(CONFIG_MAP, namespace=agents_namespace)).items
    }
    sets, classes = await owned_objects(api, operator_namespace, operated=bool(policies))
    cluster = OperatedCluster(
        [gpu_policy_from(policy, drivers=drivers) for policy in by_name.values()],
        [operated_node_from(node, reports.get(node.metadata.name)) for node in nodes],
        [config_map_from(config) for config in configs],
        own.get(AGENTS_CONFIG) or SeenConfigMap(agents_namespace, AGENTS_CONFIG, {}),
        operator_namespace,
        own.get(AGENTS_LAYOUTS) or SeenConfigMap(agents_namespace, AGENTS_LAYOUTS, {}),
        sets,
        classes,
        own.get(AGENTS_COUNTERS) or SeenConfigMap(agents_namespace, AGENTS_COUNTERS, {}),
    )
    return _OperatorObjects(cluster, by_name, nodes, reports, drivers)


def show_view(
    view: OperatedView,
    drivers: OperatedDrivers,
    common: Common,
    *,
    planned: bool,
    more: JsonObject | None = None,
) -> None:
    if common.output in ("json", "yaml"):
        emit({**view.to_json(), "drivers": drivers.to_json(), **(more or {})}, common.output)
        return
    state, *lines = view.judgement.message.split("\n")
    say(line(f"ClusterPolicy {view.policy.name}: {view.judgement.state}, {state}"))
    for text in () if view.nodes else lines:
        say(line(f"  {text}"))
    for name in view.ignored:
        say(line(f"ClusterPolicy {name}: ignored, an older one is in force"))
    _show_nodes(view)
    _show_changes(view, planned=planned)
    _show_parts(view)
    if planned:
        show_outlook(drivers.outlook)
    else:
        show_conditions(view.policy.status)
        show_nvidia_drivers(drivers.statuses)
    _show_fields(view, all_of_them=common.output == "wide" or common.verbose)


def _show_nodes(view: OperatedView) -> None:
    if not view.nodes:
        return
    rows = []
    for node in (shown.readiness for shown in view.nodes):
        waits = node.waits_for.value if node.waits_for else "-"
        state = "waiting" if node.waits_for else "ready"
        rows.append([node.node, state, waits, node.why or "-", node.remedy or "-"])
    say()
    say(table(("NODE", "STATE", "WAITS FOR", "WHY", "WHAT TO DO"), rows))


def _show_changes(view: OperatedView, *, planned: bool) -> None:
    """Labels and configuration that differ from what is there."""
    changed = [(tuple(node.labels.items()), node.readiness.node) for node in view.nodes if node.labels]
    copies = [copy for copy in (view.configs, view.layouts, view.counters) if copy.action or copy.problem]
    if not (changed or copies or view.objects):
        return
    say()
    say("Would change:" if planned else "The controller still has to change:")
    for labels, members in groupby(sorted(changed), key=lambda change: change[0]):
        nodes = ", ".join(node for _, node in members)
        say(line(f"  labels of {nodes}: {label_words(labels)}"))
    for action in (copy.action for copy in copies if copy.action is not None):
        keys = ", ".join(sorted(action.contents)) or "no key"
        source = action.source or "nothing"
        say(line(f"  ConfigMap {action.namespace}/{action.name}: {keys}, as in {source}"))
    if view.configs.problem:
        say(line(f"  the agents keep their configuration: {view.configs.problem}"))
    if view.layouts.problem:
        say(line(f"  the agents keep their MIG layouts: {view.layouts.problem}"))
    if view.counters.problem:
        say(line(f"  the agents keep the counters of device metrics: {view.counters.problem}"))
    for kind, changes in view.objects.items():
        say(line(f"  {kind}: {object_words(changes)}"))


def _show_parts(view: OperatedView) -> None:
    """Parts of agents that are switched off, nodes with the same ones together."""
    off = sorted((node.off, node.readiness.node) for node in view.nodes if node.off)
    if off:
        say()
    for parts, members in groupby(off, key=lambda pair: pair[0]):
        nodes = ", ".join(node for _, node in members)
        say(line(f"Switched off on {nodes}: {parts.replace(',', ', ')}"))


def _show_fields(view: OperatedView, *, all_of_them: bool) -> None:
    """Fields without effect, those with one reason together."""
    if not view.policy.without_effect:
        return
    say()
    say("Without effect here:")
    fields = sorted(view.policy.without_effect, key=lambda field: (field.path.partition(".")[0], field.why))
    for why, group in groupby(fields, key=lambda field: field.why):
        paths = [field.path for field in group]
        few = len(paths) <= FEW_FIELDS or all_of_them
        shown = ", ".join(paths if few else [*paths[:FEW_FIELDS], f"{len(paths) - FEW_FIELDS} more"])
        say(line(f"  {shown}: {why}"))
