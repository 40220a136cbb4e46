"""Secrets that want a service account's token get one, and go with the account."""

from __future__ import annotations

import base64
from random import Random
from typing import Any

import pytest

from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.authentication.account_tokens import TokenKey, secret_claims
from tonnage.twin.apiserver.authentication.authenticator import Authenticator, TokenError
from tonnage.twin.apiserver.authentication.token_use import LAST_USED, TokenUse
from tonnage.twin.apiserver.codec import Codec
from tonnage.twin.apiserver.pipeline import Ids, Pipeline
from tonnage.twin.controllers.account_secrets import AccountSecretsController
from tonnage.wire.kinds import SECRET, SERVICE_ACCOUNT
from tonnage.wire.objects import ObjectMeta

Cluster = Any
NAME = "kubernetes.io/service-account.name"
UID = "kubernetes.io/service-account.uid"


@pytest.fixture
def key() -> TokenKey:
    return TokenKey()


@pytest.fixture
async def running(cluster: Cluster, key: TokenKey) -> Cluster:
    def sign(account: ObjectMeta, secret: str) -> str:
        return key.sign(secret_claims(account.namespace, account.name, account.uid, secret))

    controller = AccountSecretsController(
        cluster.api, cluster.clock, cluster.informers, root_ca="PEM", sign=sign
    )
    cluster.start(controller.run())
    await cluster.clock.settle()
    return cluster


async def secret(cluster: Cluster, account: str = "robot", **marks: str) -> dict[str, str] | None:
    """What it holds after a while; None: it is gone."""
    metadata: JsonObject = {"name": "token", "annotations": {NAME: account, **marks}}
    body: JsonObject = {"metadata": metadata, "type": "kubernetes.io/service-account-token"}
    await cluster.api.create(SECRET, body, namespace="default")
    await cluster.clock.advance(1)
    return await held(cluster)


async def held(cluster: Cluster) -> dict[str, str] | None:
    found = [one for one in await cluster.all(SECRET) if one.metadata.name == "token"]
    return {key: base64.b64decode(value).decode() for key, value in found[0].data.items()} if found else None


async def account(cluster: Cluster) -> Any:
    body: JsonObject = {"metadata": {"name": "robot"}}
    return await cluster.api.create(SERVICE_ACCOUNT, body, namespace="default")


async def test_a_secret_has_a_token_that_lets_in_until_it_is_deleted(running: Cluster, key: TokenKey) -> None:
    robot = await account(running)
    data = await secret(running)
    assert data is not None
    assert (data["ca.crt"], data["namespace"]) == ("PEM", "default")
    [found] = [one for one in await running.all(SECRET) if one.metadata.name == "token"]
    assert found.metadata.annotations == {NAME: "robot", UID: robot.metadata.uid}
    known = Authenticator(running.server.store, running.clock, key)
    user = known.known(data["token"]).user
    assert (user.name, user.uid) == ("system:serviceaccount:default:robot", robot.metadata.uid)
    with pytest.raises(TokenError, match="invalid signature"):
        Authenticator(running.server.store, running.clock, TokenKey()).known(data["token"])
    await running.api.patch(SECRET, "token", {"data": {"token": None}}, namespace="default")
    with pytest.raises(TokenError, match="does not match server's copy"):
        known.known(data["token"])
    await running.clock.advance(1)
    again = await held(running)
    assert again is not None
    assert known.known(again["token"]).user == user
    await running.api.delete(SECRET, "token", namespace="default")
    with pytest.raises(TokenError, match="has been invalidated"):
        known.known(again["token"])


async def test_a_secret_goes_with_its_account(running: Cluster) -> None:
    await account(running)
    assert await secret(running)
    await running.api.delete(SERVICE_ACCOUNT, "robot", namespace="default")
    await running.clock.advance(1)
    assert await held(running) is None


@pytest.mark.parametrize("marks", [{}, {UID: "another"}], ids=["no account", "another account"])
async def test_a_secret_of_an_account_that_is_not_there_goes(running: Cluster, marks: JsonObject) -> None:
    if marks:
        await account(running)
    assert await secret(running, **{key: str(value) for key, value in marks.items()}) is None


async def test_other_secrets_are_left_alone(running: Cluster) -> None:
    body: JsonObject = {"metadata": {"name": "token"}, "type": "Opaque", "stringData": {"a": "b"}}
    await running.api.create(SECRET, body, namespace="default")
    await running.clock.advance(1)
    assert await held(running) == {"a": "b"}


async def test_the_day_of_its_last_use_is_marked_and_what_is_marked_invalid_lets_nobody_in(
    running: Cluster, key: TokenKey
) -> None:
    await account(running)
    data = await secret(running)
    assert data is not None
    server, ids = running.server, Ids(lambda: "id", Random(1))
    pipeline = Pipeline(server.store, Codec(server.registry), running.clock, ids, ())
    known = Authenticator(server.store, running.clock, key, TokenUse(pipeline, running.clock).note)
    known.known(data["token"])
    stored = server.store.get(("", "secrets"), ("default", "token"))
    assert stored is not None
    today = running.clock.now().date().isoformat()
    assert stored.object["metadata"]["labels"] == {LAST_USED: today}
    assert stored.object["metadata"]["managedFields"][-1]["manager"] == "kube-apiserver"
    known.known(data["token"])
    assert server.store.get(("", "secrets"), ("default", "token")) == stored, "once a day"
    patch = {"metadata": {"labels": {"kubernetes.io/legacy-token-invalid-since": today}}}
    await running.api.patch(SECRET, "token", patch, namespace="default")
    with pytest.raises(TokenError, match="has been marked invalid"):
        known.known(data["token"])
