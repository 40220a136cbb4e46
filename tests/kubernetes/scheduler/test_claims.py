"""Pods with resource claims on a genuine scheduler: where it puts them, and its words, are the engine's.

No node runs anything: an API server, its etcd and the scheduler are all there is.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pytest

from support.genuine import GenuinePlane, control_plane
from support.leftovers import own_folder
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.decide.kubernetes.scheduler.scheduling import SchedulingDecision, schedule
from tonnage.decide.kubernetes.scheduler.score_table import TOTAL
from tonnage.reading.documents import snapshot_from_documents

pytestmark = pytest.mark.kubernetes

Body = dict[str, Any]
DRIVER: Final = "gpu.example.com"
_AGREES_S: Final = 60.0
LATE: Final = ("1.36", "1.37")


@dataclass(frozen=True, slots=True)
class Scheduling:
    """An API server and a scheduler."""

    plane: GenuinePlane

    def kubectl(self, *arguments: str, given: str = "") -> str:
        ended = self.plane.ask(*arguments, given=given)
        assert ended.returncode == 0, ended.stderr
        return ended.stdout

    def create(self, objects: list[Body]) -> None:
        """The objects, pods last, with their status."""
        waiting = [obj for obj in objects if obj["kind"] == "Pod"]
        others = [obj for obj in objects if obj["kind"] != "Pod"]
        self.kubectl("create", "-f", "-", given=_listed(others))
        allocated = [obj for obj in others if obj["kind"] == "ResourceClaim" and "status" in obj]
        if allocated:
            self.kubectl("replace", "--subresource=status", "-f", "-", given=_listed(allocated))
        self.kubectl("create", "-f", "-", given=_listed(waiting))

    def verdict(self, decision: SchedulingDecision) -> tuple[str, str]:
        """Node and message of the pod `p`, once they are as decided, or what they are after a while.

        A scheduler that has not heard of all the rest says something else at first.
        """
        deadline = time.monotonic() + _AGREES_S
        while True:
            pod = json.loads(self.kubectl("get", "pod", "p", "-o", "json"))
            conditions = pod.get("status", {}).get("conditions", ())
            said = next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")
            node = pod["spec"].get("nodeName", "")
            as_decided = node in _best(decision) if node else said and said == decision.message
            if as_decided or time.monotonic() > deadline:
                return node, said
            time.sleep(0.2)

    def clear(self) -> None:
        self.kubectl("delete", "pods", "--all", "--force", "--grace-period=0")
        for claim in json.loads(self.kubectl("get", "resourceclaims", "-o", "json"))["items"]:
            name = claim["metadata"]["name"]
            patch = '{"metadata":{"finalizers":null}}'
            self.kubectl("patch", "resourceclaim", name, "--type=merge", "-p", patch)
        self.kubectl("delete", "resourceclaims,resourceslices,deviceclasses,nodes", "--all", "--now")


def _listed(objects: list[Body]) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})


@pytest.fixture(scope="module")
def scheduling() -> Iterator[Scheduling]:
    idle = "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount"
    with own_folder() as folder, control_plane(folder, idle) as plane:
        plane.programs.run_loops()
        asyncio.run(plane.programs.end("kube-controller-manager"))
        yield Scheduling(plane)


def node(name: str, **spec: Any) -> Body:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": spec,
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def dynamic(kind: str, name: str, spec: Body, **more: Any) -> Body:
    metadata = {"name": name, **({"namespace": "default"} if kind == "ResourceClaim" else {})}
    return {
        "apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec, **more
    }  # fmt: skip


def gpus(on: str, *models: str, **device: Any) -> Body:
    devices = [
        {"name": f"gpu-{i}", "attributes": {"model": {"string": model}} if model else {}, **device}
        for i, model in enumerate(models)
    ]
    pool = {"name": on, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": on, "pool": pool, "devices": devices}
    return dynamic("ResourceSlice", f"s-{on}", spec)


def device_class(expression: str = f"device.driver == '{DRIVER}'") -> Body:
    return dynamic("DeviceClass", "gpu", {"selectors": [{"cel": {"expression": expression}}]})


def claim(name: str, *requests: Body, constraints: Any = (), status: Body | None = None) -> Body:
    spec: Body = {"devices": {"requests": [*requests], "constraints": [*constraints]}}
    return dynamic("ResourceClaim", name, spec, **({"status": status} if status else {}))


def exactly(name: str = "r", model: str = "", **fields: Any) -> Body:
    if model:
        expression = f"device.attributes['{DRIVER}'].model == '{model}'"
        fields["selectors"] = [{"cel": {"expression": expression}}]
    return {"name": name, "exactly": {"deviceClassName": "gpu", **fields}}


def given(on: str, device: str, *users: str) -> Body:
    result = {"request": "r", "driver": DRIVER, "pool": on, "device": device}
    only = {"key": "metadata.name", "operator": "In", "values": [on]}
    return {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
            "allocationTimestamp": "2026-01-01T00:00:00Z",
        },
        "reservedFor": [{"resource": "pods", "name": user, "uid": f"uid-{user}"} for user in users],
    }


def pod(*claims: str, **spec: Any) -> Body:
    entries = [{"name": f"c{i}", "resourceClaimName": name} for i, name in enumerate(claims)]
    container = {
        "name": "c", "image": "i", "resources": {"claims": [{"name": entry["name"]} for entry in entries]}
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [container], "resourceClaims": entries, **spec},
    }


def first(*names: str) -> Body:
    parts = [
        {
            "name": name,
            "deviceClassName": "gpu",
            "selectors": [{"cel": {"expression": f"device.attributes['{DRIVER}'].model == '{name}'"}}],
        }
        for name in names
    ]
    return {"name": "r", "firstAvailable": parts}


TAINT: Final = {"taints": [{"key": "sick", "effect": "NoSchedule"}]}
BOTH: Final = (node("a"), node("b"), device_class())
CASES: Final[Mapping[str, list[Body]]] = {
    "one device where there is one": [*BOTH, gpus("b", "x"), claim("c", exactly()), pod("c")],
    "more than any node has": [
        *BOTH, gpus("a", "x"), gpus("b", "x", "x"), claim("c", exactly(count=3)),
        pod("c"),
    ],
    "a selector that takes none": [*BOTH, gpus("a", "x"), claim("c", exactly(model="z")), pod("c")],
    "all devices, one held": [
        *BOTH, gpus("a", "x", "y"), gpus("b", "x"),
        claim("o", exactly(), status=given("a", "gpu-1", "other")),
        claim("c", exactly(allocationMode="All")), pod("c"),
    ],
    "an attribute that a device lacks": [
        *BOTH, gpus("a", ""), gpus("b", "x"), claim("c", exactly(model="x")), pod("c"),
    ],
    "a type that cannot be compared": [
        node("a"), device_class(f"device.attributes['{DRIVER}'].model > 5"), gpus("a", "x"),
        claim("c", exactly()), pod("c"),
    ],
    "two that must be alike": [
        *BOTH, gpus("a", "x", "y"), gpus("b", "x", "y", "y"),
        claim("c", exactly(count=2), constraints=[{"matchAttribute": f"{DRIVER}/model"}]), pod("c"),
    ],
    "the first alternative scores higher": [
        *BOTH, gpus("a", "slow"), gpus("b", "fast"), claim("c", first("fast", "slow")), pod("c"),
    ],
    "a claim that has its devices elsewhere": [
        *BOTH, gpus("a", "x"), claim("c", exactly(), status=given("a", "gpu-0", "friend")),
        pod("c", nodeSelector={"kubernetes.io/hostname": "b"}),
    ],
    "a shared claim draws its pods together": [
        *BOTH, gpus("a", "x"), claim("c", exactly(), status=given("a", "gpu-0", "friend")), pod("c"),
    ],
    "a claim out of reach that somebody uses": [
        node("b"), device_class(), claim("c", exactly(), status=given("a", "gpu-0", "friend")), pod("c"),
    ],
    "a class that does not exist": [node("a"), gpus("a", "x"), claim("c", exactly()), pod("c")],
    "an administrator looks at a device in use": [
        node("a"), device_class(), gpus("a", "x"), claim("o", exactly(), status=given("a", "gpu-0", "other")),
        claim("c", exactly()), pod("c"),
    ],
    "two claims of one pod": [
        *BOTH, gpus("a", "x", "y"), gpus("b", "x", "y", "y"), claim("c", exactly(model="y", count=2)),
        claim("d", exactly(model="x")), pod("c", "d"),
    ],
    "a tainted device": [*BOTH, gpus("a", "x", **TAINT), claim("c", exactly()), pod("c")],
    "a tainted device that is tolerated": [
        *BOTH, gpus("a", "x", **TAINT),
        claim("c", exactly(tolerations=[{"key": "sick", "operator": "Exists"}])), pod("c"),
    ],
}  # fmt: skip


def _best(decision: SchedulingDecision) -> set[str]:
    """The nodes of which the scheduler may take any."""
    totals = {name: row[TOTAL] for name, row in decision.scores.items()}
    return {name for name in decision.feasible if totals.get(name) == max(totals.values(), default=None)}


@pytest.mark.parametrize("name", CASES)
def test_the_engine_decides_and_speaks_as_the_scheduler(scheduling: Scheduling, name: str) -> None:
    minor = chosen_minor(os.environ)
    if "tainted" in name and minor not in LATE:
        pytest.skip("device taints are behind a gate before 1.36")
    objects = CASES[name]
    snapshot = snapshot_from_documents([*objects], server_version=minor)
    decision = schedule(snapshot.pods[0], snapshot)
    scheduling.create(objects)
    try:
        placed, said = scheduling.verdict(decision)
    finally:
        scheduling.clear()
    assert decision.message == ("" if placed else said)
    assert (placed in _best(decision)) if placed else decision.chosen is None
