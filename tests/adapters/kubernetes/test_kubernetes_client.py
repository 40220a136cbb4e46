"""Finding the cluster, getting in, and what is said when that fails."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from support.api_stores import new_store
from tonnage.adapters.certificates import Authority
from tonnage.adapters.kubernetes.answers import decoded, lines
from tonnage.adapters.kubernetes.client import connect
from tonnage.adapters.kubernetes.kubeconfig import target
from tonnage.model.errors import ApiError, ClusterError, ConfigError
from tonnage.twin.apiserver.kubeconfig import kubeconfig_text
from tonnage.twin.apiserver.server import ApiServer, Endpoint
from tonnage.twin.clock import VirtualClock
from tonnage.wire import objects as w
from tonnage.wire.kinds import NAMESPACE


def _config(name: str, server: str = "https://127.0.0.1:1", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": {"server": server, **more}}],
        "users": [{"name": name, "user": {"token": f"token-{name}"}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        "current-context": name,
    }


def _write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def test_an_explicit_file_wins_then_the_environment_then_home(tmp_path: Path) -> None:
    explicit = _write(tmp_path / "explicit", _config("explicit"))
    named = _write(tmp_path / "named", _config("named"))
    _write(tmp_path / ".kube" / "config", _config("home"))
    environ = {"HOME": str(tmp_path), "KUBECONFIG": str(named)}
    assert target(explicit, None, environ).context == "explicit"
    assert target(None, None, environ).context == "named"
    home = target(None, None, {"HOME": str(tmp_path)})
    assert (home.context, home.namespace) == ("home", "ns-home")


def test_several_files_are_merged_and_the_first_to_name_a_thing_wins(tmp_path: Path) -> None:
    first = _write(tmp_path / "one" / "config", {**_config("a"), "current-context": None})
    second = _write(
        tmp_path / "two" / "config",
        {**_config("b", **{"certificate-authority": "ca.pem"}), "clusters": [
            {"name": "a", "cluster": {"server": "https://127.0.0.1:2"}},
            {"name": "b", "cluster": {"server": "https://127.0.0.1:3", "certificate-authority": "ca.pem"}},
        ]},
    )  # fmt: skip
    environ = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "absent"), str(first), str(second)])}
    chosen = target(None, None, environ)
    assert chosen.context == "b", "the first file that has a current context sets it"
    assert chosen.cluster.certificate_authority == str(tmp_path / "two" / "ca.pem")
    assert target(None, "a", environ).cluster.server == "https://127.0.0.1:1"


def _times_ten(number: int) -> str:
    return f"[{','.join([f'*a{number}'] * 10)}]"


_WRONG = [
    pytest.param("a: b: c", "the kubeconfig is not valid YAML", "config:1:5", id="broken YAML has a place"),
    pytest.param("- 1", "the kubeconfig cannot be used", "config", id="a list is no kubeconfig"),
    pytest.param("clusters: [{}]", "the kubeconfig cannot be used", "config", id="an entry without a name"),
    pytest.param("clusters: 5", "the kubeconfig cannot be used", "config", id="a number in place of a list"),
    pytest.param("current-context: [a]", "the kubeconfig cannot be used", "config", id="a list as a name"),
    pytest.param(
        "[" * 200_000, "the kubeconfig is not valid YAML", "config:1:65", id="very many brackets",
    ),
    pytest.param(
        "a0: &a0 {x: 1}\n" + "".join(f"a{n}: &a{n} {{<<: {_times_ten(n - 1)}}}\n" for n in range(1, 12)),
        "more than 200,000 values, where an alias counts as all that it stands for, such as *a4 here",
        "config:6:43", id="merges of merges",
    ),
    pytest.param(
        "a: " + "9" * 5000,
        f"{'9' * 40} is not a number that JSON can hold",
        "config:1:4 a",
        id="long numbers",
    ),
    pytest.param("kind: Config", "current-context is not set", "config", id="no context at all"),
    pytest.param(
        {**_config("a"), "clusters": []}, "context 'a' names a cluster without a server: 'a'", "config",
        id="a context of a cluster that is not there",
    ),
    pytest.param(
        {**_config("a"), "users": [{"name": "a", "user": {"token": 7}}]},
        "the kubeconfig cannot be used", "config", id="a token that is a number",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("document", "what", "where"), _WRONG)
def test_an_unusable_kubeconfig_says_what_and_where(
    tmp_path: Path, document: Any, what: str, where: str
) -> None:
    path = _write(tmp_path / "config", document)
    with pytest.raises(ConfigError) as refused:
        target(path, None, {})
    [problem] = refused.value.problems
    assert problem.what == what
    assert problem.where.endswith(where)
    assert "token-a" not in str(refused.value)


def test_a_wrong_context_offers_the_ones_there_are(tmp_path: Path) -> None:
    path = _write(tmp_path / "config", _config("a"))
    with pytest.raises(ConfigError) as refused:
        target(path, "b", {})
    assert refused.value.problems[0].remedy == "choose one with --context; known: a"


def test_without_any_cluster_the_way_to_one_is_said(tmp_path: Path) -> None:
    with pytest.raises(ClusterError) as refused:
        target(None, None, {"HOME": str(tmp_path)})
    assert "tonnage up" in refused.value.problems[0].remedy
    with pytest.raises(ConfigError, match="does not exist"):
        target(tmp_path / "absent", None, {})
    with pytest.raises(ConfigError, match="KUBECONFIG"):
        target(None, None, {"KUBECONFIG": str(tmp_path / "absent")})


@dataclass
class Running:
    """A served API and its kubeconfig as a document."""

    endpoint: Endpoint
    server: ApiServer
    document: dict[str, Any]
    folder: Path

    def kubeconfig(self, **user: Any) -> Path:
        document = {**self.document, "users": [{"name": "tonnage", "user": user}]} if user else self.document
        return _write(self.folder / "config", document)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncIterator[Running]:
    server = ApiServer(VirtualClock(), store=new_store())
    endpoint = await server.start(Authority.generate(datetime.now(UTC)))
    yield Running(endpoint, server, json.loads(kubeconfig_text(endpoint)), tmp_path)
    await server.stop()


async def test_a_wrong_token_is_unauthorized(running: Running) -> None:
    async with connect(running.kubeconfig(token="wrong")) as api:
        with pytest.raises(ApiError) as refused:
            await api.list(NAMESPACE)
        assert (refused.value.code, refused.value.reason) == (401, "Unauthorized")


async def test_a_user_who_acts_as_another_is_that_user_for_the_server(running: Running) -> None:
    document = yaml.load(running.kubeconfig().read_text(), yaml.CSafeLoader)
    document["users"][0]["user"] |= {"as": "jane", "as-groups": ["team", "system:authenticated"]}
    path = _write(running.kubeconfig().with_name("jane"), document)
    async with connect(path) as api:
        with pytest.raises(ApiError, match='User "jane" cannot list resource "namespaces"') as caught:
            await api.list(NAMESPACE)
    assert caught.value.code == 403


@pytest.mark.parametrize(
    ("user", "why"),
    [
        pytest.param({"as-groups": ["system:masters"]}, "need `as`", id="a group alone"),
        pytest.param({"as": "jane", "as-groups": "team"}, "hold lists", id="a group that is no list"),
        pytest.param({"as": "jane\r\nX: y"}, "control characters", id="a second header"),
        pytest.param({"as": ["jane"]}, "must be text", id="a user that is a list"),
    ],
)
def test_whom_to_act_as_must_be_said_in_full(user: dict[str, Any], why: str, tmp_path: Path) -> None:
    document = _config("a")
    document["users"][0]["user"] |= user
    with pytest.raises(ConfigError) as caught:
        target(_write(tmp_path / "config", document), None, {})
    assert why in str(caught.value)


async def test_another_clusters_authority_is_not_trusted_and_said_so(running: Running) -> None:
    other = Authority.generate(datetime.now(UTC))
    stranger = Endpoint(running.endpoint.url, other.certificate_pem, running.endpoint.token)
    path = _write(running.folder / "other", kubeconfig_text(stranger))
    async with connect(path) as api:
        with pytest.raises(ClusterError) as refused:
            await api.list(NAMESPACE)
    [problem] = refused.value.problems
    assert problem.what == "the API server's certificate is not trusted"
    assert problem.where == running.endpoint.url
    assert problem.remedy


async def test_a_server_that_is_gone_cannot_be_reached(running: Running) -> None:
    async with connect(running.kubeconfig()) as api:
        await running.server.stop()
        for call in (api.list(NAMESPACE), anext(aiter(api.watch(NAMESPACE, resource_version="1")))):
            with pytest.raises(ClusterError) as refused:
                await call
            assert not isinstance(refused.value, ApiError)
            assert refused.value.problems[0].what == "the API server cannot be reached"
            assert "tonnage up" in refused.value.problems[0].remedy


async def test_an_answer_that_is_no_kubernetes_is_named(tmp_path: Path) -> None:
    async def login_page(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\n<html>")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(login_page, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    path = _write(tmp_path / "config", _config("a", f"http://127.0.0.1:{port}"))
    async with server, connect(path) as api:
        with pytest.raises(ClusterError, match="cannot be read"):
            await api.list(NAMESPACE)


async def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with connect(running.kubeconfig()) as api:
        assert (await api.list(NAMESPACE)).items


def _program(folder: Path, text: str) -> dict[str, Any]:
    """A credential program, as a kubeconfig names it."""
    script = _write(folder / "credentials.py", text)
    return {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "env": [{"name": "WANTED", "value": "yes"}],
        "installHint": "install the credential program",
        "interactiveMode": "Never",
    }


_GIVES_TOKENS = """
import json, os, pathlib
assert os.environ["WANTED"] == "yes"
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
asked = pathlib.Path(__file__).with_name("asked")
count = int(asked.read_text()) + 1 if asked.exists() else 1
asked.write_text(str(count))
token = pathlib.Path(__file__).with_name("token").read_text() if count > {refused} else "stale"
answer = {{"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": {{"token": token}}}}
print(json.dumps(answer))
"""


async def test_a_token_from_a_program_is_kept_until_the_server_refuses_it(running: Running) -> None:
    _write(running.folder / "token", running.endpoint.token)
    program = _program(running.folder, _GIVES_TOKENS.format(refused=1))
    async with connect(running.kubeconfig(exec=program)) as api:
        for _ in range(3):
            await api.list(NAMESPACE)
    assert (running.folder / "asked").read_text() == "2", "once in the beginning, once after 401"


_FAILING = [
    ("import sys; sys.exit('please log in')", "please log in"),
    ("print('hello')", "its output is not an ExecCredential"),
    ('print(\'{"status": {"clientCertificateData": "x"}}\')', "it returned no token"),
]


@pytest.mark.parametrize(("text", "why"), _FAILING)
async def test_a_credential_program_that_fails_is_quoted(running: Running, text: str, why: str) -> None:
    program = _program(running.folder, text)
    async with connect(running.kubeconfig(exec=program)) as api:
        with pytest.raises(ClusterError) as refused:
            await api.list(NAMESPACE)
    [problem] = refused.value.problems
    assert why in problem.why
    assert problem.remedy == "install the credential program"


async def test_a_request_given_up_during_the_handshake_leaves_no_connection(tmp_path: Path) -> None:
    greeted, ended = asyncio.Event(), asyncio.Event()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            greeted.set()
        ended.set()
        writer.close()

    async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as silent, asyncio.timeout(60):
        port = silent.sockets[0].getsockname()[1]
        config = _write(tmp_path / "config", _config("silent", f"https://127.0.0.1:{port}"))
        async with connect(config) as api:
            request = asyncio.create_task(api.list(NAMESPACE))
            await greeted.wait()
            request.cancel()
            await asyncio.wait([request])
            await ended.wait()


async def test_lines_end_at_newlines_only_wherever_the_chunks_end() -> None:
    text = 'one \u2028 line\n{"a": "\x85"}\n\nlast'.encode()

    async def chunks(size: int) -> AsyncIterator[bytes]:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    for size in (1, 2, 3, 7, 1000):
        found = [line async for line in lines(chunks(size))]
        assert found == [b"one \xe2\x80\xa8 line", '{"a": "\x85"}'.encode(), b"last"]


def test_null_in_an_answer_is_as_if_absent() -> None:
    node = decoded(msgspec.json.Decoder(w.Node), b'{"status": {"images": [{"names": null, "sizeBytes": 1}]}}')
    assert node.status.images == [w.ContainerImage(size_bytes=1)]
    with pytest.raises(ClusterError, match="cannot be read"):
        decoded(msgspec.json.Decoder(w.Node), b'{"status": {"images": 1}}')


def test_the_door_costs_nothing_until_it_is_used() -> None:
    heavy = ("httpx2", "lightkube", "ssl", "yaml")
    code = f"import sys, tonnage.adapters.kubernetes.client; print([m for m in {heavy} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"
