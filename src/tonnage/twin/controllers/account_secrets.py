"""Secrets of type `kubernetes.io/service-account-token`, in which somebody wants a service account's token.

Source: pkg/controller/serviceaccount/tokens_controller.go of k8s.io/kubernetes (v1.35).
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Final, TypeAlias

from tonnage.loop.informer import Delta, Informer, Informers, Key, following, key_of
from tonnage.loop.refusals import or_none, passing_over
from tonnage.loop.work_queue import WorkQueue, work
from tonnage.loop.writing import patch_as_seen
from tonnage.model.json import JsonObject
from tonnage.ports import Clock, KubernetesApi
from tonnage.wire.kinds import SECRET, SERVICE_ACCOUNT
from tonnage.wire.objects import Object, ObjectMeta, Secret

Sign: TypeAlias = Callable[[ObjectMeta, str], str]
"""The token of an account, by its metadata, that is good for as long as the Secret of this name."""
_TYPE: Final = "type=kubernetes.io/service-account-token"
_NAME: Final = "kubernetes.io/service-account.name"
_UID: Final = "kubernetes.io/service-account.uid"


class AccountSecretsController:
    """Fills such Secrets, and deletes them with their account."""

    def __init__(
        self,
        api: KubernetesApi,
        clock: Clock,
        informers: Informers,
        *,
        root_ca: str,
        sign: Sign,
    ) -> None:
        self._api = api
        self._known = {"ca.crt": root_ca} if root_ca else {}
        self._sign = sign
        self._queue: WorkQueue[Key] = WorkQueue(clock)
        # No other Secret is anybody's here.
        self._secrets = Informer(api, SECRET, clock, field_selector=_TYPE, on_change=self._queue.add)
        self._secrets.add_index("account", lambda one: [_account_key(one)])
        self._accounts = informers.of(SERVICE_ACCOUNT)
        self._accounts.subscribe(self._account_changed)

    async def run(self) -> None:
        """Fill them until cancelled."""
        async with following(self._secrets, self._accounts) as group:
            group.create_task(work(self._queue, self._reconcile))

    def _account_changed(self, delta: Delta[Object]) -> None:
        for account in (delta.before, delta.after):
            if account is not None:
                for secret in self._secrets.by_index("account", "/".join(key_of(account))):
                    self._queue.add(key_of(secret))

    async def _reconcile(self, key: Key) -> None:
        secret = self._secrets.get(key[1], key[0])
        if secret is None:
            return
        account = await self._account(secret)
        with passing_over(404, 409):
            if account is None:
                await self._api.delete(SECRET, key[1], namespace=key[0], uid=secret.metadata.uid)
            elif lacking := self._lacking(secret, account):
                await self._fill(secret, account, lacking)

    async def _account(self, secret: Secret) -> Object | None:
        """Whose token is wanted; None: there is no such account."""
        name, uid = (secret.metadata.annotations.get(key, "") for key in (_NAME, _UID))
        found = await or_none(self._api.get(SERVICE_ACCOUNT, name, secret.metadata.namespace))
        return found if found is not None and uid in ("", found.metadata.uid) else None

    def _lacking(self, secret: Secret, account: Object) -> dict[str, str]:
        """What a Secret does not have, in Base64."""
        known = {**self._known, "namespace": secret.metadata.namespace}
        lacking = {key: _packed(value) for key, value in known.items()}
        for key in tuple(lacking):
            has = secret.data.get(key, "")
            if has == lacking[key] or (has and key == "namespace"):
                del lacking[key]
        if not secret.data.get("token"):
            lacking["token"] = _packed(self._sign(account.metadata, secret.metadata.name))
        return lacking

    async def _fill(self, secret: Secret, account: Object, lacking: dict[str, str]) -> None:
        marks = {_NAME: account.metadata.name, _UID: account.metadata.uid}
        # Somebody else may have written meanwhile; then we are told of that, and look again.
        patch: JsonObject = {"metadata": {"annotations": {**marks}}, "data": {**lacking}}
        await patch_as_seen(self._api, SECRET, secret, patch)


def _account_key(secret: Secret) -> str:
    return f"{secret.metadata.namespace}/{secret.metadata.annotations.get(_NAME, '')}"


def _packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
