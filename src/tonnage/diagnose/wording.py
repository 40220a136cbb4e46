"""Reasons in few words: for one line, for a group of nodes, for a list of pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from tonnage.decide.kubernetes.requests import written_amount
from tonnage.model.json import JsonValue
from tonnage.model.selectors import Requirement
from tonnage.model.verdict import Code, Layer, NodeClass, Reason

_MOST_NAMED = 6
_NAME: Final = "metadata.name"


def summary(classes: tuple[NodeClass, ...]) -> str:
    """Why no node takes the pod, in one line: what the scheduler meets, counted, most frequent first.

    What cannot be read of a node refuses nothing there: some other reason does.
    """
    counts: Counter[str] = Counter()
    for one in classes:
        met = (reason for reason in one.told.reasons if not reason.hidden)
        for said in {phrase(reason) for reason in met if reason.code is not Code.UNREADABLE}:
            counts[said] += len(one.members)
    told = ", ".join(
        f"{count} {phrase}" for phrase, count in sorted(counts.items(), key=lambda c: (-c[1], c[0]))
    )
    return f"no node of {sum(len(one.members) for one in classes)} takes it: {told}"


def phrase(reason: Reason) -> str:
    """What a reason says of a node, to stand after a number of nodes. Equal phrases are told together."""
    facts = reason.facts
    match reason.code:
        case Code.TAINT:
            taint = f"{facts['key']}={facts['value']}" if facts["value"] else f"{facts['key']}"
            return f"with the untolerated taint {taint}:{facts['effect']}"
        case Code.INSUFFICIENT:
            return f"without enough free {facts['resource']}"
        case Code.TOO_LARGE:
            return f"too small in {facts['resource']}"
        case Code.NOT_ADVERTISED if reason.layer is Layer.SCHEDULER:
            return f"without {facts['resource']}"
        case Code.NOT_ADVERTISED if facts.get("instead"):
            return f"offering other names than {facts['resource']}"
        case Code.NOT_ADVERTISED:
            return f"with a GPU but not offering {facts['resource']}"
        case Code.NODE_AFFINITY:
            return "outside its node selector or affinity"
        case Code.NOT_PINNED | Code.NODE_NAME:
            return "other than the one it names"
        case _:
            if reason.code is Code.CLAIM_UNALLOCATABLE:
                return _without_devices(reason)
            return _OTHERS.get(reason.code, f"refusing ({reason.code.value})")


_OTHERS: Final[Mapping[str, str]] = {
    Code.CLAIM_ELSEWHERE: "that do not reach its claim's devices",
    Code.CLAIM_ERROR: "where a device selector fails",
    Code.TOPOLOGY_AFFINITY: "whose kubelet could not align its devices",
    Code.NODE_NOT_READY: "not ready",
    Code.CORDONED: "cordoned",
    Code.TOO_MANY_PODS: "full of pods",
    Code.POD_AFFINITY: "without the pods that it must be with",
    Code.POD_ANTI_AFFINITY: "with a pod that it avoids",
    Code.POD_ANTI_AFFINITY_OF_OTHERS: "with a pod that avoids it",
    Code.HOST_PORT_TAKEN: "where another pod has its host port",
    Code.SPREAD_SKEW: "where one more would be spread too unevenly",
    Code.SPREAD_LABEL_MISSING: "without the label over which it is spread",
    Code.STORAGE_SHORT: "without enough storage for its claims",
    Code.VOLUME_ELSEWHERE: "that its volumes cannot be reached from",
    Code.VOLUME_IN_USE: "while another pod has its volume to itself",
    Code.VOLUME_LIMIT: "with too many volumes attached",
    Code.VOLUME_MISSING: "without a volume for its claims",
}


def _without_devices(reason: Reason) -> str:
    causes = reason.facts.get("causes")
    told = ", ".join(str(cause) for cause in causes) if isinstance(causes, list) else ""
    return f"without devices for its claims ({told})" if told else "without devices for its claims"


def told_together(classes: Sequence[NodeClass], number: int, namespace: str) -> str:
    """One sentence for what several nodes say alike: numbers become ranges, labels a list of values.

    It is about the reason with that number of each. `namespace` is the pod's own, whose pods are named
    without it.
    """
    reasons = [one.told.reasons[number] for one in classes]
    first = reasons[0]
    alone = all(len(one.members) == 1 for one in classes)
    if len({reason.message for reason in reasons}) == 1 and (alone or not _differs(first)):
        return first.message
    resource = str(first.facts.get("resource"))
    asked = f"asks {written_amount(resource, _number(first.facts.get('requested')))} {resource}"
    match first.code:
        case Code.INSUFFICIENT:
            by = _held_by(classes, number, resource, namespace)
            return f"{asked}, {_range(reasons, resource, 'free')} free on each{by}"
        case Code.TOO_LARGE:
            return f"{asked}, the whole nodes have {_range(reasons, resource, 'allocatable')} allocatable"
        case Code.NODE_AFFINITY if len({_wanted(reason) for reason in reasons}) == 1:
            values = sorted({value for one in classes for value in _actual(one, number)})
            return f"wants {_wanted(first)}; the nodes have {listed(values)}"
        case _:
            return f"{first.message} (so on {first.subject.removeprefix('Node ')})"


def _held_by(classes: Sequence[NodeClass], number: int, resource: str, namespace: str) -> str:
    """Who holds the resource, the first by name of node; empty when nobody does."""
    named: list[str] = []
    total = 0
    for one in classes:
        held = next((h for h in one.held if h.resource == resource), None)
        found = held.pods if held else tuple(_holders(one.told.reasons[number]))
        named += [own(name, namespace) for name in found]
        total += held.total if held else len(found)
    shown = ", ".join(named[:_MOST_NAMED])
    more = total - min(len(named), _MOST_NAMED)
    return (f"; held by {shown}" + (f" and {more} more" if more else "")) if named else ""


def listed(names: Iterable[str], most: int = _MOST_NAMED) -> str:
    """Names in a row, of a long list the first and how many more.

    >>> listed(["a", "b", "c"], 2), listed(["a", "b"], 2)
    ('a, b and 1 more', 'a, b')
    """
    found = list(names)
    return _named(found[:most], len(found))


def listed_own(names: Sequence[str], namespace: str) -> str:
    """The same of pods' names as somebody in `namespace` says them.

    >>> listed_own(["ml/a", "ml/b", "web/c"], "ml")
    'a, b, web/c'
    """
    prefix = f"{namespace}/"
    return _named([name.removeprefix(prefix) for name in names[:_MOST_NAMED]], len(names))


def _named(shown: Sequence[str], count: int) -> str:
    """Some of so many names."""
    return ", ".join(shown) + (f" and {count - len(shown)} more" if count > len(shown) else "")


def own(name: str, namespace: str) -> str:
    """A pod's `namespace/name` as somebody in `namespace` says it.

    >>> own("ml/train", "ml"), own("ml/train", "web")
    ('train', 'ml/train')
    """
    return name.removeprefix(f"{namespace}/")


def _range(reasons: Sequence[Reason], resource: str, fact: str) -> str:
    """The least and the most of an amount."""
    amounts = [_number(reason.facts.get(fact)) for reason in reasons]
    least, most = written_amount(resource, min(amounts)), written_amount(resource, max(amounts))
    return least if least == most else f"{least} to {most}"


def _number(value: JsonValue) -> int:
    return value if isinstance(value, int) else 0


def _holders(reason: Reason) -> list[str]:
    return [str(item["pod"]) for item in _objects(reason, "holders")]


def _wanted(reason: Reason) -> str:
    found: list[str] = []
    for item in _objects(reason, "failing"):
        values = item["values"]
        texts = tuple(str(value) for value in values) if isinstance(values, list) else ()
        found.append(str(Requirement(str(item["key"]), str(item["operator"]), texts)))
    return "; ".join(found)


def _differs(reason: Reason) -> bool:
    """Whether nodes of one class tell this reason in words of their own."""
    return "holders" in reason.facts or any(i["key"] == _NAME for i in _objects(reason, "failing"))


def _actual(one: NodeClass, number: int) -> Iterator[str]:
    """What the nodes of a class have instead of what is wanted."""
    for item in _objects(one.told.reasons[number], "failing"):
        if item["key"] == _NAME:
            yield from one.members
        else:
            yield "no such label" if item["actual"] is None else str(item["actual"])


def _objects(reason: Reason, fact: str) -> list[dict[str, JsonValue]]:
    value = reason.facts.get(fact)
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
