"""Refusals of the API server and of controllers in a pasted text, by the texts of the catalogue."""

from __future__ import annotations

from typing import Final

from tonnage.diagnose.messages import line_of
from tonnage.diagnose.pasted.parts import MessagePart
from tonnage.model.catalog.refusal_facts import RefusalFacts
from tonnage.model.catalog.refusal_texts import MessageSlot, RefusalText, refusal_texts
from tonnage.model.json import JsonObject

_SOURCE: Final = "kubernetes pkg/scheduler, plugin/pkg/admission"


def refusals_in(text: str) -> tuple[MessagePart, ...]:
    """The refusals, each text of the catalogue once, in the order of the catalogue.

    >>> [part.meaning.code for part in refusals_in("waiting for scheduling gates: [a]")]
    ['scheduling-gated']
    """
    parts: list[MessagePart] = []
    for row in refusal_texts(MessageSlot.TEXT):
        for wording in row.wordings:
            match = wording.pattern.search(text)
            if match is not None:
                facts = RefusalFacts.of(match)
                parts.append(MessagePart(line_of(text, match), None, row.with_facts(facts), wording, facts))
                break
    return tuple(parts)


def refusal_json(part: MessagePart) -> JsonObject:
    """A refusal with the keys that every known message has in `explain message -o json`."""
    row = part.meaning
    assert isinstance(row, RefusalText)
    return {
        "code": row.code,
        "layer": row.layer.value,
        "rows": [],
        "words": part.words,
        "facts": part.facts.to_json(),
        "meaning": row.meaning,
        "check": row.check,
        "remedy": row.remedy,
        "source": _SOURCE,
    }
