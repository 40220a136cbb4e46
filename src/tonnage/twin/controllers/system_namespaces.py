"""systemnamespaces.Controller: a deleted namespace that the API server needs is back within a minute.

Source: pkg/controlplane/controller/systemnamespaces (v1.35).
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

from tonnage.model.kubernetes.well_known import SYSTEM_NAMESPACES
from tonnage.ports.clock import Clock
from tonnage.ports.kubernetes import KubernetesApi
from tonnage.twin.controllers.periodic_tasks import every
from tonnage.wire.kinds import NAMESPACE

_LOG: Final = logging.getLogger(__name__)
_AGAIN_S: Final = 60.0


async def keep_system_namespaces(api: KubernetesApi, clock: Clock) -> None:
    """Make those that are missing, until cancelled."""
    await every(clock, _AGAIN_S, partial(_make, api), _LOG)


async def _make(api: KubernetesApi) -> None:
    there = {namespace.metadata.name for namespace in (await api.list(NAMESPACE)).items}
    for name in SYSTEM_NAMESPACES:
        if name not in there:
            await api.create(NAMESPACE, {"metadata": {"name": name}})
