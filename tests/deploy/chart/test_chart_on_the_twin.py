"""A release's life with unmodified Helm against the twin's API server."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from support.helm import CHART, NAMESPACE, RELEASE, Helm
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.cli.controller import controller_options_in_a_pod
from tonnage.controller.definitions import upgrade_definitions
from tonnage.controller.main import run_controller
from tonnage.documents.node.gpu_status import GROUP, PLURAL
from tonnage.loop.effects import ActionPorts
from tonnage.loop.informer import Informer, following
from tonnage.loop.performer import Performer
from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.model.errors import ApiError
from tonnage.model.kubernetes.timestamps import timestamp
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire.kinds import (
    CLUSTER_POLICY,
    CONFIG_MAP,
    CUSTOM_RESOURCE,
    DAEMON_SET,
    JOB,
    NODE,
    SERVICE,
    SERVICE_ACCOUNT,
)
from tonnage.wire.kinds import NAMESPACE as NAMESPACE_KIND

pytestmark = pytest.mark.long

CRD = f"{PLURAL}.{GROUP}"
POLICIES = "clusterpolicies.nvidia.com"
SHARED = "config: {map: {default: 'version: v1'}}\nimage: {tag: next}"


class Cluster:
    """The twin's API server and a Helm that speaks to it."""

    def __init__(self, api: KubernetesApi, helm: Helm) -> None:
        self.api = api
        self._helm = helm

    async def helm(self, *arguments: str | Path, values: str = "") -> str:
        """What it prints. Helm 4 applies on the server, Helm 3 merges on its own side."""
        return await asyncio.to_thread(self._helm.run, *arguments, values=values)

    async def refused(self, *arguments: str | Path, values: str = "") -> str:
        """What Helm says when it fails."""
        done = await asyncio.to_thread(self._helm.attempt, *arguments, values=values)
        assert done.returncode != 0
        return done.stderr

    async def image(self) -> str:
        found: Any = await self.api.get(DAEMON_SET, "tonnage-agent", NAMESPACE)
        return str(found.spec.template["spec"]["containers"][0]["image"])

    async def has_config(self) -> bool:
        try:
            await self.api.get(CONFIG_MAP, "device-plugin-config", NAMESPACE)
        except ApiError:
            return False
        return True

    async def releases(self) -> list[str]:
        listed = json.loads(await self.helm("list", "--all-namespaces", "--output", "json"))
        return [f"{release['name']} {release['status']}" for release in listed]


@pytest.fixture(
    params=[
        pytest.param(3, id="helm 3", marks=pytest.mark.sampled("what Helm 3 does as Helm 4 on the twin")),
        pytest.param(4, id="helm 4"),
    ]
)
async def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    clock = SystemClock()
    server = ApiServer(clock)
    endpoint = await server.start(Authority.generate(clock.now()))
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.touch(mode=0o600)
    kubeconfig.write_text(kubeconfig_text(endpoint))
    yield Cluster(server.local(), Helm(request.param, tmp_path, kubeconfig))
    await server.stop()


IN = ("--namespace", NAMESPACE)


CONTROLLED = "controller: {enabled: true, operatorNamespace: gpu-operator}\nexporter: {enabled: true}\n"


@pytest.mark.parametrize(
    ("name", "namespace"), [("nvidia-dcgm", "gpu-operator"), ("nvidia-dcgm-exporter", NAMESPACE)]
)
async def test_a_service_of_nvidias_operator_is_named_with_the_remedy(
    cluster: Cluster, name: str, namespace: str
) -> None:
    for each in ("gpu-operator", NAMESPACE):
        await cluster.api.create(NAMESPACE_KIND, {"metadata": {"name": each}})
    policy = {"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": "1"}
    metadata: Any = {"name": name, "labels": {"app": name}, "ownerReferences": [policy]}
    spec: Any = {"selector": {"app": name}, "ports": [{"port": 5555}]}
    await cluster.api.create(SERVICE, {"metadata": metadata, "spec": spec}, namespace=namespace)
    said = await cluster.refused("install", RELEASE, CHART, *IN, values=CONTROLLED)
    assert f"Service {namespace}/{name} is there already, and is of ClusterPolicy cluster-policy" in said
    assert f"kubectl -n {namespace} delete service {name}" in said
    await cluster.api.delete(SERVICE, name, namespace=namespace)
    await cluster.helm("install", RELEASE, CHART, *IN, "--no-hooks", values=CONTROLLED)
    await cluster.helm("upgrade", RELEASE, CHART, *IN, "--no-hooks", values=CONTROLLED)


