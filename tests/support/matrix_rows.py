"""Rows of the matrix of symptoms, each a cluster or a node's folder in a file (tests/diagnose/matrix)."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import yaml

from support.sick_node import SickNode
from tonnage.diagnose.doctor.examine import examine
from tonnage.diagnose.explain.explain import explain, explain_manifest, find_pod
from tonnage.diagnose.explain.text import explanation_lines
from tonnage.diagnose.explain.workloads.missing_pods import explain_workload, find_workload
from tonnage.diagnose.messages import match_lines, matches_in
from tonnage.model.kubernetes.workloads import WorkloadKey
from tonnage.model.verdict import Explanation
from tonnage.reading.added_objects import with_objects_in
from tonnage.reading.documents import (
    manifest_of,
    manifests_from_documents,
    snapshot_from_documents,
)

FOLDER: Final = Path(__file__).parents[1] / "diagnose" / "matrix"
ROWS: Final = range(1, 95)
Body = dict[str, Any]

_KEYS: Final = {
    "row",
    "about",
    "version",
    "complete",
    "now",
    "ask",
    "objects",
    "doctor",
    "needs_events",
    "expect",
    "near",
}
_EXPECT: Final = {"verdict", "layer", "code", "says", "says_not", "upstream"}
_NEAR: Final = {"about", "ask", "change", "delete", "doctor", "expect"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What was said: the codes, everything in words, and what a comparison with `expect` needs."""

    codes: frozenset[str]
    text: str
    verdict: str = ""
    layer: str = ""
    upstream: str = ""
    layer_of: Mapping[str, str] = field(default_factory=dict)
    """Of doctor, which has no verdict: the layer of each finding by its code."""

    def differences(self, expect: Body) -> list[str]:
        """What is not as expected, in words."""
        found = []
        code = str(expect.get("code", ""))
        if code and code not in self.codes:
            found.append(f"no {code} among {sorted(self.codes)}")
        layer = self.layer_of.get(code, "") if self.layer_of else self.layer
        for key, actual in (("verdict", self.verdict), ("layer", layer)):
            if key in expect and expect[key] != actual:
                found.append(f"{key} is {actual}, not {expect[key]}")
        found += [f"nowhere is said: {words}" for words in expect.get("says", ()) if words not in self.text]
        found += [f"it is said: {words}" for words in expect.get("says_not", ()) if words in self.text]
        if expect.get("upstream", "") not in self.upstream:
            found.append(f"Kubernetes would say {self.upstream!r}, not {expect['upstream']!r}")
        return found


@dataclass(frozen=True, slots=True)
class State:
    """A cluster with a question, or a node's folder: the row itself, or a near miss of it."""

    name: str
    about: str
    body: Body
    code: str = ""
    """The row's code, which a near miss must not have."""
    expect: Body = field(default_factory=dict)

    @property
    def objects(self) -> list[Body]:
        """The cluster, without Events unless nothing else tells."""
        found: list[Body] = self.body.get("objects", [])
        return found

    async def answer(self, *, events: bool = True) -> Answer:
        """What Tonnage says."""
        if "doctor" in self.body:
            return await _examined(self.body["doctor"])
        objects = [one for one in self.objects if events or one["kind"] != "Event"]
        return _explained(self.body, objects)


@dataclass(frozen=True, slots=True)
class Row:
    """A file: the row and its near misses."""

    number: int
    path: Path
    body: Body

    @property
    def state(self) -> State:
        """The row itself."""
        expect = self.body["expect"]
        return State(self.path.stem, str(self.body["about"]), self.body, str(expect["code"]), expect)

    @property
    def near_misses(self) -> tuple[State, ...]:
        """What differs in the one fact that matters."""
        return tuple(self._near(near, number) for number, near in enumerate(self.body["near"], 1))

    def _near(self, near: Body, number: int) -> State:
        body = dict(self.body)
        for key in ("ask", "doctor"):
            if key in near:
                body[key] = near[key]
        body["objects"] = _changed(body.get("objects", []), near)
        code = str(self.body["expect"]["code"])
        name = f"{self.path.stem} near {number}"
        return State(name, str(near["about"]), body, code, near.get("expect", {}))


