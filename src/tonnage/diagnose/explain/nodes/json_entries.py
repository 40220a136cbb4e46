"""The nodes' part of the JSON: of nodes that answer alike one is asked, and the others get its answer.

What differs among them is their name and the pods that hold what is short. That nothing else does is held
against two more of each class, asked as if alone; where it fails, all of the class are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.reasons.facts import Holder
from tonnage.model.reasons.pod.scheduling import InsufficientResource
from tonnage.model.reasons.reason import Reason
from tonnage.model.verdict import NodeVerdict

_FEW: Final = 4
"""So few nodes are asked each."""
_TEXTS: Final = ("subject", "message", "remedy")

Held = Callable[[str, str], tuple[tuple[Holder, ...], str]]
"""By node and resource: the pods that hold it, and how they end a message."""


@dataclass(frozen=True, slots=True)
class _Part:
    """A reason of one node; `resource` when it tells holders. The texts are cut where the node's name stands.

    `named` are those that have it; `message` is without holders.
    """

    body: JsonObject
    facts: JsonObject
    named: tuple[tuple[str, list[str]], ...]
    resource: str
    message: list[str]

    def of(self, name: str, held: Held) -> JsonObject:
        """The same of another node."""
        body = self.body.copy()
        for key, pieces in self.named:
            body[key] = name.join(pieces)
        if self.resource:
            holders, ending = held(name, self.resource)
            body["facts"] = {**self.facts, "holders": [holder.to_json() for holder in holders]}
            body["message"] = name.join(self.message) + ending
        return body


def entries_of(
    names: Sequence[str],
    classes: Iterable[Sequence[str]],
    ask: Callable[[str], NodeVerdict],
    held: Held,
) -> list[JsonValue]:
    """An entry a node in the order of `names`; `classes` have each name once."""
    by_name: dict[str, JsonObject] = {}
    for members in classes:
        entries = _copied(members, ask, held) if len(members) > _FEW else None
        for name in members:
            by_name[name] = entries[name] if entries is not None else ask(name).to_json()
    return [by_name[name] for name in names]


def _copied(
    members: Sequence[str], ask: Callable[[str], NodeVerdict], held: Held
) -> dict[str, JsonObject] | None:
    first = members[0]
    first_verdict = ask(first)
    parts = [_part(reason, first, held) for reason in first_verdict.reasons]
    verdict = first_verdict.verdict.value
    made: dict[str, JsonObject] = {
        name: {"node": name, "verdict": verdict, "reasons": [part.of(name, held) for part in parts]}
        for name in members
    }
    same = all(made[name] == ask(name).to_json() for name in (members[len(members) // 2], members[-1]))
    return made if same else None


def _part(reason: Reason, node: str, held: Held) -> _Part:
    body = reason.to_json()
    holds = isinstance(reason, InsufficientResource) and reason.holders is not None
    resource = reason.resource if isinstance(reason, InsufficientResource) and holds else ""
    message = reason.message.removesuffix(held(node, resource)[1]) if resource else reason.message
    named = tuple((key, text.split(node)) for key in _TEXTS if node in (text := str(body[key])))
    return _Part(body, reason.facts if resource else {}, named, resource, message.split(node))
