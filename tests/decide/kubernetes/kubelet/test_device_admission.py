"""A kubelet's admission as a whole against a plain statement of it that shares no code (KUB-3).

The statement walks every permutation of hints and compares them one after the other, as kubelet does, and
draws devices at random, as kubelet does: what is decided must not hang on that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, product
from random import Random

import pytest

from tonnage.decide.kubernetes.kubelet.device_admission import (
    AdmissionUndecided,
    ContainerNeed,
    DeviceAdmissionFailure,
    DeviceAdmitted,
    Supplies,
    admission,
    affinity,
    pod_request,
)
from tonnage.decide.kubernetes.kubelet.devices import Devices
from tonnage.decide.kubernetes.kubelet.topology_manager import NumaTopology, TopologyPolicy, TopologyScope

PlainHint = tuple[frozenset[int] | None, bool]
"""NUMA nodes, or None for any; whether it is preferred."""
NUMA_REFUSAL = ("TopologyAffinityError", "Resources cannot be allocated with Topology locality")


@dataclass
class PlainResource:
    """Devices with their NUMA nodes; which are healthy and which are held."""

    numa: dict[str, set[int]]
    healthy: set[str]
    held: set[str]

    @property
    def free(self) -> set[str]:
        return self.healthy - self.held


def plain_hints(resource: PlainResource, count: int, reusable: set[str]) -> list[PlainHint] | None:
    if not any(resource.numa.values()):
        return None
    if len(resource.free | reusable) < count:
        return []
    nodes = sorted(set().union(*resource.numa.values()))
    masks = [frozenset(c) for size in range(1, len(nodes) + 1) for c in combinations(nodes, size)]
    enough = [m for m in masks if sum(1 for n in resource.numa.values() if n & m) >= count]
    least = min((len(m) for m in enough), default=len(nodes))
    found: list[PlainHint] = []
    for mask in masks:
        placed = [d for d in reusable if resource.numa[d]]
        if any(not resource.numa[d] & mask for d in placed):
            continue
        if len(placed) + sum(1 for d in resource.free if resource.numa[d] & mask) >= count:
            found.append((mask, len(mask) == least))
    return found


def narrower(one: PlainHint, other: PlainHint) -> PlainHint:
    """kubelet's comparison of two sets: fewer nodes, then the lower number as a bit mask."""
    a, b = one[0] or frozenset(), other[0] or frozenset()
    value = (len(b), sum(1 << n for n in b)) < (len(a), sum(1 << n for n in a))
    return other if value else one


def better(best: PlainHint | None, hint: PlainHint, aim: int) -> PlainHint | None:
    if not hint[0]:
        return best
    if best is None or (hint[1] and not best[1]):
        return hint
    if best[1] and not hint[1]:
        return best
    current, candidate = len(best[0] or ()), len(hint[0])
    if best[1] or current > aim:
        return narrower(best, hint)
    if current == aim:
        return narrower(best, hint) if candidate == aim else best
    if candidate > aim:
        return best
    if candidate == aim or candidate > current:
        return hint
    return best if candidate < current else narrower(best, hint)


def plain_merge(nodes: int, policy: TopologyPolicy, offers: list[list[PlainHint]]) -> PlainHint:
    everywhere = frozenset(range(nodes))
    if policy is TopologyPolicy.SINGLE_NUMA_NODE:
        offers = [[h for h in hints if h[1] and (h[0] is None or len(h[0]) == 1)] for hints in offers]
    aim = max((min((len(h[0]) for h in hints if h[0] is not None), default=0) for hints in offers), default=0)
    best: PlainHint | None = None
    for permutation in product(*offers):
        sets = [mask for mask, _ in permutation if mask is not None]
        preferred = all(p for _, p in permutation) and len(set(sets)) <= 1
        best = better(best, (everywhere.intersection(*sets), preferred), aim)
    if best is None:
        best = (everywhere, False)
    if policy is TopologyPolicy.SINGLE_NUMA_NODE and best[0] == everywhere:
        return (None, best[1])
    return best


