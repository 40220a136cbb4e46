"""A genuine kube-scheduler that judges pods on nodes which are only objects, and how it puts what it decides.

There is an API server with its etcd, and the scheduler; no controller and no kubelet touches what is there.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2

from support.genuine import GenuinePlane, control_plane
from tonnage.adapters.child_process import ChildProcess
from tonnage.adapters.control_plane import ControlPlaneFolder

Body = dict[str, Any]
_WAIT_S: Final = 10.0
_START_S: Final = 120.0
_ANSWER_S: Final = 60.0
_GRACE_S: Final = 5.0
_SCORED: Final = re.compile(
    r'"Plugin scored node for pod" pod="(?P<pod>[^"]+)" plugin="(?P<plugin>[^"]+)" '
    r'node="(?P<node>[^"]+)" score=(?P<score>-?[0-9]+)'
)
_ADMISSION: Final = "TaintNodesByCondition,ServiceAccount,RuntimeClass,StorageObjectInUseProtection"
"""Admission plugins that would wait for controllers, or change what a test says."""
_PATHS: Final[Mapping[str, str]] = {
    "Node": "/api/v1/nodes",
    "Pod": "/api/v1/namespaces/{}/pods",
    "Namespace": "/api/v1/namespaces",
    "Service": "/api/v1/namespaces/{}/services",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "ReplicationController": "/api/v1/namespaces/{}/replicationcontrollers",
    "ReplicaSet": "/apis/apps/v1/namespaces/{}/replicasets",
    "StatefulSet": "/apis/apps/v1/namespaces/{}/statefulsets",
    "PriorityClass": "/apis/scheduling.k8s.io/v1/priorityclasses",
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/{}/poddisruptionbudgets",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
    "ResourceSlice": "/apis/resource.k8s.io/v1/resourceslices",
    "DeviceClass": "/apis/resource.k8s.io/v1/deviceclasses",
    "ResourceClaim": "/apis/resource.k8s.io/v1/namespaces/{}/resourceclaims",
}
_WITH_STATUS: Final = (
    "Pod",
    "PodDisruptionBudget",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ResourceClaim",
)
"""Kinds whose status a create leaves out."""


class RefusedError(Exception):
    """The API server does not take an object."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What one cycle decided: a node, or words; scores where it compared nodes."""

    node: str = ""
    reason: str = ""
    message: str = ""
    nominated: str = ""
    scores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class GenuineScheduler:
    """A client of the API server, which also reads what the scheduler says."""

    def __init__(self, plane: GenuinePlane) -> None:
        self._files = plane.files
        self._binaries = plane.binaries
        self._child: ChildProcess | None = None
        headers = {"Authorization": f"Bearer {plane.token}"}
        self._http = httpx2.Client(
            base_url=plane.programs.url,
            verify=_trusting(plane.files),
            headers=headers,
            trust_env=False,
            timeout=_ANSWER_S,
        )
        self._seen: queue.Queue[tuple[str, Body]] = queue.Queue()
        self._pool = ThreadPoolExecutor(6)
        self._log = plane.files.path / "judging.log"
        self._offset = 0

    # ---- the scheduler's process ----

    def run(self, configuration: Body | None = None, *, gates: str = "") -> None:
        """Start the scheduler anew, with a configuration of its own; it judges when this returns."""
        self.end()
        body: Body = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "leaderElection": {"leaderElect": False},
            "clientConnection": {
                "kubeconfig": str(self._files.kubeconfig("kube-scheduler")), "qps": 2000, "burst": 2000
            },
            **(configuration or {}),
        }  # fmt: skip
        path = self._files.path / "scheduler.json"
        path.write_text(json.dumps(body))
        flags = [f"--config={path}", "--secure-port=0", "--vmodule=schedule_one=10"]
        if gates:
            flags.append(f"--feature-gates={gates}")
        program = self._binaries / "kube-scheduler"
        self._child = ChildProcess(program, flags, log=self._log, environment=os.environ)
        self._offset = 0
        profiles: list[Body] = body.get("profiles") or [{"schedulerName": "default-scheduler"}]
        first = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "first"}, "spec": {
            "schedulerName": profiles[0]["schedulerName"], "containers": [{"name": "main", "image": "none"}],
        }}  # fmt: skip
        raw, verdict = self.judge(first, within_s=_START_S)
        self.delete(raw)
        assert verdict is not None, f"no verdict of the scheduler within {_START_S:.0f} s"

    def end(self) -> None:
        """End the scheduler."""
        if self._child is not None:
            asyncio.run(self._child.end(_GRACE_S))
            self._child = None

    def close(self) -> None:
        self.end()
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._http.close()

    # ---- objects ----

    def create_all(self, objects: Iterable[Body]) -> list[Body]:
        """The objects as the server has them, in their order, with their status."""
        return list(self._pool.map(self.create, objects))

    def try_all(self, objects: Iterable[Body]) -> list[Body | None]:
        """The same; None for what the server does not take."""

        def tried(obj: Body) -> Body | None:
            try:
                return self.create(obj)
            except RefusedError:
                return None

        return list(self._pool.map(tried, objects))

    def create(self, obj: Body) -> Body:
        """One object with its status. Raises RefusedError."""
        path = _path_of(obj)
        made = self._ask("POST", path, obj)
        status = obj.get("status")
        if status and obj["kind"] in _WITH_STATUS:
            place = f"{path}/{obj['metadata']['name']}/status"
            patch = {"status": status}
            made = self._ask("PATCH", place, patch)
        if (obj["metadata"].get("annotations") or {}).get("test/terminating"):
            made = self._ask("DELETE", f"{path}/{obj['metadata']['name']}", {"gracePeriodSeconds": 30})
        return {"apiVersion": obj["apiVersion"], "kind": obj["kind"], **made}

    def delete(self, obj: Body) -> None:
        """Remove an object at once."""
        path = f"{_path_of(obj)}/{obj['metadata']['name']}"
        if obj["metadata"].get("finalizers"):
            self._http.request(
                "PATCH",
                path,
                content=b'{"metadata":{"finalizers":null}}',
                headers={"Content-Type": "application/merge-patch+json"},
            )
        self._http.request("DELETE", path, json={"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    def delete_all(self, objects: Iterable[Body]) -> None:
        list(self._pool.map(self.delete, objects))

    def names_of(self, kind: str, namespace: str = "default") -> set[str]:
        """Names of what is there of a kind."""
        answer = self._http.get(_PATHS[kind].format(namespace))
        return {item["metadata"]["name"] for item in answer.json()["items"]}

    def exists(self, obj: Body) -> bool:
        """Whether the object is there and stays."""
        answer = self._http.get(f"{_path_of(obj)}/{obj['metadata']['name']}")
        return answer.status_code == 200 and not answer.json()["metadata"].get("deletionTimestamp")

    def awaited(self, pod: Body) -> str:
        """The node for which a volume of the pod shall be made, or one that is chosen: nobody acts here."""
        space = pod["metadata"].get("namespace", "default")
        for volume in pod["spec"].get("volumes", ()):
            name = volume.get("persistentVolumeClaim", {}).get("claimName", "")
            answer = self._http.get(f"{_PATHS['PersistentVolumeClaim'].format(space)}/{name}")
            metadata = answer.json()["metadata"] if answer.status_code == 200 else {}
            if node := metadata.get("annotations", {}).get("volume.kubernetes.io/selected-node"):
                return str(node)
            for one in self._http.get(_PATHS["PersistentVolume"]).json()["items"]:
                if metadata and one["spec"].get("claimRef", {}).get("uid") == metadata["uid"]:
                    return str(one["metadata"]["name"])
        return ""

    def _ask(self, method: str, path: str, body: Body) -> Body:
        kind = "application/strategic-merge-patch+json" if method == "PATCH" else "application/json"
        answer = self._http.request(
            method, path, content=json.dumps(body).encode(), headers={"Content-Type": kind}
        )
        if answer.status_code >= 300:
            raise RefusedError(f"{method} {path}: {answer.text[:2000]}")
        found: Body = answer.json()
        return found

    # ---- verdicts ----

    def watch(self) -> None:
        """Begin to look at pods; ends with the client."""
        threading.Thread(target=self._follow, daemon=True).start()
        time.sleep(0.05)

    def _follow(self) -> None:
        try:
            with self._http.stream("GET", "/api/v1/pods?watch=1", timeout=None) as answer:
                for line in answer.iter_lines():
                    event = json.loads(line)
                    self._seen.put((event["type"], event["object"]))
        except Exception:
            return

    def judge(self, pod: Body, *, within_s: float = _WAIT_S) -> tuple[Body, Verdict | None]:
        """Create the pod; it as the server took it, and the first verdict on it. Raises RefusedError."""
        while not self._seen.empty():
            self._seen.get_nowait()
        made = self.create(pod)
        ends = time.monotonic() + within_s
        while True:
            try:
                _, seen = self._seen.get(timeout=max(0.01, ends - time.monotonic()))
            except queue.Empty:
                if self._child is not None:
                    self._child.check()
                return made, None
            if seen["metadata"]["uid"] == made["metadata"]["uid"]:
                verdict = self._verdict(seen)
                if verdict is not None:
                    return made, verdict

    def _verdict(self, pod: Body) -> Verdict | None:
        scheduled = next(
            (c for c in pod["status"].get("conditions", ()) if c["type"] == "PodScheduled"), None
        )
        node = pod["spec"].get("nodeName", "")
        if not node and (scheduled is None or scheduled["status"] != "False"):
            return None
        scores = self._scores(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}")
        if node:
            return Verdict(node, scores=scores)
        assert scheduled is not None
        nominated = pod["status"].get("nominatedNodeName", "")
        return Verdict("", scheduled.get("reason", ""), scheduled.get("message", ""), nominated, scores)

    def _scores(self, pod: str) -> dict[str, dict[str, int]]:
        with self._log.open("rb") as file:
            file.seek(self._offset)
            text = file.read()
        self._offset += len(text)
        found: dict[str, dict[str, int]] = {}
        for match in _SCORED.finditer(text.decode(errors="replace")):
            if match["pod"] == pod:
                found.setdefault(match["node"], {})[match["plugin"]] = int(match["score"])
        return found


@contextmanager
def genuine_scheduler(folder: Path, *, api_flags: Iterable[str] = ()) -> Iterator[GenuineScheduler]:
    """A control plane whose scheduler is not started yet."""
    with control_plane(folder, f"--disable-admission-plugins={_ADMISSION}", *api_flags) as plane:
        client = GenuineScheduler(plane)
        try:
            client.watch()
            yield client
        finally:
            client.close()


def _trusting(files: ControlPlaneFolder) -> Any:
    import ssl

    return ssl.create_default_context(cafile=str(files.certificate("ca")))


def _path_of(obj: Body) -> str:
    return _PATHS[obj["kind"]].format(obj["metadata"].get("namespace", "default"))