@functools.cache
def rows() -> tuple[Row, ...]:
    """Every row that has a file; a row may have several (`15-too-few-gpus.yaml`, `15-no-plugin.yaml`)."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        body = yaml.load(path.read_text(), Loader=_Loader)
        found.append(Row(int(path.name.partition("-")[0]), path, body))
    return tuple(found)


class _Loader(yaml.CSafeLoader):
    """Times stay texts, as the API server gives them."""


_Loader.yaml_implicit_resolvers = {
    first: [each for each in resolvers if "timestamp" not in each[0]]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def problems_of(row: Row) -> list[str]:
    """What is wrong with a file itself."""
    body = row.body
    found = [f"unknown key {key}" for key in body.keys() - _KEYS]
    found += [f"unknown key expect.{key}" for key in body["expect"].keys() - _EXPECT]
    found += [f"unknown key near.{key}" for near in body["near"] for key in near.keys() - _NEAR]
    found += [
        f"unknown key near.expect.{k}" for n in body["near"] for k in n.get("expect", {}).keys() - _EXPECT
    ]
    if body["row"] != row.number or row.number not in ROWS:
        found.append(f"row is {body['row']}, and the file's name begins with {row.number}")
    if not body["near"]:
        found.append("no near miss")
    if ("doctor" in body) == ("ask" in body):
        found.append("either ask or doctor")
    if not body["expect"].get("says"):
        found.append("expect.says is empty")
    events = any(one["kind"] == "Event" for one in row.state.objects)
    if events != bool(body.get("needs_events")):
        found.append("Events only with needs_events, which says why")
    return found


def _changed(objects: list[Body], near: Body) -> list[Body]:
    gone = [_key(one) for one in near.get("delete", [])]
    found = [_own(one) for one in objects if _key(one) not in gone]
    for change in near.get("change", []):
        same = next((one for one in found if _key(one) == _key(change)), None)
        if same is None:
            found.append(change)
        else:
            _merge(same, _own(change))
    return found


def _merge(into: Body, change: Mapping[str, Any]) -> None:
    """A JSON merge patch: mappings are merged, null removes, everything else replaces."""
    for key, value in change.items():
        if value is None:
            into.pop(key, None)
        elif isinstance(value, Mapping) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = value


def _own(one: Body) -> Body:
    """A copy, in which what an alias names is there twice."""
    found: Body = json.loads(json.dumps(one))
    return found


def _key(one: Mapping[str, Any]) -> tuple[str, str, str]:
    metadata = one.get("metadata", one)
    return str(one["kind"]), str(metadata.get("namespace", "")), str(metadata["name"])


def _explained(body: Body, objects: list[Body]) -> Answer:
    ask = body["ask"]
    if ask.get("kind") == "Message":
        return _heard(ask["text"])
    now = datetime.fromisoformat(body["now"]) if "now" in body else None
    snapshot = snapshot_from_documents(objects, server_version=str(body.get("version", "1.35")), now=now)
    snapshot = replace(snapshot, complete=frozenset(body.get("complete", ())))
    if "spec" in ask or "items" in ask:
        space = str(ask.get("metadata", {}).get("namespace", "default"))
        snapshot = with_objects_in([ask], snapshot, namespace=space)
        [made] = manifests_from_documents([ask], namespace=space, classes=snapshot.priority_classes)
        return _of(explain_manifest(made, snapshot))
    if ask["kind"] != "Pod":
        key = WorkloadKey(ask["kind"], ask["namespace"], ask["name"])
        workload = find_workload(snapshot, key)
        assert workload is not None, f"objects have no {key}"
        return _of(explain_workload(workload, manifest_of(workload, snapshot.priority_classes), snapshot))
    pod = find_pod(snapshot, ask["namespace"], ask["name"])
    assert pod is not None, f"objects have no Pod {ask['namespace']}/{ask['name']}"
    return _of(explain(pod, snapshot))


def _heard(text: str) -> Answer:
    heard = matches_in(text)
    layers = {one.message.code: one.message.layer.value for one in heard}
    words = [line for one in heard for line in match_lines(one)]
    return Answer(frozenset(layers), "\n".join(words), layer_of=layers)


def _of(explanation: Explanation) -> Answer:
    reasons = [*explanation.reasons, *(reason for node in explanation.nodes for reason in node.reasons)]
    remedies = [f"{remedy.action} {remedy.effect}" for remedy in explanation.remedies]
    words = [*explanation_lines(explanation), *remedies]
    words += [word for reason in reasons for word in (reason.message, reason.remedy)]
    return Answer(
        frozenset(reason.code for reason in reasons),
        "\n".join(words),
        explanation.verdict.value,
        explanation.layer.value if explanation.layer else "",
        explanation.upstream_message,
    )


async def _examined(steps: list[Body]) -> Answer:
    with _healthy_node() as node:
        for step in steps:
            [(method, given)] = step.items()
            args = given if isinstance(given, list) else [] if given is None else [given]
            kwargs = {}
            if isinstance(given, dict):
                args, kwargs = given.get("args", []), {k: v for k, v in given.items() if k != "args"}
            getattr(node, method)(*args, **kwargs)
        report = examine(await node.facts())
    words = [
        word
        for one in report.findings
        for word in (one.reason.message, one.place, one.why, one.reason.remedy)
    ]
    layers = {one.code: one.reason.node_layer.value for one in report.findings}
    return Answer(frozenset(layers), "\n".join(words), layer_of=layers)


@contextmanager
def _healthy_node() -> Iterator[SickNode]:
    folder = Path(tempfile.mkdtemp(prefix="tn-", dir="/tmp"))
    try:
        with ExitStack() as ends:
            yield SickNode(folder, ends)
    finally:
        shutil.rmtree(folder)
