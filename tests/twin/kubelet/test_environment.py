"""What containers find in their environment, and of what they only hear that it is not there."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from support.api_stores import new_store
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.twin.kubelet.containers.environment import ConfigurationError, environment_of
from tonnage.wire import kinds
from tonnage.wire.objects import Pod

Entry = dict[str, Any]


@pytest.fixture
async def api() -> KubernetesApi:
    api = ApiServer(VirtualClock(start=datetime(2026, 1, 1, tzinfo=UTC)), store=new_store()).local()
    data: Any = {"user": "YWRh", "token": "c2VjcmV0"}
    await api.create(kinds.SECRET, {"metadata": {"name": "keys"}, "data": data}, namespace="default")
    settings: Any = {"metadata": {"name": "settings"}, "data": {"mode": "fast"}}
    await api.create(kinds.CONFIG_MAP, settings, namespace="default")
    return api


async def own_variables(api: KubernetesApi, **container: Any) -> dict[str, str]:
    body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default", "uid": "uid-1"},
        "spec": {"containers": [{"name": "main", "image": "busybox", **container}]},
    }
    pod = msgspec.convert(body, Pod)
    return await environment_of(
        pod,
        pod.spec.containers[0],
        pod_ip="10.244.0.2",
        host_ip="10.0.0.1",
        api=api,
    )


def filed(path: str, key: str) -> Entry:
    reference = {"volumeName": "work", "path": path, "key": key}
    return {"name": "VALUE", "valueFrom": {"fileKeyRef": reference}}


def taken(source: str, name: str, key: str, **rest: object) -> Entry:
    return {"name": "VALUE", "valueFrom": {source: {"name": name, "key": key, **rest}}}


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ({"name": "VALUE", "value": "$(HOSTNAME)"}, {"VALUE": "$(HOSTNAME)"}),
        (taken("secretKeyRef", "keys", "user"), {"VALUE": "ada"}),
        (taken("configMapKeyRef", "settings", "mode"), {"VALUE": "fast"}),
        (taken("secretKeyRef", "none", "user", optional=True), {}),
        (taken("secretKeyRef", "keys", "none", optional=True), {}),
        (taken("configMapKeyRef", "settings", "none", optional=True), {}),
    ],
    ids=[
        "what the runtime adds is not known to references",
        "a Secret's key, decoded",
        "a ConfigMap's key",
        "a Secret that may be absent leaves no variable",
        "a Secret's key that may be absent leaves no variable",
        "a ConfigMap's key that may be absent leaves no variable",
    ],
)
async def test_a_variable_has_the_value_that_it_names(
    api: KubernetesApi, entry: Entry, value: dict[str, str]
) -> None:
    assert await own_variables(api, env=[entry]) == value


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        (filed("a/env", "MODE"), "the twin takes no variables out of files (fileKeyRef)"),
        (taken("secretKeyRef", "none", "user"), 'secret "none" not found'),
        (taken("secretKeyRef", "keys", "none"), "couldn't find key none in Secret default/keys"),
        (
            taken("configMapKeyRef", "settings", "none"),
            "couldn't find key none in ConfigMap default/settings",
        ),
    ],
    ids=[
        "a file's line",
        "no such Secret",
        "no such key of a Secret",
        "no such key of a ConfigMap",
    ],
)
async def test_what_is_not_there_is_named(api: KubernetesApi, entry: Entry, reason: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        await own_variables(api, env=[entry])
    assert str(refused.value) == reason


async def test_a_whole_secret_comes_with_a_prefix_and_is_overridden_by_the_pod(api: KubernetesApi) -> None:
    sources = [
        {"prefix": "DB_", "secretRef": {"name": "keys"}},
        {"secretRef": {"name": "none", "optional": True}},
    ]
    found = await own_variables(api, envFrom=sources, env=[{"name": "DB_user", "value": "eve"}])
    assert found == {"DB_user": "eve", "DB_token": "secret"}


async def test_a_missing_secret_keeps_everything_of_it_away(api: KubernetesApi) -> None:
    with pytest.raises(ConfigurationError, match='secret "none" not found'):
        await own_variables(api, envFrom=[{"secretRef": {"name": "none"}}])
