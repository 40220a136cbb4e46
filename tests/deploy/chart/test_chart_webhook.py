"""The webhook as the chart installs it: its objects, its rights, and kubectl told what is wrong."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from support.api_stores import new_store
from support.audit import requests_of
from support.deadlines import LIMIT_S
from support.helm import NAMESPACE, Helm, Manifest, Rendered, assert_valid
from support.rights import granted
from tonnage.adapters.certificates import Authority
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.http.address import Address, listen
from tonnage.cli.controller import controller_options_in_a_pod, judge_for
from tonnage.cli.locations.kubectl import kubectl_binary
from tonnage.controller.main import ControllerHost, run_controller
from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.audit import AuditLog
from tonnage.twin.apiserver.authentication.users import account_user
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire import kinds as k

ON = "controller: {enabled: true, webhook: {enabled: true}}"
FOREIGN = """
controller:
  enabled: true
  webhook:
    enabled: true
    secret: webhook-cert
    annotations: {cert-manager.io/inject-ca-from: tonnage-system/webhook}
    failurePolicy: Fail
    timeoutSeconds: 10
    excludedNamespaces: []
"""
NAME = "tonnage-controller-webhook"
KINDS = {
    kind.kind: kind
    for kind in (
        *(k.ROLE, k.ROLE_BINDING, k.CLUSTER_ROLE, k.CLUSTER_ROLE_BINDING),
        *(k.SERVICE, k.SECRET, k.VALIDATING_WEBHOOKS, k.SERVICE_ACCOUNT),
    )
}


def of_controller(rendered: Rendered) -> Manifest:
    [deployment] = [d for d in rendered.of("Deployment") if d["metadata"]["name"] == "tonnage-controller"]
    container: Manifest = deployment["spec"]["template"]["spec"]["containers"][0]
    return container


@pytest.mark.parametrize("values", ["", "controller: {enabled: true}"])
def test_nothing_of_it_is_made_unasked(helm4: Helm, values: str) -> None:
    rendered = helm4.rendered(values)
    assert not rendered.of("ValidatingWebhookConfiguration")
    assert not rendered.of("Secret")
    assert "webhook" not in json.dumps(rendered.of("Deployment"))
    assert not [right for right in granted(rendered) if right.resource == "secrets"]


@pytest.mark.parametrize("values", [ON, FOREIGN], ids=["own certificate", "another's"])
@pytest.mark.sampled("the chart's objects against upstream's schemas")
@pytest.mark.parametrize("version", ["1.31", "1.35", "1.37"])
def test_every_object_is_valid(helm4: Helm, values: str, version: str) -> None:
    rendered = helm4.rendered(values)
    assert rendered.of("ValidatingWebhookConfiguration")
    for found in rendered:
        assert_valid(found, version)


def test_the_service_leads_to_the_controllers_port(helm4: Helm) -> None:
    rendered = helm4.rendered("controller: {enabled: true, webhook: {enabled: true, port: 9999}}")
    [service] = [s for s in rendered.of("Service") if s["metadata"]["name"] == NAME]
    container = of_controller(rendered)
    [port] = [port for port in container["ports"] if port["name"] == "webhook"]
    assert service["spec"]["ports"] == [{"name": "webhook", "port": 443, "targetPort": "webhook"}]
    assert port["containerPort"] == 9999
    options = controller_options_in_a_pod(container["args"], {"POD_NAME": "a", "NAMESPACE": NAMESPACE})
    assert options.webhook is not None
    assert options.webhook.address == ":9999"
    assert (options.webhook.secret, options.webhook.configuration) == (NAME, NAME)
    [deployment] = [d for d in rendered.of("Deployment") if d["metadata"]["name"] == "tonnage-controller"]
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_with_a_secret_of_another_nothing_is_written(helm4: Helm) -> None:
    rendered = helm4.rendered(FOREIGN)
    assert not rendered.of("Secret")
    options = controller_options_in_a_pod(
        of_controller(rendered)["args"], {"POD_NAME": "a", "NAMESPACE": NAMESPACE}
    )
    assert options.webhook is not None
    assert (options.webhook.secret, options.webhook.configuration) == ("webhook-cert", "")
    rights = granted(rendered)
    assert {(r.verb, r.name) for r in rights if r.resource == "secrets"} == {
        ("list", "webhook-cert"),
        ("watch", "webhook-cert"),
    }
    assert not [right for right in rights if right.resource == "validatingwebhookconfigurations"]
    found = rendered.one("ValidatingWebhookConfiguration")
    [webhook] = found["webhooks"]
    assert found["metadata"]["annotations"] == {"cert-manager.io/inject-ca-from": "tonnage-system/webhook"}
    assert (webhook["failurePolicy"], webhook["timeoutSeconds"]) == ("Fail", 10)
    assert "namespaceSelector" not in webhook


class Cluster:
    """The twin with the chart's objects, the controller as its account, and kubectl."""

    def __init__(self, folder: Path, rendered: Rendered) -> None:
        self.rendered = rendered
        self.folder = folder
        self.clock = SystemClock()
        self.log = AuditLog(folder / "audit.log")
        self.server = ApiServer(self.clock, random=Random(7), store=new_store(), audit=self.log)
        self.api: KubernetesApi = self.server.local()
        self.kubeconfig = folder / "kubeconfig"
        self.account = account_user(NAMESPACE, "tonnage-controller")
        self.controller: asyncio.Task[None] | None = None

    async def start(self) -> None:
        nvidias = (nvidia_definition(plural) for plural in ("clusterpolicies", "gpuclusters"))
        for crd in (node_gpu_status_crd(), *nvidias):
            await self.api.create(k.CUSTOM_RESOURCE, crd)
        for name in (NAMESPACE,):
            await self.api.create(k.NAMESPACE, {"metadata": {"name": name}})
        listening = listen(Address("127.0.0.1", 0))
        for obj in self.rendered.without_hooks():
            if obj["kind"] in KINDS:
                own = obj["metadata"].get("namespace")
                await self.api.create(KINDS[obj["kind"]], obj, namespace=own)
        ports = [{"name": "webhook", "port": listening.getsockname()[1]}]
        subsets: Any = [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]
        body: Any = {"metadata": {"name": NAME}, "subsets": subsets}
        await self.api.create(k.ENDPOINTS, body, namespace=NAMESPACE)
        environment = {"POD_NAME": "a", "NAMESPACE": NAMESPACE}
        options = controller_options_in_a_pod(of_controller(self.rendered)["args"], environment)
        host = ControllerHost(judge=judge_for(options), webhook_at=listening)
        assert options.webhook is not None
        options = replace(options, metrics_address="", webhook=replace(options.webhook, address=""))
        api = self.server.local("tonnage-controller", self.account)
        self.controller = asyncio.create_task(run_controller(options, api=api, clock=self.clock, host=host))
        endpoint = await self.server.start(Authority.generate(self.clock.now()))
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(kubeconfig_text(endpoint))

    async def kubectl(self, *words: str, given: Any = None) -> subprocess.CompletedProcess[str]:
        command = [str(kubectl_binary()), "--kubeconfig", str(self.kubeconfig), *words]
        return await asyncio.to_thread(
            lambda: subprocess.run(
                command,
                input=None if given is None else json.dumps(given),
                capture_output=True,
                text=True,
                check=False,
                timeout=LIMIT_S,
                env={"HOME": str(self.folder)},
            )
        )

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not await holds():
                assert self.controller is not None
                assert not self.controller.done(), self.controller
                await asyncio.sleep(0.05)

    async def answers(self) -> bool:
        done = await self.kubectl(
            "create", "--dry-run=server", "-f", "-", given=device_class("probe", share=1)
        )
        return "denied" in done.stderr or "is invalid" in done.stderr


