"""The webhook on the twin's API server: over TLS by the certificate that the controller keeps."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest

from controller.test_operator import OPTIONS, Bench, bench
from support.api_stores import new_store
from support.deadlines import LIMIT_S
from tonnage.adapters.certificates import ServingCertificates
from tonnage.adapters.clock import SystemClock
from tonnage.adapters.http.address import Address, listen
from tonnage.cli.controller import judge_for
from tonnage.controller.main import ControllerHost, run_controller
from tonnage.controller.options import ControllerOptions, WebhookOptions
from tonnage.decide.cluster.operate.webhook_certificate import RENEWED_BEFORE, SETTLED_S
from tonnage.documents.node.gpu_status import node_gpu_status_crd
from tonnage.model.catalog.nvidia_kinds import nvidia_definition
from tonnage.model.errors import ApiError
from tonnage.ports.kubernetes import KubernetesApi, PatchType
from tonnage.twin.apiserver.server import ApiServer
from tonnage.wire.kinds import (
    CUSTOM_RESOURCE,
    DEVICE_CLASS,
    ENDPOINTS,
    LEASE,
    NAMESPACE,
    RESOURCE_CLAIM,
    SECRET,
    SERVICE,
    VALIDATING_WEBHOOKS,
)

__all__ = ["bench"]

SPACE = "tonnage-system"
HOST = f"hook.{SPACE}.svc"
NAMES = WebhookOptions("", "hook-tls", "hook")


def options(identity: str = "a", *, names: WebhookOptions = NAMES) -> ControllerOptions:
    return ControllerOptions(
        namespace=SPACE, operator_namespace="gpu-operator", identity=identity, webhook=names
    )


def configuration(policy: str = "Fail") -> Any:
    rule = {
        "apiGroups": ["resource.k8s.io"],
        "apiVersions": ["v1", "v1beta2", "v1beta1"],
        "operations": ["CREATE", "UPDATE"],
        "resources": ["resourceclaims", "resourceclaimtemplates", "deviceclasses"],
    }
    service = {"namespace": SPACE, "name": "hook", "path": "/validate-claim-configs"}
    webhook = {
        "name": "claim-configs.tonnage.dev",
        "clientConfig": {"service": service},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": policy,
        "rules": [rule],
    }
    return {"metadata": {"name": "hook"}, "webhooks": [webhook]}


async def install(api: KubernetesApi, port: int) -> None:
    """What the chart makes, and where the Service leads."""
    await api.create(SECRET, {"metadata": {"name": "hook-tls"}}, namespace=SPACE)
    body: Any = {"metadata": {"name": "hook"}, "spec": {"ports": [{"port": 443}]}}
    await api.create(SERVICE, body, namespace=SPACE)
    subsets = [{"addresses": [{"ip": "127.0.0.1"}], "ports": [{"port": port}]}]
    await api.create(ENDPOINTS, {"metadata": {"name": "hook"}, "subsets": subsets}, namespace=SPACE)  # type: ignore[dict-item]
    await api.create(VALIDATING_WEBHOOKS, configuration())


def device_class(name: str, **parameters: Any) -> Any:
    whole = {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "GpuConfig", **parameters}
    config = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": whole}}]
    return {"metadata": {"name": name}, "spec": {"config": config}}


async def secret(api: KubernetesApi) -> dict[str, bytes]:
    held = (await api.get(SECRET, "hook-tls", SPACE)).data
    return {name: base64.b64decode(value) for name, value in held.items()}


async def trusted(api: KubernetesApi) -> bytes:
    [webhook] = (await api.get(VALIDATING_WEBHOOKS, "hook")).webhooks
    return base64.b64decode(webhook["clientConfig"].get("caBundle", ""))


class Cluster:
    """The twin's API server by the real clock, since TLS looks at it, and controllers that a test starts."""

    def __init__(self) -> None:
        self.clock = SystemClock()
        self.api: KubernetesApi = ApiServer(self.clock, random=Random(7), store=new_store()).local()
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, own: ControllerOptions, listening: socket.socket | None, pages: Any = None) -> None:
        host = ControllerHost(judge=judge_for(own), webhook_at=listening, served_at=pages)
        self.tasks.append(asyncio.create_task(run_controller(own, api=self.api, clock=self.clock, host=host)))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        async with asyncio.timeout(LIMIT_S):
            while not await holds():
                for task in self.tasks:
                    assert not task.done(), task
                await asyncio.sleep(0.02)

    async def serves(self) -> bool:
        """A right configuration passes: somebody answers, and is trusted."""
        try:
            await self.api.create(DEVICE_CLASS, device_class("probe"))
        except ApiError as error:
            if "failed calling webhook" not in error.message:
                raise
            return False
        await self.api.delete(DEVICE_CLASS, "probe")
        return True


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster()
    nvidias = (nvidia_definition(plural) for plural in ("clusterpolicies", "gpuclusters"))
    for crd in (node_gpu_status_crd(), *nvidias):
        await cluster.api.create(CUSTOM_RESOURCE, crd)
    for name in (SPACE, "gpu-operator"):
        await cluster.api.create(NAMESPACE, {"metadata": {"name": name}})
    yield cluster
    for task in cluster.tasks:
        task.cancel()
    await asyncio.gather(*cluster.tasks, return_exceptions=True)


