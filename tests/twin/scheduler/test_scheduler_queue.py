"""Which pod the scheduler's queue gives next."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tonnage.loop.informer import Key
from tonnage.twin.scheduler.queue import SchedulingQueue

A, B, C = (("ns", name) for name in "abc")


def order_of(queue: SchedulingQueue, now_s: float = 0.0) -> list[Key]:
    """Every pod that the queue gives now."""
    found = []
    while (key := queue.pop(now_s)) is not None:
        found.append(key)
        queue.remove(key)
    return found


def test_the_more_important_goes_first_then_the_older() -> None:
    queue = SchedulingQueue()
    for key, priority in ((A, 0), (B, 5), (C, 0)):
        queue.add(key, priority)
    assert order_of(queue) == [B, A, C]


def test_a_pod_in_back_off_is_taken_only_when_no_other_is_ready() -> None:
    queue = SchedulingQueue()
    queue.add(A, 9)
    queue.fail(A, 0.0)
    assert queue.pop(0.0) is None
    queue.wake(A)
    queue.add(B, 0)
    assert order_of(queue) == [B, A]


def test_among_those_in_back_off_the_second_counts_then_the_priority() -> None:
    queue = SchedulingQueue()
    for key, priority, failed_s in ((A, 0, 0.2), (B, 5, 0.7), (C, 9, 1.2)):
        queue.add(key, priority)
        queue.fail(key, failed_s)
        queue.wake(key)
    assert order_of(queue, 1.3) == [B, A, C]


def test_a_broken_attempt_waits_its_back_off_out() -> None:
    queue = SchedulingQueue()
    queue.add(A, 0)
    queue.err(A, 0.0)
    queue.wake(A)
    assert (queue.pop(1.9), queue.pop(2.0)) == (None, A)


def test_a_pod_that_nothing_wakes_is_tried_again_after_five_minutes() -> None:
    queue = SchedulingQueue()
    queue.add(A, 0)
    queue.fail(A, 10.0)
    assert (queue.pop(309.0), queue.next_due_s(), queue.pop(310.0)) == (None, 310.0, A)


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "fail", "err", "wake", "remove", "pop"]), st.sampled_from([A, B, C]))
)


@given(STEPS, st.booleans())
def test_no_pod_is_lost_or_given_that_does_not_wait(steps: list[tuple[str, Key]], cuts_short: bool) -> None:
    queue, there, now_s = SchedulingQueue(cuts_short=cuts_short), set[Key](), 0.0
    for step, key in steps:
        now_s += 0.4
        if step == "add":
            queue.add(key, 0)
            there.add(key)
        elif step == "remove":
            queue.remove(key)
            there.discard(key)
        elif step == "pop":
            assert queue.pop(now_s) in {None, *there}
        elif step == "wake":
            queue.wake(key)
        else:
            getattr(queue, step)(key, now_s)
    assert len(queue) == len(there)
    assert set(order_of(queue, now_s + 400)) == there
    assert queue.next_due_s() is None


def test_a_pod_that_is_held_waits_for_good_and_then_without_a_pause() -> None:
    queue = SchedulingQueue()
    queue.add(A, 0)
    queue.hold(A, "gates")
    assert (queue.pop(9000.0), queue.next_due_s()) == (None, None)
    queue.wake_where(lambda _, plugins: plugins == {"gates"})
    assert queue.pop(0.0) == A


def test_errors_in_a_row_have_a_back_off_of_their_own() -> None:
    queue = SchedulingQueue(cuts_short=False)
    queue.add(A, 0)
    for _ in range(3):
        queue.fail(A, 0.0, frozenset("x"))
    queue.err(A, 0.0)
    assert queue.next_due_s() == 1.0
    queue.err(A, 0.0)
    assert queue.next_due_s() == 2.0
    queue.fail(A, 0.0, frozenset("x"))
    queue.wake(A)
    assert queue.next_due_s() == 8.0
