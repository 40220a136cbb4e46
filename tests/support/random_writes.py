"""Random writes of every sort to objects of several kinds, as scenes that any API server can play."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from random import Random
from typing import Any, Final

from support.apply_scenes import Scene
from support.random_applies import KINDS, holed, some

Json = Any
_MANAGERS: Final = ("anna", "bert", "kubectl-edit")
_JUNK: Final[tuple[Json, ...]] = ("", -1, "A_b", {}, [], True, "x" * 70, "7", 0)
_UID: Final = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_SHOWN: Final = re.compile(
    r"Invalid value: (?:\{.*\}(?=: field is immutable)"
    r'|"(?:\{|map\[)(?:[^"\\]|\\.)*"(?=: (?:json|cannot|unrec|[A-Z])))'
)
_POLICIES: Final = ("Background", "Foreground", "Orphan")


def random_writes(seed: int) -> Scene:
    """Some fifteen writes to one object or another of a kind, and what is there in the end."""
    random = Random(seed)
    kind = random.choice(list(_KINDS))
    head, plural, make, status = _KINDS[kind]
    group = head["apiVersion"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    folder = f"{root}/namespaces/{{ns}}/{plural}"
    hand = _Hand(random, folder, head, make, status)
    steps = [hand.step() for _ in range(random.randint(8, 18))]
    return Scene(f"writes {seed}", [*steps, *({"get": f"{folder}/{name}"} for name in "xy")])


def alike(answer: Json) -> Json:
    """An answer without what a refusal shows of a whole object, whose fields Go orders, and without uids.

    What is wrong with a custom object is told in no order; of mixed lists in a strategic patch (500) the
    genuine server shows what they hold.
    """
    if not isinstance(answer, list) or not isinstance(answer[1], dict) or "message" not in answer[1]:
        return answer
    if answer[0] == 500:
        return 500
    body = copy.deepcopy(answer[1])
    for one in (body, *body.get("details", {}).get("causes", ())):
        one["message"] = _SHOWN.sub("Invalid value: …", _UID.sub("…", one["message"]))
        if "random.example.org" in body["message"]:
            one["message"] = sorted(re.split(r", |\[|\]", one["message"]))
    return [answer[0], body]


class _Hand:
    """What writes to the objects of one kind."""

    def __init__(
        self,
        random: Random,
        folder: str,
        head: Json,
        make: Callable[[Random], Json],
        status: Callable[[Random], Json] | None,
    ) -> None:
        self._random = random
        self._folder = folder
        self._head = head
        self._make = make
        self._status = status

    def step(self) -> dict[str, Json]:
        """One request."""
        random = self._random
        name = random.choice("xxxy")
        path, manager = f"{self._folder}/{name}", random.choice(_MANAGERS)
        step = self._write(name, path)
        if random.random() < 0.08:
            step["query"] = "&".join([*filter(None, [step.get("query")]), "dryRun=All"])
        if random.random() < 0.15 and "delete" not in step:
            validation = random.choice(("Strict", "Ignore", "Warn"))
            step["query"] = "&".join([*filter(None, [step.get("query")]), f"fieldValidation={validation}"])
        return {**step, "as": manager}

    def _write(self, name: str, path: str) -> dict[str, Json]:
        random = self._random
        body = {**self._head, **self._make(random)}
        body["metadata"] = {"name": name, **_metadata(random)}
        match random.randrange(16):
            case 0 | 1 | 2:
                return {"create": self._folder, "body": self._marred(body)}
            case 3 | 4:
                return {"edit": path, "body": self._marred(self._make(random))}
            case 5:
                return {"put": path, "body": self._marred(body)}
            case 6 | 7:
                return {"merge": path, "body": holed(random, self._marred(self._make(random)))}
            case 8:
                return {"merge": path, "body": {"metadata": holed(random, _metadata(random))}}
            case 9 | 10:
                return {"strategic": path, "body": self._marred(self._make(random))}
            case 11 | 12:
                return {"json": path, "body": self._operations(body)}
            case 13 if self._status is not None:
                return {"merge": f"{path}/status", "body": {"status": self._status(random)}}
            case 14 if "deployments" in path:
                replicas = random.choice([0, 2, -1, "3"])
                return {"merge": f"{path}/scale", "body": {"spec": {"replicas": replicas}}}
            case 15:
                return {"delete": path, "query": f"propagationPolicy={random.choice(_POLICIES)}"}
            case _:
                return {"get": path}

    def _marred(self, body: Json) -> Json:
        """The body, at times with nonsense at one place."""
        if self._random.random() < 0.75:
            return body
        body = copy.deepcopy(body)
        holders = [one for one in _holders(body) if one]
        if holders:
            holder = self._random.choice(holders)
            keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
            key = self._random.choice(keys)
            if key not in ("apiVersion", "kind", "metadata"):
                holder[key] = copy.deepcopy(self._random.choice(_JUNK))
            elif isinstance(holder, dict) and self._random.random() < 0.5:
                holder["nonsense"] = 1
        return body

    def _operations(self, body: Json) -> Json:
        random = self._random
        places = ["/metadata/labels", "/metadata/annotations", "/spec", "/data", "/metadata/finalizers"]
        places += [f"/spec/{key}" for key in body.get("spec", {})] + ["/spec/template/metadata/labels/a"]
        found = []
        for _ in range(random.randint(1, 3)):
            place = random.choice(places)
            value: Json = body
            for part in place.split("/")[1:]:
                value = value.get(part) if isinstance(value, dict) else None
            operation = random.choice(("add", "replace", "remove", "test", "copy"))
            one: Json = {"op": operation, "path": place}
            if operation in ("add", "replace", "test"):
                one["value"] = value
            if operation == "copy":
                one["from"] = random.choice(places)
            found.append(one)
        return found


def _holders(value: Json) -> list[Json]:
    """All maps and lists in a value, itself included."""
    found = [value] if isinstance(value, dict | list) else []
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += _holders(inner)
    return found


def _metadata(random: Random) -> Json:
    said: Json = {}
    if random.random() < 0.6:
        said["labels"] = some(random, {name: random.choice("xyz") for name in ("a", "b/c", "d")})
    if random.random() < 0.4:
        said["annotations"] = some(random, {name: random.choice("xyz") for name in ("n", "m")})
    if random.random() < 0.15:
        said["finalizers"] = random.sample(["a.b/c", "a.b/d", "orphan"], random.randint(0, 2))
    return said


def _container(random: Random) -> Json:
    said: Json = {
        "command": ["sleep", random.choice("12")],
        "env": [{"name": "A", "value": random.choice("12")}],
        "resources": {"requests": some(random, {"cpu": "100m", "memory": "1Gi"})},
        "ports": [{"containerPort": random.choice([80, 81]), "name": "web"}],
    }
    return {"name": "c", "image": random.choice(["i:1", "i:2"]), **some(random, said)}


def _pod(random: Random) -> Json:
    said: Json = {
        "tolerations": [{"key": random.choice("ab"), "operator": "Exists"}],
        "terminationGracePeriodSeconds": random.choice([0, 5]),
        "activeDeadlineSeconds": random.choice([10, 20]),
        "nodeSelector": {"a": random.choice("xy")},
        "restartPolicy": random.choice(["Never", "Always"]),
        "schedulingGates": [{"name": "example.org/wait"}],
    }
    return {"spec": {"containers": [_container(random)], **some(random, said)}}


def _pod_status(random: Random) -> Json:
    said: Json = {
        "phase": random.choice(["Running", "Succeeded", "Failed"]),
        "reason": random.choice("xy"),
        "conditions": [{"type": "Ready", "status": random.choice(["True", "False"])}],
        "podIP": "10.0.0.1",
    }
    return some(random, said)


def _job(random: Random) -> Json:
    template = {"spec": {"containers": [_container(random)], "restartPolicy": "Never"}}
    said: Json = {
        "parallelism": random.randint(0, 2),
        "completions": random.randint(1, 3),
        "backoffLimit": random.randint(0, 2),
        "suspend": random.random() < 0.5,
        "completionMode": random.choice(["Indexed", "NonIndexed"]),
        "ttlSecondsAfterFinished": random.randint(0, 9),
    }
    return {"spec": {"template": template, **some(random, said)}}


def _budget(random: Random) -> Json:
    amount = random.choice([1, "50%", 0])
    spec = {random.choice(["minAvailable", "maxUnavailable"]): amount}
    policy = {"unhealthyPodEvictionPolicy": random.choice(["AlwaysAllow", "IfHealthyBudget"])}
    return {"spec": {"selector": {"matchLabels": {"a": random.choice("bc")}}, **spec, **some(random, policy)}}


def _role(random: Random) -> Json:
    rule: Json = {
        "apiGroups": [random.choice(["", "apps"])],
        "resources": random.sample(["pods", "secrets", "jobs"], random.randint(1, 2)),
        "verbs": random.sample(["get", "list", "*"], random.randint(1, 2)),
    }
    return {"rules": [rule, *([rule] if random.random() < 0.3 else [])]}


def _free_status(random: Random) -> Json:
    return some(random, {"observedGeneration": random.randint(1, 3), "note": random.choice("xy")})


def _counted_status(random: Random) -> Json:
    return some(random, {"observedGeneration": random.randint(1, 3), "replicas": random.randint(0, 2)})


_KINDS: Final[
    dict[str, tuple[Json, str, Callable[[Random], Json], Callable[[Random], Json] | None]]
] = {
    "Pod": ({"apiVersion": "v1", "kind": "Pod"}, "pods", _pod, _pod_status),
    "Job": ({"apiVersion": "batch/v1", "kind": "Job"}, "jobs", _job, None),
    "Budget": (
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}, "poddisruptionbudgets", _budget, None,
    ),
    "Role": ({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}, "roles", _role, None),
    "ConfigMap": (*KINDS["ConfigMap"], None),
    "Service": (*KINDS["Service"], None),
    "Deployment": (*KINDS["Deployment"], _counted_status),
    "Thing": (*KINDS["Thing"], _free_status),
}  # fmt: skip
