"""Shapes of claims on the twin, all at once: what the containers of each have by `nvidia-smi`."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any, Final

import pytest

from support.claim_manifests import (
    CLASS,
    MIG_CLASS,
    alike,
    alternative,
    claim,
    claiming,
    opaque,
    request,
    template,
)
from support.fleet import Fleet, running_fleet
from tonnage.decide.node.claims.nvlink_groups import NVLINK_GROUP
from tonnage.wire import kinds

SCENARIO: Final = """
name: shapes
featureGates: {DRAPartitionableDevices: true, DRAConsumableCapacity: true, DRADeviceTaints: true}
groups:
- {name: whole, nodes: 3, numa: 2, gpu: {model: A100-80, count: 8}, config: claims}
- {name: split, nodes: 3, gpu: {model: A100-80, count: 1, mig: [3g.40gb, 1g.10gb, 1g.10gb]}, config: claims}
- {name: made, nodes: 3, gpu: {model: A100-80, count: 1, mig: []}, config: made}
configs:
  claims: {version: v1, flags: {mpsRoot: /run/nvidia/mps, migStrategy: mixed}, claims: {devices: all}}
  made: {version: v1, flags: {mpsRoot: /run/nvidia/mps}, claims: {devices: all, dynamicMig: true}}
"""
NUMA: Final = "resource.kubernetes.io/numaNode"
ROOT: Final = "resource.kubernetes.io/pcieRoot"
ADMIN: Final = {"resource.kubernetes.io/admin-access": "true"}
PARENT: Final = f"{CLASS}/parentUUID"
_DEVICE: Final = re.compile(r"^( *)\S.*UUID: ((?:GPU|MIG)-[0-9a-f-]+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shape:
    """Objects and pods; of each `pod/container` the devices: a letter each, of a MIG device a capital."""

    objects: Sequence[Any]
    pods: Sequence[Any]
    devices: Mapping[str, str]


def of(attribute: str, value: object) -> str:
    return f"device.attributes['{CLASS}'].{attribute} == {json.dumps(value)}"


def part(name: str, profile: str, **fields: Any) -> Any:
    return request(name, of=MIG_CLASS, expression=of("profile", profile), **fields)


def using(name: str, claims: Mapping[str, Any], *containers: Sequence[str]) -> Any:
    """A pod with several claims, by name, of which each container has some."""
    pod = claiming(name, by="-", containers=("",) * len(containers))
    pod["spec"]["resourceClaims"] = [{"name": key, **source} for key, source in claims.items()]
    for container, chosen in zip(pod["spec"]["containers"], containers, strict=True):
        container["resources"] = {"claims": [{"name": key} for key in chosen]}
    return pod


def beginning(pod: Any) -> Any:
    """The same with a container before the others that has the claim, too."""
    first = {**pod["spec"]["containers"][0], "name": "first", "command": ["true"]}
    return {**pod, "spec": {**pod["spec"], "initContainers": [first]}}


FROM_TEMPLATE: Final = {"resourceClaimTemplateName": "one"}
OWN: Final = {"resourceClaimName": "own"}
EXISTS: Final = f"'uuid' in device.attributes['{CLASS}']"
EITHER: Final = request(
    firstAvailable=[alternative("big", count=99), alternative("small", of=MIG_CLASS, expression=EXISTS)]
)
SHAPES: Final[Mapping[str, Shape]] = {
    "a claim for a container that ends before the others": Shape(
        [claim("own")],
        [beginning(claiming("a", by="own", containers=("", "")))],
        {"a/main": "x", "a/main-1": "x"},
    ),
    "a claim by another name in each of two pods": Shape(
        [claim("own")],
        [using("a", {"x": OWN}, "x"), using("b", {"y": OWN}, "y")],
        {"a/main": "x", "b/main": "x"},
    ),
    "two claims of a pod": Shape(
        [template("one"), claim("own")],
        [using("a", {"x": FROM_TEMPLATE, "y": OWN}, "xy", "y")],
        {"a/main": "xy", "a/main-1": "y"},
    ),
    "a template twice in a pod": Shape(
        [template("one")],
        [using("a", {"x": FROM_TEMPLATE, "y": FROM_TEMPLATE}, "x", "y")],
        {"a/main": "x", "a/main-1": "y"},
    ),
    "an alternative of another type, each with its own configuration": Shape(
        [
            template(
                "one",
                EITHER,
                config=[
                    opaque(requests=["gpu/big"], strategy="TimeSlicing"),
                    opaque("MigDeviceConfig", requests=["gpu/small"], strategy="MPS"),
                ],
            )
        ],
        [claiming("a", of="one")],
        {"a/main": "X"},
    ),
    "an alternative with more devices": Shape(
        [
            template(
                "one",
                request(
                    firstAvailable=[
                        alternative(
                            "h100", expression=f"device.attributes['{CLASS}'].productName.matches('.*H100.*')"
                        ),
                        alternative(
                            "a100",
                            count=2,
                            expression=f"device.attributes['{CLASS}'].productName.lowerAscii().contains('a100')",
                        ),
                    ]
                ),
            )
        ],
        [claiming("a", of="one")],
        {"a/main": "xy"},
    ),
    "two requests below one root": Shape(
        [template("one", request("x"), request("y"), constraints=[alike(ROOT, "x", "y")])],
        [claiming("a", of="one", containers=("x", "y"))],
        {"a/main": "x", "a/main-1": "y"},
    ),
    "a GPU to look after, whoever has it": Shape(
        [template("one", request(adminAccess=True))], [claiming("a", of="one")], {"a/main": "x"}
    ),
    "two that NVLink joins": Shape(
        [template("one", request(count=2), constraints=[alike(NVLINK_GROUP)])],
        [claiming("a", of="one")],
        {"a/main": "xy"},
    ),
    "two near different NUMA nodes": Shape(
        [template("one", request(count=2), constraints=[{"distinctAttribute": NUMA}])],
        [claiming("a", of="one")],
        {"a/main": "xy"},
    ),
    "MIG devices of one GPU that exist": Shape(
        [template("one", part("big", "3g.40gb"), part("small", "1g.10gb"), constraints=[alike(PARENT)])],
        [claiming("a", of="one", containers=("big", "small"))],
        {"a/main": "X", "a/main-1": "Y"},
    ),
    "MIG devices of one GPU that are made": Shape(
        [
            template(
                "one",
                *(part("x", "2g.20gb"), part("y", "2g.20gb"), part("z", "1g.10gb")),
                constraints=[alike(PARENT)],
            )
        ],
        [claiming("a", of="one", containers=("x", "y", "z"))],
        {"a/main": "X", "a/main-1": "Y", "a/main-2": "Z"},
    ),
    "two MIG devices by one request": Shape(
        [template("one", part("x", "2g.20gb", count=2))], [claiming("a", of="one")], {"a/main": "XY"}
    ),
    "time slices of a request": Shape(
        [template("one", config=[opaque(requests=["gpu"], strategy="TimeSlicing")])],
        [claiming("a", of="one")],
        {"a/main": "x"},
    ),
    "a GPU by architecture, driver and memory": Shape(
        [
            template(
                "one",
                request(
                    expression=f"{of('architecture', 'Ampere')}"
                    f" && device.attributes['{CLASS}'].driverVersion.isGreaterThan(semver('470.0.0'))"
                    f" && device.capacity['{CLASS}'].memory.isGreaterThan(quantity('40Gi'))"
                ),
            )
        ],
        [claiming("a", of="one")],
        {"a/main": "x"},
    ),
    "a request that tolerates": Shape(
        [template("one", request(tolerations=[{"operator": "Exists", "effect": "NoExecute"}]))],
        [claiming("a", of="one")],
        {"a/main": "x"},
    ),
}


async def _published(fleet: Fleet) -> bool:
    slices = (await fleet.api.list(kinds.RESOURCE_SLICE)).items
    nodes = {obj.spec["pool"]["name"] for obj in slices if obj.spec.get("devices")}
    return len(nodes) == len((await fleet.api.list(kinds.NODE)).items)


async def _devices(fleet: Fleet, namespace: str, pod: str, container: str) -> set[str]:
    """The UUIDs of its GPUs and MIG devices; a GPU with MIG devices is listed above them."""
    where = ("-n", namespace, pod, "-c", container)
    rows = _DEVICE.findall(await fleet.kubectl("exec", *where, "--", "nvidia-smi", "-L"))
    parents = {above for (_, above), (indent, _) in pairwise(rows) if indent}
    return {uuid for indent, uuid in rows if indent or uuid not in parents}


async def _problems(
    fleet: Fleet, folder: Path, namespace: str, shape: Shape, turn: asyncio.Semaphore
) -> list[str]:
    """Where the containers do not have what the shape says."""
    head: Any = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": ADMIN}}
    manifests = {"apiVersion": "v1", "kind": "List", "items": [head, *shape.objects, *shape.pods]}
    file = folder / f"{namespace}.json"
    file.write_text(json.dumps(manifests).replace('"Never"', '"Always"'))
    async with turn:
        await fleet.kubectl("apply", "-n", namespace, "-f", str(file))

    async def run() -> bool:
        pods = (await fleet.api.list(kinds.POD, namespace=namespace)).items
        return all(pod.status.phase == "Running" for pod in pods)

    try:
        await fleet.until(run)
    except TimeoutError:
        return [await fleet.kubectl("describe", "pods", "-n", namespace)]
    held = {where: await _devices(fleet, namespace, *where.split("/")) for where in shape.devices}
    problems = [
        f"{where} has {sorted(held[where])}"
        for where, letters in shape.devices.items()
        if sorted(uuid.startswith("MIG") for uuid in held[where]) != sorted(map(str.isupper, letters))
    ]
    for (first, letters), (second, others) in combinations(shape.devices.items(), 2):
        if len(held[first] & held[second]) != len({*letters} & {*others}):
            problems.append(f"{first} has {sorted(held[first])}, {second} has {sorted(held[second])}")
    return problems


@pytest.mark.long
async def test_each_container_has_just_the_devices_of_its_claim(tmp_path: Path) -> None:
    async with running_fleet(SCENARIO) as fleet:
        await fleet.until(lambda: _published(fleet))
        turn = asyncio.Semaphore(3)  # each kubectl reads the server's schema, for which it waits 32 s
        names = {f"shape-{number}": name for number, name in enumerate(SHAPES)}
        outcomes = await asyncio.gather(
            *(_problems(fleet, tmp_path, namespace, SHAPES[name], turn) for namespace, name in names.items())
        )
        problems = {names[space]: wrong for space, wrong in zip(names, outcomes, strict=True) if wrong}
        assert not problems, json.dumps(problems, indent=2)
        claims = (await fleet.api.list(kinds.RESOURCE_CLAIM)).items
        devices = [
            (entry["pool"], entry["device"])
            for made in claims
            for entry in made.status["allocation"]["devices"]["results"]
            if not entry.get("adminAccess")
        ]
        assert len(devices) == len(set(devices)), "a device for two claims"
