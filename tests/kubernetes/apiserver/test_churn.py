"""Clients of three makes watch and lead through cuts, kills and absences, and miss no event (KUB-2).

`TONNAGE_CHURN_SECONDS` says for how long, `-s` shows what was seen.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.metadata import distributions
from pathlib import Path
from random import Random

import pytest

from scripts.go_modules import INFORMER, client_module
from support.churn.churned_servers import Side, genuine_side, twin_side
from support.churn.trial import churn
from support.leftovers import own_folder
from tonnage.cli.locations.binaries import FOLDER_VARIABLE, is_program

pytestmark = [
    pytest.mark.kubernetes,
    pytest.mark.skipif(
        not any(distributions(name="kubernetes")) and "CI" not in os.environ,
        reason="`make test-kubernetes` installs the client",
    ),
]
SECONDS = float(os.environ.get("TONNAGE_CHURN_SECONDS", "20"))


@pytest.mark.parametrize("side", [twin_side, genuine_side], ids=["the twin", "a genuine server"])
def test_no_client_misses_or_doubles_an_event(side: Callable[[Path], AbstractContextManager[Side]]) -> None:
    informer = client_module(os.environ).target / INFORMER
    if os.environ.get(FOLDER_VARIABLE) and not is_program(informer):
        pytest.skip("only `make kubernetes-binaries` builds the informer")
    assert is_program(informer), "remedy: make kubernetes-binaries"
    with own_folder() as folder, side(folder) as server:
        report = churn(server, SECONDS, informer, Random())
    print(report)
    assert report.faults == []
    assert min(report.done.values()) > 0
    for counts in report.counts.values():
        assert min(counts["MODIFIED"], counts["WATCH"]) > 0
    assert sorted(report.leaders) == ["leader-go", "leader-python"]
