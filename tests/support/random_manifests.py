"""Objects made by chance as an API server takes them, with every option that bears on where a pod goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Final, TypeVar

Body = dict[str, Any]
T = TypeVar("T")
GPU: Final = "nvidia.com/gpu"
MIG: Final = "nvidia.com/mig-1g.10gb"
NIC: Final = "example.com/nic"
DISKS: Final = "disks.example.com"
HUGE: Final = "hugepages-2Mi"
ZONE: Final = "topology.kubernetes.io/zone"
HOST: Final = "kubernetes.io/hostname"
SPACES: Final = {"ml": {"team": "a"}, "web": {"team": "b"}, "default": {}}
PRIORITIES: Final = {"low": -5, "middling": 0, "high": 7, "urgent": 50, "polite": 50}
_KEYS: Final = (ZONE, HOST, "rack")
_IMAGES: Final = ("repo/train:v1", "repo/serve", "base:v2", "reg:5000/x/tool@sha256:" + "a" * 64)
_SIZES_MIB: Final = dict(zip(_IMAGES, (20, 60, 700, 3000), strict=True))
"""The same everywhere: where nodes differ, the one that the scheduler heard of first counts."""
_EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")


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


class Manifests:
    """Draws everything from one `Random`."""

    def __init__(self, random: Random) -> None:
        self._random = random

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
            for image in _IMAGES
            if some(0.4)
        ]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {
                **({"unschedulable": True} if some(0.1) else {}),
                "taints": _distinct(self._several(self._taint, 0.25)),
            },
            "status": {"allocatable": amounts, "capacity": amounts, "images": images},
        }

    def _taint(self) -> Body:
        key = self._pick(("gpu", "dedicated", "grade", "node.kubernetes.io/unschedulable"))
        values = ("5", "10", "007", "x") if key == "grade" else ("", "ml")
        return {"key": key, "value": self._pick(values), "effect": self._pick(_EFFECTS)}

    # ---- pods ----

    def _all_settled(self, pods: int, nodes: Sequence[str]) -> list[Body]:
        """As `settled`; bound pods began each at a time of its own, at most one at none that is known.

        Among pods that began at once, or that have not, the scheduler evicts by chance.
        """
        made = [self.settled(f"old-{number}", nodes) for number in range(pods)]
        bound = [pod for pod in made if "nodeName" in pod["spec"]]
        unknown = next((pod for pod in bound if "startTime" not in pod["status"]), None)
        for number, pod in enumerate(bound):
            if pod is not unknown:
                drawn = pod["status"].get("startTime", "")[14:16] or "10"
                pod["status"]["startTime"] = f"2026-01-01T{drawn}:{number // 60:02}:{number % 60:02}Z"
        return made

    def settled(self, name: str, nodes: Sequence[str]) -> Body:
        """A pod bound to one of the nodes; or one held by a gate that a node is being cleared for."""
        some, pick = self._some, self._pick
        pod = self.pod(name)
        pod["metadata"].pop("generateName", None)
        if some(0.06):
            pod["spec"]["schedulingGates"] = [{"name": "example.com/held"}]
            pod["status"] = {"nominatedNodeName": pick(nodes)}
            return pod
        pod["spec"].pop("schedulingGates", None)
        pod["spec"]["nodeName"] = pick(nodes)
        phase = pick(("Running",) * 8 + ("Pending", "Succeeded", "Failed"))
        pod["status"] = {"phase": phase}
        if some(0.9):
            pod["status"]["startTime"] = f"2026-01-01T00:0{self._random.randrange(10)}:00Z"
        if some(0.08):
            pod["metadata"]["finalizers"] = ["example.com/stays"]
            pod["metadata"]["annotations"] = {"test/terminating": "true"}
        elif some(0.12) and phase == "Running":
            self._resize(pod)
        return pod

    def _resize(self, pod: Body) -> None:
        """Its containers have other amounts than they ask for."""
        statuses = []
        for container in pod["spec"]["containers"]:
            asked = container["resources"].get("requests", {})
            given = {key: self._pick((amount, _OTHER[key])) for key, amount in asked.items() if key in _OTHER}
            if not given:
                continue
            status = {
                "name": container["name"], "image": "i", "imageID": "i", "ready": True, "restartCount": 0,
            }  # fmt: skip
            if self._some(0.8):
                status["allocatedResources"] = given
            if self._some(0.8):
                other = {key: self._pick((amount, _OTHER[key])) for key, amount in given.items()}
                status["resources"] = {"requests": other}
            statuses.append(status)
        pod["status"]["containerStatuses"] = statuses
        if self._some(0.3):
            pod["status"]["conditions"] = [
                {
                    "type": "PodResizePending",
                    "status": "True",
                    "reason": self._pick(("Infeasible", "Deferred")),
                }
            ]

    def pod(self, name: str) -> Body:
        """A pod with few or many wishes."""
        some = self._some
        fussy = some(0.6)
        spec: Body = {
            "priorityClassName": self._pick(
                ("low", "low", "middling", "middling", "middling", "high", "high", "urgent", "polite")
            ),
            "containers": [self._container(f"c{i}") for i in range(1 + some(0.3) + some(0.1))],
            "initContainers": [
                {**self._container(f"i{i}"), **({"restartPolicy": "Always"} if some(0.4) else {})}
                for i in range(some(0.2) + some(0.1) + some(0.1))
            ],
            "tolerations": self._several(self._toleration, 0.4),
            "topologySpreadConstraints": _one_a_key(self._several(self._spread, 0.3)) if fussy else [],
            "terminationGracePeriodSeconds": 0,
        }
        if some(0.06):
            spec["overhead"] = {"cpu": "10m", "memory": "70Mi"}
        if some(0.12):
            self._whole(spec)
        if some(0.12):
            spec["nodeSelector"] = {self._pick(("tier", ZONE, "gpus")): self._pick(("x", "z1", "8"))}
        if some(0.08):
            spec["hostNetwork"] = True
            for container in spec["containers"]:
                for port in container.get("ports", ()):
                    port["hostPort"] = port["containerPort"]
        if fussy and some(0.65):
            spec["affinity"] = self._affinity()
        labels = {key: self._pick(("x", "y")) for key in ("app", "tier", "rev") if some(0.6)}
        metadata: Body = {"name": name, "namespace": self._pick(("ml", "ml", "web")), "labels": labels}
        if some(0.3):
            metadata["ownerReferences"] = [self._owner()]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}

    def _owner(self) -> Body:
        kind, api = self._pick(
            (("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1"))
        )
        return {
            "apiVersion": api, "kind": kind, "name": "set", "uid": "1", "controller": True,
        }  # fmt: skip

    def _whole(self, spec: Body) -> None:
        """What the pod asks as a whole: never less than its containers do."""
        sums: dict[str, int] = {}
        for container in (*spec["containers"], *spec["initContainers"]):
            for key, amount in container["resources"].get("requests", {}).items():
                sums[key] = sums.get(key, 0) + _UNITS.get(amount, 0)
        asked: Body = {}
        if self._some(0.8):
            asked["cpu"] = f"{sums.get('cpu', 0) + self._pick((0, 500))}m"
        if self._some(0.8):
            asked["memory"] = f"{sums.get('memory', 0) + self._pick((0, 1024))}Mi"
        if asked:
            spec["resources"] = {self._pick(("requests", "requests", "limits")): asked}
            if "limits" in spec["resources"]:
                for container in (*spec["containers"], *spec["initContainers"]):
                    limits = container["resources"].get("limits", {})
                    container["resources"]["limits"] = {
                        key: amount for key, amount in limits.items() if key in (GPU, MIG, NIC, HUGE)
                    }

    def _container(self, name: str) -> Body:
        some, pick = self._some, self._pick
        requests: Body = {}
        limits: Body = {}
        if some(0.7):
            requests["cpu"] = pick(("0", "100m", "1", "4", "1500m"))
        if some(0.7):
            requests["memory"] = pick(("0", "1Gi", "8Gi", "1500Mi"))
        if some(0.15):
            requests["ephemeral-storage"] = pick(("1Gi", "200Gi"))
        if some(0.1):
            limits["cpu"] = "4"
        for key, share in ((GPU, 0.35), (MIG, 0.08), (NIC, 0.04)):
            if some(share):
                limits[key] = pick(("1", "1", "2", "8")) if key == GPU else pick(("0", "1", "2"))
                if some(0.5):
                    requests[key] = limits[key]
        if some(0.04) and "cpu" in requests:
            limits[HUGE] = requests[HUGE] = pick(("2Mi", "64Mi"))
        ports = self._several(self._port, 0.2) if some(0.3) else []
        return {
            "name": name,
            "image": pick((*_IMAGES, "other")),
            "resources": {"requests": requests, "limits": limits},
            "ports": _distinct(ports),
        }

    def _port(self) -> Body:
        port: Body = {"containerPort": self._pick((80, 443))}
        port["hostPort"] = self._pick((port["containerPort"], 8080, 8443))
        if self._some(0.4):
            port["hostIP"] = self._pick(("10.0.0.1", "0.0.0.0", "127.0.0.1"))
        port["protocol"] = self._pick(("TCP", "TCP", "UDP"))
        return port

    def _toleration(self) -> Body:
        operator = self._pick(("Exists", "Equal", ""))
        found: Body = {"operator": operator} if operator else {}
        key = self._pick(("gpu", "dedicated", "grade", "node.kubernetes.io/unschedulable"))
        if operator != "Exists" or self._some(0.8):
            found["key"] = key
        if operator != "Exists":
            found["value"] = self._pick(("", "ml", "5"))
        effect = self._pick(("", *_EFFECTS))
        if effect:
            found["effect"] = effect
        return found

    # ---- wishes ----

    def _requirement(self, keys: tuple[str, ...], values: tuple[str, ...]) -> Body:
        operator = self._pick(("In", "In", "NotIn", "Exists", "DoesNotExist"))
        wanted = sorted({self._pick(values), self._pick(values)})
        return {
            "key": self._pick(keys),
            "operator": operator,
            **({"values": wanted} if "In" in operator else {}),
        }

    def _selector(self) -> Body | None:
        if self._some(0.08):
            return None
        if self._some(0.3):
            return {"matchLabels": {self._pick(("app", "tier")): self._pick(("x", "y"))}}
        return {
            "matchExpressions": self._several(lambda: self._requirement(("app", "tier"), ("x", "y")), 0.5)
        }

    def _node_term(self, *, pinned: bool = True) -> Body:
        expressions = self._several(lambda: self._requirement((ZONE, "tier", "rack"), ("z1", "x", "r1")), 0.6)
        if self._some(0.2):
            wanted = self._pick(("4", "5", "3", "6"))
            expressions.append({"key": "gpus", "operator": self._pick(("Gt", "Lt")), "values": [wanted]})
        term: Body = {"matchExpressions": expressions} if expressions or self._some(0.5) else {}
        if pinned and self._some(0.2):
            name = f"node-{self._random.randrange(6):03d}"
            operator = self._pick(("In", "In", "NotIn"))
            term["matchFields"] = [{"key": "metadata.name", "operator": operator, "values": [name]}]
            if self._some(0.2):
                other = f"node-{self._random.randrange(6):03d}"
                term["matchFields"].append({"key": "metadata.name", "operator": "In", "values": [other]})
        return term

    def _pod_term(self) -> Body:
        term: Body = {"topologyKey": self._pick(_KEYS)}
        selector = self._selector()
        if selector is not None:
            term["labelSelector"] = selector
        if self._some(0.3):
            term["namespaces"] = sorted(set(self._several(lambda: self._pick(("ml", "web")), 0.5)))
        if self._some(0.25):
            term["namespaceSelector"] = self._pick(
                ({}, {"matchLabels": {"team": "a"}},
                 {"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["a"]}]})
            )  # fmt: skip
        if selector is not None and self._some(0.12):
            term[self._pick(("matchLabelKeys", "mismatchLabelKeys"))] = ["rev"]
        return term

    def _weight(self) -> int:
        return self._pick((1, 10, 50, 100))

    def _affinity(self) -> Body:
        some, several = self._some, self._several
        found: Body = {}
        node: Body = {}
        if some(0.45):
            terms = several(self._node_term, 0.3, least=1)
            node["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
        node["preferredDuringSchedulingIgnoredDuringExecution"] = several(
            lambda: {"weight": self._weight(), "preference": self._node_term()}, 0.3
        )
        found["nodeAffinity"] = node
        for kind in ("podAffinity", "podAntiAffinity"):
            found[kind] = {
                "requiredDuringSchedulingIgnoredDuringExecution": several(self._pod_term, 0.2),
                "preferredDuringSchedulingIgnoredDuringExecution": several(
                    lambda: {"weight": self._weight(), "podAffinityTerm": self._pod_term()}, 0.25
                ),
            }
        return found

    def _spread(self) -> Body:
        some, pick = self._some, self._pick
        hard = some(0.5)
        found: Body = {
            "topologyKey": pick(_KEYS),
            "maxSkew": pick((1, 1, 2, 5)),
            "whenUnsatisfiable": "DoNotSchedule" if hard else "ScheduleAnyway",
        }
        selector = self._selector()
        if selector is not None:
            found["labelSelector"] = selector
            if some(0.2):
                found["matchLabelKeys"] = ["rev"]
        if hard and some(0.5):
            found["minDomains"] = pick((1, 2, 4))
        if some(0.3):
            found["nodeAffinityPolicy"] = pick(("Honor", "Ignore"))
        if some(0.3):
            found["nodeTaintsPolicy"] = pick(("Honor", "Ignore"))
        return found

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

    # ---- chance ----

    def _some(self, share: float) -> bool:
        return self._random.random() < share

    def _pick(self, values: Sequence[T]) -> T:
        return self._random.choice(values)

    def _several(self, make: Callable[[], T], more: float, *, least: int = 0) -> list[T]:
        """Up to three, each next one with chance `more`."""
        found = [make() for _ in range(least)]
        while len(found) < 3 and self._some(more):
            found.append(make())
        return found


_OTHER: Final = {"cpu": "2", "memory": "2Gi"}
_UNITS: Final = {
    "0": 0, "100m": 100, "1": 1000, "4": 4000, "1500m": 1500, "1Gi": 1024, "8Gi": 8192, "1500Mi": 1500,
}  # fmt: skip


def _named(api: str, kind: str, name: str, spec: Body) -> Body:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name, "namespace": "ml"}, "spec": spec}


def _tagged(image: str) -> str:
    return image if ":" in image.rsplit("/", 1)[-1] else f"{image}:latest"


def _distinct(values: list[Body]) -> list[Body]:
    """No two with the same key and effect, or the same port."""
    found: dict[tuple[Any, ...], Body] = {}
    for value in values:
        fields = ("key", "effect", "containerPort", "hostPort", "hostIP", "protocol")
        found[tuple(value.get(one) for one in fields)] = value
    return list(found.values())


def _one_a_key(values: list[Body]) -> list[Body]:
    return list({(v["topologyKey"], v["whenUnsatisfiable"]): v for v in values}.values())
