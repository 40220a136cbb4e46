"""A pending claim explained on 10,000 nodes with 8 devices each, and 10,000 claim pods placed on 1,000.

The devices are of 20 classes by what selectors read, each with a UUID of its own, and half are allocated.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from time import process_time

from tonnage.model.kubernetes.cluster import Container, Node, Pod, Snapshot
from tonnage.model.kubernetes.resource_claims import (
    AllocatedDevice,
    Attribute,
    Capacity,
    ClaimAllocation,
    ClaimDeviceId,
    ClaimTemplate,
    Consumer,
    DeviceClass,
    DeviceRequest,
    NodeScope,
    PodClaim,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
)

NODES, DEVICES, CLASSES = 10_000, 8, 20
TRACE_PODS, TRACE_NODES = 10_000, 1_000
_DRIVER = "gpu.nvidia.com"
_OF_DRIVER = f"device.driver == '{_DRIVER}' && device.attributes['{_DRIVER}'].type == 'gpu'"
_TOO_LARGE = f"device.capacity['{_DRIVER}'].memory.isGreaterThan(quantity('500Gi'))"
_MODEL_19 = f"device.attributes['{_DRIVER}'].productName == 'GPU model 19'"
_GIB = 1 << 30
_TRY = "import benchmarks.pending_claims as claims; print(claims.figures())"


def fleet(nodes: int, *, half: bool) -> Snapshot:
    """Nodes with a slice each; of `half`, every second device is a claim's."""
    every = tuple(_node(number) for number in range(nodes))
    slices = tuple(_slice(number) for number in range(nodes))
    taken = tuple(
        _taken(number, place) for number in range(nodes if half else 0) for place in range(0, DEVICES, 2)
    )
    return Snapshot(
        nodes=every,
        slices=slices,
        claims=taken,
        device_classes=(DeviceClass(_DRIVER, (_OF_DRIVER,)),),
        server_version="1.35",
    )


def pending(selector: str, count: int = 1) -> tuple[Pod, ResourceClaim]:
    """A pod that waits for its claim."""
    request = DeviceRequest("gpu", _DRIVER, count=count, selectors=(selector,))
    claim = ResourceClaim("ml", "large", "uid-large", (request,))
    pod = Pod(
        "train", "ml", uid="uid-train", containers=(Container("main"),), claims=(PodClaim("gpu", "large"),)
    )
    return pod, claim


def _name(number: int) -> str:
    return f"node-{number:05}"


def _node(number: int) -> Node:
    amounts = {"cpu": 64_000, "memory": 512 * _GIB, "pods": 110}
    return Node(_name(number), labels={"zone": f"z{number % 3}"}, capacity=amounts, allocatable=amounts)


def _slice(number: int) -> ResourceSlice:
    name = _name(number)
    devices = tuple(_device(number, place) for place in range(DEVICES))
    return ResourceSlice(f"00-{name}", _DRIVER, name, scope=NodeScope(name), devices=devices)


def _device(number: int, place: int) -> SliceDevice:
    model = (number + place) % CLASSES
    attributes: dict[str, Attribute] = {
        "type": "gpu",
        "productName": f"GPU model {model}",
        "uuid": f"GPU-{number:08}-{place}",
        "resource.kubernetes.io/numaNode": place * 2 // DEVICES,
    }
    return SliceDevice(f"gpu-{place}", attributes, {"memory": Capacity(Fraction((16 + 8 * model) * _GIB))})


def _taken(number: int, place: int) -> ResourceClaim:
    device = AllocatedDevice("gpu", ClaimDeviceId(_DRIVER, _name(number), f"gpu-{place}"))
    name = f"held-{number}-{place}"
    return ResourceClaim(
        *("ml", name, f"uid-{name}", (DeviceRequest("gpu", _DRIVER),)),
        allocation=ClaimAllocation((device,)),
        reserved_for=(Consumer(f"uid-p-{number}-{place}", f"p-{number}-{place}"),),
    )


def explain_ms(rounds: int) -> list[float]:
    """Milliseconds of CPU of each answer once the first is given: by a selector, and by what is in use."""
    from tonnage.diagnose.cluster_view import ground_of
    from tonnage.diagnose.explain.explain import explain_waiting_pod

    snapshot = fleet(NODES, half=True)
    times: list[float] = []
    for selector, count in ((_TOO_LARGE, 1), (_MODEL_19, 2)):
        pod, claim = pending(selector, count)
        ground = ground_of(replace(snapshot, pods=(pod,), claims=(*snapshot.claims, claim)))
        of_selector: list[float] = []
        for _ in range(rounds + 1):
            start = process_time()
            answer = explain_waiting_pod(ground, pod)
            of_selector.append((process_time() - start) * 1000)
            assert answer.verdict.value == "NEVER", answer.message
        times += of_selector[1:]
    return times


def simulate_s() -> float:
    """Seconds of CPU for the trace: pods with a claim of one GPU, by a template, over idle nodes."""
    from tonnage.diagnose.simulate.what_if import what_if
    from tonnage.model.changes import Alternative, Replay

    template = ClaimTemplate("ml", "one", (DeviceRequest("gpu", _DRIVER),))
    pods = tuple(
        Pod(
            *(f"pod-{number:05}", "ml"),
            uid=f"uid-{number}",
            containers=(Container("main"),),
            claims=(PodClaim("gpu", template="one"),),
        )
        for number in range(TRACE_PODS)
    )
    snapshot = replace(fleet(TRACE_NODES, half=False), pods=pods, claim_templates=(template,))
    start = process_time()
    answer = what_if(snapshot, [Alternative("trace", (Replay(),))])
    taken_s = process_time() - start
    counts = answer.alternatives[0].counts
    assert counts["pending"] == TRACE_PODS - TRACE_NODES * DEVICES, counts
    return taken_s


def figures() -> str:
    """Both, as JSON."""
    return json.dumps([explain_ms(5), simulate_s()])


def measure(rounds: int) -> dict[str, list[float]]:
    """Milliseconds of an answer that is warm, and seconds of a trace, in processes of their own."""
    explained: list[float] = []
    traces: list[float] = []
    for _ in range(rounds):
        command = [sys.executable, "-c", _TRY]
        times, trace = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        explained += times
        traces.append(trace)
    fleet_words = f"{NODES:,} nodes x {DEVICES} devices"
    return {
        f"explain a pending claim ({fleet_words}), warm, ms of CPU (wanted: under 100)": explained,
        f"simulate {TRACE_PODS:,} claim pods over {TRACE_NODES:,} nodes, s of CPU (wanted: under 15)": traces,
    }
