"""The ledger on disk: what comes back, what a boot ends, and what makes no sense."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.agent.holds.ledger_file import ledger_bytes, ledger_of
from tonnage.decide.node.ledger import IdOwner, LedgerEntry

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
owners = st.builds(IdOwner, texts, texts, texts, texts, st.lists(texts, max_size=2).map(tuple))
entries = st.builds(
    LedgerEntry,
    texts,
    texts,
    order=st.just(0),
    since=st.just(7.0),
    listed=st.booleans(),
    owner=owners,
    forgotten=st.booleans(),
)


@given(st.lists(entries, max_size=5).map(tuple), texts)
def test_what_was_written_comes_back_as_of_now(ledger: tuple[LedgerEntry, ...], boot: str) -> None:
    assert ledger_of(ledger_bytes(ledger, boot), boot, 7.0) == ledger


def test_after_a_boot_nobody_owns_anything() -> None:
    written = ledger_bytes((LedgerEntry("r", "a", 3, 1.0, listed=True, owner=IdOwner("k", "u")),), "one")
    assert ledger_of(written, "other", 9.0) == (LedgerEntry("r", "a", 0, 9.0, listed=True),)


def test_a_row_has_the_names_that_earlier_agents_read() -> None:
    written = ledger_bytes((LedgerEntry("r", "a", 0, 0.0, owner=IdOwner("k", "u", "n", "p", ("c",))),), "b")
    (row,) = json.loads(written)
    owner = {"kubelet": "k", "uid": "u", "namespace": "n", "pod": "p", "container": "c"}
    assert {"resource": "r", "id": "a", "seen": False, "boot": "b", **owner}.items() <= row.items()


def test_a_row_that_an_earlier_agent_wrote_has_its_container() -> None:
    row = {
        "resource": "r",
        "id": "a",
        "seen": True,
        "boot": "b",
        "kubelet": "k",
        "uid": "u",
        "container": "c",
    }
    (entry,) = ledger_of(json.dumps([row]).encode(), "b", 1.0)
    assert entry.owner == IdOwner("k", "u", containers=("c",))


@pytest.mark.parametrize(
    "payload", [b"", b"{}", b"[1]", b'[{"resource": "r"}]', b'[{"resource": 1, "id": "a", "seen": true}]']
)
def test_what_makes_no_sense_is_said(payload: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - whatever the reader says of it
        ledger_of(payload, "b", 0.0)
