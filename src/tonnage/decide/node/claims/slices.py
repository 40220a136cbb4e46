"""The ResourceSlices of the node's pool: what they should say, and the next step from what they say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from tonnage.model.devices.claims import DRIVER, PublishedDevice
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, items, mapping, number, text

MARK: Final = "tonnage.dev/agent"
"""The label of slices that an agent of Tonnage published; another driver of that name has none."""
CONTENT: Final = "tonnage.dev/content"
"""The annotation with the sum of what was published, so that what a server dropped is no difference."""
UNHEALTHY: Final = "tonnage.dev/unhealthy"
"""The taint of a device that its node's agent holds for unhealthy."""
_MOST_DEVICES: Final = 64
"""In a slice with taints; without, 128."""
_LONGEST_NAME: Final = 253
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class NodeOwner:
    """The Node that owns the slices: they go when it goes."""

    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class NewSlice:
    """A slice that is missing."""

    body: JsonObject


@dataclass(frozen=True, slots=True)
class ChangedSlice:
    """A slice that must say something else; the body has the resourceVersion that was seen."""

    body: JsonObject


@dataclass(frozen=True, slots=True)
class SurplusSlice:
    """A slice that must be removed."""

    name: str
    uid: str


SliceStep: TypeAlias = NewSlice | ChangedSlice | SurplusSlice


def is_ours(obj: JsonObject) -> bool:
    """Whether an agent of Tonnage published the slice."""
    return text(obj, "metadata", "labels", MARK) == "true"


def desired_specs(
    devices: Iterable[PublishedDevice], node: str, *, taints: bool = True
) -> tuple[JsonObject, ...]:
    """The specs of the pool's slices in order, without pool generation; none where nothing can be claimed.

    An unhealthy device is tainted, so that no new claim gets it; where the server keeps no `taints` it is
    left out. Healthy again, it is as before.
    """
    bodies = [_device(device) for device in devices if not device.unfit and (taints or device.healthy)]
    parts = [bodies[at : at + _MOST_DEVICES] for at in range(0, len(bodies), _MOST_DEVICES)]
    return tuple({"driver": DRIVER, "nodeName": node, "devices": [*part]} for part in parts)


def next_step(
    specs: Sequence[JsonObject], standing: Sequence[JsonObject], owner: NodeOwner
) -> SliceStep | None:
    """The next step from our slices that stand to these specs; None: they are so.

    Every change is a new generation of the pool, of all its slices: the scheduler takes the newest, once it
    is complete, and surplus slices are removed last.
    """
    by_name = {text(obj, "metadata", "name"): obj for obj in standing}
    bodies = {slice_name(place, owner.name): spec for place, spec in enumerate(specs)}
    fresh = {
        name
        for name, spec in bodies.items()
        if name in by_name and _says(by_name[name], spec, len(specs)) and _owned(by_name[name], owner)
    }
    newest = max((_generation(obj) for obj in standing), default=0)
    current = {name for name, obj in by_name.items() if _generation(obj) == newest}
    # What is stale in the newest generation makes another one; else the newest is still being written.
    generation = newest + 1 if (current & bodies.keys()) - fresh else max(newest, 1)
    for name, spec in bodies.items():
        if name not in fresh or generation > newest or name not in current:
            return _step(by_name.get(name), name, spec, (generation, len(specs)), owner)
    surplus = [obj for name, obj in sorted(by_name.items()) if name not in bodies]
    return next(
        (SurplusSlice(text(o, "metadata", "name"), text(o, "metadata", "uid")) for o in surplus), None
    )


def dropped_fields(specs: Sequence[JsonObject], standing: Iterable[JsonObject], node: str) -> tuple[str, ...]:
    """Fields of devices that were published and that the server did not keep: their feature is off there."""
    by_name = {text(obj, "metadata", "name"): obj for obj in standing}
    dropped: dict[str, None] = {}
    for place, spec in enumerate(specs):
        obj = by_name.get(slice_name(place, node))
        if obj is None or text(obj, "metadata", "annotations", CONTENT) != _sum(spec):
            continue
        shown = {text(device, "name"): mapping(device) for device in items(obj, "spec", "devices")}
        for device in items(spec, "devices"):
            dropped.update(
                dict.fromkeys(sorted(mapping(device).keys() - shown.get(text(device, "name"), {})))
            )
    return tuple(dropped)


def slice_name(place: int, node: str) -> str:
    """The name of the pool's n-th slice. The allocator takes slices in the order of their names.

    >>> slice_name(0, "a100-0")
    '00-gpu.nvidia.com-a100-0'
    """
    name = f"{place:02x}-{DRIVER}-{node}"
    if len(name) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(node.encode()).hexdigest()[:_DIGITS]
    return f"{name[: _LONGEST_NAME - _DIGITS - 1].rstrip('-.')}-{digest}"


def _device(device: PublishedDevice) -> JsonObject:
    attributes: JsonObject = {key: {"string": value} for key, value in device.texts.items()}
    attributes |= {key: {"version": value} for key, value in device.versions.items()}
    attributes |= {key: {"int": value} for key, value in device.numbers.items()}
    body: JsonObject = {
        "name": device.name,
        "attributes": dict(sorted(attributes.items())),
        "capacity": {key: {"value": amount} for key, amount in sorted(device.capacity.items())},
    }
    if not device.healthy:
        body["taints"] = [{"key": UNHEALTHY, "effect": "NoSchedule"}]
    return body


def _step(
    standing: JsonObject | None, name: str, spec: JsonObject, pool: tuple[int, int], owner: NodeOwner
) -> SliceStep:
    metadata: JsonObject = {
        "name": name,
        "labels": {MARK: "true"},
        "annotations": {CONTENT: _sum(spec)},
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "Node", "name": owner.name, "uid": owner.uid, "controller": True}
        ],
    }
    generation, count = pool
    whole: JsonObject = {
        **spec,
        "pool": {"name": owner.name, "generation": generation, "resourceSliceCount": count},
    }
    body: JsonObject = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": metadata,
        "spec": whole,
    }
    if standing is None:
        return NewSlice(body)
    metadata["resourceVersion"] = text(standing, "metadata", "resourceVersion")
    return ChangedSlice(body)


def _says(obj: JsonObject, spec: JsonObject, count: int) -> bool:
    """Whether a slice was published as this spec, and nobody has changed since what it says."""
    if text(obj, "metadata", "annotations", CONTENT) != _sum(spec):
        return False
    if number(obj, "spec", "pool", "resourceSliceCount") != count:
        return False
    return _agrees(mapping(obj, "spec"), spec)


def _agrees(shown: JsonValue, published: JsonValue) -> bool:
    """Whether what stands contradicts what was published in nothing; a server may drop and add fields."""
    if isinstance(shown, Mapping) and isinstance(published, Mapping):
        return all(_agrees(shown[key], published[key]) for key in shown.keys() & published.keys())
    if isinstance(shown, list) and isinstance(published, list):
        return len(shown) == len(published) and all(map(_agrees, shown, published))
    return bool(shown == published)


def _owned(obj: JsonObject, owner: NodeOwner) -> bool:
    return owner.uid in _owners(obj)


def _owners(obj: JsonObject) -> Iterator[str]:
    for reference in items(obj, "metadata", "ownerReferences"):
        yield text(reference, "uid")


def _generation(obj: JsonObject) -> int:
    generation = at(obj, "spec", "pool", "generation")
    return generation if isinstance(generation, int) and not isinstance(generation, bool) else 0


def _sum(spec: JsonObject) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[: 2 * _DIGITS]
