"""The ResourceSlices of the node's pool: what they should say, and the next step from what they say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from enum import Enum
from itertools import chain
from typing import Final, TypeAlias

from tonnage.model.devices.claims import DRIVER, UNHEALTHY, ClaimCounters, PublishedDevice, ShareRule
from tonnage.model.json import JsonObject, JsonValue
from tonnage.model.json_access import at, items, mapping, number, text
from tonnage.model.kubernetes.feature_gates import minor_of

MARK: Final = "tonnage.dev/agent"
"""The label of slices that an agent of Tonnage published; another driver of that name has none."""
CONTENT: Final = "tonnage.dev/content"
"""The annotation with the sum of what was published, so that what a server dropped is no difference."""
_MOST_DEVICES: Final = 64
"""In a slice with taints or counters; without, 128."""
_MOST_SETS: Final = 8
_MOST_COUNTERS: Final = 32
"""In a slice of 1.34, where counters and devices are in one."""
_LONGEST_NAME: Final = 253
_SPLIT_SINCE: Final = 35
_DIGITS: Final = 16
_TRIAL: Final = "1Gi"
_FEATURES: Final = frozenset({"allowMultipleAllocations", "sharedCounters", "taints"})
"""Fields that a server drops where their feature is off."""


class CounterShape(Enum):
    """How counters are published: not at all, some to see whether they are kept, or for devices.

    Since 1.35 they have slices of their own; before, they are with their devices (TOGETHER).
    """

    NONE = "none"
    PROBE = "probe"
    SPLIT = "split"
    TOGETHER = "together"


def counter_shape(kubelet: str, *, keeps: bool | None, splits: bool = False) -> CounterShape:
    """How counters are to be published; `keeps`: whether the server keeps them (None: not seen yet).

    `splits`: it refuses them beside devices. A server may be newer than a node's kubelet.

    >>> counter_shape("v1.35.2", keeps=True), counter_shape("v1.34.1", keeps=True)
    (<CounterShape.SPLIT: 'split'>, <CounterShape.TOGETHER: 'together'>)
    >>> counter_shape("v1.34.1", keeps=True, splits=True)
    <CounterShape.SPLIT: 'split'>
    """
    if keeps is None:
        return CounterShape.PROBE
    if not keeps:
        return CounterShape.NONE
    together = minor_of(kubelet) < _SPLIT_SINCE and not splits
    return CounterShape.TOGETHER if together else CounterShape.SPLIT


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
    devices: Iterable[PublishedDevice], node: str, *, counters: CounterShape = CounterShape.NONE
) -> tuple[JsonObject, ...]:
    """The specs of the pool's slices in order, without pool generation; none where nothing can be claimed.

    An unhealthy device is tainted, so that no new claim gets it. Healthy again, it is as before. Devices
    that share counters are published in their `counters`' shape alone: without them the scheduler would give
    out all of a GPU's at once.
    """
    fit = [device for device in devices if not device.unfit]
    sets = tuple(dict.fromkeys(device.counters for device in fit if device.counters is not None))
    if counters in (CounterShape.NONE, CounterShape.PROBE):
        fit = [device for device in fit if device.counters is None]
    head: JsonObject = {"driver": DRIVER, "nodeName": node}
    specs: list[JsonObject] = []
    if counters is CounterShape.SPLIT:
        specs += (
            {**head, "sharedCounters": [*map(_counter_set, sets[at : at + _MOST_SETS])]}
            for at in range(0, len(sets), _MOST_SETS)
        )
    for part in _parts(fit, together=counters is CounterShape.TOGETHER):
        spec: JsonObject = {**head, "devices": [*map(_device, part)]}
        if counters is CounterShape.TOGETHER:
            used = dict.fromkeys(device.counters for device in part if device.counters is not None)
            spec |= {"sharedCounters": [*map(_counter_set, used)]} if used else {}
        specs.append(spec)
    if counters is CounterShape.PROBE:  # one set tells, behind all that stands; 1.34 takes few in a slice
        specs += ({**head, "sharedCounters": [_counter_set(own)]} for own in sets[:1])
    return tuple(specs)


def _parts(devices: Sequence[PublishedDevice], *, together: bool) -> Iterator[list[PublishedDevice]]:
    """The devices of each slice; `together`: all of a GPU in one, with few enough counters."""
    groups: dict[object, list[PublishedDevice]] = {}
    for place, device in enumerate(devices):
        groups.setdefault(device.counters if together and device.counters else place, []).append(device)
    part: list[PublishedDevice] = []
    counters = 0
    for group in groups.values():
        own = len(group[0].counters.values) if together and group[0].counters else 0
        if part and (len(part) + len(group) > _MOST_DEVICES or counters + own > _MOST_COUNTERS):
            yield part
            part, counters = [], 0
        part, counters = [*part, *group], counters + own
    if part:
        yield part


def _counter_set(counters: ClaimCounters) -> JsonObject:
    return {"name": counters.name, "counters": {name: {"value": value} for name, value in counters.values}}


def next_step(
    specs: Sequence[JsonObject],
    standing: Sequence[JsonObject],
    owner: NodeOwner,
    keeps: Set[str] = frozenset(),
) -> SliceStep | None:
    """The next step from our slices that stand to these specs; None: they are so.

    `keeps` are fields that the server keeps now: where it dropped one before, the slice is stale.

    Every change is a new generation of the pool, of all its slices: the scheduler takes the newest, once it
    is complete, and surplus slices are removed last.
    """
    by_name = {text(obj, "metadata", "name"): obj for obj in standing}
    bodies = {slice_name(place, owner.name): spec for place, spec in enumerate(specs)}
    fresh = {
        name
        for name, spec in bodies.items()
        if name in by_name
        and _says(by_name[name], spec, len(specs))
        and _owned(by_name[name], owner)
        and keeps.isdisjoint(_dropped(by_name[name], spec))
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


def trial_slices(node: str) -> tuple[JsonObject, ...]:
    """Slices of the node's to ask with what a server keeps; they are never stored.

    One has a device with every field that a server may drop; the other has counters, which need a slice of
    their own.
    """
    counters = ClaimCounters("gpu-0", (("memory", _TRIAL),))
    rules = {"memory": ShareRule("0", "0", "1Mi")}
    device = PublishedDevice("gpu-0", "", capacity={"memory": _TRIAL}, healthy=False, shares=rules)
    other = PublishedDevice("gpu-1", "", counters=counters)
    specs = desired_specs((device, other), node, counters=CounterShape.PROBE)
    return tuple(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"generateName": f"{DRIVER}-", "labels": {MARK: "true"}},
            "spec": {**spec, "pool": {"name": node, "generation": 1, "resourceSliceCount": 1}},
        }
        for spec in specs
    )


def kept_fields(shown: JsonObject) -> frozenset[str]:
    """The gated fields that a slice, or a device in it, has."""
    spec = mapping(shown, "spec")
    return _FEATURES.intersection(chain(spec, *map(mapping, items(spec, "devices"))))


def dropped_fields(specs: Sequence[JsonObject], standing: Iterable[JsonObject], node: str) -> tuple[str, ...]:
    """Fields that were published and that the server did not keep: their feature is off there."""
    by_name = {text(obj, "metadata", "name"): obj for obj in standing}
    dropped: dict[str, None] = {}
    for place, spec in enumerate(specs):
        obj = by_name.get(slice_name(place, node))
        if obj is not None and text(obj, "metadata", "annotations", CONTENT) == _sum(spec):
            dropped.update(dict.fromkeys(_dropped(obj, spec)))
    return tuple(dropped)


def _dropped(obj: JsonObject, spec: JsonObject) -> Iterator[str]:
    """What a slice that was published as this spec lacks."""
    yield from sorted(spec.keys() - mapping(obj, "spec").keys())
    shown = {text(device, "name"): mapping(device) for device in items(obj, "spec", "devices")}
    for device in items(spec, "devices"):
        yield from sorted(mapping(device).keys() - shown.get(text(device, "name"), {}).keys())


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
        "capacity": {key: _capacity(device, key) for key in sorted(device.capacity)},
    }
    if device.shares:
        body["allowMultipleAllocations"] = True
    if device.counters is not None:
        used: JsonObject = {name: {"value": value} for name, value in sorted(device.consumes.items())}
        body["consumesCounters"] = [{"counterSet": device.counters.name, "counters": used}]
    if not device.healthy:
        body["taints"] = [{"key": UNHEALTHY, "effect": "NoSchedule"}]
    return body


def _capacity(device: PublishedDevice, name: str) -> JsonObject:
    body: JsonObject = {"value": device.capacity[name]}
    if (rule := device.shares.get(name)) is not None:
        amounts: JsonObject = {"min": rule.least, "step": rule.step}
        body["requestPolicy"] = {"default": rule.default, "validRange": amounts}
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
