"""What the agent kept on disk and finds there again, changed by whoever: used, or refused as a ValueError."""

from __future__ import annotations

import json
from contextlib import suppress

from tonnage.agent.config_memory import recalled as recalled_config
from tonnage.agent.ledger_file import ledger_bytes, ledger_of
from tonnage.decide.node.health_memory import recalled, remembered
from tonnage.decide.node.ledger import Evidence, holds_of, unconfirmed


def kept_config(data: bytes) -> None:
    with suppress(ValueError):
        recalled_config(json.loads(data), "mark")


def kept_health(data: bytes) -> None:
    with suppress(ValueError):
        state = recalled(json.loads(data), epoch=1e9, now=1e3)
        again = recalled(json.loads(json.dumps(remembered(state, epoch=1e9))), epoch=1e9, now=1e3)
        assert len(again.faults) == len(state.faults)


def kept_ledger(data: bytes) -> None:
    with suppress(ValueError):
        ledger = ledger_of(data, "boot", 1.0)
        assert ledger_of(ledger_bytes(ledger, "boot"), "boot", 1.0) == ledger
        assert {slot for hold in holds_of(Evidence(), ledger) for slot in hold.ids} == {
            row.id for row in ledger
        }
        unconfirmed(ledger, "kubelet")
