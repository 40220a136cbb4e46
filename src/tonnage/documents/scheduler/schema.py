"""KubeSchedulerConfiguration as it is written, field by field.

Source: kubernetes.io/docs/reference/config-api/kube-scheduler-config.v1 (names, bounds, defaults).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from tonnage.documents.yaml.source import Document
from tonnage.model.kubernetes.scheduler_profile import DEFAULT_NAME, Strategy

_Name = Annotated[str, Field(min_length=1, max_length=253)]
_Percent = Annotated[int, Field(ge=0, le=100)]
_Weight = Annotated[int, Field(ge=0, le=2**31 - 1)]
_Carried = Mapping[str, Any]


class Args(Document):
    """Arguments of a plugin."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"] | None = None
    kind: str | None = None


class Resource(Document):
    """A resource and its weight."""

    name: _Name
    weight: Annotated[int, Field(ge=1, le=100)] = 1


class Point(Document):
    """A point of a shape: the used share in percent, and a score from 0 to 10."""

    utilization: _Percent
    score: Annotated[int, Field(ge=0, le=10)]


class Ratio(Document):
    """The shape of RequestedToCapacityRatio."""

    shape: Annotated[list[Point], Field(min_length=1, max_length=101)]


class Scoring(Document):
    """How NodeResourcesFit rates."""

    type: Strategy = Field(default=Strategy.LEAST, strict=False)
    resources: Annotated[list[Resource], Field(max_length=100)] = Field(default_factory=list)
    requested_to_capacity_ratio: Ratio | None = None


class NodeResourcesFitArgs(Args):
    """NodeResourcesFitArgs."""

    ignored_resources: list[_Name] = Field(default_factory=list)
    ignored_resource_groups: list[_Name] = Field(default_factory=list)
    scoring_strategy: Scoring = Scoring()


class Balanced(Args):
    """NodeResourcesBalancedAllocationArgs."""

    resources: Annotated[list[Resource], Field(max_length=100)] = Field(default_factory=list)


class NodeSelectorRequirement(Document):
    """A requirement on a node's labels or fields."""

    key: _Name
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    values: list[str] = Field(default_factory=list)


class Term(Document):
    """A node selector term."""

    match_expressions: list[NodeSelectorRequirement] = Field(default_factory=list)
    match_fields: list[NodeSelectorRequirement] = Field(default_factory=list)


class RequiredNodeSelector(Document):
    """Terms of which one must hold."""

    node_selector_terms: Annotated[list[Term], Field(min_length=1)]


class Preferred(Document):
    """A term that adds to a node's score."""

    weight: Annotated[int, Field(ge=1, le=100)]
    preference: Term


class AddedNodeAffinity(Document):
    """Affinity for nodes."""

    required: RequiredNodeSelector | None = Field(
        None, alias="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: list[Preferred] = Field([], alias="preferredDuringSchedulingIgnoredDuringExecution")


class NodeAffinityArgs(Args):
    """NodeAffinityArgs."""

    added_affinity: AddedNodeAffinity | None = None


class TopologySpreadConstraint(Document):
    """A default spread constraint."""

    max_skew: Annotated[int, Field(ge=1)]
    topology_key: _Name
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"]


class Spread(Args):
    """PodTopologySpreadArgs."""

    default_constraints: Annotated[list[TopologySpreadConstraint], Field(max_length=100)] = Field(
        default_factory=list
    )
    defaulting_type: Literal["System", "List"] = "System"


class PodAffinity(Args):
    """InterPodAffinityArgs."""

    hard_pod_affinity_weight: _Percent = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class DefaultPreemptionArgs(Args):
    """DefaultPreemptionArgs."""

    min_candidate_nodes_percentage: _Percent = 10
    min_candidate_nodes_absolute: Annotated[int, Field(ge=0)] = 100


class PluginEntry(Document):
    """A plugin; 0: no weight is given."""

    name: _Name
    weight: _Weight = 0


class Set(Document):
    """Plugins of one point."""

    enabled: Annotated[list[PluginEntry], Field(max_length=200)] = Field(default_factory=list)
    disabled: Annotated[list[PluginEntry], Field(max_length=200)] = Field(default_factory=list)


class Plugins(Document):
    """Sets by point."""

    multi_point: Set = Set()
    pre_enqueue: Set = Set()
    queue_sort: Set = Set()
    pre_filter: Set = Set()
    filter: Set = Set()
    post_filter: Set = Set()
    pre_score: Set = Set()
    score: Set = Set()
    reserve: Set = Set()
    permit: Set = Set()
    pre_bind: Set = Set()
    bind: Set = Set()
    post_bind: Set = Set()


class PluginArgs(Document):
    """A plugin's arguments, yet to be looked at."""

    name: _Name
    args: _Carried = Field(default_factory=dict)


class SchedulerProfileSection(Document):
    """A profile."""

    scheduler_name: _Name = DEFAULT_NAME
    percentage_of_nodes_to_score: _Percent | None = None
    plugins: Plugins = Plugins()
    plugin_config: Annotated[list[PluginArgs], Field(max_length=200)] = Field(default_factory=list)


class Configuration(Document):
    """The document."""

    api_version: Literal["kubescheduler.config.k8s.io/v1"]
    kind: Literal["KubeSchedulerConfiguration"]
    profiles: Annotated[list[SchedulerProfileSection], Field(max_length=64)] = Field(
        default_factory=lambda: [SchedulerProfileSection()]
    )
    percentage_of_nodes_to_score: _Percent | None = None
    extenders: list[_Carried] = Field(default_factory=list)
    pod_initial_backoff_seconds: Annotated[int, Field(ge=1)] | None = None
    pod_max_backoff_seconds: Annotated[int, Field(ge=1)] | None = None
    parallelism: Annotated[int, Field(ge=1)] | None = None
    leader_election: _Carried | None = None
    client_connection: _Carried | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    delay_cache_until_active: bool | None = None