async def test_wrong_configurations_are_refused_in_lints_words(cluster: Cluster) -> None:
    listening = listen(Address("127.0.0.1", 0))
    await install(cluster.api, listening.getsockname()[1])
    cluster.start(options(), listening)
    await cluster.until(cluster.serves)
    with pytest.raises(ApiError) as refused:
        await cluster.api.create(DEVICE_CLASS, device_class("wrong", share=1))
    assert (refused.value.code, refused.value.reason) == (422, "Invalid")
    assert refused.value.message == (
        'admission webhook "claim-configs.tonnage.dev" denied the request: spec.config[0].opaque.parameters:'
        ' the driver gpu.nvidia.com refuses this configuration: unknown field "share":'
        " use sharing if you meant that [claim-config-invalid]; correct it, or remove it"
    )
    spec: Any = {
        "devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}],
            "config": device_class("x", share=1)["spec"]["config"],
        }
    }
    with pytest.raises(ApiError, match=r"spec\.devices\.config\[0\]\.opaque\.parameters: .* \"share\""):
        await cluster.api.create(RESOURCE_CLAIM, {"metadata": {"name": "a"}, "spec": spec}, namespace=SPACE)


async def test_both_replicas_answer_and_one_keeps_the_certificate(cluster: Cluster) -> None:
    sockets = [listen(Address("127.0.0.1", 0)) for _ in range(2)]
    await install(cluster.api, sockets[1].getsockname()[1])  # the API server asks the one that waits
    cluster.start(options("a"), sockets[0])
    await cluster.until(lambda: _is(secret(cluster.api)))
    cluster.start(options("b"), sockets[1])
    await cluster.until(cluster.serves)
    held = await secret(cluster.api)
    assert set(held) == {"ca.crt", "tls.crt", "tls.key"}
    assert await trusted(cluster.api) == held["ca.crt"]
    context = ssl.create_default_context(cadata=held["ca.crt"].decode())
    for port in (each.getsockname()[1] for each in sockets):
        async with asyncio.timeout(LIMIT_S):
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=HOST)
        writer.close()


async def test_a_replica_is_ready_while_an_older_one_without_the_webhook_leads(cluster: Cluster) -> None:
    """Else a Deployment on which the webhook is switched on would wait for ever."""
    listening, pages = listen(Address("127.0.0.1", 0)), listen(Address("127.0.0.1", 0))
    await install(cluster.api, listening.getsockname()[1])
    cluster.start(replace(options("a"), webhook=None), None)
    await cluster.until(lambda: _leads(cluster.api))
    cluster.start(options("b"), listening, pages)
    await cluster.until(lambda: _contains(pages, "/readyz", "\r\n\r\nok"))
    assert not await secret(cluster.api)


async def _leads(api: KubernetesApi) -> bool:
    leases = (await api.list(LEASE, namespace=SPACE)).items
    return any(lease.spec.holder_identity for lease in leases)


async def _is(awaitable: Awaitable[Any]) -> bool:
    return bool(await awaitable)


async def test_the_probe_waits_for_the_certificate_and_metrics_tell_of_reviews(cluster: Cluster) -> None:
    listening, pages = listen(Address("127.0.0.1", 0)), listen(Address("127.0.0.1", 0))
    own = options(names=WebhookOptions("", "hook-tls"))  # somebody else fills the Secret
    await install(cluster.api, listening.getsockname()[1])
    cluster.start(own, listening, pages)
    await cluster.until(lambda: _contains(pages, "/readyz", "its Secret has no certificate"))
    issuer = ServingCertificates()
    await _fill(cluster.api, b"no certificate", b"no key")
    await asyncio.sleep(0.1)
    assert await _contains(pages, "/readyz", "its Secret has no certificate")
    ca, pair = issuer.issue(HOST, datetime.now(UTC), timedelta(days=1))
    await _fill(cluster.api, pair.certificate_pem, pair.key_pem)
    patch = configuration()
    patch["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(ca).decode()
    patch = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        **patch,
    }
    await cluster.api.patch(VALIDATING_WEBHOOKS, "hook", patch, patch_type=PatchType.MERGE)
    await cluster.until(cluster.serves)
    with pytest.raises(ApiError, match="denied"):
        await cluster.api.create(DEVICE_CLASS, device_class("wrong", share=1))
    assert await trusted(cluster.api) == ca, "the controller writes none"
    assert await _contains(pages, "/readyz", "\r\n\r\nok")
    page = await _page(pages, "/metrics")
    assert 'tonnage_controller_webhook_reviews_total{kind="DeviceClass",outcome="refused"} 1' in page
    end = next(
        line for line in page.splitlines() if line.startswith("tonnage_controller_webhook_certificate")
    )
    facts = issuer.facts(pair.certificate_pem)
    assert facts is not None
    assert float(end.split()[1]) == facts.ends.timestamp()


