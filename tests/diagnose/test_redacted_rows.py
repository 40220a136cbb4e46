"""The matrix of symptoms out of a redacted snapshot: verdict, layer and codes are those of the plain one."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from support.matrix_rows import State, rows
from tonnage.adapters.snapshots.kinds import CAPTURED
from tonnage.adapters.snapshots.redact import Level, Redactor

Body = dict[str, Any]
KINDS = {(kind.api_version, kind.kind): kind for kind in CAPTURED}
WORDS = (
    "0", "1", "80", "true", "nodes", "available", "preemption", "Insufficient", "nvidia.com/gpu", "quota",
    "exceeded", "requested", "forbidden", "rpc", "error", "failed", "pull", "image", "back-off", "restarting",
    "exec", "nvidia-smi", "unknown", "GPU", "memory", "Allocate", "unexpected", "default",
)  # fmt: skip
"""Values that every message has in it."""
STATES = [state for row in rows() for state in (row.state, *row.near_misses) if "doctor" not in state.body]


def with_values(value: Any) -> Any:
    """Every container with variables whose values are the words of messages."""
    if isinstance(value, list):
        return [with_values(part) for part in value]
    if not isinstance(value, dict):
        return value
    found = {key: with_values(part) for key, part in value.items()}
    for container in found.get("containers") or () if isinstance(found.get("containers"), list) else ():
        if isinstance(container, dict) and "image" in container:
            more = [{"name": f"V{number}", "value": word} for number, word in enumerate(WORDS)]
            container["env"] = [*(container.get("env") or ()), *more]
    return found


@pytest.mark.sampled("rows of the matrix, redacted")
@pytest.mark.parametrize("state", STATES, ids=lambda state: str(state.name))
async def test_a_redacted_cluster_is_explained_as_the_plain_one(state: State) -> None:
    plain = [
        with_values(deepcopy(body)) for body in state.objects if (body["apiVersion"], body["kind"]) in KINDS
    ]
    redactor = Redactor(Level.VALUES, b"key")
    kept = [redactor.redacted(body, KINDS[body["apiVersion"], body["kind"]]) for body in plain]
    answers = [
        await replace(state, body={**state.body, "objects": objects}).answer(events=False)
        for objects in (plain, kept)
    ]
    one, other = answers
    assert (other.verdict, other.layer, other.codes) == (one.verdict, one.layer, one.codes), other.text
