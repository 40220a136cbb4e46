"""The API server's own Lease in `kube-system`: which server serves, and that it still does.

Source: pkg/controlplane/apiserver and k8s.io/component-helpers/apimachinery/lease (v1.35).
"""

from __future__ import annotations

import asyncio
import logging
import struct
from base64 import b32encode
from datetime import timedelta
from hashlib import sha256
from typing import Final
from uuid import NAMESPACE_DNS, uuid5

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.timestamps import micro_timestamp
from tonnage.ports import Clock, KubernetesApi
from tonnage.twin.controllers.periodic import every
from tonnage.wire.kinds import LEASE

_LOG: Final = logging.getLogger(__name__)
_NAMESPACE: Final = "kube-system"
_COMPONENT: Final = "kube-apiserver"
_IDENTITY: Final = "apiserver.kubernetes.io/identity"
_RENEW_S: Final = 10.0
_GOOD_FOR_S: Final = 3600


class ServerLeaseController:
    """Renews the Lease, whose name is made of the machine's, and removes those of servers that are gone."""

    def __init__(self, api: KubernetesApi, clock: Clock, host: str) -> None:
        self._api = api
        self._clock = clock
        self._host = host
        self._name = lease_name(host)
        self._holder = f"{self._name}_{uuid5(NAMESPACE_DNS, f'{host} {clock.now()}')}"

    async def run(self) -> None:
        """Renew until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(every(self._clock, _RENEW_S, self._renew, _LOG))
            group.create_task(every(self._clock, _GOOD_FOR_S, self._remove_expired, _LOG))

    async def _renew(self) -> None:
        spec: JsonObject = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": _GOOD_FOR_S,
            "renewTime": micro_timestamp(self._clock.now()),
        }
        try:
            await self._api.patch(LEASE, self._name, {"spec": spec}, namespace=_NAMESPACE)
        except ApiError as error:
            if error.code != 404:
                raise
            labels: JsonObject = {_IDENTITY: _COMPONENT, "kubernetes.io/hostname": self._host}
            lease: JsonObject = {"metadata": {"name": self._name, "labels": labels}, "spec": spec}
            await self._api.create(LEASE, lease, namespace=_NAMESPACE)

    async def _remove_expired(self) -> None:
        good = micro_timestamp(self._clock.now() - timedelta(seconds=_GOOD_FOR_S))
        for lease in (await self._api.list(LEASE, namespace=_NAMESPACE)).items:
            if lease.metadata.labels.get(_IDENTITY) != _COMPONENT or lease.metadata.name == self._name:
                continue
            if lease.spec.renew_time is None or lease.spec.renew_time < good:
                await self._api.delete(LEASE, lease.metadata.name, namespace=_NAMESPACE)


def lease_name(host: str) -> str:
    """The Lease's name on a machine, as a genuine server makes it.

    >>> lease_name("vm")
    'apiserver-wlv32tlttr4jl3gtroqexyxapa'
    """
    said = b"".join(struct.pack(">H", len(one)) + one for one in (host.encode(), _COMPONENT.encode()))
    digest = b32encode(sha256(said).digest()[:16]).decode()
    return "apiserver-" + digest.rstrip("=").lower()