@pytest.fixture
async def cluster(helm4: Helm, tmp_path: Path) -> AsyncIterator[Cluster]:
    cluster = Cluster(tmp_path, helm4.rendered(ON))
    await cluster.start()
    yield cluster
    assert cluster.controller is not None
    cluster.controller.cancel()
    await asyncio.gather(cluster.controller, return_exceptions=True)
    await cluster.server.stop()


def entry(driver: str = "gpu.nvidia.com", **more: Any) -> Any:
    whole = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", **more}
    return {"opaque": {"driver": driver, "parameters": whole}}


def device_class(name: str, driver: str = "gpu.nvidia.com", **more: Any) -> Any:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"config": [entry(driver, **more)]},
    }


def template(name: str, **more: Any) -> Any:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name},
        "spec": {"spec": {"devices": {"requests": [request], "config": [entry(**more)]}}},
    }


async def test_kubectl_is_told_what_is_wrong_and_nothing_else_is_kept_from_the_cluster(
    cluster: Cluster,
) -> None:
    await cluster.until(cluster.answers)
    refused = await cluster.kubectl("create", "-f", "-", given=template("wrong", share=1))
    assert refused.returncode == 1
    assert refused.stderr == (
        'The ResourceClaimTemplate "wrong" is invalid: spec.spec.devices.config[0].opaque.parameters: '
        'the driver gpu.nvidia.com refuses this configuration: unknown field "share": '
        "use sharing if you meant that [claim-config-invalid]; correct it, or remove it\n"
    )
    for right in (
        template("right"),
        device_class("right", sharing={"strategy": "TimeSlicing"}),
        device_class("other", driver="gpu.example.com", share=1),
    ):
        done = await cluster.kubectl("create", "-f", "-", given=right)
        assert done.returncode == 0, done.stderr
    done = await cluster.kubectl("create", "-n", "kube-system", "-f", "-", given=template("wrong", share=1))
    assert done.returncode == 0, "its namespace is left out"
    changed = await cluster.kubectl("replace", "-f", "-", given=device_class("right", share=1))
    assert 'unknown field "share"' in changed.stderr
    labelled = await cluster.kubectl("label", "deviceclass", "right", "team=a")
    assert labelled.returncode == 0, labelled.stderr


