"""The engine on columns against a plain statement of the rules that shares no code with it, by chance."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from support.random_clusters import Chance
from support.scalar_scheduler import Scalar
from tonnage.decide.kubernetes.scheduler.fleet.filters import FEASIBLE
from tonnage.decide.kubernetes.scheduler.fleet.fleet import conflicts, fleet_of
from tonnage.decide.kubernetes.view import view_of

CLUSTERS = 420
PODS = 6
PARTS = 4


@pytest.mark.sampled("random clusters for the plain statement", share="1/2")
@pytest.mark.parametrize("start", range(PARTS))
def test_columns_refuse_and_rate_as_the_plain_statement(start: int) -> None:
    decided = refused = 0
    for number in range(start, CLUSTERS, PARTS):
        chance = Chance(Random(f"scalar/{number}"))
        snapshot = chance.snapshot(nodes=1 + number % 7, pods=number % 13)
        fleet, scalar = fleet_of(view_of(snapshot)), Scalar(snapshot)
        for turn in range(PODS):
            pod, case = chance.pod(f"new-{turn}"), f"{number}/{turn}"
            if conflicts(pod):
                assert scalar.pins(pod) == set(), case
                continue
            judged = fleet.refused(pod)
            said = {
                name: None if code == FEASIBLE else judged.kinds[code]
                for name, code in zip(fleet.columns.names, judged.codes.tolist(), strict=True)
            }
            told = {n: k and (k.plugin, k.texts, k.unresolvable) for n, k in said.items()}
            assert told == {name: scalar.refusal(pod, name) for name in said}, case
            names = [name for name, kind in said.items() if kind is None]
            decided, refused = decided + bool(names), refused + (not names)
            if names:
                columns = fleet.ratings(pod, np.array([kind is None for kind in said.values()]))
                rows = {name: fleet.columns.row_of[name] for name in names}
                rated = {n: {p: int(c[row]) for p, c in columns.items()} for n, row in rows.items()}
                assert rated == scalar.scores(pod, names), case
    assert min(decided, refused) > CLUSTERS * PODS / PARTS / 10
