"""findNodesThatFitPod: which nodes the filters leave for a pod, and why not the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tonnage.decide.kubernetes.claims.pod_claims import claims_of, stops
from tonnage.decide.kubernetes.scheduler.filters import claims, node_affinity
from tonnage.decide.kubernetes.scheduler.filters.order import FILTERS
from tonnage.decide.kubernetes.scheduler.refusal import Check, Filter, PluginRefusal
from tonnage.decide.kubernetes.view import ClusterView, NodeView
from tonnage.decide.kubernetes.volumes import NAME as VOLUMES
from tonnage.decide.kubernetes.volumes import volumes_stop
from tonnage.model.kubernetes.cluster import Pod


@dataclass(frozen=True, slots=True)
class Filtered:
    """Feasible node names in order, and the refusals of every other node, the one that counts first.

    `conflict`: what pod or claims ask contradicts itself or does not exist, so no node was looked at, by the
    plugin `halted_by`. `error`: a plugin failed, and with it the attempt. `unknown`: what hides the answer.
    """

    feasible: tuple[str, ...]
    refusals: Mapping[str, tuple[PluginRefusal, ...]]
    conflict: str = ""
    halted_by: str = ""
    error: str = ""
    unknown: tuple[str, ...] = ()
    counted: tuple[tuple[PluginRefusal, int], ...] = ()
    """The refusals that count first, each with its number of nodes, where that is known already."""

    def first(self) -> Iterable[tuple[PluginRefusal, int]]:
        """The refusals that count first, and on how many nodes; the same one may come more than once."""
        return self.counted or ((of_node[0], 1) for of_node in self.refusals.values())


def filter_nodes(pod: Pod, view: ClusterView, *, thorough: bool = False) -> Filtered:
    """findNodesThatFitPod: judge every node.

    `thorough` collects the refusals of all filters, not only the first.
    """
    # In the order of PreFilter plugins, each of which may end the cycle before any node is looked at.
    pinned = _pins(pod, view)
    if pinned is not None and not pinned:
        return Filtered((), {}, node_affinity.CONFLICT, node_affinity.NAME)
    if _asks(pod, view, VOLUMES) and (text := volumes_stop(pod, view.snapshot)):
        return Filtered((), {}, text, VOLUMES)
    if _asks(pod, view, claims.NAME) and (halt := _halted(pod, view)):
        return halt
    checks = prepared(pod, view)
    feasible: list[str] = []
    refusals: dict[str, tuple[PluginRefusal, ...]] = {}
    for name, node in view.nodes.items():
        if thorough:
            of_node = refusals_of(pod, node, view, checks)
        elif pinned is not None and name not in pinned:
            of_node = (node_affinity.narrowed(name, pinned),)
        else:
            of_node = _judge(pod, node, view, checks, thorough=False)
        if of_node:
            refusals[name] = of_node
        else:
            feasible.append(name)
    first = [of_node[0] for of_node in refusals.values()]
    error = next((refusal.texts[0] for refusal in first if refusal.fatal), "")
    unknown = tuple(dict.fromkeys(refusal.unknown for refusal in first if refusal.unknown))
    return Filtered(tuple(feasible), refusals, error=error, unknown=unknown)


def _halted(pod: Pod, view: ClusterView) -> Filtered | None:
    """The end of the cycle when the pod's claims ask what does not exist."""
    if not pod.claims or not view.profile.allocates:
        return None
    text, is_error = stops(claims_of(pod, view.supply.claims), view.supply)
    if not text:
        return None
    if is_error:
        return Filtered((), {}, error=f'running PreFilter plugin "{claims.NAME}": {text}')
    return Filtered((), {}, text, claims.NAME)


def prepared(pod: Pod, view: ClusterView) -> tuple[Check, ...]:
    """The checks of the filters that have something to say about the pod, in their order."""
    checks = (filter_.prepare(pod, view) for filter_ in _filters(pod, view))
    return tuple(check for check in checks if check is not None)


def _filters(pod: Pod, view: ClusterView) -> Iterable[Filter]:
    """Those that the profile of the pod's scheduler asks, in its order."""
    names = view.settings(pod).filters
    if names is None:
        return FILTERS
    return sorted(
        (plugin for plugin in FILTERS if plugin.NAME in names), key=lambda plugin: names.index(plugin.NAME)
    )


def _asks(pod: Pod, view: ClusterView, plugin: str) -> bool:
    names = view.settings(pod).filters
    return names is None or plugin in names


def _pins(pod: Pod, view: ClusterView) -> frozenset[str] | None:
    """Names of nodes that node affinity pins the pod to; None: to none, or the plugin is not asked."""
    return node_affinity.pinned_names(pod) if _asks(pod, view, node_affinity.NAME) else None


def refusals_of(
    pod: Pod, node: NodeView, view: ClusterView, checks: tuple[Check, ...]
) -> tuple[PluginRefusal, ...]:
    """The refusals of all filters for one node, the one that counts first; `checks` are `prepared`."""
    pinned = _pins(pod, view)
    elsewhere = pinned is not None and node.name not in pinned
    narrowed = (node_affinity.narrowed(node.name, pinned or ()),) if elsewhere else ()
    return narrowed + _judge(pod, node, view, checks, thorough=True)


def first_refusal(pod: Pod, node: NodeView, view: ClusterView) -> PluginRefusal | None:
    """The refusal of one node of the view, if any."""
    refusals = _judge(pod, node, view, prepared(pod, view), thorough=False)
    return refusals[0] if refusals else None


def _judge(
    pod: Pod, node: NodeView, view: ClusterView, checks: tuple[Check, ...], *, thorough: bool
) -> tuple[PluginRefusal, ...]:
    """RunFilterPluginsWithNominatedPods: the first refusal, or all, of one node.

    It must take the pod with and without the pods for which it is being cleared.
    """
    if guests := view.guests(node.name, pod):
        crowded = node.plus(guests).since(node)
        refusals = _judgements(crowded, prepared(pod, view.with_node(crowded)), thorough=thorough)
        if refusals:
            return refusals
    return _judgements(node, checks, thorough=thorough)


def _judgements(node: NodeView, checks: tuple[Check, ...], *, thorough: bool) -> tuple[PluginRefusal, ...]:
    refusals: list[PluginRefusal] = []
    for check in checks:
        refusal = check(node)
        if refusal is not None:
            refusals.append(refusal)
            if not thorough:
                break
    return tuple(refusals)
