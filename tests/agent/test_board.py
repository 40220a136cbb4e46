"""The board: facts with their time, and who is called when one changes."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields
from functools import partial

import pytest

from tonnage.agent.board import Fact, NodeBoard, Topic
from tonnage.model.errors import Bug
from tonnage.twin.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


async def test_a_fact_carries_when_it_was_seen_last_and_is_the_same_object_until_it_differs(
    clock: VirtualClock,
) -> None:
    topic = Topic(clock, ("a",))
    assert topic.fact == Fact(("a",), None), "nobody saw what one begins with"
    first = topic.value
    await clock.advance(5.0)
    topic.publish(("a".lower(),))
    assert topic.fact == Fact(("a",), clock.monotonic())
    assert topic.value is first
    await clock.advance(5.0)
    topic.publish(("b",))
    assert topic.fact == Fact(("b",), clock.monotonic())


def test_subscribers_are_called_in_the_order_of_subscription_and_only_for_another_value(
    clock: VirtualClock,
) -> None:
    topic, calls = Topic(clock, 0), list[tuple[str, int]]()
    for name in ("first", "second", "third"):
        topic.subscribe(partial(lambda name: calls.append((name, topic.value)), name))
    topic.publish(0)
    assert calls == []
    topic.publish(1)
    topic.publish(1)
    assert calls == [("first", 1), ("second", 1), ("third", 1)]


def test_a_subscriber_may_publish_what_follows_before_later_ones_are_called(clock: VirtualClock) -> None:
    cause, effect = Topic(clock, 0), Topic(clock, 0)
    seen: list[tuple[int, int]] = []
    cause.subscribe(lambda: effect.publish(10 * cause.value))
    cause.subscribe(lambda: seen.append((cause.value, effect.value)))
    cause.publish(2)
    assert seen == [(2, 20)]


def test_a_subscriber_that_publishes_its_own_topic_is_an_error_of_the_program(clock: VirtualClock) -> None:
    one, other = Topic(clock, 0), Topic(clock, 0)
    one.subscribe(lambda: other.publish(one.value))
    other.subscribe(lambda: one.publish(one.value + 1))
    with pytest.raises(Bug, match="publishes the topic that it is called for"):
        one.publish(1)
    assert (one.value, other.value) == (1, 1)
    other.publish(1)
    one.publish(1)  # neither is left locked


def test_a_board_is_frozen_and_every_fact_is_a_topic_that_nobody_saw_yet(clock: VirtualClock) -> None:
    board = NodeBoard.blank(clock)
    topics = [getattr(board, each.name) for each in fields(board)]
    assert all(isinstance(topic, Topic) and topic.fact.seen_s is None for topic in topics)
    with pytest.raises(FrozenInstanceError):
        board.offer = topics[0]  # type: ignore[misc]
