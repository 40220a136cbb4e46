"""Pods that want more devices than there are, made and deleted all the time; and who watches them."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from support.accounts import devices_of, visible_devices
from support.deadlines import join
from support.genuine_cluster import GenuineCluster
from support.images import BUSYBOX
from tonnage.adapters.kubernetes.client import connect
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.wire.kinds import POD
from tonnage.wire.objects import Pod

GPU: Final = "nvidia.com/gpu"
SHARED: Final = "nvidia.com/gpu.shared"
NAMESPACE: Final = "default"
LABEL: Final = "tonnage-test/load"
"""Of its pods."""
_TICK_S: Final = 0.4
_REST_S: Final = 240.0
_LOOK_S: Final = 0.15
_COLUMNS: Final = (
    "custom-columns=UID:.metadata.uid,NAME:.metadata.name,PHASE:.status.phase,DELETED:.metadata.deletionTimestamp,"
    "IDS:.status.containerStatuses[*].containerID,STATES:.status.containerStatuses[*].state"
)


def _container(name: str, limits: Mapping[str, int], *, runs_s: str = "1000000") -> JsonObject:
    return {
        "name": name,
        "image": BUSYBOX,
        "imagePullPolicy": "Never",
        "command": ["/bin/sleep", runs_s],
        "resources": {"limits": {key: str(count) for key, count in limits.items()}},
    }


def pod_body(kind: str, name: str, *, grace_s: int = 0) -> JsonObject:
    """A pod of one of `KINDS`."""
    containers = {
        "one": [_container("a", {GPU: 1})],
        "two": [_container("a", {GPU: 2})],
        "pair": [_container("a", {GPU: 1}), _container("b", {GPU: 1})],
        "short": [_container("a", {GPU: 1}, runs_s="2")],
        "reusing": [_container("a", {GPU: 1})],
        "initial": [_container("a", {})],
        "shared": [_container("a", {SHARED: 1})],
        "mixed": [_container("a", {SHARED: 1}), _container("b", {GPU: 1})],
    }[kind]
    first = [_container("first", {GPU: 1}, runs_s="0.2")] if kind in ("reusing", "initial") else []
    return {
        "metadata": {"name": name, "labels": {LABEL: kind}},
        "spec": {
            "initContainers": [*first],
            "containers": [*containers],
            "restartPolicy": "Never" if kind == "short" else "Always",
            "terminationGracePeriodSeconds": grace_s,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
        },
    }


KINDS: Final = ("one", "one", "two", "pair", "short", "reusing", "initial", "shared", "shared", "mixed")


class Load:
    """Keeps `pods` pods alive, one of which it replaces at every turn."""

    def __init__(
        self,
        kubeconfig: Path,
        *,
        pods: int,
        seed: int,
        kinds: Sequence[str] = KINDS,
        body: Callable[..., JsonObject] = pod_body,
    ) -> None:
        """Pods of these kinds, as `body(kind, name, grace_s=seconds)` makes them, with the label LABEL."""
        self._kinds = kinds
        self._body = body
        self._kubeconfig = kubeconfig
        self._wanted = pods
        self._random = random.Random(seed)
        self._ended = threading.Event()
        self._resting = threading.Event()
        self._rests = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="load", daemon=True)
        self._seen: set[str] = set()
        self.made = 0
        self.started = 0
        """Pods that were seen running."""
        self.refused: Counter[str] = Counter()
        """Pods that failed, by reason: kubelet had no device for them although the scheduler thought so."""
        self.errors = 0

    def start(self) -> None:
        self._thread.start()

    @contextmanager
    def rest(self) -> Iterator[None]:
        """Make and delete nothing for a while, and have no pod wait for a device."""
        self._rests.clear()
        self._resting.set()
        try:
            assert self._rests.wait(_REST_S), "the load does not rest"
            yield
        finally:
            self._resting.clear()

    def stop(self) -> None:
        """End, and delete every pod that is left."""
        self._ended.set()
        self._resting.clear()
        join(self._thread)

    async def _run(self) -> None:
        async with connect(self._kubeconfig, program="load") as api:
            while not self._ended.is_set():
                if self._resting.is_set():
                    if not self._rests.is_set() and await self._attempt(self._calm(api)):
                        self._rests.set()
                else:
                    await self._attempt(self._turn(api))
                await asyncio.sleep(_TICK_S)
            while True:
                if await self._attempt(self._clear(api)):
                    return
                await asyncio.sleep(_TICK_S)

    async def _attempt(self, deed: Any) -> bool:
        """Whether it could be done."""
        try:
            await deed
        except ApiError as error:
            self.errors += error.code not in (404, 409)  # a pod that ended meanwhile
            return error.code == 404
        except ClusterError:
            self.errors += 1
            return False
        return True

    async def _turn(self, api: KubernetesApi) -> None:
        living: list[Pod] = []
        for pod in (await api.list(POD, namespace=NAMESPACE, label_selector=LABEL)).items:
            if pod.metadata.deletion_timestamp is not None:
                continue
            if pod.status.phase in ("Succeeded", "Failed"):
                if pod.status.phase == "Failed":
                    self.refused[f"{pod.status.reason}: {pod.status.message}"] += 1
                await api.delete(POD, pod.metadata.name, namespace=NAMESPACE)
            else:
                living.append(pod)
        running = [pod for pod in living if pod.status.phase == "Running"]
        fresh = {pod.metadata.uid for pod in running} - self._seen
        self._seen |= fresh
        self.started += len(fresh)
        if len(living) >= self._wanted and running:
            gone = self._random.choice(running)
            living.remove(gone)
            await api.delete(POD, gone.metadata.name, namespace=NAMESPACE)
        if len(living) < self._wanted:
            self.made += 1
            kind = self._random.choice(self._kinds)
            name = f"load-{self.made}-{kind}"
            body = self._body(kind, name, grace_s=self._random.choice((1, 2)))
            await api.create(POD, body, namespace=NAMESPACE)

    async def _calm(self, api: KubernetesApi) -> None:
        for pod in (await api.list(POD, namespace=NAMESPACE, label_selector=LABEL)).items:
            # Without force: one that got a node meanwhile keeps its device until its containers have ended.
            if not pod.spec.node_name:
                try:
                    await api.delete(POD, pod.metadata.name, namespace=NAMESPACE)
                except ApiError as error:
                    if error.code != 404:
                        raise

    async def _clear(self, api: KubernetesApi) -> None:
        while pods := (await api.list(POD, namespace=NAMESPACE, label_selector=LABEL)).items:
            for pod in pods:
                if pod.metadata.deletion_timestamp is None:
                    await self._attempt(api.delete(POD, pod.metadata.name, namespace=NAMESPACE))
            await asyncio.sleep(_TICK_S)


class Watchman:
    """Looks all the time whether two running containers see one device; its report says which did."""

    def __init__(
        self,
        cluster: GenuineCluster,
        replicas: Callable[[str], int],
        devices_of: Callable[[int], tuple[str, ...]] = devices_of,
        keepers: Callable[[], Collection[str]] = tuple,
    ) -> None:
        """`replicas` says how many containers may see a device, `devices_of` which a process sees.

        `keepers` are pods, by uid, that see every device and use none.
        """
        self._keepers = keepers
        self._cluster = cluster
        self._devices_of = devices_of
        self._replicas = replicas
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchman", daemon=True)
        self.looks = 0
        self.most = 0
        """Containers with devices that were seen at once."""
        self.found: dict[str, str] = {}

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._ended.set()
        join(self._thread)

    def _run(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        """Once. What is seen twice is looked at again: the first may have ended before the second began."""
        holders: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
        containers = list(visible_devices(self._cluster, self._devices_of))
        for pod, container, devices, process in containers:
            for uuid in devices:
                holders[uuid].append((f"{pod}/{container[:12]}", process))
        for uuid, found in holders.items():
            living = [owner for owner, process in found if uuid in self._devices_of(process)]
            if len(living) > self._replicas(uuid):
                keepers = self._keepers()
                living = [owner for owner in living if owner.partition("/")[0] not in keepers]
            said = f"{uuid}: {', '.join(living)}"
            if len(living) > self._replicas(uuid) and said not in self.found:
                self.found[said] = self._cluster.kubectl("get", "pods", "-A", "-o", _COLUMNS, check=False)
        self.looks += 1
        self.most = max(self.most, len(containers))

    def report(self) -> str:
        """What was found since the last report, with the pods as the API server had them at that time."""
        found, self.found = self.found, {}
        return "\n".join(f"{said}\n{pods}" for said, pods in found.items())
