"""Reasons in few words: for one line, for a group of nodes, for a list of pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from tonnage.decide.kubernetes.requests import written_amount
from tonnage.model.kubernetes.selectors import Requirement
from tonnage.model.name_lists import MOST_NAMED, listed, shown_of
from tonnage.model.reasons.facts import FailingRequirement
from tonnage.model.reasons.pod.admission import Unreadable
from tonnage.model.reasons.pod.scheduling import (
    AmountReason,
    InsufficientResource,
    NodeAffinityMismatch,
    ResourceTooLarge,
)
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import NodeClass

_NAME: Final = "metadata.name"

_LACKED: Final = ""
"""The value of a label that a node does not have."""


def summary(classes: tuple[NodeClass, ...]) -> str:
    """Why no node takes the pod, in one line: what the scheduler meets, counted, most frequent first.

    What cannot be read of a node refuses nothing there: some other reason does.
    """
    counts: Counter[str] = Counter()
    for node_class in classes:
        met = (reason for reason in node_class.first.reasons if not reason.hidden)
        for text in {reason.phrase for reason in met if not isinstance(reason, Unreadable)}:
            counts[text] += len(node_class.members)
    names = [name for node_class in classes for name in node_class.members]
    if len(names) == 1:
        return f"node {names[0]} does not take it: {', '.join(sorted(counts))}"
    counts_text = ", ".join(
        f"{count} {phrase}" for phrase, count in sorted(counts.items(), key=lambda c: (-c[1], c[0]))
    )
    return f"no node of {len(names)} takes it: {counts_text}"


def shared_sentence(classes: Sequence[NodeClass], number: int, namespace: str) -> str:
    """One sentence for what several nodes say alike: numbers become ranges, labels a list of values.

    It is about the reason with that number of each. `namespace` is the pod's own, whose pods are named
    without it.
    """
    reasons = [node_class.first.reasons[number] for node_class in classes]
    first = reasons[0]
    alone = all(len(node_class.members) == 1 for node_class in classes)
    if len({reason.message for reason in reasons}) == 1 and (alone or not _differs(first)):
        return first.message
    match first:
        case InsufficientResource():
            free = [max(0, reason.free) for reason in _of_amounts(reasons)]
            by = _held_by(classes, number, first.resource, namespace)
            return f"{_request_text(first)}, {_range(first.resource, free)} free on each{by}"
        case ResourceTooLarge():
            whole = [reason.allocatable for reason in _of_amounts(reasons)]
            return f"{_request_text(first)}, the whole nodes have {_range(first.resource, whole)} allocatable"
        case NodeAffinityMismatch() if len({_requirements_text(reason) for reason in reasons}) == 1:
            values = {value for node_class in classes for value in _actual(node_class, number)}
            return f"wants {_requirements_text(first)}; the nodes {_values_text(values)}"
        case _:
            return f"{first.message} (so on {first.subject.removeprefix('Node ')})"


def _values_text(values: set[str]) -> str:
    """What nodes have, and whether some lack the label.

    >>> _values_text({"b", "a", ""}), _values_text({""})
    ('have a, b, or lack the label', 'lack the label')
    """
    named = f"have {listed(sorted(values - {_LACKED}))}" if values != {_LACKED} else ""
    return ", or ".join(filter(None, (named, "lack the label" if _LACKED in values else "")))


def _request_text(reason: AmountReason) -> str:
    return f"asks for {written_amount(reason.resource, reason.requested)} {reason.resource}"


def _held_by(classes: Sequence[NodeClass], number: int, resource: str, namespace: str) -> str:
    """Who holds the resource, the first by name of node; empty when nobody does."""
    named: list[str] = []
    total = 0
    for node_class in classes:
        held = next((h for h in node_class.held if h.resource == resource), None)
        holders = held.pods if held else tuple(_holders(node_class.first.reasons[number]))
        named += [own(name, namespace) for name in holders]
        total += held.total if held else len(holders)
    shown = ", ".join(named[:MOST_NAMED])
    more = total - min(len(named), MOST_NAMED)
    return (f"; held by {shown}" + (f" and {more} more" if more else "")) if named else ""


def listed_own(names: Sequence[str], namespace: str) -> str:
    """The same of pods' names as somebody in `namespace` says them.

    >>> listed_own(["ml/a", "ml/b", "web/c"], "ml")
    'a, b, web/c'
    """
    prefix = f"{namespace}/"
    return shown_of([name.removeprefix(prefix) for name in names[:MOST_NAMED]], len(names))


def own(name: str, namespace: str) -> str:
    """A pod's `namespace/name` as somebody in `namespace` says it.

    >>> own("ml/train", "ml"), own("ml/train", "web")
    ('train', 'ml/train')
    """
    return name.removeprefix(f"{namespace}/")


def _of_amounts(reasons: Sequence[Reason]) -> Iterator[AmountReason]:
    return (reason for reason in reasons if isinstance(reason, AmountReason))


def _range(resource: str, amounts: Sequence[int]) -> str:
    """The least and the most of an amount."""
    least, most = written_amount(resource, min(amounts)), written_amount(resource, max(amounts))
    return least if least == most else f"{least} to {most}"


def _holders(reason: Reason) -> list[str]:
    held = isinstance(reason, InsufficientResource) and reason.holders
    return [holder.pod for holder in held or ()]


def _failing(reason: Reason) -> tuple[FailingRequirement, ...]:
    return reason.failing if isinstance(reason, NodeAffinityMismatch) else ()


def _requirements_text(reason: Reason) -> str:
    return "; ".join(
        str(Requirement(requirement.key, requirement.operator, requirement.values))
        for requirement in _failing(reason)
    )


def _differs(reason: Reason) -> bool:
    """Whether nodes of one class tell this reason in words of their own."""
    held = isinstance(reason, InsufficientResource) and reason.holders is not None
    return held or any(requirement.key == _NAME for requirement in _failing(reason))


def _actual(node_class: NodeClass, number: int) -> Iterator[str]:
    """What the nodes of a class have instead of what is wanted."""
    for requirement in _failing(node_class.first.reasons[number]):
        if requirement.key == _NAME:
            yield from node_class.members
        else:
            yield _LACKED if requirement.actual is None else requirement.actual
