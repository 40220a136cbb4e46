"""Pods made by chance, with every option that bears on where they go."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from support.random_wishes import ZONE, Body, Wishes

GPU: Final = "nvidia.com/gpu"
MIG: Final = "nvidia.com/mig-1g.10gb"
NIC: Final = "example.com/nic"
HUGE: Final = "hugepages-2Mi"
IMAGES: Final = ("repo/train:v1", "repo/serve", "base:v2", "reg:5000/x/tool@sha256:" + "a" * 64)
EFFECTS: Final = ("NoSchedule", "NoExecute", "PreferNoSchedule")
_OTHER: Final = {"cpu": "2", "memory": "2Gi"}
_UNITS: Final = {
    "0": 0, "100m": 100, "1": 1000, "4": 4000, "1500m": 1500, "1Gi": 1024, "8Gi": 8192, "1500Mi": 1500,
}  # fmt: skip


class Pods(Wishes):
    """Pods, bound or not."""

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
            "image": pick((*IMAGES, "other")),
            "resources": {"requests": requests, "limits": limits},
            "ports": distinct(ports),
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
        effect = self._pick(("", *EFFECTS))
        if effect:
            found["effect"] = effect
        return found


def distinct(values: list[Body]) -> list[Body]:
    """No two with the same key and effect, or the same port."""
    found: dict[tuple[Any, ...], Body] = {}
    for value in values:
        fields = ("key", "effect", "containerPort", "hostPort", "hostIP", "protocol")
        found[tuple(value.get(one) for one in fields)] = value
    return list(found.values())


def _one_a_key(values: list[Body]) -> list[Body]:
    return list({(v["topologyKey"], v["whenUnsatisfiable"]): v for v in values}.values())