async def _fill(api: KubernetesApi, certificate: bytes, key: bytes) -> None:
    pair = {"tls.crt": certificate, "tls.key": key}
    data: Any = {name: base64.b64encode(value).decode() for name, value in pair.items()}
    await api.patch(SECRET, "hook-tls", {"data": data}, namespace=SPACE)


async def _page(listening: socket.socket, path: str) -> str:
    reader, writer = await asyncio.open_connection(*listening.getsockname()[:2])
    writer.write(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
    async with asyncio.timeout(LIMIT_S):
        page = await reader.read()
    writer.close()
    return page.decode()


async def _contains(listening: socket.socket, path: str, words: str) -> bool:
    return words in await _page(listening, path)


async def test_a_certificate_is_renewed_and_the_next_is_trusted_before_it_is_served(bench: Bench) -> None:
    """By a clock of its own, so nobody calls: only what is stored is looked at."""
    listening = listen(Address("127.0.0.1", 0))
    await install(bench.api, listening.getsockname()[1])
    late = RENEWED_BEFORE - timedelta(hours=1)
    ca, pair = ServingCertificates().issue(HOST, bench.clock.now(), late)
    first = {"ca.crt": ca, "tls.crt": pair.certificate_pem, "tls.key": pair.key_pem}
    data: Any = {name: base64.b64encode(value).decode() for name, value in first.items()}
    await bench.api.patch(SECRET, "hook-tls", {"data": data}, namespace=SPACE)
    bench.start(options(), host=ControllerHost(judge=judge_for(options()), webhook_at=listening))
    await bench.clock.advance(5)
    between = await secret(bench.api)
    assert between["tls.crt"] == first["tls.crt"]
    assert between["ca.crt"].endswith(ca)
    assert between["ca.crt"] != ca
    assert await trusted(bench.api) == between["ca.crt"]
    await bench.clock.advance(SETTLED_S + 2)
    second = await secret(bench.api)
    assert second["tls.crt"] == between["next.crt"]
    assert second["ca.crt"] == between["ca.crt"] == await trusted(bench.api)
    await bench.clock.advance(5)
    assert await secret(bench.api) == second


async def test_what_others_write_in_the_configuration_stays_and_trust_comes_back(bench: Bench) -> None:
    listening = listen(Address("127.0.0.1", 0))
    await install(bench.api, listening.getsockname()[1])
    bench.start(options(), host=ControllerHost(judge=judge_for(options()), webhook_at=listening))
    await bench.clock.advance(5)
    await bench.api.delete(VALIDATING_WEBHOOKS, "hook")
    await bench.clock.advance(5)
    await bench.api.create(VALIDATING_WEBHOOKS, configuration("Ignore"))
    await bench.clock.advance(5)
    assert await trusted(bench.api) == (await secret(bench.api))["ca.crt"]
    [webhook] = (await bench.api.get(VALIDATING_WEBHOOKS, "hook")).webhooks
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["clientConfig"]["service"]["path"] == "/validate-claim-configs"


async def test_nothing_is_served_where_nobody_asked_for_it(bench: Bench) -> None:
    assert judge_for(OPTIONS) is None
    await install(bench.api, 1)
    bench.start()
    await bench.clock.advance(5)
    assert not await secret(bench.api)
    assert json.dumps(await _plain_configuration(bench.api)).count("caBundle") == 0


async def _plain_configuration(api: KubernetesApi) -> list[dict[str, Any]]:
    return (await api.get(VALIDATING_WEBHOOKS, "hook")).webhooks


def test_the_key_is_on_no_disk(tmp_path: Path) -> None:
    from tonnage.adapters.http.pair_access import PairAccess
    from tonnage.model.errors import ConfigError
    from tonnage.model.key_pair import KeyPair

    _, pair = ServingCertificates().issue(HOST, datetime.now(UTC), timedelta(days=1))
    assert PairAccess(pair).context is not None
    _, other = ServingCertificates().issue(HOST, datetime.now(UTC), timedelta(days=1))
    for wrong in (KeyPair(pair.certificate_pem, other.key_pem), KeyPair(b"x", b"y")):
        with pytest.raises(ConfigError, match="certificate and key cannot be used"):
            PairAccess(wrong)
    assert not list(tmp_path.iterdir())