async def test_install_upgrade_rollback_uninstall(cluster: Cluster) -> None:
    notes = await cluster.helm("install", RELEASE, CHART, *IN, "--create-namespace")
    assert "rollout status daemonset/tonnage-agent" in notes
    first = await cluster.image()
    assert not await cluster.has_config()

    await cluster.helm("upgrade", RELEASE, CHART, *IN, values=SHARED)
    assert (await cluster.image()).endswith(":next")
    assert await cluster.has_config()

    await cluster.helm("rollback", RELEASE, "1", *IN)
    assert await cluster.image() == first
    assert not await cluster.has_config()
    assert await cluster.releases() == ["tonnage deployed"]

    await cluster.helm("uninstall", RELEASE, *IN)
    assert await cluster.releases() == []
    assert not (await cluster.api.list(DAEMON_SET)).items
    assert (await cluster.api.get(CUSTOM_RESOURCE, CRD)).metadata.name == CRD, "statuses outlive the release"


async def test_the_definition_is_upgraded_and_rolled_back_with_the_release(
    cluster: Cluster, tmp_path: Path
) -> None:
    older = tmp_path / "older"
    shutil.copytree(CHART, older)
    file = older / "files" / "crds" / f"{CRD}.yaml"
    file.write_text(file.read_text().replace("- ngs\n", "- before\n"))

    async def short_names() -> list[str]:
        found: Any = await cluster.api.get(CUSTOM_RESOURCE, CRD)
        return list(found.spec["names"]["shortNames"])

    await cluster.helm("install", RELEASE, older, *IN, "--create-namespace")
    assert await short_names() == ["before"]
    await cluster.helm("upgrade", RELEASE, CHART, *IN)
    assert await short_names() == ["ngs"]
    await cluster.helm("rollback", RELEASE, "1", *IN)
    assert await short_names() == ["before"]


async def test_what_was_uninstalled_is_installed_again(cluster: Cluster) -> None:
    for _ in range(2):
        await cluster.helm("install", RELEASE, CHART, *IN, "--create-namespace")
        await cluster.helm("uninstall", RELEASE, *IN)


async def test_a_definition_of_another_release_is_taken_over_when_asked(cluster: Cluster) -> None:
    await cluster.helm("install", RELEASE, CHART, *IN, "--create-namespace")
    await cluster.helm("uninstall", RELEASE, *IN)
    other = ("install", "gpus", CHART, "--namespace", "gpus", "--create-namespace")
    assert f'CustomResourceDefinition "{CRD}"' in await cluster.refused(*other)
    await cluster.helm(*other, "--take-ownership")
    assert await cluster.releases() == ["gpus deployed"]


async def test_the_notes_say_when_the_namespace_refuses_the_pods(cluster: Cluster) -> None:
    labels: Any = {"pod-security.kubernetes.io/enforce": "baseline"}
    await cluster.api.create(NAMESPACE_KIND, {"metadata": {"name": NAMESPACE, "labels": labels}})
    await cluster.api.create(NAMESPACE_KIND, {"metadata": {"name": "gpu-operator", "labels": labels}})
    values = "controller: {enabled: true, operatorNamespace: gpu-operator}"
    notes = await cluster.helm("install", RELEASE, CHART, *IN, values=values)
    for name in (NAMESPACE, "gpu-operator"):
        assert f"namespace {name} pod-security.kubernetes.io/enforce=privileged" in notes


OPERATOR_VALUES = (Path(__file__).resolve().parents[2] / "data/documents/operator-values.yaml").read_text(
    encoding="utf-8"
) + "controller: {enabled: true}"


