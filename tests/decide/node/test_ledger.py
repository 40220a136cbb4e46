"""No device is given out under two uses, whatever configuration, kubelet and agent go through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tonnage.decide.node.ledger import (
    UNSEEN_S,
    Census,
    Claim,
    Evidence,
    IdOwner,
    Ledger,
    LedgerEntry,
    Living,
    gather,
    holds_of,
    settle,
    unconfirmed,
)
from tonnage.model.devices.sharing import Hold
from tonnage.model.names import GPU


def entry(**changes: object) -> LedgerEntry:
    values: dict[str, object] = {"resource": GPU, "id": "a", "order": 1, "since": 0.0}
    return LedgerEntry(**{**values, **changes})  # type: ignore[arg-type]


HELD = Hold(GPU, ("a",), "ml", "train", "main")
OWNER = IdOwner("", "", "ml", "train", ("main",))


def test_an_entry_is_over_once_seen_and_then_gone() -> None:
    ledger: Ledger = (entry(),)
    ledger = settle(ledger, Evidence((HELD,), 2, final=True, shown=(HELD,)), now=1)
    assert ledger == (entry(listed=True, owner=OWNER),)
    assert settle(ledger, Evidence((), 3, final=True), now=2) == ()


def test_an_entry_never_seen_is_kept_for_a_bounded_time() -> None:
    empty = Evidence((), 2, final=True)
    assert settle((entry(),), empty, now=UNSEEN_S) == (entry(),)
    assert settle((entry(),), empty, now=UNSEEN_S + 1) == ()


TRAIN = Claim("ml", "train", "main", GPU, 1)


@pytest.mark.parametrize(
    ("census", "shown", "kept"),
    [
        pytest.param(Census(1, ()), (), False, id="no living pod asks for it"),
        pytest.param(Census(0, ()), (), True, id="asked before the answer"),
        pytest.param(Census(1, (TRAIN,)), (), True, id="a pod without its device"),
        pytest.param(Census(1, (TRAIN,)), (replace(HELD, ids=("b",)),), False, id="a pod that has its own"),
        pytest.param(Census(1, (replace(TRAIN, count=2),)), (replace(HELD, ids=("b",)),), True, id="half"),
        pytest.param(
            Census(1, (TRAIN, replace(TRAIN, container="load"))), (HELD,), True, id="another container's"
        ),
        pytest.param(Census(1, (replace(TRAIN, resource="x"),)), (), False, id="asks for something else"),
    ],
)
def test_an_entry_that_no_living_pod_can_be_waiting_for_is_over(
    census: Census, shown: tuple[Hold, ...], kept: bool
) -> None:
    evidence = Evidence(shown, 2, final=True, shown=shown)
    left = settle((entry(id="c"),), evidence, now=1, census=census)
    assert bool(left) is kept


def test_a_question_asked_before_the_answer_says_nothing() -> None:
    assert settle((entry(order=2, listed=True),), Evidence((), 1, final=True), now=1e9) == (
        entry(order=2, listed=True),
    )


def test_silence_of_kubelet_frees_nothing() -> None:
    before = Evidence((HELD,), 1, final=True)
    silent = gather(before, None, (), order=2, settled=True)
    assert silent.holds == (HELD,)
    assert settle((entry(listed=True),), silent, now=1e9) == (entry(listed=True),)


def test_a_kubelet_that_just_started_frees_nothing_and_its_checkpoint_counts() -> None:
    other = Hold(GPU, ("b",), pod="uid")
    fresh = gather(Evidence((HELD,), 1, final=True), (), (other,), order=2, settled=False)
    assert fresh.holds == (HELD, other)
    assert not fresh.final


INIT = Hold(GPU, ("a",), "ml", "train", "load")


def test_what_only_the_checkpoint_has_for_a_living_pod_is_held() -> None:
    """kubelet lists no ordinary init containers."""
    evidence = gather(Evidence(), (), (INIT,), order=2, settled=True)
    assert (evidence.final, evidence.holds) == (True, (INIT,))
    ledger = settle((entry(),), evidence, now=1e9)
    assert ledger == (entry(listed=True, owner=replace(OWNER, containers=("load",))),)
    over = gather(evidence, (), (), order=3, settled=True)
    assert (over.holds, settle(ledger, over, now=1e9)) == ((), ())


def test_a_checkpoint_that_cannot_be_read_frees_nothing() -> None:
    before = gather(Evidence(), (), (INIT,), order=1, settled=True)
    after = gather(before, (), None, order=2, settled=True)
    assert (after.final, after.holds) == (False, (INIT,))
    assert settle((entry(),), after, now=1e9) == (
        entry(listed=True, owner=replace(OWNER, containers=("load",))),
    )


def test_kubelets_word_names_the_pod() -> None:
    assert holds_of(Evidence((HELD,), 1, final=True), (entry(),)) == (HELD,)
    assert holds_of(Evidence(), (entry(),)) == (Hold(GPU, ("a",)),)


KNOWN = entry(listed=True, owner=IdOwner("kubelet-1", "uid", "ml", "train", ("main",)))
LISTED = frozenset({("ml", "train")})
ALIVE = Living({"uid": ("ml", "train")})
OTHER = Hold(GPU, ("b",), "ml", "train", "main")


@pytest.mark.parametrize(
    ("evidence", "living", "forgotten"),
    [
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2", pods=LISTED), ALIVE, True, id="its pod lives"
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2", pods=LISTED), None, True, id="kubelet lists it"
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2"), ALIVE, True, id="kubelet is late to read them"
        ),
        pytest.param(Evidence((), 2, kubelet="kubelet-2"), ALIVE, True, id="kubelet has not read its pods"),
        pytest.param(Evidence((), 2, kubelet="kubelet-2"), None, True, id="nobody knows which pods live"),
        pytest.param(
            Evidence((), 2, kubelet="kubelet-2"), Living(), False, id="its pod is over, kubelet says nothing"
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2", pods=LISTED),
            Living(),
            False,
            id="another of that name",
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2"), None, False, id="kubelet says that it is over"
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-1", pods=LISTED), ALIVE, False, id="the same kubelet"
        ),
        pytest.param(
            Evidence((OTHER,), 2, True, (OTHER,), kubelet="kubelet-2", pods=LISTED),
            ALIVE,
            False,
            id="its container was started again with another",
        ),
        pytest.param(
            Evidence((), 2, True, kubelet="kubelet-2", pods=LISTED),
            replace(ALIVE, idle=frozenset({("uid", "main")})),
            False,
            id="its container does not run",
        ),
    ],
)
def test_a_new_kubelet_that_does_not_know_a_holder_has_forgotten_it(
    evidence: Evidence, living: Living | None, forgotten: bool
) -> None:
    ledger = settle((KNOWN,), evidence, now=1e9, living=living)
    held = Hold(GPU, ("a",), "ml", "train", "main", forgotten=True)
    assert (held in holds_of(evidence, ledger)) is forgotten


def test_what_was_forgotten_stays_so_while_nobody_can_say_which_kubelet_answers() -> None:
    forgotten = replace(KNOWN, forgotten=True)
    assert settle((forgotten,), Evidence((), 2), now=1e9) == (forgotten,)


def test_what_was_forgotten_is_so_no_longer_once_its_pod_is_over_though_kubelet_says_nothing() -> None:
    forgotten = replace(KNOWN, forgotten=True)
    ledger = settle((forgotten,), Evidence((), 2, kubelet="kubelet-2"), now=1, living=Living())
    assert ledger == (KNOWN,)


def test_a_kubelet_that_remembers_is_the_one_to_know_from_then_on() -> None:
    evidence = Evidence((HELD,), 2, True, (HELD,), kubelet="kubelet-2", pods=LISTED)
    assert unconfirmed((KNOWN,), "kubelet-2") == {(GPU, "a")}
    assert unconfirmed((KNOWN,), "kubelet-2", Living()) == frozenset()
    ledger = settle((KNOWN,), evidence, now=1, living=ALIVE)
    assert ledger == (replace(KNOWN, owner=replace(KNOWN.owner, kubelet="kubelet-2")),)
    assert unconfirmed(ledger, "kubelet-2") == frozenset()


UNSHOWN = entry(id="b", owner=IdOwner("kubelet-1"))
SERVE = Claim("ml", "serve", "main", GPU, 1)
BOOKS_LOST = Evidence((), 2, True, kubelet="kubelet-2", pods=LISTED | {("ml", "serve")})


@pytest.mark.parametrize(
    ("claims", "kept", "pod"),
    [
        pytest.param((TRAIN, SERVE), True, "serve", id="one that lacks it"),
        pytest.param((SERVE, replace(SERVE, pod="other")), True, "", id="two that lack it"),
        pytest.param((replace(SERVE, count=2),), True, "", id="one that lacks more"),
        pytest.param((TRAIN,), False, "", id="nobody: the other has its own, which kubelet forgot"),
        pytest.param((), False, "", id="nobody at all"),
    ],
)
def test_what_only_an_earlier_kubelet_got_is_held_while_a_living_pod_may_have_it(
    claims: tuple[Claim, ...], kept: bool, pod: str
) -> None:
    """However long: that kubelet may have started the container, and ended before anybody saw its books."""
    living = Living({"uid": ("ml", "train"), "uid-2": ("ml", "serve")})
    ledger = settle((KNOWN, UNSHOWN), BOOKS_LOST, now=1e9, census=Census(2, claims), living=living)
    held = Hold(GPU, ("b",), "ml" if pod else "", pod, forgotten=True)
    assert (held in holds_of(BOOKS_LOST, ledger)) is kept
    assert len(ledger) == 1 + kept


def test_that_a_kubelet_lost_its_books_stays_known_when_who_told_it_has_ended() -> None:
    census = Census(2, (SERVE,))
    living = Living({"uid-2": ("ml", "serve")})
    ledger = settle((KNOWN, UNSHOWN), BOOKS_LOST, now=1, census=census, living=ALIVE)
    (left,) = settle(ledger, BOOKS_LOST, now=2, census=census, living=living)
    assert (left.id, left.forgotten) == ("b", True)


def test_what_only_an_earlier_kubelet_got_may_be_given_again_where_this_one_has_its_books() -> None:
    hold = Hold(GPU, ("a",), "ml", "train", "main")
    evidence = Evidence((hold,), 2, True, (hold,), kubelet="kubelet-2", pods=LISTED)
    ledger = settle((KNOWN, UNSHOWN), evidence, now=1e9, census=Census(2, (SERVE,)), living=ALIVE)
    assert [entry.forgotten for entry in ledger] == [False, False]
    assert unconfirmed(ledger, "kubelet-2") == {(GPU, "b")}  # others first


def test_a_container_keeps_what_kubelet_asks_anew_for_an_init_container_before_it() -> None:
    known = replace(KNOWN, owner=replace(KNOWN.owner, containers=("load", "main")))
    anew = Hold(GPU, ("b",), "ml", "train", "load")
    evidence = Evidence((anew,), 2, True, reserved=(anew,), kubelet="kubelet-2", pods=LISTED)
    living = replace(ALIVE, idle=frozenset({("uid", "load")}))
    assert settle((known,), evidence, now=1, living=living) == (replace(known, forgotten=True),)
    started = replace(anew, container="main")
    evidence = replace(evidence, holds=(anew, started), shown=(started,))
    assert settle((known,), evidence, now=1, living=living) == ()
