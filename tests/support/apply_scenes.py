"""Sequences of writes by several managers, as tests/data/apply-scenes.yaml has them, and what they come to.

A scene is a list of steps in a namespace of its own; `{ns}` stands for it. A step has one verb with a path,
and what goes with it: `as` (the manager), `body`, `force`, `query`.
"""

from __future__ import annotations

import asyncio
import copy
import gzip
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

SCENES: Final = Path(__file__).parents[1] / "data" / "apply-scenes.yaml"
ANSWERS: Final = Path(__file__).parents[1] / "data" / "apply-1.35.8-answers.json.gz"
_TYPES: Final = {
    "apply": "application/apply-patch+yaml",
    "merge": "application/merge-patch+json",
    "json": "application/json-patch+json",
    "strategic": "application/strategic-merge-patch+json",
}
_METHODS: Final = {"create": "POST", "get": "GET", "delete": "DELETE", "put": "PUT", "edit": "PUT"}
_PATIENCE_S: Final = 90.0
_OFTEN: Final = 4
"""How many answers in turn say that a kind is there."""
_HELD: Final = "tonnage.dev/held"
_UNSTEADY: Final = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp")

Json = Any
Send = Callable[[str, str, dict[str, str], bytes], Awaitable[tuple[int, bytes]]]
"""Method, path with query, headers and body to status and body."""


@dataclass(frozen=True)
class Scene:
    """A name and steps."""

    name: str
    steps: list[dict[str, Json]]

    @property
    def namespace(self) -> str:
        return self.name.lower().replace(" ", "-").replace("/", "-")[:60].strip("-")


def scenes() -> list[Scene]:
    """All scenes of the file: those for every kind, then the others."""
    document = yaml.load(SCENES.read_text(), yaml.CSafeLoader)
    every = [Scene(f"kind {name}", list(_of_kind(kind))) for name, kind in document["kinds"].items()]
    known = {name: kind for name, kind in document["kinds"].items() if "status" in kind}
    statuses = (known | document["statuses"]).items()
    every += [Scene(f"status {name}", list(_of_status(kind))) for name, kind in statuses]
    return [*every, *(Scene(name, steps) for name, steps in document["scenes"].items())]


