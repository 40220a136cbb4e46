"""Patterns that search a pasted text must not look at the rest of it from every one of its characters."""

from __future__ import annotations

import re
from dataclasses import fields
from re import _parser  # type: ignore[attr-defined]  # the only reader of patterns there is

import pytest

from tonnage.model.catalog.messages import messages
from tonnage.model.catalog.refusal_facts import RefusalFacts
from tonnage.model.catalog.refusal_texts import MessageSlot, refusal_texts

_SEARCHED = sorted(
    {wording.pattern for row in refusal_texts(MessageSlot.TEXT) for wording in row.wordings}
    | {pattern for message in messages() for pattern in message.patterns},
    key=lambda pattern: pattern.pattern,
)


def _begins_unbounded(pattern: str) -> bool:
    """Whether a match may begin with a repetition without end that nothing before it holds back."""
    operator, operand = _parser.parse(pattern)[0]
    while operator is _parser.SUBPATTERN:
        operator, operand = operand[-1][0]
    return operator in (_parser.MAX_REPEAT, _parser.MIN_REPEAT) and operand[1] == _parser.MAXREPEAT


@pytest.mark.parametrize("searched", _SEARCHED, ids=lambda pattern: pattern.pattern[:40])
def test_a_search_costs_no_more_than_the_texts_length(searched: re.Pattern[str]) -> None:
    assert not _begins_unbounded(searched.pattern)


@pytest.mark.parametrize("costly", [r"\S+ max", r"(?P<a>\d+)/x", r"((?:a+?)b)"])
def test_a_costly_pattern_is_seen(costly: str) -> None:
    assert _begins_unbounded(costly)


_FACTS = [field.name for field in fields(RefusalFacts)]


@pytest.mark.parametrize("slot", MessageSlot)
def test_what_a_text_names_is_a_fact_in_the_order_of_its_words(slot: MessageSlot) -> None:
    for row in refusal_texts(slot):
        for wording in row.wordings:
            names = [*wording.pattern.groupindex]
            assert names == [fact for fact in _FACTS if fact in names], wording.pattern.pattern


def test_no_fact_is_named_by_no_text() -> None:
    rows = [row for slot in MessageSlot for row in refusal_texts(slot)]
    named = {name for row in rows for wording in row.wordings for name in wording.pattern.groupindex}
    assert named == {*_FACTS}
