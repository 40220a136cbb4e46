"""The rows of the matrix that are the scheduler's, put to a genuine one: it says what `explain` says of it.

Nodes are only objects: an API server, its etcd and the scheduler are all there is.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

import pytest

from support.genuine_scheduler import GenuineScheduler, RefusedError, Verdict, genuine_scheduler
from support.leftovers import own_folder
from support.matrix_rows import Answer, State, rows
from support.sampling import Sampler
from tonnage.cli.locations.binaries import chosen_minor

pytestmark = pytest.mark.kubernetes

Body = dict[str, Any]
ROWS: Final = range(14, 40)
SPACES: Final = ("ml", "web", "data")
_SETTLES_S: Final = (0.1, 1.0, 5.0)
"""Pauses before the pod is created: the scheduler may not have heard of all the rest after the first."""
_SERVED: Final = frozenset(
    ("Node", "Pod", "PersistentVolume", "PersistentVolumeClaim", "PriorityClass", "StorageClass", "CSINode")
) | frozenset(("ResourceSlice", "DeviceClass", "ResourceClaim"))


@pytest.fixture(scope="module")
def scheduler() -> Iterator[GenuineScheduler]:
    with own_folder() as folder, genuine_scheduler(folder) as scheduler:
        names = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in SPACES]
        scheduler.try_all(names)
        scheduler.run({"percentageOfNodesToScore": 100})
        yield scheduler


def put(state: State, *, minor: str) -> tuple[list[Body], Body] | None:
    """What is there and the pod that waits, as a person would create them; None: not for this server."""
    body = json.loads(json.dumps(state.body))
    ask = body.get("ask", {})
    if not str(body.get("version", minor)).startswith(minor) or "spec" in ask or "doctor" in body:
        return None
    there: list[Body] = []
    asked: Body | None = None
    for obj in body["objects"]:
        spec, metadata = obj.get("spec", {}), obj["metadata"]
        if obj["kind"] not in _SERVED or metadata.get("deletionTimestamp") or metadata.get("ownerReferences"):
            return None
        for key in ("uid", "managedFields", "creationTimestamp"):
            metadata.pop(key, None)
        if obj["kind"] == "Pod" and spec.get("priority") and not spec.get("priorityClassName"):
            spec["priorityClassName"] = f"p{spec['priority']}"
            there.append(_class_of(spec["priority"]))
        if obj["kind"] == "Pod" and (metadata["namespace"], metadata["name"]) == (
            ask["namespace"],
            ask["name"],
        ):
            asked = obj
            asked.pop("status", None)
        else:
            there.append(obj)
    unique = {json.dumps(obj, sort_keys=True): obj for obj in there}
    return ([*unique.values()], asked) if asked is not None else None


def _class_of(value: int) -> Body:
    metadata = {"name": f"p{value}"}
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": metadata,
        "value": value,
    }


def differences(answer: Answer, verdict: Verdict | None) -> Iterator[str]:
    """What the scheduler does otherwise; nothing where nothing is claimed."""
    if verdict is None:
        if answer.upstream or answer.verdict == "FITS":
            yield "no word of the scheduler"
    elif answer.verdict == "FITS" and not verdict.node:
        yield f"it does not fit: {verdict.message}"
    elif answer.upstream and verdict.message != answer.upstream:
        yield f"{verdict.message or verdict.node!r}, not {answer.upstream!r}"


def judged(scheduler: GenuineScheduler, there: Iterable[Body], pod: Body, pause_s: float) -> Verdict | None:
    made: list[Body] = []
    objects = [*there]
    try:
        for pods in (False, True):
            made += scheduler.create_all(obj for obj in objects if (obj["kind"] == "Pod") is pods)
        time.sleep(pause_s)
        raw, verdict = scheduler.judge(pod, within_s=3.0 + pause_s)
        made.append(raw)
        if verdict is None and (node := scheduler.awaited(raw)):
            return Verdict(node)
        return verdict
    finally:
        scheduler.delete_all([pod])
        scheduler.delete_all(map(_let_go, reversed(objects)))


def _let_go(obj: Body) -> Body:
    """The object as one whose finalizers are taken away first: the scheduler sets one on claims."""
    return {**obj, "metadata": {**obj["metadata"], "finalizers": ["any"]}}


async def test_the_scheduler_says_what_explain_says_of_it(
    scheduler: GenuineScheduler, sample: Sampler
) -> None:
    minor = ".".join(chosen_minor(os.environ).removeprefix("v").split(".")[:2])
    states = [state for row in rows() if row.number in ROWS for state in (row.state, *row.near_misses)]
    asked = [(state, given) for state in states if (given := put(state, minor=minor)) is not None]
    assert len(asked) > 40
    found: list[str] = []
    for state, given in sample.items("rows put to a scheduler", asked, key=lambda pair: pair[0].name):
        answer = await state.answer()
        told: list[str] = []
        for pause_s in _SETTLES_S:
            try:
                told = [*differences(answer, judged(scheduler, *given, pause_s))]
            except RefusedError as error:
                told = [f"the server refuses it: {error}"]
            if not told:
                break
        found += [f"{state.name} ({state.about}): {each}" for each in told]
    assert not found, "\n".join(found)