async def test_the_account_asks_for_what_it_may_and_no_more(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.until(cluster.answers)
    rights = granted(cluster.rendered.without_hooks())
    asked = [
        (right, reason)
        for right, reason in requests_of(tmp_path / "audit.log", cluster.account.name)
        if right.resource in ("secrets", "validatingwebhookconfigurations")
    ]
    assert [right for right, reason in asked if not reason.startswith("RBAC: allowed by")] == []
    own = {r for r in rights if r.resource in ("secrets", "validatingwebhookconfigurations")}
    assert {r.name for r in own} == {NAME}
    # A program in the server's process reads beside the log.
    assert {right for right, _ in asked} == {right for right in own if right.verb == "patch"}
    assert {right.verb for right in own} == {"list", "watch", "patch"}


async def test_while_nobody_answers_objects_are_stored_unjudged(cluster: Cluster) -> None:
    await cluster.until(cluster.answers)
    assert cluster.controller is not None
    cluster.controller.cancel()
    await asyncio.gather(cluster.controller, return_exceptions=True)
    done = await cluster.kubectl("create", "-f", "-", given=template("wrong", share=1))
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("asked", [True, False])
def test_nobody_reaches_more_of_the_controller_than_metrics_and_webhook(helm4: Helm, asked: bool) -> None:
    sources = "{metricsFrom: [{podSelector: {}}], webhookFrom: [{ipBlock: {cidr: 192.0.2.10/32}}]}"
    rendered = helm4.rendered(f"{ON if asked else 'controller: {enabled: true}'}\nnetworkPolicy: {sources}")
    [policy] = [p for p in rendered.of("NetworkPolicy") if p["metadata"]["name"] == "tonnage-controller"]
    [pods] = [d for d in rendered.of("Deployment") if d["metadata"]["name"] == "tonnage-controller"]
    metrics = {"ports": [{"protocol": "TCP", "port": "controller"}], "from": [{"podSelector": {}}]}
    webhook = {
        "ports": [{"protocol": "TCP", "port": "webhook"}],
        "from": [{"ipBlock": {"cidr": "192.0.2.10/32"}}],
    }
    assert policy["spec"] == {
        "podSelector": pods["spec"]["selector"],
        "policyTypes": ["Ingress"],
        "ingress": [metrics, webhook] if asked else [metrics],
    }
    off = helm4.rendered(f"{ON}\nnetworkPolicy: {{enabled: false}}")
    assert not off.of("NetworkPolicy")