def _of_kind(kind: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """What two appliers and three other writers do with an object of any kind."""
    path = kind["path"]
    head = {"apiVersion": kind["apiVersion"], "kind": kind["kind"]}
    name = path.rpartition("/")[2]

    def body(said: Json) -> Json:
        return merged_json({**head, "metadata": {"name": name}}, said)

    first, second, less = body(kind["first"]), body(kind["second"]), body(kind["less"])
    yield {"apply": path, "as": "one", "body": first}
    yield {"apply": path, "as": "one", "body": first}
    yield {"apply": path, "as": "two", "body": first}
    yield {"apply": path, "as": "two", "body": second}
    yield {"apply": path, "as": "two", "body": second, "force": True, "query": "dryRun=All"}
    yield {"apply": path, "as": "two", "body": second, "force": True}
    yield {"apply": path, "as": "one", "body": less}
    yield {"merge": path, "as": "three", "body": kind["second"]}
    yield {"merge": path, "as": "three", "body": kind["patch"]}
    yield {"edit": path, "as": "four", "body": kind["first"]}
    yield {"apply": path, "as": "two", "body": less}
    if "status" in kind:
        yield {"merge": f"{path}/status", "as": "five", "body": kind["status"]}
        yield {"apply": f"{path}/status", "as": "six", "body": body(kind["status"])}
        yield {"apply": f"{path}/status", "as": "six", "body": body({})}
    yield {
        "json": path,
        "as": "seven",
        "body": [{"op": "replace", "path": "/metadata/managedFields", "value": [{}]}],
    }
    yield {"apply": path, "as": "one", "body": less}
    yield {"apply": path, "as": "one", "body": less, "force": True}
    yield {"get": path}
    yield {"delete": path, "query": "propagationPolicy=Background"}
    yield {"create": path.rpartition("/")[0], "as": "three", "body": first}
    yield {"apply": path, "as": "one", "body": second}
    yield {"delete": path, "query": "propagationPolicy=Background"}


def _of_status(kind: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """What writers of the status of an object of any kind do to the rest of it."""
    path: str = kind["path"]
    folder, _, name = path.rpartition("/")
    if "." not in name:
        name = "with-status"
        path = f"{folder}/{name}"
    head = {"apiVersion": kind["apiVersion"], "kind": kind["kind"], "metadata": {"name": name}}
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"}
    held = {"metadata": {"finalizers": [_HELD]}}
    marked = {"labels": {"a": "1", "b": "1"}, "annotations": {"a": "1", "b": "1"}, "finalizers": [_HELD]}
    other = {
        "labels": {"a": "2", "b": None},
        "annotations": {"a": "2", "b": None},
        "ownerReferences": [owner],
    }
    yield {
        "create": folder,
        "as": "one",
        "body": merged_json(merged_json(head, kind["first"]), {"metadata": marked}),
    }
    if "wait" in kind:
        yield {"wait": kind["wait"]}
    change = {"metadata": {**other, "finalizers": [_HELD, "tonnage.dev/too"]}, **kind["status"]}
    yield {"edit": f"{path}/status", "as": "two", "body": change}
    yield {"merge": f"{path}/status", "as": "three", "body": {"metadata": {"labels": {"c": "3"}}}}
    more = {"metadata": {"labels": {"d": "4"}, "annotations": {"d": "4"}, "finalizers": ["tonnage.dev/4"]}}
    yield {"apply": f"{path}/status", "as": "four", "body": merged_json(head, more)}
    yield {"get": path}
    bare = {
        "labels": None,
        "annotations": {"a": None, "d": None},
        "ownerReferences": None,
        "finalizers": None,
    }
    yield {"edit": f"{path}/status", "as": "five", "body": {"metadata": bare}}
    yield {"merge": path, "as": "one", "body": {"metadata": {"ownerReferences": [owner]}}}
    yield {"edit": f"{path}/status", "as": "five", "body": {"metadata": {"ownerReferences": None}}}
    yield {"merge": path, "as": "one", "body": held}
    if "wait" in kind:
        return
    yield {"delete": path, "query": "propagationPolicy=Background"}
    yield {"merge": f"{path}/status", "as": "six", "body": {"metadata": {"finalizers": None}}}
    yield {"get": path}
    yield {"merge": path, "as": "one", "body": {"metadata": {"finalizers": None}}}


def merged_json(target: Json, patch: Json) -> Json:
    """RFC 7386, without its removals."""
    if not isinstance(patch, dict) or not isinstance(target, dict):
        return copy.deepcopy(patch)
    return {
        key: merged_json(target.get(key), patch[key]) if key in patch else value
        for key, value in {**patch, **target}.items()
    }


async def play(scene: Scene, send: Send) -> list[Json]:
    """What each step of a scene is answered, as `comparable` has it."""
    head = {"content-type": "application/json"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": scene.namespace}}
    await send("POST", "/api/v1/namespaces", head, json.dumps(space).encode())
    answers = []
    for step in scene.steps:
        if "wait" in step:
            await _until(scene, step["wait"], send)
        else:
            answer = comparable(*await _step(scene, step, send))
            # What a deletion answers is not told here.
            answers.append(answer[0] if "delete" in step else answer)
    return answers


async def _until(scene: Scene, path: str, send: Send) -> None:
    """Ask for a list of a new kind until there is one for a while: handlers change once more then."""
    found = 0
    async with asyncio.timeout(_PATIENCE_S):
        while found < _OFTEN:
            code, _ = await send("GET", path.replace("{ns}", scene.namespace), {}, b"")
            found = found + 1 if code == 200 else 0
            await asyncio.sleep(0.05)


async def _step(scene: Scene, step: dict[str, Json], send: Send) -> tuple[int, Json]:
    verb = next(verb for verb in (*_TYPES, *_METHODS) if verb in step)
    path = step[verb].replace("{ns}", scene.namespace)
    body: Json = json.loads(json.dumps(step.get("body")).replace("{ns}", scene.namespace))
    manager = step.get("as", "")
    headers = {"user-agent": f"{manager}/v1 (test)", "content-type": _TYPES.get(verb, "application/json")}
    query = [step["query"]] if "query" in step else []
    if verb == "apply" and manager:
        query.append(f"fieldManager={manager}")
    if step.get("force"):
        query.append("force=true")
    if verb == "edit":
        code, found = await send("GET", path, headers, b"")
        if code != 200:
            return code, json.loads(found)
        body = edited(json.loads(found), body)
    data = step["raw"].replace("{ns}", scene.namespace) if "raw" in step else json.dumps(body)
    sent = data.encode() if verb not in ("get", "delete") else b""
    full = path + ("?" + "&".join(query) if query else "")
    headers |= step.get("headers", {})
    code, answer = await send(_METHODS.get(verb, "PATCH"), full, headers, sent)
    return code, json.loads(answer) if answer[:1] == b"{" else answer.decode()


def edited(target: Json, patch: Json) -> Json:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = edited(result.get(key), value)
    return result


def comparable(code: int, body: Json) -> Json:
    """An answer without what differs from run to run: uids, versions, times; orders that are nobody's."""
    if not isinstance(body, dict):
        return [code, body]
    body = copy.deepcopy(body)
    if body.get("kind") == "Status":
        return [code, _status(body)]
    metadata = body.get("metadata", {})
    for key in _UNSTEADY:
        metadata.pop(key, None)
    for entry in metadata.get("managedFields", []):
        if "time" in entry:
            entry["time"] = "T"
    if "managedFields" in metadata:
        metadata["managedFields"].sort(
            key=lambda entry: [
                entry.get(key, "") for key in ("operation", "manager", "apiVersion", "subresource")
            ]
        )
    for holder, key in _ELSEWHERE.get(body.get("kind", ""), ()):
        body.get(holder, {}).pop(key, None)
    return [code, _steady(body)]


def _status(body: Json) -> Json:
    details = body.get("details", {})
    details.pop("uid", None)
    if not details:
        body.pop("details", None)
    if "causes" in details:
        # Upstream checks the metadata of many kinds twice.
        causes = {json.dumps(cause, sort_keys=True): cause for cause in details["causes"]}
        details["causes"] = [causes[key] for key in sorted(causes)]
    for one in (body, *details.get("causes", ())):
        # What pod specs differ in is shown by a library of Go's.
        if "pod updates may not change fields" in one.get("message", ""):
            one["message"] = one["message"].partition("\n")[0]
    return body


_ADDRESSES: Final = (
    "clusterIP",
    "clusterIPs",
    "nodePort",
    "lastTransitionTime",
    "controller-uid",
    "batch.kubernetes.io/controller-uid",
)
_ELSEWHERE: Final = {
    "Pod": [("spec", "serviceAccountName"), ("spec", "serviceAccount")],
    "PersistentVolume": [("status", "lastPhaseTransitionTime")],
    "DeviceClass": [("metadata", "generation")],
}
"""What admission or controllers add that the server of the recording or the twin does without."""


def _steady(value: Json) -> Json:
    if isinstance(value, dict):
        return {
            key: "X" if key in _ADDRESSES and not isinstance(inner, dict) else _steady(inner)
            for key, inner in value.items()
        }
    return [_steady(inner) for inner in value] if isinstance(value, list) else value


def recorded() -> dict[str, list[Json]]:
    """What the genuine server answered, by the scene's name."""
    found: dict[str, list[Json]] = json.loads(gzip.decompress(ANSWERS.read_bytes()))
    return found


def keep(answers: dict[str, list[Json]]) -> None:
    """Write what a genuine server answered, so that the same answers make the same file."""
    text = json.dumps(answers, indent=0, sort_keys=True)
    ANSWERS.write_bytes(gzip.compress(text.encode(), mtime=0))
