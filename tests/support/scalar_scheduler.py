"""kube-scheduler's rules once more, written plainly, one node and pod at a time, without the engine's code.

Of the engine it uses nothing; of `tonnage.model` only the values. As of 1.35, without claims and volumes.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tonnage.model.kubernetes.cluster import Node, Pod, PodTerm, Snapshot, SpreadConstraint

MIB = 1024 * 1024
HOST = "kubernetes.io/hostname"
HARD = ("NoSchedule", "NoExecute")


def holds(requirement: Any, labels: Any) -> bool:
    key, operator, values = requirement.key, requirement.operator, requirement.values
    there = key in labels
    if operator in ("Gt", "Lt"):
        try:
            have, want = int(labels[key]), int(values[0])
        except (KeyError, ValueError):
            return False
        return have > want if operator == "Gt" else have < want
    return {
        "In": there and labels[key] in values,
        "NotIn": not there or labels[key] not in values,
        "Exists": there,
        "DoesNotExist": not there,
    }[str(operator)]


def all_hold(selector: Any, labels: Any) -> bool:
    if selector is None:
        return False
    return all(holds(requirement, labels) for requirement in selector.requirements)


def term_takes(term: Any, node: Node) -> bool:
    if not term.expressions and not term.fields:
        return False
    if any(not re.fullmatch(r"([A-Za-z0-9]([-._A-Za-z0-9]*[A-Za-z0-9])?)?", value) or len(value) > 63
           or (r.operator in ("Gt", "Lt") and not value.isdigit())
           for r in term.expressions for value in r.values):  # fmt: skip
        return False
    named = all((node.name == r.values[0]) == (r.operator == "In") for r in term.fields if len(r.values) == 1)
    return named and all(holds(requirement, node.labels) for requirement in term.expressions)


def wants(pod: Pod, node: Node) -> bool:
    if any(node.labels.get(key) != value for key, value in pod.node_selector.items()):
        return False
    return pod.affinity.node is None or any(term_takes(term, node) for term in pod.affinity.node)


def covered(taint: Any, tolerations: Any) -> bool:
    for t in tolerations:
        if t.effect not in ("", taint.effect) or t.key not in ("", taint.key):
            continue
        if t.operator == "Exists" or (t.operator in ("", "Equal") and t.value == taint.value):
            return True
    return False


def uncovered(pod: Pod, node: Node, effects: tuple[str, ...], tolerations: Any = None) -> list[Any]:
    given = pod.tolerations if tolerations is None else tolerations
    return [t for t in node.taints if t.effect in effects and not covered(t, given)]


def amounts(pod: Pod, least: Any = (), *, whole: bool = True) -> Counter[str]:
    held = {one.container: one for one in pod.status.resized}

    def of(container: Any, *, step: bool = False) -> Counter[str]:
        found = dict(container.requests)
        one = held.get(container.name)
        if one is not None and one.actual is not None and not step:
            parts = [one.actual, one.allocated or {}]
            parts += [] if pod.status.cannot_resize else [container.requests]
            found = {}
            for part in parts:
                for name, amount in part.items():
                    found[name] = max(found.get(name, amount), amount)
        return Counter({**dict(least), **found})

    def plus(a: Any, b: Any) -> Counter[str]:
        return Counter({name: a[name] + b[name] for name in {*a, *b}})

    total, beside, peak = Counter[str](), Counter[str](), Counter[str]()
    for container in pod.containers:
        total = plus(total, of(container))
    for container in pod.init_containers:
        own = of(container, step=not container.sidecar)
        now = plus(beside, own)
        if container.sidecar:
            total, beside = plus(total, own), now
        peak = Counter({name: max(peak[name], now[name]) for name in {*peak, *now}})
    total = Counter({name: max(total[name], peak[name]) for name in {*total, *peak}})
    if whole:
        total.update({name: amount - total[name] for name, amount in pod.pod_requests.items()})
    return plus(total, Counter(pod.overhead))


def small_ones(pod: Pod, *, whole: bool) -> Counter[str]:
    least = {"cpu": 100, "memory": 200 * MIB}
    if whole and pod.pod_requests:
        asked = amounts(pod)
        least = {name: amount for name, amount in least.items() if not asked[name]}
    return amounts(pod, least, whole=whole)


@dataclass
class Scalar:
    """Judges pods on one cluster."""

    snapshot: Snapshot

    def __post_init__(self) -> None:
        nodes = sorted(self.snapshot.nodes, key=lambda node: node.name)
        self.nodes = {node.name: node for node in nodes}
        live = [pod for pod in self.snapshot.pods if pod.status.phase not in ("Succeeded", "Failed")]
        self.on = {name: [pod for pod in live if pod.node_name == name] for name in self.nodes}
        self.promised = [pod for pod in live if not pod.node_name and pod.status.nominated_node]

    # ---- filters ----

    def refusal(self, pod: Pod, name: str) -> tuple[str, tuple[str, ...], bool] | None:
        """Plugin, texts, and whether no preemption helps; None: the node takes the pod."""
        guests = [
            other
            for other in self.promised
            if other.status.nominated_node == name and other.priority >= pod.priority and other.key != pod.key
        ]
        if guests and (found := self._refusal(pod, name, guests)):
            return found
        return self._refusal(pod, name, [])

    def pins(self, pod: Pod) -> set[str] | None:
        found: set[str] = set()
        for term in pod.affinity.node or ():
            sets = [set(r.values) for r in term.fields if r.operator == "In"]
            if not sets:
                return None
            found |= set.intersection(*sets)
        return found if pod.affinity.node else None

    def _refusal(self, pod: Pod, name: str, guests: list[Pod]) -> tuple[str, tuple[str, ...], bool] | None:
        node, pins = self.nodes[name], self.pins(pod)
        if pins is not None and name not in pins:
            return "NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), True
        if node.unschedulable and not any(
            t.effect in ("", "NoSchedule")
            and t.key in ("", "node.kubernetes.io/unschedulable")
            and (t.operator == "Exists" or t.value == "")
            for t in pod.tolerations
        ):
            return "NodeUnschedulable", ("node(s) were unschedulable",), True
        if uncovered(pod, node, HARD):
            return "TaintToleration", ("node(s) had untolerated taint(s)",), True
        if not wants(pod, node):
            return "NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), True
        there = [*self.on[name], *guests]
        return (
            self._ports(pod, there)
            or self._room(pod, node, there)
            or self._spread(pod, node, guests)
            or self._beside(pod, node, guests)
        )

    def _ports(self, pod: Pod, there: list[Pod]) -> tuple[str, tuple[str, ...], bool] | None:
        for a in pod.host_ports:
            for b in (port for other in there for port in other.host_ports):
                everywhere = "0.0.0.0" in (a.address, b.address)
                if (a.port, a.protocol) == (b.port, b.protocol) and (everywhere or a.address == b.address):
                    text = "node(s) didn't have free ports for the requested pod ports"
                    return "NodePorts", (text,), False
        return None

    def _room(self, pod: Pod, node: Node, there: list[Pod]) -> tuple[str, tuple[str, ...], bool] | None:
        texts = ["Too many pods"] if len(there) + 1 > node.allocatable.get("pods", 0) else []
        asked, never = amounts(pod), False
        used = Counter[str]()
        for other in there:
            for key, amount in amounts(other).items():
                used[key] += amount
        first = ("cpu", "memory", "ephemeral-storage")
        for key in (*first, *sorted(set(asked) - set(first))):
            if asked[key] > 0 and (key in first or "/" in key):
                whole = node.allocatable.get(key, 0)
                texts += [f"Insufficient {key}"] if asked[key] > whole - used[key] else []
                never = never or asked[key] > whole
        return ("NodeResourcesFit", tuple(texts), never) if texts else None

    def _counts(self, constraint: SpreadConstraint, pod: Pod, node: Node) -> bool:
        if constraint.honour_affinity and not wants(pod, node):
            return False
        return not (constraint.honour_taints and uncovered(pod, node, HARD))

    def _matching(self, constraint: SpreadConstraint, pod: Pod, name: str) -> int:
        if constraint.selector is None or not constraint.selector.requirements:
            return 0
        return sum(
            other.namespace == pod.namespace
            and not other.status.terminating
            and all_hold(constraint.selector, other.labels)
            for other in self.on[name]
        )

    def _spread(self, pod: Pod, node: Node, guests: list[Pod]) -> tuple[str, tuple[str, ...], bool] | None:
        hard = [c for c in pod.spread if c.hard]
        text = "node(s) didn't match pod topology spread constraints"
        for c in hard:
            if c.topology_key not in node.labels:
                return "PodTopologySpread", (f"{text} (missing required label)",), True
            domains = Counter[str]()
            for other in self.nodes.values():
                if all(o.topology_key in other.labels for o in hard) and self._counts(c, pod, other):
                    more = 0
                    if other is node:
                        more = sum(
                            g.namespace == pod.namespace and all_hold(c.selector, g.labels) for g in guests
                        )
                    domains[other.labels[c.topology_key]] += self._matching(c, pod, other.name) + more
            least = min(domains.values(), default=0) if len(domains) >= c.min_domains else 0
            own = int(all_hold(c.selector, pod.labels))
            if domains[node.labels[c.topology_key]] + own - least > c.max_skew:
                return "PodTopologySpread", (text,), False
        return None

    def _reaches(self, term: PodTerm, owner: Pod, other: Pod, *, own: bool) -> bool:
        spaces, chosen = set(term.namespaces), term.namespace_selector
        if not spaces and chosen is None:
            spaces = {owner.namespace}
        labels = self.snapshot.namespaces.get(other.namespace, {})
        inside = other.namespace in spaces or all_hold(chosen, labels) or (own and all_hold(chosen, {}))
        return inside and all_hold(term.selector, other.labels)

    def _beside(self, pod: Pod, node: Node, guests: list[Pod]) -> tuple[str, tuple[str, ...], bool] | None:
        others = [(self.nodes[name].labels, other) for name, pods in self.on.items() for other in pods]
        others += [(node.labels, guest) for guest in guests]
        wanted = pod.affinity.pods
        kin = [
            labels
            for labels, other in others
            if wanted and all(self._reaches(t, pod, other, own=True) for t in wanted)
        ]
        pairs = {(t.topology_key, labels[t.topology_key]) for t in wanted for labels in kin
                 if t.topology_key in labels}  # fmt: skip
        met = all((t.topology_key, node.labels.get(t.topology_key)) in pairs for t in wanted)
        labelled = all(t.topology_key in node.labels for t in wanted)
        alone = not pairs and all(self._reaches(t, pod, pod, own=True) for t in wanted)
        if not labelled or not (met or alone):
            return "InterPodAffinity", ("node(s) didn't match pod affinity rules",), True

        def near(key: str, labels: Any) -> bool:
            return key in labels and key in node.labels and labels[key] == node.labels[key]

        for labels, other in others:
            if any(near(t.topology_key, labels) and self._reaches(t, pod, other, own=True)
                   for t in pod.affinity.anti):  # fmt: skip
                return "InterPodAffinity", ("node(s) didn't match pod anti-affinity rules",), False
        settled = others[: len(others) - len(guests)]
        shunned = any(t.topology_key in labels and self._reaches(t, other, pod, own=False)
                      for labels, other in settled for t in other.affinity.anti)  # fmt: skip
        for labels, other in others if wanted or pod.affinity.anti or shunned else []:
            if any(near(t.topology_key, labels) and self._reaches(t, other, pod, own=False)
                   for t in other.affinity.anti):  # fmt: skip
                return (
                    "InterPodAffinity",
                    ("node(s) didn't satisfy existing pods anti-affinity rules",),
                    False,
                )
        return None

    # ---- scores ----

    def scores(self, pod: Pod, names: list[str]) -> dict[str, dict[str, int]]:
        """Weighted scores of these nodes by plugin, without the total."""
        parts: dict[str, tuple[int, dict[str, int] | None]] = {
            "TaintToleration": (3, self._soft_taints(pod, names)),
            "NodeAffinity": (2, self._liked(pod, names)),
            "NodeResourcesFit": (1, {name: self._left(pod, name) for name in names}),
            "PodTopologySpread": (2, self._spread_softly(pod, names)),
            "InterPodAffinity": (2, self._drawn(pod, names)),
            "DynamicResources": (2, dict.fromkeys(names, 0)),
            "NodeResourcesBalancedAllocation": (1, self._balance(pod, names)),
            "ImageLocality": (1, {name: self._images(pod, name) for name in names}),
        }
        return {
            name: {
                plugin: weight * part[name] for plugin, (weight, part) in parts.items() if part is not None
            }
            for name in names
        }

    def _soft_taints(self, pod: Pod, names: list[str]) -> dict[str, int]:
        given = [t for t in pod.tolerations if t.effect in ("", "PreferNoSchedule")]
        raw = {n: len(uncovered(pod, self.nodes[n], ("PreferNoSchedule",), given)) for n in names}
        most = max(raw.values())
        return {name: 100 - (100 * value // most if most else 0) for name, value in raw.items()}

    def _liked(self, pod: Pod, names: list[str]) -> dict[str, int] | None:
        terms = pod.affinity.node_preferred
        raw = {n: sum(p.weight for p in terms if term_takes(p.term, self.nodes[n])) for n in names}
        most = max(raw.values())
        return {n: 100 * value // most if most else 0 for n, value in raw.items()} if terms else None

    def _left(self, pod: Pod, name: str) -> int:
        asked, parts = small_ones(pod, whole=False), []
        for key in ("cpu", "memory"):
            whole = self.nodes[name].allocatable.get(key, 0)
            used = sum(small_ones(other, whole=True)[key] for other in self.on[name]) + asked[key]
            if whole:
                parts.append((whole - used) * 100 // whole if used <= whole else 0)
        return sum(parts) // len(parts) if parts else 0

    def _balance(self, pod: Pod, names: list[str]) -> dict[str, int] | None:
        asked = amounts(pod)
        if not asked["cpu"] and not asked["memory"]:
            return None
        found = {}
        for name in names:
            shares = []
            for key in ("cpu", "memory"):
                whole = self.nodes[name].allocatable.get(key, 0)
                used = sum(amounts(other)[key] for other in self.on[name]) + asked[key]
                shares += [min(1.0, used / whole)] if whole else []
            apart = abs((shares[0] - shares[1]) / 2) if len(shares) == 2 else 0.0
            found[name] = int((1 - apart) * 100)
        return found

    def _images(self, pod: Pod, name: str) -> int:
        total, wanted = 0, [c.image for c in (*pod.init_containers, *pod.containers)]
        for image in wanted:
            full = image if ":" in image.rsplit("/", 1)[-1] else f"{image}:latest"
            if full in self.nodes[name].images:
                holders = [node for node in self.nodes.values() if full in node.images]
                total += int(holders[0].images[full] * (len(holders) / len(self.nodes)))
        least, most = 23 * MIB, 1000 * MIB * len(wanted)
        return 100 * (min(max(total, least), most) - least) // (most - least)

    def _softly(self, pod: Pod) -> list[SpreadConstraint]:
        if pod.spread:
            return [c for c in pod.spread if not c.hard]
        requirements: list[Any] = []
        for w in self.snapshot.selectors:
            owned = pod.owner is not None and (w.kind, w.name) == (pod.owner.kind, pod.owner.name)
            served = w.kind == "Service" and all_hold(w.selector, pod.labels)
            if w.namespace == pod.namespace and (owned or served):
                requirements += w.selector.requirements
        if not requirements:
            return []
        selector = type(self.snapshot.selectors[0].selector)(tuple(requirements))
        return [
            SpreadConstraint(key, skew, hard=False, selector=selector)
            for key, skew in ((HOST, 3), ("topology.kubernetes.io/zone", 5))
        ]

    def _spread_softly(self, pod: Pod, names: list[str]) -> dict[str, int] | None:
        soft = self._softly(pod)
        if not soft:
            return None

        def whole(name: str) -> bool:
            return not pod.spread or all(c.topology_key in self.nodes[name].labels for c in soft)

        rated, raw = [name for name in names if whole(name)], {}
        for name in rated:
            labels, total = self.nodes[name].labels, 0.0
            for c in soft:
                key = c.topology_key
                if key not in labels:
                    continue
                if key == HOST:
                    domains, count = len(rated), self._matching(c, pod, name)
                else:
                    values = {self.nodes[other].labels.get(key, "") for other in rated}
                    domains = len(values)
                    count = sum(
                        self._matching(c, pod, other)
                        for other, node in self.nodes.items()
                        if node.labels.get(key, "") == labels[key]
                        and whole(other)
                        and self._counts(c, pod, node)
                    )
                total += count * math.log(domains + 2) + (c.max_skew - 1)
            raw[name] = math.floor(total + 0.5)
        most, least = max(raw.values(), default=0), min(raw.values(), default=0)
        return {
            name: 0 if name not in raw else (100 * (most + least - raw[name]) // most if most else 100)
            for name in names
        }

    def _drawn(self, pod: Pod, names: list[str]) -> dict[str, int] | None:
        pairs = Counter[tuple[str, str]]()
        for name, pods in self.on.items():
            labels = self.nodes[name].labels
            for other in pods:
                terms = [(p.weight, p.term) for p in pod.affinity.pods_preferred
                         if self._reaches(p.term, pod, other, own=True)]  # fmt: skip
                terms += [(1, t) for t in other.affinity.pods if self._reaches(t, other, pod, own=False)]
                terms += [(p.weight, p.term) for p in other.affinity.pods_preferred
                          if self._reaches(p.term, other, pod, own=False)]  # fmt: skip
                for weight, term in terms:
                    if term.topology_key in labels:
                        pairs[term.topology_key, labels[term.topology_key]] += weight
        if not pairs:
            return None
        raw = {n: sum(w for (k, v), w in pairs.items() if self.nodes[n].labels.get(k) == v) for n in names}
        least, most = min(raw.values()), max(raw.values())
        return {n: int(100 * ((v - least) / (most - least))) if most > least else 0 for n, v in raw.items()}
