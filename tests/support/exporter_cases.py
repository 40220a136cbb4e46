"""Made nodes, pods, processes and jobs in the form of the recorded cases, from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

COUNTERS = (
    ("DCGM_FI_DRIVER_VERSION", "label", "Driver Version", 1),
    ("DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", 203),
    ("DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", 155),
    ("DCGM_FI_DEV_FB_USED", "gauge", "Framebuffer memory used (in MiB).", 252),
    ("DCGM_FI_DEV_XID_ERRORS", "gauge", 'Value of the last XID "error" \\ encountered.', 230),
)
LABELS = (
    "app",
    "app.kubernetes.io/name",
    "team",
    "gpu",
    "3d-model",
    "namespace",
    "pod_name",
    "container",
    "pod-template-hash",
)
VALUES = ("vllm", "", "a b", 'say "hi"', "back\\slash", "two\nlines", "ü" * 40)
PATTERNS = ("^app$", "^batch\\.", "team", "(", "[0-9]", "x{2000}", "(a+)+$", ".")
CGROUPS = (
    "0::/kubepods/burstable/pod{uid}/{container}\n",
    "12:memory:/kubepods/pod{uid}/{container}\n1:name=systemd:/kubepods/pod{uid}/{container}\n",
    "0::/kubepods.slice/kubepods-pod{under}.slice/cri-containerd-{container}.scope\n",
    "5:cpuset:/\n0::/../../kubepods-besteffort-pod{under}.slice/crio-{container}.scope/init\n",
)


def made_case(seed: int) -> dict[str, Any]:
    """Of one of the kinds: by processes, by pod labels and uids, of MIG devices, by jobs, all mixed."""
    random = Random(seed)
    mig, virtual = random.random() < 0.3, random.random() < 0.6
    devices = [_device(random, number, mig) for number in range(random.randint(1, 4))]
    pods = [_pod(random, number) for number in range(random.randint(0, 7))]
    config: dict[str, Any] = {"kubernetes": True, "kubernetes-virtual-gpus": virtual}
    flags = ("kubernetes-enable-pod-uid", "kubernetes-enable-pod-labels", "use-old-namespace")
    config |= {flag: True for flag in (*flags, "replace-blanks-in-model-name") if random.random() < 0.4}
    if random.random() < 0.4:
        config["kubernetes-pod-label-allowlist-regex"] = random.sample(PATTERNS, random.randint(1, 4))
    if random.random() < 0.5:
        config["nvidia-resource-names"] = ["nvidia.com/gpu.shared"]
    listing = [_listed(random, pod, devices) for pod in pods]
    return {
        "name": f"made-{seed}",
        "group": "GPU",
        "notes": [],
        "config": config,
        "hostname": random.choice(["node-1", "", 'a"b\\']),
        "profiling": True,
        "nvml": random.random() < 0.9,
        "counters": [
            {"field": field, "type": kind, "help": text, "id": number}
            for field, kind, text, number in random.sample(COUNTERS, random.randint(2, len(COUNTERS)))
        ],
        "devices": devices,
        "samples": [sample for device in devices for sample in _samples(random, device)],
        "podResources": {"podResources": listing} if random.random() < 0.95 else None,
        "pods": pods if random.random() < 0.9 else None,
        "processes": _processes(random, devices, pods) if random.random() < 0.9 else None,
        "hpc": _jobs(random, devices) if random.random() < 0.3 else None,
    }


def _uid(random: Random) -> str:
    text = f"{random.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def _device(random: Random, number: int, mig: bool) -> dict[str, Any]:
    device: dict[str, Any] = {
        "gpu": number,
        "uuid": f"GPU-{_uid(random)}",
        "pciBusId": f"00000000:{number + 1:02X}:00.0",
        "model": random.choice(["NVIDIA H100 80GB HBM3", "NVIDIA A30", "NVIDIA  GeForce RTX  4090 "]),
    }
    if mig and random.random() < 0.8:
        device["instances"] = [
            {
                "gi": gi,
                "entityId": gi,
                "profile": "1g.10gb",
                "devices": [{"ci": ci, "uuid": f"MIG-{_uid(random)}"} for ci in range(random.randint(1, 2))],
            }
            for gi in random.sample(range(14), random.randint(1, 3))
        ]
    return device


def _pod(random: Random, number: int) -> dict[str, Any]:
    names = random.sample(LABELS, random.randint(0, len(LABELS)))
    return {
        "namespace": random.choice(["ml", "team-a"]),
        "name": f"pod-{number}",
        "uid": _uid(random),
        "labels": {name: random.choice(VALUES) for name in names},
    }


def _listed(random: Random, pod: dict[str, Any], devices: list[dict[str, Any]]) -> dict[str, Any]:
    containers = []
    for name in ("main", "side")[: random.randint(1, 2)]:
        entries = [_entry(random, random.choice(devices)) for _ in range(random.randint(0, 2))]
        unique = {entry["deviceIds"][0]: entry for entry in entries}
        containers.append({"name": name, "devices": list(unique.values())})
    return {"name": pod["name"], "namespace": pod["namespace"], "containers": containers}


def _entry(random: Random, device: dict[str, Any]) -> dict[str, Any]:
    parts = [part["uuid"] for instance in device.get("instances", ()) for part in instance["devices"]]
    uuid = random.choice(parts or [device["uuid"]])
    replica = f"::{random.randint(0, 99)}" if random.random() < 0.6 else ""
    names = ["nvidia.com/mig-1g.10gb"] if parts else ["nvidia.com/gpu"]
    resource = random.choice([*names, "nvidia.com/gpu.shared"])
    return {"resourceName": resource, "deviceIds": [uuid + replica]}


def _samples(random: Random, device: dict[str, Any]) -> list[dict[str, Any]]:
    samples = []
    for instance in device.get("instances") or [None]:
        place = {"gpu": device["gpu"]} | ({} if instance is None else {"gi": instance["gi"]})
        readings: dict[str, tuple[str, str]] = {
            "DCGM_FI_DRIVER_VERSION": ("string", random.choice(["550.90.07", "<<<NOT_PERM>>>"])),
            "DCGM_FI_DEV_GPU_UTIL": ("int64", str(random.randint(0, 100))),
            "DCGM_FI_DEV_POWER_USAGE": ("double", repr(random.uniform(0, 700))),
            "DCGM_FI_DEV_FB_USED": ("int64", str(random.randint(0, 80000))),
            "DCGM_FI_DEV_XID_ERRORS": ("int64", random.choice(["0", "79", "31", "9999"])),
        }
        for field, (kind, value) in readings.items():
            given = None if random.random() < 0.1 else value
            samples.append({**place, "field": field, "type": kind, "value": given, "sentinel": "blank"})
    return samples


def _processes(random: Random, devices: list[dict[str, Any]], pods: list[dict[str, Any]]) -> dict[str, Any]:
    memory: dict[str, Any] = {}
    utilization: dict[str, Any] = {}
    of_mig: dict[str, Any] = {}
    cgroups: dict[str, str] = {}
    for device in devices:
        for instance in device.get("instances") or [None]:
            for _ in range(random.randint(0, 4)):
                pid = str(random.randint(2, 1 << 22))
                amount = (1 << 64) - 1 if random.random() < 0.1 else random.randint(0, 1 << 36)
                if instance is None:
                    memory.setdefault(device["uuid"], {})[pid] = amount
                    if random.random() < 0.8:
                        utilization.setdefault(device["uuid"], {})[pid] = random.randint(0, 100)
                else:
                    of_mig.setdefault(device["uuid"], {}).setdefault(str(instance["gi"]), {})[pid] = amount
                if pods and random.random() < 0.8:
                    uid = random.choice(pods)["uid"]
                    shape = random.choice(CGROUPS)
                    container = f"{random.getrandbits(256):064x}"
                    cgroups[pid] = shape.format(uid=uid, under=uid.replace("-", "_"), container=container)
                elif random.random() < 0.5:
                    cgroups[pid] = "0::/system.slice/nvidia-persistenced.service\n"
    return {"memory": memory, "utilization": utilization, "migMemory": of_mig, "cgroups": cgroups}


def _jobs(random: Random, devices: list[dict[str, Any]]) -> dict[str, str]:
    jobs = {}
    for device in devices:
        for instance in device.get("instances") or [None]:
            name = str(device["gpu"]) if instance is None else f"{device['gpu']}.{instance['gi']}"
            if random.random() < 0.7:
                lines = random.sample(
                    ["4711", "4712 ", "", " ", "a\x0bb\r", 'a"b', "x" * 4096], random.randint(0, 3)
                )
                jobs[name] = "\n".join(lines)
    return jobs
