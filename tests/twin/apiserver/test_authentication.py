"""Who somebody is: service accounts' tokens in the course of time, certificates, tokens of other clusters."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.api_stores import new_store
from support.connections import connection
from tonnage.adapters.certificates import Authority
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.authentication.account_tokens import TokenKey
from tonnage.twin.apiserver.authentication.authenticator import Authenticator, TokenError
from tonnage.twin.apiserver.authentication.token_requests import TokenRequests
from tonnage.twin.apiserver.codec import Codec
from tonnage.twin.apiserver.requests import ResourcePath
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.apiserver.writing.pipeline import Ids, WritePipeline
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import POD, Kind
from tonnage.wire.objects import Object
from twin.apiserver.conftest import Running

ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts", True, Object)
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


class Issuer:
    """A server with an account `robot`, and what makes and knows its tokens."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = ApiServer(self.clock, random=Random(1), store=new_store())
        store = self.server.store
        pipeline = WritePipeline(
            store, Codec(self.server.registry), self.clock, Ids(lambda: "jti", Random(1)), ()
        )
        key = TokenKey()
        self.tokens = TokenRequests(store, self.clock, pipeline, key)
        self.authenticator = Authenticator(store, self.clock, key)

    async def token(self, **spec: object) -> str:
        address = ResourcePath(("", "v1", "serviceaccounts"), "default", "robot", "token")
        body: JsonObject = {"spec": spec}  # type: ignore[dict-item]
        answer = await self.tokens.answer(self.server.verbs.request("create", address), body)
        status = answer["status"]
        assert isinstance(status, dict)
        return str(status["token"])

    def user(self, token: str) -> str:
        return self.authenticator.owner_of(token).user.name


@pytest.fixture
async def issuer() -> Issuer:
    issuer = Issuer()
    await issuer.server.local().create(ACCOUNT, {"metadata": {"name": "robot"}}, namespace="default")
    return issuer


async def test_a_token_is_good_for_its_time_and_a_minute(issuer: Issuer) -> None:
    token = await issuer.token(expirationSeconds=600)
    for seconds in (0, 599, 60):
        await issuer.clock.advance(seconds)
        assert issuer.user(token) == "system:serviceaccount:default:robot"
    await issuer.clock.advance(2)
    with pytest.raises(TokenError, match="service account token has expired"):
        issuer.user(token)


async def test_a_pods_own_token_lives_a_year_so_that_it_may_be_read_late(issuer: Issuer) -> None:
    spec: JsonObject = {"serviceAccountName": "robot", "containers": [{"name": "a", "image": "b"}]}
    pod: JsonObject = {"metadata": {"name": "p"}, "spec": spec}
    await issuer.server.local().create(POD, pod, namespace="default")
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    own, other = (
        await issuer.token(expirationSeconds=3607, boundObjectRef=bound),
        await issuer.token(expirationSeconds=3608, boundObjectRef=bound),
    )
    await issuer.clock.advance(364 * 24 * 3600)
    assert issuer.user(own) == "system:serviceaccount:default:robot"
    with pytest.raises(TokenError, match="has expired"):
        issuer.user(other)
    await issuer.server.local().delete(POD, "p", namespace="default", grace_period_s=0)
    with pytest.raises(TokenError, match="service account token has been invalidated"):
        issuer.user(own)


async def test_an_account_made_anew_is_another_one(issuer: Issuer) -> None:
    token = await issuer.token()
    api = issuer.server.local()
    await api.delete(ACCOUNT, "robot", namespace="default")
    with pytest.raises(TokenError, match='serviceaccounts "robot" not found'):
        issuer.user(token)
    await api.create(ACCOUNT, {"metadata": {"name": "robot"}}, namespace="default")
    with pytest.raises(TokenError, match=r"service account UID \(.*\) does not match claim"):
        issuer.user(token)


async def test_a_token_of_another_cluster_lets_nobody_in(issuer: Issuer) -> None:
    other = Issuer()
    await other.server.local().create(ACCOUNT, {"metadata": {"name": "robot"}}, namespace="default")
    with pytest.raises(TokenError, match="invalid signature, no keys found"):
        issuer.user(await other.token())


@given(st.text(max_size=60) | st.from_regex(r"[\w-]{0,20}\.[\w-]{0,20}\.[\w-]{0,90}", fullmatch=True))
def test_no_text_is_taken_for_a_token(text: str) -> None:
    assert TokenKey().claims(text) is None


def test_a_token_that_is_changed_anywhere_is_none() -> None:
    key = TokenKey()
    token = key.sign({"sub": "x"})
    assert key.claims(token) == {"sub": "x"}
    for position in range(len(token) - 1):
        changed = token[:position] + ("A" if token[position] != "A" else "B") + token[position + 1 :]
        assert key.claims(changed) is None, position


async def ask(running: Running, authority: Authority) -> bytes:
    """The answer to a client that shows a certificate of an authority."""
    pair = authority.issue("carol", organizations=["dev", "ops"], client=True)
    context = ssl.create_default_context(cadata=running.endpoint.ca_pem.decode())
    with tempfile.TemporaryDirectory(prefix="tn-") as folder:
        file = Path(folder) / "pair.pem"
        file.touch(mode=0o600)
        file.write_bytes(pair.certificate_pem + pair.key_pem)
        context.load_cert_chain(file)
    head = "host: x\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 2\r\n"
    opening = asyncio.open_connection("127.0.0.1", running.http.port, ssl=context)
    async with connection(opening) as (reader, writer), asyncio.timeout(60):
        writer.write(f"POST {REVIEW} HTTP/1.1\r\n{head}\r\n{{}}".encode())
        return await reader.read()


async def test_a_certificate_says_who_and_of_which_groups(running: Running) -> None:
    answer = await ask(running, running.authority)
    assert b'"username":"carol","groups":["dev","ops","system:authenticated"]' in answer


async def test_a_certificate_of_another_authority_ends_the_handshake(running: Running) -> None:
    with contextlib.suppress(ssl.SSLError, ConnectionError):
        assert await ask(running, Authority.generate(datetime.now(UTC))) == b""
