"""The door to a real Kubernetes API. Importing this module costs nothing; `connect` loads the client."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.adapters.kubernetes.request_info import OnAnswer
    from tonnage.model.json import JsonValue


class RawApi(Protocol):
    """Of a client, the answer at a path."""

    async def get_raw(self, path: str) -> JsonValue:
        """Whatever the server has there. Raises ApiError, ClusterError."""
        ...


class TimedApi(RawApi, Protocol):
    """The same with the server's clock."""

    @property
    def server_ahead_s(self) -> float:
        """How far the server's clock is ahead of this machine's."""
        ...


@asynccontextmanager
async def connect(
    kubeconfig: Path | None = None,
    context: str | None = None,
    *,
    program: str = "tonnage",
    on_answer: OnAnswer | None = None,
    impersonation: tuple[tuple[str, str], ...] = (),
) -> AsyncIterator[HttpKubernetes]:
    """The Kubernetes port over HTTPS, of the cluster that kubectl would choose (or the pod's own).

    Nothing is sent before the first call. The server's logs name the caller `program`; `on_answer` is told
    of every answer. `impersonation`: headers instead of those that the kubeconfig asks for.
    Raises ConfigError for an unusable kubeconfig.
    """
    from tonnage.adapters.kubernetes.http import HttpKubernetes
    from tonnage.adapters.kubernetes.kubeconfig import target
    from tonnage.adapters.kubernetes.transport import open_client

    chosen = target(kubeconfig, context, os.environ)
    if impersonation:
        chosen = replace(chosen, impersonation=impersonation)
    async with open_client(chosen, program, on_answer) as client:
        yield HttpKubernetes(client, namespace=chosen.namespace)


async def server_version(api: RawApi) -> str:
    """`v1.35.0`, as the server says; empty where it says none. Raises ApiError, ClusterError."""
    answer = await api.get_raw("/version")
    return str(answer.get("gitVersion", "")) if isinstance(answer, dict) else ""