async def _run_jobs(api: KubernetesApi) -> None:
    """Do what the pods of hooks' Jobs would, as their arguments say; until cancelled."""
    jobs: asyncio.Queue[Any] = asyncio.Queue()
    copy = Informer(api, JOB, SystemClock())
    copy.subscribe(lambda change: jobs.put_nowait(change.after) if change.before is None else None)
    async with following(copy):
        while True:
            job = await jobs.get()
            [container] = job.spec.template["spec"]["containers"]
            options = controller_options_in_a_pod(container["args"], {"NAMESPACE": NAMESPACE})
            await run_controller(options, api=api, clock=SystemClock())
            now = timestamp(SystemClock().now())
            conditions: Any = [
                {"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
                for kind in ("SuccessCriteriaMet", "Complete")
            ]
            ended = {"conditions": conditions, "succeeded": 1, "startTime": now, "completionTime": now}
            await api.patch(
                JOB, job.metadata.name, {"status": ended}, namespace=NAMESPACE, subresource="status"
            )


async def test_a_values_file_of_nvidias_operator_from_installation_to_the_end(cluster: Cluster) -> None:
    api = cluster.api
    jobs = asyncio.create_task(_run_jobs(api))
    notes = await cluster.helm(
        *("install", RELEASE, CHART, *IN, "--create-namespace"),
        values=f"{OPERATOR_VALUES}\nnfd: {{enabled: true}}",
    )
    assert "nfd.enabled: install node feature discovery by its own chart" in notes
    policy = await api.get(CLUSTER_POLICY, "cluster-policy")
    assert policy.spec["devicePlugin"]["config"] == {"name": "time-slicing-config", "default": "any"}

    older: Any = {"metadata": {"annotations": {"tonnage.dev/definition": "0"}}}
    await api.patch(CUSTOM_RESOURCE, "clusterpolicies.nvidia.com", older)
    await cluster.helm(
        *("upgrade", RELEASE, CHART, *IN, "--timeout", "60s"),
        values=OPERATOR_VALUES.replace("mixed", "single"),
    )
    policy = await api.get(CLUSTER_POLICY, "cluster-policy")
    assert policy.spec["mig"] == {"strategy": "single"}
    definition = await api.get(CUSTOM_RESOURCE, "clusterpolicies.nvidia.com")
    assert definition.metadata.annotations["tonnage.dev/definition"] == "1"

    labels = {"nvidia.com/gpu.present": "true", "nvidia.com/gpu.deploy.dcgm": "false"}
    noted = {"tonnage.dev/operator-labels": "gpu.present,gpu.deploy.dcgm"}
    body: Any = {"metadata": {"name": "gpu-0", "labels": labels, "annotations": noted}}
    await api.create(NODE, body)
    spec: Any = {section: {} for section in (*policy.spec,)}
    await api.create(CLUSTER_POLICY, {"metadata": {"name": "by-hand"}, "spec": spec})
    await cluster.helm("uninstall", RELEASE, *IN, "--timeout", "60s")
    node = (await api.get(NODE, "gpu-0")).metadata
    assert (node.labels, node.annotations) == ({"nvidia.com/gpu.deploy.dcgm": "false"}, {})
    assert [policy.metadata.name for policy in (await api.list(CLUSTER_POLICY)).items] == ["by-hand"]
    left = [*(await api.list(JOB)).items, *(await api.list(SERVICE_ACCOUNT, namespace=NAMESPACE)).items]
    assert not [found.metadata.name for found in left if "tonnage" in found.metadata.name]
    assert not jobs.done(), jobs
    jobs.cancel()


def _nvidias_chart(folder: Path) -> Path:
    """A chart that has definition and policy as NVIDIA's has them, and nothing else of it."""
    for name in ("crds", "templates"):
        (folder / name).mkdir(parents=True)
    (folder / "Chart.yaml").write_text("apiVersion: v2\nname: gpu-operator\nversion: 26.7.0\n")
    (folder / "crds" / "policies.yaml").write_text(json.dumps(nvidia_definition("clusterpolicies")))
    shutil.copy(Path(__file__).parents[2] / "data/cluster-policy-26.7.yaml", folder / "templates")
    return folder


async def test_the_definitions_of_nvidias_chart_stay_as_they_are(cluster: Cluster, tmp_path: Path) -> None:
    """The policy of NVIDIA's chart, and its definition, which Tonnage's release does not take over."""
    chart = _nvidias_chart(tmp_path / "nvidia")
    await cluster.helm("install", "gpu-operator", chart, "--namespace", "gpu-operator", "--create-namespace")
    before = await cluster.api.get(CUSTOM_RESOURCE, POLICIES)
    on = ("--set", "controller.enabled=true")
    await cluster.helm("install", RELEASE, CHART, *IN, "--create-namespace", *on)
    performer = Performer(ActionPorts(api=cluster.api))
    await upgrade_definitions(cluster.api, performer)  # what the Job before an upgrade does
    await cluster.helm("upgrade", RELEASE, CHART, *IN, "--reuse-values", "--no-hooks")
    await cluster.helm("uninstall", RELEASE, *IN, "--no-hooks")
    after = await cluster.api.get(CUSTOM_RESOURCE, POLICIES)
    assert (after.metadata.uid, after.spec) == (before.metadata.uid, before.spec)
    [policy] = (await cluster.api.list(CLUSTER_POLICY)).items
    await cluster.helm("uninstall", "gpu-operator", "--namespace", "gpu-operator")
    assert not (await cluster.api.list(CLUSTER_POLICY)).items, f"{policy.metadata.name} goes with its release"
    assert (await cluster.api.get(CUSTOM_RESOURCE, POLICIES)).metadata.uid == before.metadata.uid
