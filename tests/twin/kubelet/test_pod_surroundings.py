"""What containers learn of the services around them, of their own name and of what they may use."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from support.api_stores import new_store
from tonnage.model.json import JsonObject
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.twin.kubelet.containers.environment import environment_of
from tonnage.twin.kubelet.containers.service_variables import variables_of
from tonnage.twin.kubelet.hostnames import hostname_of, whole_hostname_of
from tonnage.wire import kinds
from tonnage.wire.objects import Pod

Spec = dict[str, Any]


def pod(**spec: Any) -> Pod:
    whole = {"nodeName": "a100-0", "containers": [{"name": "main", "image": "busybox"}], **spec}
    return msgspec.convert({"metadata": {"name": "web", "namespace": "ml"}, "spec": whole}, Pod)


@pytest.fixture
async def api() -> KubernetesApi:
    api = ApiServer(VirtualClock(start=datetime(2026, 1, 1, tzinfo=UTC)), store=new_store()).local()
    await api.create(kinds.NAMESPACE, {"metadata": {"name": "ml"}})
    ports: list[Any] = [{"port": 80}]
    for name, namespace, address in (("kubernetes", "default", "10.96.0.1"), ("db", "ml", "10.96.0.9")):
        body: JsonObject = {"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": ports}}
        await api.create(kinds.SERVICE, body, namespace=namespace)
    for name, namespace, address in (("other", "default", "10.96.0.8"), ("headless", "ml", "None")):
        body = {"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": ports}}
        await api.create(kinds.SERVICE, body, namespace=namespace)
    status: JsonObject = {"allocatable": {"cpu": "3500m", "memory": "8Gi"}}
    await api.create(kinds.NODE, {"metadata": {"name": "a100-0"}, "status": status})
    return api


async def environment(api: KubernetesApi, of: Pod) -> dict[str, str]:
    return await environment_of(
        of,
        of.spec.containers[0],
        pod_ip="10.244.0.2",
        host_ip="10.0.0.1",
        api=api,
    )


@pytest.mark.parametrize(
    ("spec", "told"),
    [({}, ["DB", "KUBERNETES"]), ({"enableServiceLinks": False}, ["KUBERNETES"])],
    ids=["services with addresses of its namespace, and the server", "the server in any case"],
)
async def test_a_container_is_told_of_services(api: KubernetesApi, spec: Spec, told: list[str]) -> None:
    found = await environment(api, pod(**spec))
    assert sorted(name[:-13] for name in found if name.endswith("_SERVICE_HOST")) == told


async def test_own_variables_come_first_and_may_name_the_services(api: KubernetesApi) -> None:
    env = [
        {"name": "URL", "value": "$(DB_SERVICE_HOST):$(DB_SERVICE_PORT)"},
        {"name": "DB_PORT", "value": "own"},
    ]
    found = await environment(api, pod(containers=[{"name": "main", "image": "busybox", "env": env}]))
    assert (found["URL"], found["DB_PORT"]) == ("10.96.0.9:80", "own")


def test_a_service_with_two_ports_has_two_links() -> None:
    ports: list[Any] = [{"port": 53, "protocol": "UDP", "name": "dns-udp"}, {"port": 80}]
    assert dict(variables_of("kube-dns", {"clusterIP": "fd00::a", "ports": ports})) == {
        "KUBE_DNS_SERVICE_HOST": "fd00::a",
        "KUBE_DNS_SERVICE_PORT": "53",
        "KUBE_DNS_SERVICE_PORT_DNS_UDP": "53",
        "KUBE_DNS_PORT": "udp://[fd00::a]:53",
        "KUBE_DNS_PORT_53_UDP": "udp://[fd00::a]:53",
        "KUBE_DNS_PORT_53_UDP_PROTO": "udp",
        "KUBE_DNS_PORT_53_UDP_PORT": "53",
        "KUBE_DNS_PORT_53_UDP_ADDR": "fd00::a",
        "KUBE_DNS_PORT_80_TCP": "tcp://[fd00::a]:80",
        "KUBE_DNS_PORT_80_TCP_PROTO": "tcp",
        "KUBE_DNS_PORT_80_TCP_PORT": "80",
        "KUBE_DNS_PORT_80_TCP_ADDR": "fd00::a",
    }


_RESOURCES: Spec = {"requests": {"cpu": "125m", "memory": "33Mi"}, "limits": {"memory": "64Mi"}}


@pytest.mark.parametrize(
    ("reference", "limits", "value"),
    [
        ({"resource": "limits.memory"}, {}, "67108864"),
        ({"resource": "requests.memory", "divisor": "10Mi"}, {}, "4"),
        ({"resource": "requests.cpu"}, {}, "1"),
        ({"resource": "requests.cpu", "divisor": "1m"}, {}, "125"),
        ({"resource": "limits.cpu", "divisor": "1m"}, {}, "3500"),
        ({"resource": "limits.cpu", "divisor": "1m"}, {"cpu": "2"}, "2000"),
        ({"resource": "requests.memory", "containerName": "side"}, {}, "0"),
    ],
    ids=[
        "a limit in whole units",
        "a request in units of a divisor, rounded up",
        "a part of a CPU is one",
        "thousandths of a CPU",
        "what the node can give where there is no limit",
        "what the pod as a whole may use where its container has no limit",
        "another container's request, which is none",
    ],
)
async def test_amounts_are_told(api: KubernetesApi, reference: Spec, limits: Spec, value: str) -> None:
    env = [{"name": "VALUE", "valueFrom": {"resourceFieldRef": reference}}]
    main = {"name": "main", "image": "busybox", "env": env, "resources": _RESOURCES}
    side = {"name": "side", "image": "busybox"}
    found = await environment(api, pod(containers=[main, side], resources={"limits": limits}))
    assert found["VALUE"] == value


@pytest.mark.parametrize(
    ("spec", "short", "whole"),
    [
        ({}, "web", "web"),
        ({"hostname": "a", "subdomain": "b"}, "a", "a.b.ml.svc.cluster.local"),
        ({"subdomain": "b", "setHostnameAsFQDN": True}, *["web.b.ml.svc.cluster.local"] * 2),
        ({"hostname": "a", "subdomain": "b", "hostnameOverride": "x.y"}, "x.y", "x.y"),
        ({"hostNetwork": True, "hostname": "a"}, "a100-0", "a100-0"),
        ({"hostname": f"{'a' * 62}-b"}, "a" * 62, "a" * 62),
    ],
    ids=[
        "its pod's name",
        "a name and a domain of its own",
        "a domain that belongs to the name",
        "a name over all others",
        "its node's name",
        "a name that is too long",
    ],
)
def test_a_container_has_a_name(spec: Spec, short: str, whole: str) -> None:
    assert (hostname_of(pod(**spec)), whole_hostname_of(pod(**spec))) == (short, whole)
