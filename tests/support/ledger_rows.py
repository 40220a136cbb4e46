"""The agent's ledger after an answer, as the agent keeps it."""

from __future__ import annotations

from typing import Any

from tonnage.decide.node.ledger import Ledger, entries_of
from tonnage.model.devices.sharing import Allocation


def noted(ledger: Ledger, answer: Allocation, **when: Any) -> Ledger:
    """With the entries of the answer in the place of older ones."""
    entries = entries_of(answer, **when)
    fresh = {(entry.resource, entry.id) for entry in entries}
    return (*(entry for entry in ledger if (entry.resource, entry.id) not in fresh), *entries)
