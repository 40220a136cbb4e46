"""The pod's own service account: where it is, that a renewed token is used, what an agent counts with it."""

from __future__ import annotations

import json
import pwd
from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest

from tonnage.adapters.certificates import Authority
from tonnage.adapters.kubernetes.http import HttpKubernetes
from tonnage.adapters.kubernetes.kubeconfig import target
from tonnage.adapters.kubernetes.request_info import request_info
from tonnage.adapters.kubernetes.transport import open_client
from tonnage.cli.cluster import _embedded_kubeconfig
from tonnage.model.errors import ApiError, ClusterError, ConfigError
from tonnage.twin.apiserver.server import ApiServer, Endpoint
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import NAMESPACE, NODE

Answers = Counter[tuple[str, str, str]]


@pytest.fixture
async def endpoint() -> AsyncIterator[Endpoint]:
    server = ApiServer(VirtualClock())
    yield await server.start(Authority.generate(datetime.now(UTC)))
    await server.stop()


class Mount:
    """A service account as kubelet mounts it: links into a folder that is exchanged as a whole."""

    def __init__(self, folder: Path, endpoint: Endpoint) -> None:
        self.folder = folder
        self.generation = 0
        self.files = {
            "token": endpoint.token,
            "ca.crt": endpoint.ca_pem.decode(),
            "namespace": "tonnage-system",
        }
        folder.mkdir()
        self.write()
        for name in self.files:
            (folder / name).symlink_to(f"..data/{name}")

    def write(self) -> None:
        self.generation += 1
        fresh = self.folder / f"..{self.generation}"
        fresh.mkdir()
        for name, text in self.files.items():
            (fresh / name).write_text(text)
        link = self.folder / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(self.folder / "..data")

    def renew(self, token: str) -> None:
        self.files["token"] = token
        self.write()


@pytest.fixture
def mount(tmp_path: Path, endpoint: Endpoint) -> Mount:
    return Mount(tmp_path / "serviceaccount", endpoint)


@pytest.fixture
def environ(endpoint: Endpoint) -> dict[str, str]:
    """As kubelet sets it, in a container whose user has no home."""
    parts = urlsplit(endpoint.url)
    return {
        "KUBERNETES_SERVICE_HOST": str(parts.hostname),
        "KUBERNETES_SERVICE_PORT": str(parts.port),
        "HOME": "/nonexistent",
    }


@pytest.fixture
def answers() -> Answers:
    return Counter()


@pytest.fixture
async def api(mount: Mount, environ: dict[str, str], answers: Answers) -> AsyncIterator[HttpKubernetes]:
    chosen = target(None, None, environ, account=mount.folder)

    def count(verb: str, resource: str, code: str) -> None:
        answers[verb, resource, code] += 1

    async with open_client(chosen, "test", count) as client:
        yield HttpKubernetes(client, namespace=chosen.namespace)


async def test_the_pods_account_is_used_where_no_kubeconfig_is(api: HttpKubernetes) -> None:
    assert api.namespace == "tonnage-system"
    assert [item.metadata.name for item in (await api.list(NAMESPACE)).items]