def plain_choice(
    resource: PlainResource, count: int, reusable: set[str], hint: PlainHint, chance: Random
) -> set[str] | str:
    if not resource.healthy:
        return "no healthy devices present"
    taken: set[str] = set()

    def take(group: Iterable[str]) -> bool:
        fresh = sorted(set(group) - taken)
        taken.update(chance.sample(fresh, min(len(fresh), count - len(taken))))
        return len(taken) == count

    if take(reusable):
        return taken
    if len(resource.free) < count - len(taken):
        return "requested number of devices unavailable"
    mask = hint[0]
    known = any(resource.numa.values()) and mask is not None
    placed = [d for d in resource.free if known and resource.numa[d]]
    aligned = [d for d in placed if mask is not None and resource.numa[d] & mask]
    for group in (aligned, placed, resource.free):
        if take(group):
            break
    return taken


def plain_admission(
    nodes: int,
    policy: TopologyPolicy,
    scope: TopologyScope,
    needs: list[ContainerNeed],
    supply: dict[str, PlainResource],
    chance: Random,
) -> tuple[str, str]:
    """("", "") when the pod is let in, else the reason and the beginning of the message."""
    reusable: dict[str, set[str]] = {name: set() for name in supply}
    strict = policy in (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)

    def merged(wanted: dict[str, int], again: dict[str, set[str]]) -> PlainHint:
        offers: list[list[PlainHint]] = []
        for name, count in wanted.items():
            hints = plain_hints(supply[name], count, again.get(name, set()))
            offers.append([(None, True)] if hints is None else hints or [(None, False)])
        return plain_merge(nodes, policy, offers)

    whole: PlainHint | None = None
    if policy is not TopologyPolicy.NONE and scope is TopologyScope.POD:
        whole = merged(plain_total(needs), {})
        if strict and not whole[1]:
            return NUMA_REFUSAL
    for need in needs:
        hint: PlainHint = whole or (None, True)
        if policy is not TopologyPolicy.NONE and scope is TopologyScope.CONTAINER:
            hint = merged(dict(need.resources), reusable)
            if strict and not hint[1]:
                return NUMA_REFUSAL
        for name, count in need.resources.items():
            got = plain_choice(supply[name], count, reusable[name], hint, chance)
            if isinstance(got, str):
                return "UnexpectedAdmissionError", f"Allocate failed due to {got}"
            supply[name].held |= got
            reusable[name] = reusable[name] | got if need.reusable_after else reusable[name] - got
    return "", ""


def plain_total(needs: list[ContainerNeed]) -> dict[str, int]:
    names = dict.fromkeys(name for need in needs for name in need.resources)
    total = {}
    for name in names:
        running = sum(n.resources.get(name, 0) for n in needs if not n.reusable_after)
        peaks = [running]
        for index, need in enumerate(needs):
            if need.reusable_after:
                before = sum(n.resources.get(name, 0) for n in needs[:index] if n.sidecar)
                peaks.append(before + need.resources.get(name, 0))
        total[name] = max(peaks)
    return total


def chance_pod(chance: Random, names: list[str]) -> list[ContainerNeed]:
    needs = []
    for number in range(chance.choice((0, 0, 1, 2))):
        sidecar = chance.random() < 0.4
        wants = {name: chance.randint(1, 3) for name in names if chance.random() < 0.7}
        needs.append(ContainerNeed(f"i{number}", wants, reusable_after=not sidecar, sidecar=sidecar))
    for number in range(chance.choice((1, 1, 2, 3))):
        wants = {name: chance.randint(1, 4) for name in names if chance.random() < 0.8}
        needs.append(ContainerNeed(f"c{number}", wants))
    return needs


def chance_supply(chance: Random, nodes: int) -> dict[str, PlainResource]:
    supply = {}
    for name in ["x/gpu", "x/nic"][: chance.choice((1, 1, 2))]:
        ids = [f"{name[2]}{number}" for number in range(chance.randint(1, 8))]
        placed = chance.random() < 0.9
        numa = {d: {chance.randrange(nodes)} if placed and chance.random() < 0.9 else set() for d in ids}
        healthy = {d for d in ids if chance.random() < 0.95}
        supply[name] = PlainResource(numa, healthy, {d for d in healthy if chance.random() < 0.25})
    return supply


