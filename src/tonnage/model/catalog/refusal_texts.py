"""What the scheduler, the API server and controllers say against a pod, out of `refusal_texts.toml`."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from importlib import resources
from typing import Any, Final, TypeAlias

from tonnage.model.catalog.refusal_facts import RefusalFacts
from tonnage.model.layer import Layer

Release: TypeAlias = tuple[int, int]
"""(minor, patch) of Kubernetes 1."""
_LAST_PATCH: Final = 99
OLDEST: Final[Release] = (0, 0)
NEWEST: Final[Release] = (_LAST_PATCH, _LAST_PATCH)


class MessageSlot(StrEnum):
    """Where a text stands."""

    NODE = "node"
    CYCLE = "cycle"
    PREEMPTION = "preemption"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Wording:
    """Words for one thing, and the releases that write them, the first and the last of them included."""

    pattern: re.Pattern[str]
    since: Release = OLDEST
    until: Release = NEWEST


@dataclass(frozen=True, slots=True)
class RefusalText:
    """One refusal. `code` is that of the reason of `explain` for it, empty where that has none.

    `frees` says whether the scheduler holds that fewer pods on the node would help; None outside of nodes.
    """

    place: MessageSlot
    code: str
    layer: Layer
    plugin: str
    frees: bool | None
    wordings: tuple[Wording, ...]
    meaning: str
    check: str
    remedy: str

    def with_facts(self, facts: RefusalFacts) -> RefusalText:
        """The same with what the text names put in for the names in braces."""
        names = {name for wording in self.wordings for name in wording.pattern.groupindex}
        named = facts.to_json()
        words = {name: named.get(name, name.upper()) for name in names}
        return replace(
            self,
            meaning=self.meaning.format_map(words),
            check=self.check.format_map(words),
            remedy=self.remedy.format_map(words),
        )


@cache
def refusal_texts(place: MessageSlot) -> tuple[RefusalText, ...]:
    """Those of a place; read once.

    >>> [row.code for row in refusal_texts(MessageSlot.NODE) if row.plugin == "NodePorts"]
    ['host-port-taken']
    """
    text = resources.files(__package__).joinpath("refusal_texts.toml").read_text(encoding="utf-8")
    return tuple(_row(row) for row in tomllib.loads(text)["text"] if row["place"] == place)


def _row(row: dict[str, Any]) -> RefusalText:
    place = MessageSlot(row["place"])
    return RefusalText(
        place=place,
        code=row["code"],
        layer=Layer(row.get("layer", Layer.SCHEDULER)),
        plugin=row.get("plugin", ""),
        frees=row.get("frees", False) if place is MessageSlot.NODE else None,
        wordings=tuple(
            Wording(
                re.compile(wording["pattern"]),
                release(wording["since"]) if "since" in wording else OLDEST,
                release(wording["until"], last=True) if "until" in wording else NEWEST,
            )
            for wording in row["wordings"]
        ),
        meaning=row["meaning"],
        check=row["check"],
        remedy=row["remedy"],
    )


def release(text: str, *, last: bool = False) -> Release:
    """The release that a text names; without a patch level the first of its minor, or the last.

    >>> release("1.34.2"), release("1.33"), release("1.33", last=True)
    ((34, 2), (33, 0), (33, 99))
    """
    _, minor, *patch = text.split(".")
    return int(minor), int(patch[0]) if patch else _LAST_PATCH if last else 0
