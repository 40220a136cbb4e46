"""The judge of churn finds every kind of lie: events missed, doubled, out of order, wrong beliefs."""

from __future__ import annotations

import pytest

from support.churn.account import Line, faults_of, terms_of

WRITES = (2, 3, 4, 6)
STORY = (
    Line("LIST", version="1", objects={"a": "1"}),
    Line("WATCH", version="1"),
    Line("ADDED", "b", "2"),
    Line("MODIFIED", "a", "3"),
    Line("WATCH", version="3"),
    Line("MODIFIED", "b", "4"),
    Line("DELETED", "a", "5"),
    Line("BOOKMARK", version="5"),
    Line("MODIFIED", "b", "6"),
    Line("believes", objects={"b": "6"}),
)
STREAMED = (
    Line("WATCH", initial=True),
    Line("ADDED", "a", "1"),
    Line("BOOKMARK", version="3", initial=True),
    Line("added", "a", "1"),
    Line("MODIFIED", "a", "4"),
    Line("updated", "a", "4"),
    Line("BOOKMARK", version="6"),
    Line("believes", objects={"a": "4"}),
)
RELIST = (Line("ERROR", detail="410 too old"), Line("LIST", version="6", objects={"b": "6"}))


def test_a_true_story_has_no_faults() -> None:
    assert faults_of(STORY, WRITES, {"b": "6"})[0] == []
    assert faults_of(STREAMED, (4,), {"a": "4"})[0] == []
    faults, counts = faults_of((*STORY[:3], *RELIST, STORY[-1]), WRITES, {"b": "6"})
    assert (faults, counts["gone"]) == ([], 1)


@pytest.mark.parametrize(
    ("story", "words"),
    [
        pytest.param((*STORY[:3], *STORY[4:]), "the write at 3 was missed", id="an event is missed"),
        pytest.param((*STORY[:6], *STORY[7:]), "the events lead to", id="a deletion is missed"),
        pytest.param(
            (*STORY[:4], STORY[3], *STORY[4:]), "doubled, or out of order", id="an event is doubled"
        ),
        pytest.param(
            (*STORY[:2], STORY[3], STORY[2], *STORY[4:]), "out of order", id="two events change places"
        ),
        pytest.param(
            (*STORY[:8], STORY[8], STORY[7], STORY[9]), "bookmark at 5 after 6", id="an old bookmark"
        ),
        pytest.param(
            (*STORY[:7], Line("BOOKMARK", version="6"), *STORY[8:]), "at 6 was missed", id="an early one"
        ),
        pytest.param(STORY[:8] + STORY[9:], "the list is", id="the last event is missed"),
        pytest.param((*STORY[:-1], Line("believes")), "believed is", id="a wrong belief"),
        pytest.param(
            (*STORY[:4], Line("WATCH", version="2"), *STORY[5:]), "watches from 2", id="a wrong start"
        ),
        pytest.param((*STORY[:6], *RELIST, Line("LIST", version="4")), "LIST at 4 after 6", id="an old list"),
        pytest.param(
            (*STORY[:2], Line("MODIFIED", "b", "2"), *STORY[3:]), "which was None", id="a wrong type"
        ),
    ],
)
def test_a_lie_is_found(story: tuple[Line, ...], words: str) -> None:
    assert words in "\n".join(faults_of(story, WRITES, {"b": "6"})[0])


@pytest.mark.parametrize(
    ("told", "words"),
    [
        pytest.param((), "was not told of a at 4", id="not told"),
        pytest.param((STREAMED[3], STREAMED[5]), "told added of a at 1, which was 4", id="told twice"),
        pytest.param((Line("updated", "a", "2"),), "of a at 2 after 4", id="told of the past"),
    ],
)
def test_a_handler_that_is_told_otherwise_is_found(told: tuple[Line, ...], words: str) -> None:
    start = STREAMED[:5] if not told else STREAMED[:6]
    assert words in "\n".join(faults_of((*start, *told, *STREAMED[6:]), (4,), {"a": "4"})[0])


def test_two_leaders_at_once_are_found() -> None:
    fair = [
        ("a", 0.0, 1.0, 4.0),
        ("a", 0.0, 3.0, 4.0),
        ("b", 6.95, 7.5, 4.0),
        ("", 7.5, 8.0, 1.0),
        ("a", 8.1, 8.1, 4.0),
    ]
    assert terms_of(fair) == []
    assert terms_of([("a", 0.0, 3.0, 4.0), ("b", 6.8, 6.8, 4.0)]) == [
        "b took the lease at 6.8, a had it until 7.0"
    ]