async def test_a_kubeconfig_comes_before_the_account(
    tmp_path: Path, mount: Mount, environ: dict[str, str]
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(
        json.dumps(
            {
                "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
                "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
                "users": [],
                "current-context": "a",
            }
        )
    )
    chosen = target(None, None, {**environ, "KUBECONFIG": str(file)}, account=mount.folder)
    assert chosen.cluster.server == "https://127.0.0.1:1"


async def test_a_renewed_token_is_used_at_once_and_an_old_one_no_more(
    api: HttpKubernetes, mount: Mount, endpoint: Endpoint
) -> None:
    await api.list(NODE)
    mount.renew("another")
    with pytest.raises(ApiError, match="Unauthorized"):
        await api.list(NODE)
    mount.renew(endpoint.token + "\n")
    await api.list(NODE)


async def test_a_token_that_is_away_for_a_moment_is_the_one_before(api: HttpKubernetes, mount: Mount) -> None:
    await api.list(NODE)
    (mount.folder / "token").unlink()
    await api.list(NODE)


async def test_a_token_that_never_was_there_is_an_error_of_ours(api: HttpKubernetes, mount: Mount) -> None:
    (mount.folder / "token").unlink()
    with pytest.raises(ClusterError, match="the token cannot be read"):
        await api.list(NODE)


@pytest.mark.parametrize("gone", ["token", "ca.crt", "namespace"])
def test_a_pod_without_an_account_is_told_what_to_set(
    mount: Mount, environ: dict[str, str], gone: str
) -> None:
    (mount.folder / gone).unlink()
    with pytest.raises(ConfigError, match="automountServiceAccountToken: true"):
        target(None, None, environ, account=mount.folder)


def test_a_pod_without_the_servers_port_is_told(mount: Mount, environ: dict[str, str]) -> None:
    del environ["KUBERNETES_SERVICE_PORT"]
    with pytest.raises(ConfigError, match="'KUBERNETES_SERVICE_PORT' is not set"):
        target(None, None, environ, account=mount.folder)


def test_an_ipv6_server_stands_in_brackets(mount: Mount, environ: dict[str, str]) -> None:
    environ |= {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    assert target(None, None, environ, account=mount.folder).cluster.server == "https://[fd00::1]:443"


async def test_every_answer_is_reported_in_the_words_of_rbac(api: HttpKubernetes, answers: Answers) -> None:
    version = (await api.list(NAMESPACE, field_selector="metadata.name=made")).resource_version
    with pytest.raises(ApiError):
        await api.get(NODE, "absent")
    await api.create(NAMESPACE, {"metadata": {"name": "made"}})
    async for _ in api.watch(NAMESPACE, resource_version=version):
        break
    await api.get_raw("/version")
    assert answers == {
        ("list", "namespaces", "200"): 1,
        ("get", "nodes", "404"): 1,
        ("create", "namespaces", "201"): 1,
        ("watch", "namespaces", "200"): 1,
        ("get", "", "200"): 1,
    }


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        pytest.param("GET", "/api/v1/namespaces", ("list", "namespaces"), id="namespaces"),
        pytest.param("GET", "/api/v1/namespaces/a", ("get", "namespaces"), id="a namespace"),
        pytest.param("PUT", "/api/v1/namespaces/a/finalize", ("update", "namespaces/finalize"), id="its end"),
        pytest.param("GET", "/api/v1/namespaces/a/pods", ("list", "pods"), id="pods of a namespace"),
        pytest.param("DELETE", "/api/v1/namespaces/a/pods/b", ("delete", "pods"), id="a pod"),
        pytest.param("DELETE", "/api/v1/namespaces/a/pods", ("deletecollection", "pods"), id="all pods"),
        pytest.param("POST", "/api/v1/namespaces/a/pods/b/eviction", ("create", "pods/eviction"), id="sub"),
        pytest.param("PATCH", "/apis/g/v1/nodes/b/status", ("patch", "nodes/status"), id="of a group"),
        pytest.param("GET", "/apis/g/v1", ("get", ""), id="discovery of a group"),
        pytest.param("GET", "/api", ("get", ""), id="discovery"),
        pytest.param("GET", "/", ("get", ""), id="the root"),
    ],
)
def test_a_request_has_a_verb_and_a_resource(method: str, path: str, expected: tuple[str, str]) -> None:
    assert request_info(method, path) == expected


def test_a_user_without_a_home_is_no_reason_to_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers that no /etc/passwd knows are usual in containers."""
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr(pwd, "getpwuid", dict[int, object]().__getitem__)
    assert _embedded_kubeconfig({}) is None
    with pytest.raises(ClusterError, match="no cluster is configured"):
        target(None, None, {})


def test_a_token_is_in_no_text_of_the_authentication(mount: Mount, environ: dict[str, str]) -> None:
    chosen = target(None, None, environ, account=mount.folder)
    assert mount.files["token"] not in repr(chosen)
    assert isinstance(open_client(chosen, "test").auth, httpx2.Auth)
