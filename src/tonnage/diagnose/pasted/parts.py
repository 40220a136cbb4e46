"""Parts of a scheduler's message, each held against the texts of the catalogue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from tonnage.model.catalog.refusal_facts import NO_FACTS, RefusalFacts
from tonnage.model.catalog.refusal_texts import (
    NEWEST,
    OLDEST,
    MessageSlot,
    RefusalText,
    Release,
    Wording,
    refusal_texts,
)
from tonnage.model.json import JsonObject

_FIRST_KNOWN: Final = 31
_LAST_KNOWN: Final = 37
NO_RELEASE: Final = "no release"
"""What stands for the releases of a text of which each part is of other ones."""


@dataclass(frozen=True, slots=True)
class MessagePart:
    """Words of a message and what they mean. `count`: of how many nodes; None where none are counted.

    `meaning` is None for words that no release known here writes.
    """

    words: str
    count: int | None = None
    meaning: RefusalText | None = None
    wording: Wording | None = None
    facts: RefusalFacts = NO_FACTS

    def to_json(self) -> JsonObject:
        """As `explain message -o json` prints it."""
        meaning = self.meaning
        if meaning is None or self.wording is None:
            return {"count": self.count, "words": self.words, "understood": False}
        return {
            "count": self.count,
            "words": self.words,
            "understood": True,
            "code": meaning.code or None,
            "layer": meaning.layer.value,
            "plugin": meaning.plugin or None,
            "releases": releases_text((self.wording.since, self.wording.until)),
            "facts": self.facts.to_json(),
            "preemptionMayHelp": meaning.frees,
            "meaning": meaning.meaning,
            "check": meaning.check,
            "remedy": meaning.remedy,
        }


def part_of(words: str, place: MessageSlot, count: int | None = None) -> MessagePart:
    """The part that words are, as a whole.

    >>> part_of("Insufficient nvidia.com/gpu", MessageSlot.NODE, 3).facts.resource
    'nvidia.com/gpu'
    >>> part_of("CardTypeMismatch", MessageSlot.NODE).meaning is None
    True
    """
    for text in refusal_texts(place):
        for wording in text.wordings:
            match = wording.pattern.fullmatch(words)
            if match is not None:
                facts = RefusalFacts.of(match)
                return MessagePart(words, count, text.with_facts(facts), wording, facts)
    return MessagePart(words, count)


def common_releases(parts: Iterable[MessagePart]) -> tuple[Release, Release]:
    """The first and the last release that write all of the parts; the first after the last if none does."""
    wordings = [part.wording for part in parts if part.wording is not None]
    since = max((wording.since for wording in wordings), default=OLDEST)
    return since, min((wording.until for wording in wordings), default=NEWEST)


def releases_text(releases: tuple[Release, Release]) -> str:
    """A range of releases in words; empty for every release that is known here.

    >>> releases_text(((34, 2), NEWEST)), releases_text((OLDEST, (34, 1))), releases_text((OLDEST, (23, 99)))
    ('1.34.2 or later', '1.34.1 or earlier', '1.23 or earlier')
    >>> [releases_text(pair) for pair in (((31, 0), (36, 99)), ((35, 0), (33, 99)), (OLDEST, NEWEST))]
    ['1.31 to 1.36', 'no release', '']
    """
    since, until = releases
    if since > until:
        return NO_RELEASE
    first = _text(since) if since > (_FIRST_KNOWN, -1) else ""
    last = _text(until) if until < (_LAST_KNOWN, 99) else ""
    if first and last:
        return first if first == last else f"{first} to {last}"
    return f"{first} or later" if first else f"{last} or earlier" if last else ""


def _text(release: Release) -> str:
    minor, patch = release
    return f"1.{minor}" if patch in (0, 99) else f"1.{minor}.{patch}"
