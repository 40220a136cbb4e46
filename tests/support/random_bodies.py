"""Random bodies of every kind that the twin checks: valid objects in which some fields are something else.

So most are refused for one thing or two, and what is refused, of which words, and what is taken is what two
servers are compared by. The schema says what may stand where; what else there is comes from the seeds.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

import yaml

from support.apply_scenes import SCENES, merged_json
from tonnage.wire.schema import Field, KindRow, ObjectType, load_schema

SEEDS: Final = Path(__file__).parents[1] / "data" / "body-seeds.yaml"
_ODD: Final[dict[str, tuple[Any, ...]]] = {
    "string": (
        *("", "a", "A_b", "web", "x" * 64, "10.0.0.1", "/tmp", "../x", "a.b/c", "50%", "80", " ", "None"),
        *("example.com", "a b", "fd00::1", "10.0.0.0/8", "-", "$(A)", "\u00e4", "node-1"),
    ),
    "bool": (False, True),
    "bytes": ("YQ==", "", "e30="),
    "int32": (-1, 0, 1, 2, 3, 80, 443, 1000, 65536, 30080, 2**31 - 1),
    "int64": (-1, 0, 1, 2, 3, 80, 443, 1000, 65536, 30080, 2**31 - 1),
    "float64": (0, 1.5, -1),
    "quantity": ("1", "500m", "1Gi", "-1", "0", "1.5", "10x", "2", "100Mi"),
    "int-or-string": (1, 0, -1, "50%", "0%", "120%", "web", "A_b", 8080),
    "time": ("2026-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
    "micro-time": ("2026-01-01T00:00:00.000000Z",),
    "duration": ("5s", "0s", "-1s"),
}
_KEYS: Final = ("a", "A_b", "", "a.b/c", "cpu", "memory", "nvidia.com/gpu", "x" * 64)
_HEAD: Final = ("apiVersion", "kind", "metadata")
UNCHECKED: Final = frozenset(
    {
        "APIService",
        "CSIDriver",
        "CSINode",
        "CSIStorageCapacity",
        "CertificateSigningRequest",
        "EndpointSlice",
        "Endpoints",
        "FlowSchema",
        "HorizontalPodAutoscaler",
        "IPAddress",
        "Ingress",
        "IngressClass",
        "PriorityLevelConfiguration",
        "ServiceCIDR",
        "VolumeAttachment",
        "VolumeAttributesClass",
    }
)
"""Kinds that the twin stores without a look at what their fields say."""
Json = Any


@dataclass(frozen=True)
class Seed:
    """A valid object, and the folder that it is posted to; `{ns}` stands for the namespace."""

    row: KindRow
    folder: str
    body: Json

    @property
    def title(self) -> str:
        return f"{self.row.kind} {self.body['metadata']['name']}"


@cache
def seeds() -> tuple[Seed, ...]:
    """Those of the scenes of server-side apply, and more of their own."""
    described = yaml.load(SCENES.read_text(), yaml.CSafeLoader)["kinds"]
    found = []
    for one in described.values():
        if one["kind"] in UNCHECKED:
            continue
        name = one["path"].rpartition("/")[2]
        head = {"apiVersion": one["apiVersion"], "kind": one["kind"], "metadata": {"name": name}}
        found.append(merged_json(head, one["first"]))
    found += yaml.load(SEEDS.read_text(), yaml.CSafeLoader)
    return tuple(map(_seed, found))


def _seed(body: Json) -> Seed:
    group, _, version = body["apiVersion"].rpartition("/")
    row = load_schema().kind(group, version, body["kind"])
    assert row is not None, body
    root = f"/apis/{body['apiVersion']}" if group else "/api/v1"
    space = "/namespaces/{ns}" if row.namespaced else ""
    return Seed(row, f"{root}{space}/{row.plural}", body)


@cache
def _known() -> dict[str, tuple[str, ...]]:
    """Texts by the name of the field in which a seed has them."""
    found: dict[str, set[str]] = {}

    def note(value: Json, key: str) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                note(inner, name)
        elif isinstance(value, list):
            for inner in value:
                note(inner, key)
        elif isinstance(value, str):
            found.setdefault(key, set()).add(value)

    for seed in seeds():
        note(seed.body, "")
    return {key: tuple(sorted(texts)) for key, texts in found.items()}


class Mutator:
    """Puts something else into objects, always what their types allow."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._types = load_schema().types

    def mutated(self, body: Json, row: KindRow, *, status: bool = False) -> Json:
        """The body with one to three fields otherwise, of its status alone or of the rest."""
        body = copy.deepcopy(body)
        for _ in range(self._random.choice((1, 1, 2, 3))):
            if status:
                described = self._types[row.type].fields["status"]
                self._mutate(body.setdefault("status", {}), described.ref, ())
            else:
                self._mutate(body, row.type, (*_HEAD, "status"))
        return body

    def _mutate(self, body: Json, ref: str, kept: tuple[str, ...]) -> None:
        random = self._random
        holder, described = random.choice(list(self._places(body, ref, kept)))
        names = [name for name in described.fields if holder is not body or name not in kept]
        present = [name for name in names if name in holder]
        lot = random.random()
        if lot < 0.15 and present:
            del holder[random.choice(present)]
        elif lot < 0.45 and present:
            name = random.choice(present)
            value = holder[name]
            if isinstance(value, list) and value and random.random() < 0.4:
                holder[name] = [*value, copy.deepcopy(random.choice(value))]
            else:
                holder[name] = self._value(described.fields[name], 1)
        elif names:
            name = random.choice(names)
            holder[name] = self._value(described.fields[name], 2)

    def _places(self, value: Json, ref: str, kept: tuple[str, ...]) -> Iterator[tuple[Json, ObjectType]]:
        """Every object in a value, itself first, with its type."""
        described = self._types.get(ref)
        if described is None or not isinstance(value, dict):
            return
        yield value, described
        for name, inner in value.items():
            field = described.fields.get(name)
            if field is None or name in kept:
                continue
            if field.type == "object":
                yield from self._places(inner, field.ref, ())
            elif field.item == "object":
                for one in inner.values() if isinstance(inner, dict) else inner or ():
                    yield from self._places(one, field.ref, ())

    def _value(self, field: Field, depth: int) -> Json:
        random = self._random
        if field.type == "object":
            return self._object(field.ref, depth)
        if field.type == "array":
            count = 0 if field.item.startswith("array:") else random.choice((0, 1, 1, 1, 2, 2))
            return [self._item(field, depth) for _ in range(count)]
        if field.type == "map":
            return {
                random.choice(_KEYS): self._item(field, depth) for _ in range(random.choice((0, 1, 1, 2)))
            }
        return self._scalar(field.type, field)

    def _item(self, field: Field, depth: int) -> Json:
        return self._object(field.ref, depth) if field.item == "object" else self._scalar(field.item, field)

    def _object(self, ref: str, depth: int) -> Json:
        found = {}
        fields = self._types[ref].fields if ref in self._types else {}
        for name, field in fields.items():
            chance = 0.85 if field.required else min(0.5, 1.6 / len(fields)) if depth > 0 else 0.0
            if self._random.random() < chance:
                found[name] = self._value(field, depth - 1)
        return found

    def _scalar(self, word: str, field: Field) -> Json:
        random = self._random
        if field.enum and random.random() < 0.7:
            return random.choice(field.enum)
        known = _known().get(field.name, ())
        if word == "string" and known and random.random() < 0.6:
            return random.choice(known)
        return random.choice(_ODD[word]) if word in _ODD else {}


def in_namespace(body: Json, namespace: str) -> Json:
    """The body for that namespace."""
    return json.loads(json.dumps(body).replace("{ns}", namespace))
