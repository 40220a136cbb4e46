"""Pods' wishes made by chance: selectors, affinities, spreading."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, TypeVar

Body = dict[str, Any]
T = TypeVar("T")
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
_KEYS: Final = (ZONE, HOST, "rack")


class Wishes:
    """Draws everything from one `Random`."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def _requirement(self, keys: tuple[str, ...], values: tuple[str, ...]) -> Body:
        operator = self._pick(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        wanted = sorted({self._pick(values), self._pick(values)})
        return {
            "key": self._pick(keys),
            "operator": operator,
            **({"values": wanted} if "In" in operator else {}),
        }

    def _selector(self) -> Body | None:
        if self._some(0.08):
            return None
        if self._some(0.3):
            return {"matchLabels": {self._pick(("app", "tier")): self._pick(("x", "y"))}}
        return {
            "matchExpressions": self._several(lambda: self._requirement(("app", "tier"), ("x", "y")), 0.5)
        }

    def _node_term(self, *, pinned: bool = True) -> Body:
        expressions = self._several(lambda: self._requirement((ZONE, "tier", "rack"), ("z1", "x", "r1")), 0.6)
        if self._some(0.2):
            wanted = self._pick(("4", "5", "3", "6"))
            expressions.append({"key": "gpus", "operator": self._pick(("Gt", "Lt")), "values": [wanted]})
        term: Body = {"matchExpressions": expressions} if expressions or self._some(0.5) else {}
        if pinned and self._some(0.2):
            name = f"node-{self._random.randrange(6):03d}"
            operator = self._pick(("In", "In", "NotIn"))
            term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
            if self._some(0.2):
                other = f"node-{self._random.randrange(6):03d}"
                term["matchFields"].append({"key": "metadata.name", "operator": "In", "values": [other]})
        return term

    def _pod_term(self) -> Body:
        term: Body = {"topologyKey": self._pick(_KEYS)}
        selector = self._selector()
        if selector is not None:
            term["labelSelector"] = selector
        if self._some(0.3):
            term["namespaces"] = sorted(set(self._several(lambda: self._pick(("ml", "web")), 0.5)))
        if self._some(0.25):
            term["namespaceSelector"] = self._pick(
                ({}, {"matchLabels": {"team": "a"}},
                 {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]})
            )  # fmt: skip
        if selector is not None and self._some(0.12):
            term[self._pick(("matchLabelKeys", "mismatchLabelKeys"))] = ["rev"]
        return term

    def _weight(self) -> int:
        return self._pick((1, 10, 50, 100))

    def _affinity(self) -> Body:
        some, several = self._some, self._several
        found: Body = {}
        node: Body = {}
        if some(0.45):
            terms = several(self._node_term, 0.3, least=1)
            node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        node["preferredDuringSchedulingIgnoredDuringExecution"] = several(
            lambda: {"weight": self._weight(), "preference": self._node_term()}, 0.3
        )
        found["nodeAffinity"] = node
        for kind in ("podAffinity", "podAntiAffinity"):
            found[kind] = {
                "requiredDuringSchedulingIgnoredDuringExecution": several(self._pod_term, 0.2),
                "preferredDuringSchedulingIgnoredDuringExecution": several(
                    lambda: {"weight": self._weight(), "podAffinityTerm": self._pod_term()}, 0.25
                ),
            }
        return found

    def _spread(self) -> Body:
        some, pick = self._some, self._pick
        hard = some(0.5)
        found: Body = {
            "topologyKey": pick(_KEYS),
            "maxSkew": pick((1, 1, 2, 5)),
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        }
        selector = self._selector()
        if selector is not None:
            found["labelSelector"] = selector
            if some(0.2):
                found["matchLabelKeys"] = ["rev"]
        if hard and some(0.5):
            found["minDomains"] = pick((1, 2, 4))
        if some(0.3):
            found["nodeAffinityPolicy"] = pick(("Honor", "Ignore"))
        if some(0.3):
            found["nodeTaintsPolicy"] = pick(("Honor", "Ignore"))
        return found

    def _some(self, share: float) -> bool:
        return self._random.random() < share

    def _pick(self, values: Sequence[T]) -> T:
        return self._random.choice(values)

    def _several(self, make: Callable[[], T], more: float, *, least: int = 0) -> list[T]:
        """Up to three, each next one with chance `more`."""
        found = [make() for _ in range(least)]
        while len(found) < 3 and self._some(more):
            found.append(make())
        return found
