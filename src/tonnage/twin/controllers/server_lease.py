"""The API server's own Lease in `kube-system`: which server serves, and that it still does.

Source: pkg/controlplane/apiserver and k8s.io/component-helpers/apimachinery/lease (v1.35).
"""

from __future__ import annotations

import logging
import socket
import struct
from base64 import b32encode
from hashlib import sha256
from typing import Final
from uuid import uuid4

from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.model.errors import ApiError, ClusterError
from tonnage.model.json import JsonObject
from tonnage.wire.kinds import LEASE
from tonnage.wire.timestamps import micro_timestamp

_LOG: Final = logging.getLogger(__name__)
_NAMESPACE: Final = "kube-system"
_COMPONENT: Final = "kube-apiserver"
_RENEW_S: Final = 10.0
_GOOD_FOR_S: Final = 3600


class ServerLeaseController:
    """Renews the Lease, which has the name of this machine in its own."""

    def __init__(self, api: KubernetesApi, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._host = socket.gethostname().lower()
        self._name = lease_name(self._host)
        self._holder = f"{self._name}_{uuid4()}"

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            try:
                await self._renew()
            except ClusterError as error:
                _LOG.info("lease not renewed: name=%s error=%s", self._name, error)
            await self._clock.sleep(_RENEW_S)

    async def _renew(self) -> None:
        now = micro_timestamp(self._clock.now())
        spec: JsonObject = {
            "holderIdentity": self._holder,
            "leaseDurationSeconds": _GOOD_FOR_S,
            "renewTime": now,
        }
        try:
            await self._api.patch(LEASE, self._name, {"spec": spec}, namespace=_NAMESPACE)
        except ApiError as error:
            if error.code != 404:
                raise
            labels: JsonObject = {
                "apiserver.kubernetes.io/identity": _COMPONENT,
                "kubernetes.io/hostname": self._host,
            }
            lease: JsonObject = {"metadata": {"name": self._name, "labels": labels}, "spec": spec}
            await self._api.create(LEASE, lease, namespace=_NAMESPACE)


def lease_name(host: str) -> str:
    """The Lease's name on a machine, as a genuine server makes it.

    >>> lease_name("vm")
    'apiserver-wlv32tlttr4jl3gtroqexyxapa'
    """
    said = b"".join(struct.pack(">H", len(one)) + one for one in (host.encode(), _COMPONENT.encode()))
    digest = b32encode(sha256(said).digest()[:16]).decode()
    return "apiserver-" + digest.rstrip("=").lower()
