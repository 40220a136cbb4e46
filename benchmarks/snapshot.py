"""How long a captured cluster of 10,000 nodes and 100,000 pods takes to load, and how much memory."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tonnage.adapters.snapshots.file import whole_file
from tonnage.adapters.snapshots.format import Count, Footer, Header, encoded

NODES, PODS, GPUS = 10_000, 100_000, 8
AT = "2026-01-02T03:04:05Z"
_LOAD = """
import json, resource, sys, time
started = time.perf_counter()
from pathlib import Path
from tonnage.cli.cluster import read_snapshot
snapshot = read_snapshot(Path(sys.argv[1]))
seconds = time.perf_counter() - started
assert (len(snapshot.nodes), len(snapshot.pods)) == (int(sys.argv[2]), int(sys.argv[3]))
print(json.dumps([seconds, time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def measure(rounds: int) -> dict[str, list[float]]:
    """Wall seconds of a fresh process from its first import to the Snapshot; its peak memory."""
    size = f"{NODES:,} nodes, {PODS:,} pods"
    figures: dict[str, list[float]] = {
        f"load a snapshot of {size}, s (wanted: under 4)": [],
        f"load a snapshot of {size}, s of CPU, Python's start included": [],
        f"load a snapshot of {size}: peak memory, MB (wanted: under 700)": [],
        "load the same unpacked, s": [],
        f"snapshot of {size}, packed, MB": [],
    }
    packed, cpu, memory, plain, bytes_mb = figures.values()
    folder = Path(tempfile.mkdtemp(prefix="tn-"))
    try:
        for name in ("c.jsonl.gz", "c.jsonl"):
            write_cluster(folder / name, NODES, PODS)
        bytes_mb.append((folder / "c.jsonl.gz").stat().st_size / 1e6)
        for _ in range(rounds):
            seconds, cpu_s, peak_mb = _load(folder / "c.jsonl.gz")
            packed.append(seconds)
            cpu.append(cpu_s)
            memory.append(peak_mb)
            plain.append(_load(folder / "c.jsonl")[0])
    finally:
        shutil.rmtree(folder)
    return figures


def _load(path: Path) -> tuple[float, float, float]:
    command = [sys.executable, "-c", _LOAD, str(path), str(NODES), str(PODS)]
    seconds, cpu_s, peak_mb = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
    return seconds, cpu_s, peak_mb


def write_cluster(path: Path, nodes: int, pods: int) -> None:
    """A cluster with as many workloads, labels, images and devices as a large one has; always the same."""
    chance = random.Random(7)
    counts: dict[str, Count] = {}
    with whole_file(path) as write:
        write(encoded(Header(server_version="v1.35.8", taken_at=AT, redact="values", program="benchmark")))
        for obj in _objects(nodes, pods, chance):
            write(encoded(obj))
            count = counts.setdefault(obj["kind"], Count())
            count.objects += 1
        write(encoded(Footer(objects=counts)))


def _objects(nodes: int, pods: int, chance: random.Random) -> Iterator[dict[str, Any]]:
    for number in range(nodes):
        yield _node(number, chance)
    workloads = max(1, pods // 20)
    for number in range(workloads):
        yield _replica_set(number)
    held: dict[int, list[tuple[str, str]]] = {}
    for number in range(pods):
        workload = number % workloads
        on = number % nodes
        if workload % 4 == 0 and len(held.setdefault(on, [])) < GPUS:
            held[on].append((f"team-{workload % 40}", _pod_name(workload, number)))
    for number in range(nodes):
        yield _gpu_status(number, held.get(number, []))
    for number in range(pods):
        yield pod_of(number, number % workloads, number % nodes)


def _meta(name: str, number: int, **more: Any) -> dict[str, Any]:
    uid = f"{number:08x}-0000-4000-8000-{len(name):012x}"
    return {"name": name, "uid": uid, "resourceVersion": str(number), "creationTimestamp": AT, **more}


def _node(number: int, chance: random.Random) -> dict[str, Any]:
    labels = {
        "kubernetes.io/hostname": f"node-{number:05}",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux",
        "node.kubernetes.io/instance-type": "gpu-8",
        "topology.kubernetes.io/region": "r1",
        "topology.kubernetes.io/zone": f"r1-{number % 3}",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": ("NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3")[number % 2],
        **{f"feature.node.kubernetes.io/cpu-cpuid.F{i}": "true" for i in range(20)},
    }
    amounts = {"cpu": "96", "memory": "1056289804Ki", "pods": "110", "nvidia.com/gpu": str(GPUS)}
    conditions = [
        {"type": kind, "status": "True" if kind == "Ready" else "False", "reason": "Well", "message": ""}
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]  # fmt: skip
    images = [
        {"names": [f"registry.example/team/image-{n}:v{n % 7}"], "sizeBytes": 10_000_000 + n}
        for n in chance.sample(range(400), 20)
    ]
    status = {"capacity": amounts, "allocatable": amounts, "conditions": conditions, "images": images}
    taints = [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]
    meta = _meta(f"node-{number:05}", number, labels=labels)
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": meta,
        "spec": {"taints": taints},
        "status": status,
    }


def _replica_set(number: int) -> dict[str, Any]:
    labels = {"app": f"app-{number}", "pod-template-hash": f"{number:010x}"}
    meta = _meta(f"app-{number}", number, namespace=f"team-{number % 40}", labels=labels)
    spec = {"replicas": 20, "selector": {"matchLabels": labels}}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": meta, "spec": spec, "status": {}}


def _pod_name(workload: int, number: int) -> str:
    return f"app-{workload}-{number:06x}"


def pod_of(number: int, workload: int, node: int) -> dict[str, Any]:
    gpus = {"nvidia.com/gpu": "1"} if workload % 4 == 0 else {}
    amounts = {"cpu": f"{100 + workload % 9 * 250}m", "memory": f"{256 << workload % 4}Mi", **gpus}
    container = {
        "name": "main", "image": f"registry.example/team/image-{workload % 400}:v{workload % 7}",
        "resources": {"requests": amounts, "limits": amounts},
        "env": [{"name": name} for name in ("POD_NAME", "REGION", "LOG_LEVEL")],
        "ports": [{"containerPort": 8080, "protocol": "TCP"}], "imagePullPolicy": "IfNotPresent",
    }  # fmt: skip
    labels = {"app": f"app-{workload}", "pod-template-hash": f"{workload:010x}"}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": f"app-{workload}",
        "uid": "u",
        "controller": True,
    }
    meta = _meta(
        _pod_name(workload, number), number,
        namespace=f"team-{workload % 40}", labels=labels, ownerReferences=[owner],
    )  # fmt: skip
    tolerations: list[dict[str, Any]] = [
        {
            "key": f"node.kubernetes.io/{why}",
            "operator": "Exists",
            "effect": "NoExecute",
            "tolerationSeconds": 300,
        }
        for why in ("not-ready", "unreachable")
    ]
    tolerations.append({"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"})
    spec = {
        "nodeName": f"node-{node:05}", "schedulerName": "default-scheduler", "containers": [container],
        "tolerations": tolerations, "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
        "restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
    }  # fmt: skip
    hour, minute, second = number // 3600 % 24, number // 60 % 60, number % 60
    began = f"2026-01-{2 + number // 86400:02}T{hour:02}:{minute:02}:{second:02}Z"
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": began}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    running = {
        "name": "main",
        "ready": True,
        "started": True,
        "restartCount": 0,
        "state": {"running": {"startedAt": began}},
    }
    status = {
        "phase": "Running", "conditions": conditions, "containerStatuses": [running], "startTime": began,
        "qosClass": "Guaranteed",
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def _gpu_status(number: int, held: list[tuple[str, str]]) -> dict[str, Any]:
    devices = []
    for index in range(GPUS):
        uuid = f"GPU-{number:08x}-0000-4000-8000-{index:012x}"
        holders = [
            {
                "namespace": namespace,
                "pod": pod,
                "container": "main",
                "resource": "nvidia.com/gpu",
                "ids": [uuid],
            }
            for namespace, pod in held[index : index + 1]
        ]
        peers = [peer for peer in range(GPUS) if peer != index]
        links = [
            {"peers": [], "switches": True, "nvlinks": 12, "path": ""},
            *({"peers": part, "path": path} for part, path in ((peers[:3], "PXB"), (peers[3:], "SYS"))),
        ]
        device = {
            "uuid": uuid, "index": index, "product": "NVIDIA A100-SXM4-80GB", "memoryMiB": 81920,
            "memoryUsedMiB": 40000, "computeCapability": "8.0", "pciBusID": f"00000000:{index + 1:02X}:00.0",
            "numaNode": index // 4, "links": links, "health": "Healthy", "resource": "nvidia.com/gpu",
            "replicas": 1, "holders": holders,
        }  # fmt: skip
        devices.append(device)
    resources = [
        {"name": "nvidia.com/gpu", "devices": GPUS, "replicas": 1, "capacity": GPUS, "allocatable": GPUS}
    ]
    status = {"updatedAt": AT, "driverVersion": "570.124.06", "resources": resources, "devices": devices}
    meta = _meta(f"node-{number:05}", number)
    return {"apiVersion": "tonnage.dev/v1alpha1", "kind": "NodeGPUStatus", "metadata": meta, "status": status}
