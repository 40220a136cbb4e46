"""What a scheduler wrote into a pod's condition PodScheduled, of whatever release, taken apart.

`0/N nodes are available: k reason, k reason. <what preemption found>`; a plugin that ends the cycle before
any node is looked at puts its words in the place of the counted ones. Old releases end with two full stops,
name taints, and say other words on volumes.

Source: kube-scheduler framework/types.go (FitError) and plugins, 1.20 to 1.37.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from tonnage.decide.kubernetes.scheduler import messages

_LONGEST: Final = 1 << 15
_HEAD: Final = re.compile(r"0/(\d{1,7}) nodes are available:? ?")
_AFTER: Final = re.compile(
    r"\.{1,2} *(?:(?:no new claims to deallocate|still not schedulable|All PostFilter plugins are skipped"
    r"|(?:deallocation|deletion)[\w ]{0,40} completed)(?:, |[.]*$)|preemption: |not found|$)"
)
_NEXT: Final = re.compile(r", (?=\d{1,7} )")
_COUNTED: Final = re.compile(r"(\d{1,7}) (.+)", re.DOTALL)
_TAINT: Final = re.compile(r"node\(s\) had (?:untolerated )?taint.*", re.DOTALL)
TAINTS: Final = "node(s) had untolerated taint(s)"
_SAME: Final = {
    "node(s) had volume node affinity conflict": "node(s) didn't match PersistentVolume's node affinity",
    "node(s) didn't match node selector": "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match Pod's node affinity": "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match pod affinity/anti-affinity rules": "node(s) didn't match pod anti-affinity rules",
    "node(s) didn't match pod affinity/anti-affinity": "node(s) didn't match pod anti-affinity rules",
}
"""Older words and those of today."""


@dataclass(frozen=True, slots=True)
class SchedulerMessage:
    """A message taken apart. `nodes` None: it is not about nodes. `whole`: words in the place of counts.

    `counts` are in the words of today, `parts` (count, words) as they are written; `claims`: what stands
    between them and what preemption came to.
    """

    nodes: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    whole: str = ""
    preemption: str = ""
    parts: tuple[tuple[int, str], ...] = ()
    claims: str = ""


def parsed_message(message: str) -> SchedulerMessage:
    """The parts of a message; one that has another form stands in `whole`.

    >>> parsed_message("0/3 nodes are available: 1 Too many pods, 2 node(s) had taint {a: b}, that the pod "
    ...      "didn't tolerate..").counts
    {'Too many pods': 1, 'node(s) had untolerated taint(s)': 2}
    >>> parsed_message("0/2 nodes are available: 2 Insufficient x/y. preemption: 0/2 nodes are available: 2 "
    ...      "No preemption victims found for incoming pod.").preemption
    '0/2 nodes are available: 2 No preemption victims found for incoming pod.'
    """
    text = message[:_LONGEST].strip()
    head = _HEAD.match(text)
    if head is None:
        return SchedulerMessage(0 if text == messages.NO_NODES else None, whole=text)
    rest = text[head.end() :]
    end = _AFTER.search(rest)
    body, after = (rest[: end.start()], rest[end.start() :]) if end else (rest.rstrip("."), "")
    between, _, preemption = after.partition("preemption: ")
    claims = between.strip(" .,")
    counts: Counter[str] = Counter()
    parts: list[tuple[int, str]] = []
    for part in _NEXT.split(body) if body else ():
        counted = _COUNTED.fullmatch(part)
        if counted is None:
            return SchedulerMessage(int(head[1]), whole=body, preemption=preemption, claims=claims)
        counts[today(counted[2])] += int(counted[1])
        parts.append((int(counted[1]), counted[2]))
    return SchedulerMessage(int(head[1]), dict(counts), "", preemption, tuple(parts), claims)


def today(words: str) -> str:
    """A reason in the words of today, which name no taint."""
    return TAINTS if _TAINT.fullmatch(words) else _SAME.get(words, words)