@pytest.mark.parametrize("start", range(4))
def test_admission_is_that_of_the_plain_statement(start: int) -> None:
    counts: Counter[str] = Counter()
    for number in range(start, 1600, 4):
        chance = Random(f"kubelet/{number}")
        nodes = chance.choice((1, 2, 2, 3, 4))
        policy, scope = chance.choice(list(TopologyPolicy)), chance.choice(list(TopologyScope))
        plain = chance_supply(chance, nodes)
        needs = chance_pod(chance, list(plain))
        devices = {
            name: Devices(
                name,
                {d: sum(1 << n for n in at) for d, at in one.numa.items()},
                frozenset(one.healthy),
                frozenset(one.held),
            )
            for name, one in plain.items()
        }
        answer = admission(NumaTopology(nodes, policy, scope=scope), needs, Supplies(devices))
        if isinstance(answer, AdmissionUndecided):
            counts["undecided"] += 1
            continue
        expected = plain_admission(nodes, policy, scope, needs, plain, chance)
        got = (
            (answer.reason, answer.upstream_message)
            if isinstance(answer, DeviceAdmissionFailure)
            else ("", "")
        )
        assert got[0] == expected[0], (number, answer, expected)
        assert got[1].startswith(expected[1]), (number, answer, expected)
        counts[got[0] or f"let by {policy}"] += 1
        if isinstance(answer, DeviceAdmitted):
            for need in needs:
                for name, count in need.resources.items():
                    assert len(answer.ids[need.name, name]) == count
    assert counts["undecided"] < sum(counts.values()) / 8
    assert {"TopologyAffinityError", "UnexpectedAdmissionError", "let by single-numa-node"} <= set(counts)


def test_the_request_of_a_pod_is_that_of_the_plain_statement() -> None:
    for number in range(300):
        needs = chance_pod(Random(f"pod/{number}"), ["x/gpu", "x/nic"])
        assert {n: c for n, c in pod_request(needs).items() if c} == plain_total(needs)


def test_what_is_held_already_gives_its_hints_again_and_another_number_none() -> None:
    """A pod that kubelet admits once more after a restart."""
    four = Devices("g", {"a": 1, "b": 1, "c": 2, "d": 2}, frozenset("abcd"), frozenset("abcd"))
    topology = NumaTopology(2, TopologyPolicy.SINGLE_NUMA_NODE)
    hint, aligned = affinity(topology, {"g": 2}, {"g": four}.__getitem__, held=lambda _: frozenset("cd"))
    assert (hint.mask, aligned) == (2, True)
    assert not affinity(topology, {"g": 1}, {"g": four}.__getitem__, held=lambda _: frozenset("cd"))[1]


def test_a_choice_on_which_the_next_container_hangs_is_not_decided() -> None:
    """Of four that may be any, one on either NUMA node is left for the second container, or two on one."""
    numa = {"a": 1, "b": 1, "c": 1, "d": 2, "e": 2, "f": 2}
    supply = {"g": Devices("g", numa, frozenset(numa), frozenset())}
    needs = [ContainerNeed("one", {"g": 4}), ContainerNeed("two", {"g": 2})]
    assert isinstance(
        admission(NumaTopology(2, TopologyPolicy.RESTRICTED), needs, Supplies(supply)), AdmissionUndecided
    )


def test_what_every_choice_refuses_is_refused() -> None:
    """Devices without a NUMA node are in no hint: one with a node is left, whichever three are taken."""
    numa = {"a": 1, "b": 1, "c": 2, "d": 2, "e": 0}
    supply = {"g": Devices("g", numa, frozenset(numa), frozenset())}
    needs = [ContainerNeed("one", {"g": 3}), ContainerNeed("two", {"g": 2})]
    answer = admission(NumaTopology(2, TopologyPolicy.RESTRICTED), needs, Supplies(supply))
    assert isinstance(answer, DeviceAdmissionFailure)
    assert answer.container == "two"
