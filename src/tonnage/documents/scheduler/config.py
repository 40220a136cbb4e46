"""The profiles of a KubeSchedulerConfiguration, as far as they bear on where pods go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, TypeVar

from tonnage.documents.scheduler import schema as s
from tonnage.documents.scheduler.plugins import (
    BIND,
    DEFAULTS,
    FILTERS,
    MODELLED,
    OF_VOLUMES,
    POINTS,
    POST_FILTERS,
    PRE_FILTERS,
    PRE_SCORES,
    SCORES,
    SORT,
    expanded,
    left_out,
    merged,
)
from tonnage.documents.yaml.reader import MarkedDocument, parse_yaml
from tonnage.documents.yaml.reader import Path as FieldPath
from tonnage.documents.yaml.source import validate
from tonnage.model.errors import ConfigError, Problem
from tonnage.model.kubernetes.scheduler_profile import (
    AddedAffinity,
    DefaultSpread,
    FitRating,
    SchedulerProfile,
    Strategy,
)
from tonnage.model.kubernetes.selectors import NodeSelectorTerm, Requirement

A = TypeVar("A", bound=s.Args)
_ARGS: Final[Mapping[str, type[s.Args]]] = {
    "NodeResourcesFit": s.NodeResourcesFitArgs,
    "NodeResourcesBalancedAllocation": s.Balanced,
    "NodeAffinity": s.NodeAffinityArgs,
    "PodTopologySpread": s.Spread,
    "InterPodAffinity": s.PodAffinity,
    "DefaultPreemption": s.DefaultPreemptionArgs,
}


def scheduler_profiles(text: str, source: str) -> tuple[SchedulerProfile, ...]:
    """The profiles of a configuration, in their order.

    Raises:
        ConfigError: no YAML or JSON, or whatever is wrong in it, all at once, each with its place.
    """
    document = parse_yaml(text, source=source)
    read = validate(document, s.Configuration)
    problems = list(_twice(read, document))
    profiles = [
        _Reading(document, ("profiles", at), read, problems).profile(profile)
        for at, profile in enumerate(read.profiles)
    ]
    if problems:
        raise ConfigError(*problems)
    return tuple(profiles)


def _twice(read: s.Configuration, document: MarkedDocument) -> Iterator[Problem]:
    names = [profile.scheduler_name for profile in read.profiles]
    for at, name in enumerate(names):
        if name in names[:at]:
            where = document.where(("profiles", at, "schedulerName"))
            yield Problem(f"two profiles are called {name}", where, "each needs its own name")


class _Reading:
    """One profile under way; what is wrong goes to `problems`."""

    def __init__(
        self, document: MarkedDocument, path: FieldPath, whole: s.Configuration, problems: list[Problem]
    ) -> None:
        self._document = document
        self._path = path
        self._whole = whole
        self._problems = problems
        self._args: dict[type[s.Args], s.Args] = {}

    def profile(self, read: s.SchedulerProfileSection) -> SchedulerProfile:
        """The profile; of what it leaves out the default."""
        self._read_args(read)
        sets = read.plugins
        multi = merged(DEFAULTS, sets.multi_point)
        self._need(multi, sets.queue_sort, "queueSort", SORT)
        self._need(multi, sets.bind, "bind", BIND)
        filters = [name for name, _ in expanded(multi, sets.filter, FILTERS)]
        scores = {name: weight or 1 for name, weight in expanded(multi, sets.score, SCORES)}
        after = [name for name, _ in expanded(multi, sets.post_filter, POST_FILTERS)]
        own = read.percentage_of_nodes_to_score
        percent = own if own is not None else self._whole.percentage_of_nodes_to_score
        fit, spread, pods = (
            self._arguments_of(s.NodeResourcesFitArgs),
            self._arguments_of(s.Spread),
            self._arguments_of(s.PodAffinity),
        )
        preemption = self._arguments_of(s.DefaultPreemptionArgs)
        return SchedulerProfile(
            name=read.scheduler_name,
            filters=tuple(filters) if _touched(sets.multi_point, sets.filter) else None,
            weights=scores if _touched(sets.multi_point, sets.score) else None,
            preempts="DefaultPreemption" in after,
            frees_claims="DynamicResources" in after,
            fit=_rating(fit.scoring_strategy),
            ignored=(*fit.ignored_resources, *(f"{group}/*" for group in fit.ignored_resource_groups)),
            balanced=tuple(r.name for r in self._arguments_of(s.Balanced).resources) or ("cpu", "memory"),
            affinity=_added(self._arguments_of(s.NodeAffinityArgs).added_affinity),
            spread=_constraints(spread) if spread.defaulting_type == "List" else None,
            required_weight=pods.hard_pod_affinity_weight,
            overlooks_preferred=pods.ignore_preferred_terms_of_existing_pods,
            percent=percent or 0,
            least_candidates=preemption.min_candidate_nodes_absolute,
            candidates_percent=preemption.min_candidate_nodes_percentage,
            unknown=tuple(self._unknown(sets, multi, filters, scores)),
        )

    def _need(self, multi: Iterable[tuple[str, int]], own: s.Set, point: str, able: tuple[str, ...]) -> None:
        if not expanded(multi, own, able):
            where = self._document.where((*self._path, "plugins"))
            why = "the scheduler does not start without one"
            self._problems.append(
                Problem(f"no plugin is enabled for {point}", where, why, f"leave {able[0]} enabled")
            )

    def _unknown(
        self, sets: s.Plugins, multi: list[tuple[str, int]], filters: list[str], scores: Iterable[str]
    ) -> Iterator[str]:
        """What the profile has that is not decided here."""
        if self._whole.extenders:
            yield "the scheduler's extenders"
        named = {name for name, _ in multi} | {
            plugin.name
            for plugin_set in (sets.pre_filter, sets.filter, sets.post_filter, sets.pre_score, sets.score,
                        sets.pre_enqueue, sets.permit, sets.reserve)
            for plugin in plugin_set.enabled
        }  # fmt: skip
        strange = named - POINTS | ({*filters, *scores} & POINTS) - MODELLED
        yield from (f"the scheduler's plugin {name}" for name in sorted(strange))
        of_volumes = OF_VOLUMES.intersection(filters)
        if of_volumes and of_volumes != OF_VOLUMES:
            yield "a profile that asks some of the plugins for volumes"
        for point, used, able, own in (
            ("preFilter", filters, PRE_FILTERS, sets.pre_filter),
            ("preScore", scores, PRE_SCORES, sets.pre_score),
        ):
            yield from (f"{name} without its {point}" for name in left_out(multi, own, able, used))

    def _arguments_of(self, model: type[A]) -> A:
        arguments = self._args.get(model)
        return arguments if isinstance(arguments, model) else model()

    def _read_args(self, read: s.SchedulerProfileSection) -> None:
        named: set[str] = set()
        for number, config in enumerate(read.plugin_config):
            path: FieldPath = (*self._path, "pluginConfig", number)
            if config.name in named:
                where = self._document.where((*path, "name"))
                self._problems.append(Problem(f"{config.name} is configured twice", where))
            named.add(config.name)
            model = _ARGS.get(config.name)
            if model is None or not config.args:
                continue
            part = _part(self._document, (*path, "args"))
            try:
                args = self._args[model] = validate(part, model)
            except ConfigError as error:
                self._problems += error.problems
            else:
                self._problems += _faults(args, part)


def _part(document: MarkedDocument, path: FieldPath) -> MarkedDocument:
    """A part of a document as one of its own, each field where it stands."""
    value: Any = document.value
    for step in path:
        value = value[step]
    marks = {at[len(path) :]: mark for at, mark in document.marks.items() if at[: len(path)] == path}
    return MarkedDocument(value, document.source, marks)


def _faults(args: s.Args, part: MarkedDocument) -> Iterator[Problem]:
    """What single fields cannot tell."""
    if isinstance(args, s.NodeResourcesFitArgs):
        scoring = args.scoring_strategy
        ratio = scoring.requested_to_capacity_ratio
        if scoring.type is Strategy.RATIO and ratio is None:
            problem = f"{Strategy.RATIO} needs requestedToCapacityRatio.shape"
            yield Problem(problem, part.where(("scoringStrategy",)), remedy="give at least one point")
        if ratio is not None and any(a.utilization >= b.utilization for a, b in pairwise(ratio.shape)):
            where = part.where(("scoringStrategy", "requestedToCapacityRatio", "shape"))
            yield Problem("utilization must grow from point to point", where)
    if isinstance(args, s.Balanced):
        for number, resource in enumerate(args.resources):
            if resource.weight != 1:
                where = part.where(("resources", number, "weight"))
                yield Problem(f"{resource.name} has weight {resource.weight}", where, remedy="1, or nothing")
    if isinstance(args, s.Spread) and args.defaulting_type == "System" and args.default_constraints:
        where = part.where(("defaultConstraints",))
        yield Problem("default constraints go with defaultingType: List alone", where)


def _touched(*sets: s.Set) -> bool:
    return any(plugin_set.enabled or plugin_set.disabled for plugin_set in sets)


def _rating(scoring: s.Scoring) -> FitRating:
    ratio, default = scoring.requested_to_capacity_ratio, FitRating()
    return FitRating(
        scoring.type,
        tuple((resource.name, resource.weight) for resource in scoring.resources) or default.resources,
        tuple((point.utilization, point.score) for point in ratio.shape) if ratio else (),
    )


def _added(affinity: s.AddedNodeAffinity | None) -> AddedAffinity:
    if affinity is None:
        return AddedAffinity()
    required = affinity.required
    return AddedAffinity(
        tuple(_term(term) for term in required.node_selector_terms) if required else None,
        tuple((preferred.weight, _term(preferred.preference)) for preferred in affinity.preferred),
    )


def _term(term: s.Term) -> NodeSelectorTerm:
    parts = (term.match_expressions, term.match_fields)
    expressions, fields = (tuple(Requirement(r.key, r.operator, tuple(r.values)) for r in p) for p in parts)
    return NodeSelectorTerm(expressions, fields)


def _constraints(spread: s.Spread) -> tuple[DefaultSpread, ...]:
    return tuple(
        DefaultSpread(
            constraint.topology_key, constraint.max_skew, constraint.when_unsatisfiable == "DoNotSchedule"
        )
        for constraint in spread.default_constraints
    )
