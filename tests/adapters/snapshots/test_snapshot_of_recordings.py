"""738 recorded clusters through a snapshot: what decides is all there, and pseudonyms change no decision."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from support.sampling import Sampler
from tonnage.adapters.snapshots.format import Count, Footer, Header, encoded
from tonnage.adapters.snapshots.kinds import CAPTURED
from tonnage.adapters.snapshots.limit import SizeLimit
from tonnage.adapters.snapshots.load import decompressed, load_captured
from tonnage.adapters.snapshots.redact import Level, Redactor
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision, schedule
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.reading.documents import snapshot_from_documents

Body = dict[str, Any]
VERSION: Final = "v1.35.4"
FILES: Final = ("kube-scheduler-1.35.4-golden-38.json.gz", "kube-scheduler-1.35.4-fuzz-700.json.gz")
PARTS: Final = {
    "nodes": "Node",
    "pods": "Pod",
    "pending": "Pod",
    "pdbs": "PodDisruptionBudget",
    "slices": "ResourceSlice",
    "classes": "DeviceClass",
    "claims": "ResourceClaim",
}
KINDS: Final = {kind.kind: kind for kind in CAPTURED}
SLICES: Final = 8


@cache
def scenarios() -> dict[str, Body]:
    found: dict[str, Body] = {}
    for name in FILES:
        with gzip.open(Path(__file__).parents[2] / "data" / name) as file:
            found |= {case["scenario"]["name"]: case["scenario"] for case in json.load(file)["cases"]}
    return found


def objects(scenario: Body) -> Iterator[tuple[str, Body]]:
    for part, kind in PARTS.items():
        for body in scenario.get(part) or ():
            yield kind, {**body, "apiVersion": KINDS[kind].api_version, "kind": kind}


def direct(scenario: Body) -> Snapshot:
    items: list[Any] = [body for _, body in objects(scenario)]
    return snapshot_from_documents([{"kind": "List", "items": items}], server_version=VERSION)


def through_a_snapshot(scenario: Body, level: Level) -> Snapshot:
    redactor, counts = Redactor(level, b"key"), dict[str, Count]()
    lines = [encoded(Header(server_version=VERSION, taken_at="", redact=level.value))]
    for kind, body in objects(scenario):
        lines.append(encoded(redactor.redacted(body, KINDS[kind])))
        counts.setdefault(kind, Count()).objects += 1
    lines.append(encoded(Footer(objects=counts)))
    if level is Level.NAMES:
        text = b"".join(lines).decode()
        kinds = set(PARTS.values()) - {"DeviceClass"}  # may be called as its driver is
        named = {body["metadata"]["name"] for kind, body in objects(scenario) if kind in kinds}
        assert [name for name in named if f'"{name}"' in text] == []
    return load_captured(decompressed(io.BytesIO(b"".join(lines))), "recorded", SizeLimit())[1]


def decided(snapshot: Snapshot) -> SchedulingDecision:
    """Of the pending pod, which stands last."""
    return schedule(snapshot.pods[-1], snapshot)


@pytest.mark.parametrize("part", range(SLICES))
def test_what_decides_is_all_there(part: int, sample: Sampler) -> None:
    for name in sample.items("recorded clusters through a snapshot", sorted(scenarios()))[part::SLICES]:
        scenario = scenarios()[name]
        kept = through_a_snapshot(scenario, Level.VALUES)
        # Of a kind without objects the recording has no line, as of one that a server does not serve.
        assert replace(kept, unserved=frozenset()) == direct(scenario), name


def test_pseudonyms_change_no_decision(sample: Sampler) -> None:
    some = [*sorted(scenarios())[::9], *(n for n in scenarios() if scenarios()[n].get("claims"))][:160]
    for name in sample.items("recorded clusters under pseudonyms", some):
        plain, hidden = direct(scenarios()[name]), through_a_snapshot(scenarios()[name], Level.NAMES)
        one, other = decided(plain), decided(hidden)
        assert len(other.feasible) == len(one.feasible), name
        assert sorted(row["total"] for row in other.scores.values()) == sorted(
            row["total"] for row in one.scores.values()
        ), name
        assert (other.chosen is None, bool(other.nominated), len(other.victims)) == (
            one.chosen is None, bool(one.nominated), len(one.victims),
        ), name  # fmt: skip
        real = {node.name for node in plain.nodes}
        assert not real & {node.name for node in hidden.nodes}, name
