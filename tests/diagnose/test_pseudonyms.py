"""A snapshot with pseudonyms answers as the plain one: every pod, row and topology of every lab's cluster."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tonnage.adapters.snapshots.kinds import CAPTURED
from tonnage.adapters.snapshots.limit import SizeLimit
from tonnage.adapters.snapshots.load import decompressed, load_captured
from tonnage.adapters.snapshots.redact import Level, Redactor
from tonnage.diagnose.explain.explain import explain
from tonnage.diagnose.status import fleet
from tonnage.diagnose.topo.topology import fleet_topology, node_json
from tonnage.model.kubernetes.cluster import Snapshot

CLUSTERS = sorted((Path(__file__).parents[1] / "golden" / "clusters").glob("*.jsonl.gz"))
KINDS = {(kind.api_version, kind.kind): kind for kind in CAPTURED}
PSEUDONYM = re.compile(r"\b(?:[A-Za-z]+[-_])?([0-9a-f]{12})\b")
IN_WORDS = ("message", "words", "upstream_message", "remedies")
"""Texts, whose parts are ordered by name, and proposals, which name the first of several alike nodes."""


class Pseudonyms(Redactor):
    """Gives pseudonyms, and knows whose they are."""

    def plain(self, text: str) -> str:
        """The text with the names that it had."""
        names = {mark: name for name, mark in self._replacements.items()}
        return PSEUDONYM.sub(lambda match: names.get(match[1], match[0]), text)

    def line(self, line: bytes) -> bytes:
        """A line of a plain snapshot with pseudonyms."""
        body = json.loads(line)
        kind = KINDS.get((body["apiVersion"], body["kind"]))
        return line if kind is None else json.dumps(self.redacted(body, kind)).encode() + b"\n"


def snapshot_of(lines: list[bytes]) -> Snapshot:
    return load_captured(decompressed(io.BytesIO(b"".join(lines))), "snapshot", SizeLimit())[1]


def answers(snapshot: Snapshot) -> dict[str, Any]:
    """By what is asked about."""
    topology = fleet_topology(snapshot)
    return {
        **{f"pod {pod.namespace}/{pod.name}": explain(pod, snapshot).to_json() for pod in snapshot.pods},
        **{f"row {row.node} {row.resource}": row.to_json() for row in fleet(snapshot)},
        **{f"topology {node.node}": node_json(node) for node in topology.nodes},
        "silent": [*topology.silent],
    }


def in_any_order(value: Any) -> Any:
    """The value with keys and elements sorted, and without texts."""
    if isinstance(value, dict):
        return {key: in_any_order(part) for key, part in sorted(value.items()) if key not in IN_WORDS}
    if isinstance(value, list):
        return sorted(map(in_any_order, value), key=json.dumps)
    return value


@pytest.mark.sampled("clusters under pseudonyms")
@pytest.mark.parametrize("path", CLUSTERS, ids=lambda path: str(path.name.removesuffix(".jsonl.gz")))
def test_pseudonyms_change_no_answer(path: Path) -> None:
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    pseudonyms = Pseudonyms(Level.NAMES, b"key")
    plain = answers(snapshot_of(lines))
    redacted = answers(snapshot_of([*map(pseudonyms.line, lines)]))
    assert plain.keys() & redacted.keys() <= {"silent"}  # each is named after something
    document = json.loads(pseudonyms.plain(json.dumps(redacted)))
    assert in_any_order(document) == in_any_order(json.loads(json.dumps(plain)))
    remedies = {key: len(answer["remedies"]) for key, answer in plain.items() if "remedies" in answer}
    assert {key: len(document[key]["remedies"]) for key in remedies} == remedies
