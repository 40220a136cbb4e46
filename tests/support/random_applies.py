"""Random sequences of writes by several managers, as scenes that any API server can play."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from support.apply_scenes import Scene

Json = Any
_SELECTED: Final = {"a": "b"}
_MANAGERS: Final = ("anna", "bert", "kubectl", "zoe")
_DEFINITION: Final[Json] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "things.random.example.org"},
    "spec": {
        "group": "random.example.org",
        "scope": "Namespaced",
        "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                    "whole": {
                                        "type": "object",
                                        "x-kubernetes-map-type": "atomic",
                                        "additionalProperties": {"type": "string"},
                                    },
                                    "tags": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "set",
                                        "items": {"type": "string"},
                                    },
                                    "plain": {"type": "array", "items": {"type": "integer"}},
                                    "size": {"type": "integer", "default": 3},
                                    "ports": {
                                        "type": "array",
                                        "x-kubernetes-list-type": "map",
                                        "x-kubernetes-list-map-keys": ["port", "protocol"],
                                        "items": {
                                            "type": "object",
                                            "required": ["port"],
                                            "properties": {
                                                "port": {"type": "integer"},
                                                "protocol": {"type": "string", "default": "TCP"},
                                                "labels": {
                                                    "type": "object",
                                                    "additionalProperties": {"type": "string"},
                                                },
                                            },
                                        },
                                    },
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


def setup() -> Scene:
    """What must be there before: a custom kind with lists and maps of all sorts."""
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    things = "/apis/random.example.org/v1/namespaces/default/things"
    return Scene("random", [{"create": definitions, "as": "a", "body": _DEFINITION}, {"wait": things}])


def random_scene(seed: int) -> Scene:
    """A sequence of some twenty writes to one object."""
    random = Random(seed)
    kind = random.choice(list(KINDS))
    head, plural, make = KINDS[kind]
    group = head["apiVersion"]
    root = f"/apis/{group}" if "/" in group else f"/api/{group}"
    path = f"{root}/namespaces/{{ns}}/{plural}/x"
    steps = [_step(random, path, head, make) for _ in range(random.randint(8, 20))]
    return Scene(f"random {seed}", [*steps, {"get": path}])


def _step(random: Random, path: str, head: Json, make: Callable[[Random], Json]) -> dict[str, Json]:
    manager = random.choice(_MANAGERS)
    body = {**head, **make(random)}
    body["metadata"] = {"name": "x", **_metadata(random)}
    match random.randrange(10):
        case 0 | 1 | 2 | 3:
            return {"apply": path, "as": manager, "body": body}
        case 4 | 5:
            return {"apply": path, "as": manager, "body": body, "force": True}
        case 6:
            return {"create": path.rpartition("/")[0], "as": manager, "body": body}
        case 7:
            return {"edit": path, "as": manager, "body": _without_lists(make(random))}
        case 8:
            return {"merge": path, "as": manager, "body": holed(random, make(random))}
        case _:
            return {"merge": path, "as": manager, "body": {"metadata": holed(random, _metadata(random))}}


def _metadata(random: Random) -> Json:
    said: Json = {}
    if random.random() < 0.6:
        said["labels"] = some(random, {name: random.choice("xyz") for name in ("a", "b/c", "d")})
    if random.random() < 0.4:
        said["annotations"] = some(random, {name: random.choice("xyz") for name in ("n", "m")})
    if random.random() < 0.2:
        said["finalizers"] = random.sample(["a.b/c", "a.b/d", "a.b/e"], random.randint(0, 3))
    return said


def some(random: Random, items: dict[str, Json]) -> dict[str, Json]:
    return {key: value for key, value in items.items() if random.random() < 0.6}


def holed(random: Random, body: Json) -> Json:
    """A merge patch that takes something out, but no labels that a selector needs."""
    if not isinstance(body, dict) or body == _SELECTED:
        return body
    return {key: None if random.random() < 0.15 else holed(random, value) for key, value in body.items()}


def _without_lists(body: Json) -> Json:
    return {
        key: _without_lists(value) if isinstance(value, dict) else value
        for key, value in body.items()
        if not isinstance(value, list)
    }


def _config_map(random: Random) -> Json:
    data = some(random, {name: random.choice(["1", "2"]) for name in ("k", "l.m", "n")})
    return {"data": data} if random.random() < 0.8 else {}


def _service(random: Random) -> Json:
    ports = [
        {
            "name": f"p{port}{protocol.lower()}",
            "port": port,
            "protocol": protocol,
            "targetPort": random.choice([1, "n"]),
        }
        for port in random.sample([80, 81, 8080], random.randint(1, 3))
        for protocol in random.sample(["TCP", "UDP"], random.randint(1, 2))
    ]
    spec = {"ports": ports, **some(random, {"selector": {"a": random.choice("xy")}})}
    return {"spec": {**spec, **some(random, {"sessionAffinity": random.choice(["None", "ClientIP"])})}}


def _container(random: Random, name: str) -> Json:
    names = random.sample(["A", "B", "C"], random.randint(0, 3))
    said: Json = {
        "env": [{"name": name, "value": random.choice("12")} for name in names],
        "args": [random.choice("ab")],
        "resources": {"limits": some(random, {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": 1})},
        "ports": [{"containerPort": port} for port in random.sample([80, 9, 700], random.randint(0, 2))],
        "securityContext": {"runAsUser": random.randint(0, 2)},
        "imagePullPolicy": random.choice(["Always", "Never"]),
    }
    return {"name": name, "image": random.choice(["i:1", "i:2"]), **some(random, said)}


def _deployment(random: Random) -> Json:
    names = random.sample(["one", "two", "three"], random.randint(1, 3))
    pod: Json = {
        "volumes": [{"name": name, "emptyDir": {}} for name in random.sample("vwx", random.randint(0, 2))],
        "tolerations": [{"key": random.choice("ab"), "operator": "Exists"}],
        "nodeSelector": some(random, {"a": random.choice("xy"), "b": "z"}),
    }
    spec: Json = {
        "replicas": random.randint(0, 3),
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": random.randint(1, 2)}},
        "minReadySeconds": random.randint(0, 1),
    }
    containers = [_container(random, name) for name in names]
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers, **some(random, pod)}}
    selector = {"matchLabels": {"a": "b"}}
    return {"spec": {"selector": selector, "template": template, **some(random, spec)}}


def _tree(random: Random, depth: int = 0) -> Json:
    match random.randrange(7 if depth < 3 else 4):
        case 0:
            return random.randint(0, 2)
        case 1:
            return random.choice("xy")
        case 2:
            return random.random() < 0.5
        case 3:
            return random.choice([{}, [], 1.5])
        case 4:
            return [_tree(random, depth + 1) for _ in range(random.randint(0, 2))]
        case _:
            return some(random, {name: _tree(random, depth + 1) for name in "pqr"})


def _thing(random: Random) -> Json:
    pairs = random.sample([(1, "TCP"), (1, "UDP"), (20, "TCP"), (3, None)], random.randint(0, 3))
    ports = [
        {
            "port": port,
            **({"protocol": protocol} if protocol else {}),
            **some(random, {"labels": {random.choice("ab"): random.choice("xy")}}),
        }
        for port, protocol in pairs
    ]
    spec: Json = {
        "free": some(random, {name: _tree(random) for name in "stu"}),
        "whole": some(random, {"a": random.choice("xy"), "b": "z"}),
        "tags": random.sample(["c", "a", "b<&"], random.randint(0, 3)),
        "plain": [random.randint(0, 3) for _ in range(random.randint(0, 2))],
        "size": random.randint(1, 2),
        "ports": ports,
    }
    return {"spec": some(random, spec)}


KINDS: Final[dict[str, tuple[Json, str, Callable[[Random], Json]]]] = {
    "ConfigMap": ({"apiVersion": "v1", "kind": "ConfigMap"}, "configmaps", _config_map),
    "Service": ({"apiVersion": "v1", "kind": "Service"}, "services", _service),
    "Deployment": ({"apiVersion": "apps/v1", "kind": "Deployment"}, "deployments", _deployment),
    "Thing": ({"apiVersion": "random.example.org/v1", "kind": "Thing"}, "things", _thing),
}
