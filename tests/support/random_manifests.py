"""Objects made by chance as an API server takes them, with every option that bears on where a pod goes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from support.random_pods import EFFECTS, GPU, HUGE, IMAGES, MIG, NIC, Pods, distinct
from support.random_wishes import HOST, ZONE, Body

DISKS: Final = "disks.example.com"
SPACES: Final = {"ml": {"team": "a"}, "web": {"team": "b"}, "default": {}}
PRIORITIES: Final = {"low": -5, "middling": 0, "high": 7, "urgent": 50, "polite": 50}
_OWN_DISKS: Final[tuple[tuple[str, Body], ...]] = (
    ("gcePersistentDisk", {"pdName": "d"}),
    ("awsElasticBlockStore", {"volumeID": "d"}),
    ("iscsi", {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:d", "lun": 0}),
    ("rbd", {"monitors": ["a"], "image": "d"}),
)
_SIZES_MIB: Final = dict(zip(IMAGES, (20, 60, 700, 3000), strict=True))
"""The same everywhere: where nodes differ, the one that the scheduler heard of first counts."""


def surroundings() -> list[Body]:
    """Namespaces and priority classes that all the rest refers to."""
    spaces = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}
        for name, labels in SPACES.items()
    ]
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
            "preemptionPolicy": "Never" if name == "polite" else "PreemptLowerPriority",
        }
        for name, value in PRIORITIES.items()
    ]
    return [*spaces, *classes]


class Manifests(Pods):
    """Whole clusters."""

    def cluster(self, nodes: int, pods: int) -> list[Body]:
        """Nodes, what selects pods, budgets, and pods that are bound, or wait for a node to be cleared."""
        made = [self.node(number) for number in range(nodes)]
        names = [node["metadata"]["name"] for node in made]
        settled = self._all_settled(pods, names) if names else []
        return [*made, *self._workloads(), *self._budgets(), *settled]

    def contest(self, nodes: int, pods: int) -> list[Body]:
        """A cluster whose nodes are open to all and full of pods that matter little.

        No two pods started at once, and there is one budget: else the order is left to chance.
        """
        made = [obj for obj in self.cluster(nodes, pods) if obj["metadata"]["name"] != "b1"]
        starts = list(range(pods))
        self._random.shuffle(starts)
        for obj in made:
            if obj["kind"] == "Node":
                obj["spec"] = {}
                obj["status"]["allocatable"] |= {"cpu": "4", "memory": "8Gi", "pods": self._pick(("3", "4"))}
                obj["status"]["capacity"] = obj["status"]["allocatable"]
            elif obj["kind"] == "Pod":
                obj["spec"]["priorityClassName"] = self._pick(("low", "low", "middling", "high"))
                if "nodeName" in obj["spec"]:
                    obj["status"]["startTime"] = f"2026-01-01T00:00:{starts.pop():02}Z"
        return made

    def contender(self, name: str) -> Body:
        """A pod before which others must give way, whatever the nodes are."""
        pod = self.pod(name)
        pod["spec"]["priorityClassName"] = self._pick(("urgent", "urgent", "urgent", "high", "polite"))
        pod["spec"].pop("nodeSelector", None)
        pod["spec"].get("affinity", {}).pop("nodeAffinity", None)
        return pod

    def many(self, nodes: int, pods: int) -> list[Body]:
        """A large cluster of few kinds of nodes, whose pods wish for little."""
        made = [self.node(number) for number in range(nodes)]
        for node in made:
            node["spec"]["taints"] = []
        names = [node["metadata"]["name"] for node in made]
        settled = self._all_settled(pods, names)
        return [*made, *(pod for pod in settled if "nodeName" in pod["spec"])]

    def stored(self, nodes: int, pods: int) -> list[Body]:
        """A cluster whose pods have volumes, bound already, of disks that few nodes reach and few fit on."""
        made = self.cluster(nodes, pods)
        names = [obj["metadata"]["name"] for obj in made if obj["kind"] == "Node"]
        disks = [f"disk-{number}" for number in range(8)]
        for pod in (obj for obj in made if obj["kind"] == "Pod"):
            self.mount(pod)
        storage = [part for name in disks for part in self._disk(name, names)]
        return [*self._drivers(names), *storage, *made]

    def mount(self, pod: Body) -> Body:
        """The pod with some of the disks of its namespace."""
        names = sorted({f"disk-{self._random.randrange(8)}" for _ in range(self._random.randrange(4))})
        pod["spec"]["volumes"] = [
            {"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names
        ]
        if self._some(0.3):
            source, disk = self._pick(_OWN_DISKS)
            pod["spec"]["volumes"].append({"name": "own", source: {**disk, "readOnly": self._some(0.5)}})
        return pod

    def _drivers(self, nodes: Sequence[str]) -> list[Body]:
        """What each node's drivers attach at most, and what they have attached."""
        found: list[Body] = []
        for node in nodes:
            if not self._some(0.8):
                continue
            limit = {"allocatable": {"count": self._random.randrange(1, 5)}} if self._some(0.7) else {}
            drivers = [{"name": DISKS, "nodeID": node, **limit}]
            api = "storage.k8s.io/v1"
            found.append(_named(api, "CSINode", node, {"drivers": drivers}))
            for number in range(self._random.randrange(3)):
                volume = f"{self._pick(tuple(SPACES))}-disk-{self._random.randrange(8)}"
                source = {"persistentVolumeName": volume}
                spec = {"attacher": DISKS, "nodeName": node, "source": source}
                found.append(_named(api, "VolumeAttachment", f"{node}-{number}", spec))
        return found

    def _disk(self, name: str, nodes: Sequence[str]) -> list[Body]:
        """In each namespace a claim of this name, and the volume that it is bound to."""
        found = []
        for space in SPACES:
            amount = {"storage": "10Gi"}
            modes = ["ReadWriteMany"]
            spec: Body = {"capacity": amount, "accessModes": modes, "storageClassName": "disks"}
            spec["claimRef"] = {"kind": "PersistentVolumeClaim", "namespace": space, "name": name}
            if self._some(0.75):
                spec["csi"] = {"driver": DISKS, "volumeHandle": f"{space}/{name}"}
            else:
                spec["nfs"] = {"server": "files", "path": f"/{name}"}
            if nodes and self._some(0.4):
                spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": [self._node_term(pinned=False)]}}
            volume = _named("v1", "PersistentVolume", f"{space}-{name}", spec)
            if self._some(0.3):
                volume["metadata"]["labels"] = {ZONE: self._pick(("z1", "z2", "z1__z2"))}
            claim = _named(
                "v1",
                "PersistentVolumeClaim",
                name,
                {
                    "accessModes": modes,
                    "resources": {"requests": amount},
                    "storageClassName": "disks",
                    "volumeName": volume["metadata"]["name"],
                },
            )
            claim["metadata"] |= {
                "namespace": space,
                "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
            }
            found += [volume | {"status": {"phase": "Bound"}}, claim | {"status": {"phase": "Bound"}}]
        return found

    # ---- nodes ----

    def node(self, number: int) -> Body:
        """A node of one of few sizes; some lack labels, memory or GPUs."""
        some, pick = self._some, self._pick
        name = f"node-{number:03d}"
        labels = {HOST: name} if some(0.93) else {}
        if some(0.9):
            labels[ZONE] = pick(("z1", "z2", "z3", ""))
        if some(0.5):
            labels["rack"] = pick(("r1", "r2"))
        if some(0.6):
            labels["gpus"] = pick(("4", "8", "x", "007", "9223372036854775808", ""))
        if some(0.7):
            labels["tier"] = pick(("x", "y"))
        amounts = {
            "cpu": pick(("0", "3", "4", "15900m", "16", "16")),
            "memory": pick(("0", "16Gi", "64Gi", "64500Mi", "67000000000")),
            "ephemeral-storage": pick(("0", "100Gi", "500Gi")),
            "pods": pick(("2", "5", "110", "110")),
            GPU: pick(("0", "1", "4", "8", "8")),
            MIG: pick(("0", "7")),
            NIC: "2",
            HUGE: pick(("0", "64Mi")),
        }
        keep = {"cpu": 0.97, "memory": 0.97, "pods": 0.98, GPU: 0.9, MIG: 0.4, NIC: 0.3, HUGE: 0.5}
        amounts = {key: amount for key, amount in amounts.items() if some(keep.get(key, 0.9))}
        images = [
            {"names": [_tagged(image)], "sizeBytes": _SIZES_MIB[image] * 1024**2 + 7}
            for image in IMAGES
            if some(0.4)
        ]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                **({"unschedulable": True} if some(0.1) else {}),
                "taints": distinct(self._several(self._taint, 0.25)),
            },
            "status": {"allocatable": amounts, "capacity": amounts, "images": images},
        }

    def _taint(self) -> Body:
        key = self._pick(("gpu", "dedicated", "grade", "node.kubernetes.io/unschedulable"))
        values = ("5", "10", "007", "x") if key == "grade" else ("", "ml")
        return {"key": key, "value": self._pick(values), "effect": self._pick(EFFECTS)}

    # ---- what selects pods ----

    def _workloads(self) -> list[Body]:
        found: list[Body] = []
        labels = {"app": "x"}
        if self._some(0.35):
            spec: Body = {"selector": self._pick((labels, {"tier": "x"}, {})), "ports": [{"port": 80}]}
            found.append(_named("v1", "Service", "front", {**spec, "clusterIP": "None"}))
        template = {
            "metadata": {"labels": {"app": "x", "tier": "x"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
        selector = {"matchLabels": labels}
        if self._some(0.5):
            found.append(_named("apps/v1", "ReplicaSet", "set", {"selector": selector, "template": template}))
        if self._some(0.3):
            spec = {"selector": selector, "template": template, "serviceName": "front"}
            found.append(_named("apps/v1", "StatefulSet", "set", spec))
        if self._some(0.3):
            spec = {"selector": labels, "template": template}
            found.append(_named("v1", "ReplicationController", "set", spec))
        return found

    def _budgets(self) -> list[Body]:
        found = []
        for number in range(self._some(0.4) + self._some(0.2)):
            budget = _named("policy/v1", "PodDisruptionBudget", f"b{number}", {"minAvailable": 1})
            selector = self._selector()
            if selector is not None:
                budget["spec"]["selector"] = selector
            budget["status"] = {
                "disruptionsAllowed": self._pick((0, 1, 2)), "currentHealthy": 1, "desiredHealthy": 1,
                "expectedPods": 1,
            }  # fmt: skip
            found.append(budget)
        return found


def _named(api: str, kind: str, name: str, spec: Body) -> Body:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "ml"}, "spec": spec}


def _tagged(image: str) -> str:
    return image if ":" in image.rsplit("/", 1)[-1] else f"{image}:latest"
