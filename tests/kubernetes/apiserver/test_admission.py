"""What a genuine API server says to pods, word for word what `explain -f` foresees of it.

An API server, its etcd and the controller manager, which counts quotas: no node, no scheduler.
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
from support.genuine_node import until
from support.leftovers import own_folder
from tonnage.cli.locations.binaries import chosen_minor
from tonnage.decide.kubernetes.admission.quota import claim_refusals
from tonnage.diagnose.explain.explain import explain_manifest
from tonnage.diagnose.explain.workloads.missing_pods import explain_workload, find_workload
from tonnage.model.kubernetes.cluster import Snapshot
from tonnage.model.kubernetes.workloads import WorkloadKey
from tonnage.model.layer import Layer
from tonnage.reading.documents import (
    manifest_of,
    manifests_from_documents,
    snapshot_from_documents,
)

pytestmark = pytest.mark.kubernetes

Body = dict[str, Any]
GPU: Final = "nvidia.com/gpu"
PER_CLASS: Final = "gpu.example.com.deviceclass.resource.k8s.io/devices"
READ: Final = (
    "namespaces,pods,resourcequotas,limitranges,runtimeclasses,priorityclasses,serviceaccounts,services,"
    "mutatingwebhookconfigurations,validatingwebhookconfigurations,resourceclaims,deviceclasses,"
    "deployments,replicasets,jobs"
)


@dataclass(frozen=True, slots=True)
class Server:
    """An API server with its controllers."""

    plane: GenuinePlane

    def make(self, *objects: Mapping[str, Any]) -> None:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        ended = self.plane.ask("create", "-f", "-", given=json.dumps(listed))
        assert ended.returncode == 0, ended.stderr

    def refusal(self, obj: Body) -> str:
        """What the server says to an object; empty when it takes it."""
        ended = self.plane.ask("create", "-f", "-", given=json.dumps(obj))
        if ended.returncode == 0:
            return ""
        beginning, _, words = ended.stderr.strip().partition('error when creating "STDIN": ')
        return words or beginning.partition("): ")[2] or beginning.removeprefix("The ")

    def snapshot(self) -> Snapshot:
        ended = self.plane.ask("get", READ, "-A", "-o", "json")
        assert ended.returncode == 0, ended.stderr
        return snapshot_from_documents([json.loads(ended.stdout)], server_version=chosen_minor(os.environ))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with own_folder() as folder, control_plane(folder) as plane:
        plane.programs.run_loops()
        asyncio.run(plane.programs.end("kube-scheduler"))
        found = Server(plane)
        found.make(*COMMON, *(obj for case in CASES for obj in case.objects))
        until(lambda: all(quota.counted for quota in found.snapshot().quotas))
        accounts = {case.namespace for case in CASES if case.namespace != "nowhere"}
        until(lambda: {space for space, _ in found.snapshot().service_accounts} >= accounts)
        yield found


def namespace(name: str, **labels: str) -> Body:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def quota(name: str, hard: Body, **spec: Any) -> Body:
    meta = {"name": name}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": meta, "spec": {"hard": hard, **spec}}


def limits(*items: Body) -> Body:
    meta = {"name": "range"}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": meta, "spec": {"limits": list(items)}}


def container(name: str = "main", **resources: Any) -> Body:
    return {"name": name, "image": "x", "resources": resources}


@dataclass(frozen=True, slots=True)
class Case:
    """A namespace with what is in it, and a pod that somebody tries to have there."""

    namespace: str
    given: tuple[Body, ...]
    spec: Body
    labels: Body | None = None

    @property
    def objects(self) -> list[Body]:
        if self.namespace == "nowhere":
            return []
        own = [{**obj, "metadata": {**obj["metadata"], "namespace": self.namespace}} for obj in self.given]
        return [namespace(self.namespace, **(self.labels or {})), *own]

    @property
    def pod(self) -> Body:
        meta = {"name": "p", "namespace": self.namespace}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": self.spec}


def one(*containers: Body, **spec: Any) -> Body:
    return {"containers": list(containers) or [container()], **spec}


PODS: Final = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
COMMON: Final = (
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "kata"},
        "handler": "kata",
        "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"runtime": "kata"}},
    },
    {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "gone"},
        "webhooks": [
            {
                "name": "gone.policies.example",
                "clientConfig": {"service": {"namespace": "policies", "name": "gone", "path": "/check"}},
                "namespaceSelector": {"matchLabels": {"watched": "yes"}},
                "rules": [
                    {
                        "operations": ["CREATE"],
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "resources": ["pods"],
                    }
                ],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    },
    namespace("devices"),
    {
        **quota("q", {PER_CLASS: "4", "count/resourceclaims.resource.k8s.io": "9"}),
        "metadata": {"name": "q", "namespace": "devices"},
    },
)
_LEVEL: Final = "pod-security.kubernetes.io/enforce"
_BAD: Final = {
    "privileged": True,
    "procMount": "Default",
    "capabilities": {"add": ["SYS_ADMIN", "NET_ADMIN"]},
    "seccompProfile": {"type": "Unconfined"},
    "seLinuxOptions": {"type": "spc_t", "role": "r"},
    "runAsUser": 0,
}
_HOST: Final = {"name": "v", "hostPath": {"path": "/"}}
CASES: Final = (
    Case("gpus", (quota("gpu-quota", {f"requests.{GPU}": "1"}),), one(container(limits={GPU: "2"}))),
    Case(
        "never-enforced", (quota("q", {f"limits.{GPU}": "1", GPU: "1"}),), one(container(limits={GPU: "8"}))
    ),
    Case(
        "spelling",
        (quota("q", {"limits.cpu": "1", "requests.memory": "1G", "pods": "5"}),),
        one(
            container("a", limits={"cpu": "0.5", "memory": "512Mi"}),
            container("b", limits={"cpu": "1", "memory": "1Gi"}),
        ),
    ),
    Case(
        "peaks",
        (quota("q", {f"requests.{GPU}": "3", "requests.cpu": "2"}),),
        one(
            container(limits={GPU: "2", "cpu": "1"}),
            initContainers=[
                {**container("side", limits={GPU: "1", "cpu": "1"}), "restartPolicy": "Always"},
                container("init", limits={GPU: "3", "cpu": "1500m"}),
            ],
        ),
    ),
    Case(
        "undeclared",
        (quota("q", {"limits.cpu": "9", "memory": "9Gi"}),),
        one(container("b"), container("a", limits={"cpu": "1"})),
    ),
    Case("best-effort", (quota("q", {"pods": "0"}, scopes=["BestEffort"]),), one()),
    Case("not-best-effort", (quota("q", {"pods": "0"}, scopes=["NotBestEffort"]),), one()),
    Case("terminating", (quota("q", {"pods": "0"}, scopes=["Terminating"]),), one(activeDeadlineSeconds=9)),
    Case(
        "of-class",
        (
            quota(
                "q",
                {"pods": "0"},
                scopeSelector={
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
                    ]
                },
            ),
        ),
        one(priorityClassName="system-node-critical"),
    ),
    Case("most", (limits({"type": "Container", "max": {GPU: "1"}}),), one(container(limits={GPU: "2"}))),
    Case(
        "least",
        (limits({"type": "Container", "min": {"cpu": "500m"}}),),
        one(container(requests={"cpu": "100m"}, limits={"cpu": "1"})),
    ),
    Case(
        "ratio",
        (limits({"type": "Container", "maxLimitRequestRatio": {"cpu": "3"}}),),
        one(container(requests={"cpu": "300m"}, limits={"cpu": "1"})),
    ),
    Case(
        "whole-pod",
        (limits({"type": "Pod", "max": {"memory": "1Gi"}}),),
        one(container("a", limits={"memory": "600Mi"}), container("b", limits={"memory": "500Mi"})),
    ),
    Case(
        "defaults",
        (limits({"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}),),
        one(container(requests={"cpu": "4"})),
    ),
    Case(
        "defaults-in-quota",
        (limits({"type": "Container", "default": {"cpu": "2"}}), quota("q", {"limits.cpu": "1"})),
        one(),
    ),
    Case(
        "baseline", (), one({**container(), "securityContext": _BAD}, hostNetwork=True), {_LEVEL: "baseline"}
    ),
    Case(
        "restricted",
        (),
        one(
            {**container("a"), "securityContext": _BAD},
            container("b"),
            volumes=[
                {"name": "v", "hostPath": {"path": "/"}},
                {"name": "n", "nfs": {"server": "s", "path": "/"}},
            ],
            securityContext={"sysctls": [{"name": "kernel.msgmax", "value": "1"}]},
        ),
        {_LEVEL: "restricted"},
    ),
    Case("own-users", (), one(hostUsers=False), {_LEVEL: "restricted", f"{_LEVEL}-version": "v1.34"}),
    Case("no-runtime-class", (), one(runtimeClassName="nvidia")),
    Case("class-conflict", (), one(runtimeClassName="kata", nodeSelector={"runtime": "runc"})),
    Case("class-overhead", (), one(runtimeClassName="kata", overhead={"cpu": "1"})),
    Case("no-priority-class", (), one(priorityClassName="gpu-high")),
    Case("priority-alone", (), one(priority=100)),
    Case("policy-alone", (), one(preemptionPolicy="Never", restartPolicy="Sometimes")),
    Case("other-priority", (), one(priority=5, priorityClassName="system-node-critical")),
    Case("same-priority", (), one(priority=2000001000, priorityClassName="system-node-critical")),
    Case("other-policy", (), one(preemptionPolicy="Never", priorityClassName="system-cluster-critical")),
    Case("impossible-label", (), one(nodeSelector={"a": "b c"})),
    Case("no-account", (), one(serviceAccountName="trainer")),
    Case("account-first", (), one(serviceAccountName="t", priorityClassName="x", runtimeClassName="y")),
    Case("class-before-fields", (), one(container(limits={GPU: "0.5"}), priorityClassName="x")),
    Case("nobody-answers", (), one(), {"watched": "yes"}),
    Case("all-well", (quota("q", {"pods": "9"}),), one(container(limits={GPU: "1"}))),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case.namespace))
def test_the_server_says_what_is_foreseen(server: Server, case: Case) -> None:
    snapshot = server.snapshot()
    [manifest] = manifests_from_documents([case.pod], classes=snapshot.priority_classes)
    foreseen = explain_manifest(manifest, snapshot)
    refused = foreseen.layer in (Layer.ADMISSION, Layer.QUOTA)
    wanted = foreseen.upstream_message if refused else ""
    deadline = time.monotonic() + 30
    while (said := server.refusal(case.pod)) != wanted and time.monotonic() < deadline:
        time.sleep(0.5)  # what admits hears of quotas later than who reads them
    assert said == wanted


def test_a_claim_that_exceeds_a_quota_is_refused_in_the_words_foreseen(server: Server) -> None:
    devices = {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu.example.com", "count": 5}}]}
    meta = {"name": "c", "namespace": "devices"}
    version = "resource.k8s.io/v1"
    body: Body = {
        "apiVersion": version,
        "kind": "ResourceClaim",
        "metadata": meta,
        "spec": {"devices": devices},
    }
    [claim] = snapshot_from_documents([body]).claims
    minor = int(chosen_minor(os.environ).partition(".")[2])
    [over] = claim_refusals(claim, server.snapshot(), minor=minor)
    assert server.refusal(body) == f'resourceclaims.resource.k8s.io "c" is forbidden: {over.text}'


def test_adm_10_the_words_of_a_workload_without_pods_are_the_owners(server: Server) -> None:
    """ADM-10: the ReplicaSet's condition has them; foreseen alike from quota and template alone."""
    server.make(
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "serve", "namespace": "gpus"},
            "spec": {
                "replicas": 1,
                "selector": {"matchLabels": {"app": "serve"}},
                "template": {
                    "metadata": {"labels": {"app": "serve"}},
                    "spec": one(container(limits={GPU: "3"})),
                },
            },
        }
    )
    key = WorkloadKey("Deployment", "gpus", "serve")

    def condition() -> str:
        stated = (w.condition("ReplicaFailure") for w in server.snapshot().workloads if w.owner == key)
        return next((one.message for one in stated if one is not None), "")

    until(lambda: bool(condition()))
    snapshot = server.snapshot()
    workload = find_workload(snapshot, key)
    assert workload is not None
    told = explain_workload(workload, manifest_of(workload), snapshot)
    assert (told.layer, told.upstream_message) == (Layer.QUOTA, condition())
    silent = tuple(w for w in snapshot.workloads if w.key == key)
    foreseen = explain_workload(
        workload, manifest_of(workload), Snapshot(quotas=snapshot.quotas, workloads=silent)
    )
    assert foreseen.upstream_message.partition(": ")[2] == condition().partition(": ")[2]
