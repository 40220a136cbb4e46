"""Pods with claims, and nodes with devices, made by chance as an API server takes them."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, Final

Body = dict[str, Any]
DRIVER: Final = "gpu.example.com"
_MODELS: Final = ("a", "b", "c")
_EXPRESSIONS: Final = (
    f"device.attributes['{DRIVER}'].model == 'a'",
    f"device.attributes['{DRIVER}'].model in ['a', 'b']",
    f"device.attributes['{DRIVER}'].index > 0",
    f"device.attributes['{DRIVER}'].?index.orValue(9) < 2",
    f"device.capacity['{DRIVER}'].memory.compareTo(quantity('40Gi')) >= 0",
    f"'{DRIVER}' in device.attributes && device.attributes['{DRIVER}'].fast",
    f"device.attributes['{DRIVER}'].version.isGreaterThan(semver('1.5.0'))",
    f"device.driver == '{DRIVER}'",
    "false",
)
_ATTRIBUTES: Final = (f"{DRIVER}/model", f"{DRIVER}/index", f"{DRIVER}/fast", "resource.example.com/root")
_PARTS: Final = (("whole", "80Gi", 7), ("half", "40Gi", 4), ("a", "20Gi", 2), ("b", "20Gi", 1))
"""Of a GPU: name, memory, slices."""
_CLASSES: Final = ("gpu",) * 6 + ("some", "some", "every", "absent")
_EFFECTS: Final = ("NoSchedule", "NoExecute", "None")


class ClaimedClusters:
    """`late`: with what servers have since 1.36 (partitions, taints, parts of a device)."""

    def __init__(self, random: Random, *, late: bool) -> None:
        self._random = random
        self._late = late

    def cluster(self, nodes: int) -> list[Body]:
        """Nodes, classes, slices, and claims that others hold."""
        names = [f"n{number}" for number in range(nodes)]
        slices = [part for name in names for part in self._slices(name)]
        return [*map(_node, names), *self._classes(), *slices, *self._held(slices)]

    def asking(self) -> list[Body]:
        """Claims of one pod, and then the pod `p`."""
        claims = [self._claim(f"c{number}") for number in range(self._random.choice((1, 1, 1, 2)))]
        entries = [
            {"name": claim["metadata"]["name"], "resourceClaimName": claim["metadata"]["name"]}
            for claim in claims
        ]
        container = {
            "name": "c",
            "image": "i",
            "resources": {"claims": [{"name": entry["name"]} for entry in entries]},
        }
        pod = _object("Pod", "p", {"containers": [container], "resourceClaims": entries}, api="v1")
        return [*claims, pod]

    # ---- what nodes have ----

    def _slices(self, node: str) -> list[Body]:
        kind = self._random.choice(("whole", "whole", "whole", "none", *(("parts", "shares") * self._late)))
        if kind == "none":
            return []
        if kind == "parts":
            return self._partitions(node)
        count = self._random.randrange(1, 5)
        devices = [self._device(f"gpu-{number}", number) for number in range(count)]
        if kind == "shares":
            for device in devices:
                device["allowMultipleAllocations"] = True
                if self._chance(0.5):
                    device["capacity"] = {"memory": {"value": "80Gi", "requestPolicy": self._policy()}}
        return [_slice(node, {"devices": devices})]

    def _policy(self) -> Body:
        if self._chance(0.5):
            return {"default": "10Gi", "validRange": {"min": "10Gi", "step": "10Gi"}}
        return {"default": "20Gi", "validValues": ["20Gi", "40Gi", "80Gi"]}

    def _partitions(self, node: str) -> list[Body]:
        """One or two GPUs, each whole or in parts of which not all fit."""
        gpus = range(self._random.choice((1, 1, 2)))
        sets = [
            {"name": f"set-{gpu}", "counters": {"memory": {"value": "80Gi"}, "slices": {"value": "7"}}}
            for gpu in gpus
        ]
        devices = []
        for gpu in gpus:
            for name, memory, part in (
                ("whole", "80Gi", 7),
                ("half", "40Gi", 4),
                ("a", "20Gi", 2),
                ("b", "20Gi", 1),
            ):
                device = self._device(f"{name}-{gpu}", gpu)
                device["capacity"] = {"memory": {"value": memory}}
                used = {"memory": {"value": memory}, "slices": {"value": str(part)}}
                device["consumesCounters"] = [{"counterSet": f"set-{gpu}", "counters": used}]
                devices.append(device)
        both = ({"sharedCounters": sets}, {"devices": devices})
        return [_slice(node, spec, number, len(both)) for number, spec in enumerate(both)]

    def _device(self, name: str, index: int) -> Body:
        attributes: Body = {
            "model": {"string": self._random.choice(_MODELS)},
            "index": {"int": index},
            "fast": {"bool": self._chance(0.5)},
            "version": {"version": self._random.choice(("1.0.0", "1.5.1", "2.0.0"))},
            "resource.example.com/root": {"string": f"root-{index // 2}"},
        }
        if self._chance(0.15):
            del attributes[self._random.choice(list(attributes))]
        device: Body = {"name": name, "attributes": attributes}
        if self._chance(0.9):
            device["capacity"] = {"memory": {"value": self._random.choice(("24Gi", "40Gi", "80Gi"))}}
        if self._late and self._chance(0.15):
            device["taints"] = [{"key": "sick", "value": "x", "effect": self._random.choice(_EFFECTS)}]
        return device

    def _classes(self) -> list[Body]:
        plain = {"selectors": [_cel(f"device.driver == '{DRIVER}'")]}
        some = {"selectors": [_cel(self._random.choice(_EXPRESSIONS))]}
        every: Body = {}
        return [
            _object("DeviceClass", name, spec, namespace="")
            for name, spec in (("gpu", plain), ("some", some), ("every", every))
        ]

    def _held(self, slices: Sequence[Body]) -> list[Body]:
        """Claims that have whole devices. Of those in parts, and of shared ones, none."""
        held = []
        for part in slices:
            for device in part["spec"].get("devices", ()):
                plain = "consumesCounters" not in device and not device.get("allowMultipleAllocations")
                if plain and self._chance(0.3):
                    node, name = part["spec"]["nodeName"], device["name"]
                    held.append(_allocated(f"held-{node}-{name}", node, name))
        return held

    # ---- what a pod asks for ----

    def _claim(self, name: str) -> Body:
        requests = [self._request(f"r{number}") for number in range(self._random.choice((1, 1, 2, 3)))]
        names = [request["name"] for request in requests]
        constraints = []
        if self._chance(0.4):
            kinds = ["matchAttribute", *(["distinctAttribute"] * self._late)]
            constraint: Body = {self._random.choice(kinds): self._random.choice(_ATTRIBUTES)}
            if self._chance(0.5):
                constraint["requests"] = self._random.sample(names, self._random.randrange(1, len(names) + 1))
            constraints.append(constraint)
        return _object("ResourceClaim", name, {"devices": {"requests": requests, "constraints": constraints}})

    def _request(self, name: str) -> Body:
        if self._chance(0.25):
            parts = [{"name": f"s{n}", **self._exact()} for n in range(self._random.randrange(1, 4))]
            return {"name": name, "firstAvailable": parts}
        return {"name": name, "exactly": self._exact()}

    def _exact(self) -> Body:
        body: Body = {"deviceClassName": self._random.choice(_CLASSES)}
        if self._chance(0.45):
            count = self._random.choice((1, 1, 2))
            body["selectors"] = [_cel(self._random.choice(_EXPRESSIONS)) for _ in range(count)]
        if self._chance(0.15):
            body["allocationMode"] = "All"
        elif self._chance(0.4):
            body["count"] = self._random.randrange(1, 4)
        if self._late and self._chance(0.15):
            body["tolerations"] = [{"key": "sick", "operator": "Exists"}]
        if self._late and self._chance(0.3):
            amount = self._random.choice(("5Gi", "15Gi", "40Gi", "90Gi"))
            body["capacity"] = {"requests": {"memory": amount}}
        return body

    def _chance(self, share: float) -> bool:
        return self._random.random() < share


def _cel(expression: str) -> Body:
    return {"cel": {"expression": expression}}


def _object(kind: str, name: str, spec: Body, *, namespace: str = "default", api: str = "") -> Body:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api or "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}


def _node(name: str) -> Body:
    amounts = {"cpu": "8", "memory": "64Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _slice(node: str, spec: Body, number: int = 0, of: int = 1) -> Body:
    pool = {"name": node, "generation": 1, "resourceSliceCount": of}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, **spec}
    return _object("ResourceSlice", f"s-{node}-{number}", spec, namespace="")


def _allocated(name: str, node: str, device: str) -> Body:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    only = {"key": "metadata.name", "operator": "In", "values": [node]}
    result = {"request": "r", "driver": DRIVER, "pool": node, "device": device}
    status = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [only]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "other", "uid": f"uid-{name}"}],
    }
    return {**_object("ResourceClaim", name, {"devices": {"requests": [request]}}), "status": status}
