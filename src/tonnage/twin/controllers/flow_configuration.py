"""Keeps the FlowSchemas and priority levels of every server as they are, but for what people may change.

Source: pkg/registry/flowcontrol/ensurer, pkg/registry/flowcontrol/rest (v1.35).
"""

from __future__ import annotations

import logging
from typing import Final

from tonnage.adapters.informer import Informer, Informers, following
from tonnage.adapters.ports import Clock, KubernetesApi
from tonnage.model.json import JsonObject
from tonnage.twin.apiserver.access import mapping, text
from tonnage.twin.apiserver.bootstrap import flow_objects
from tonnage.twin.controllers.flow_levels import FLOW_SCHEMA, LEVEL
from tonnage.twin.controllers.periodic import every
from tonnage.wire.kinds import Kind
from tonnage.wire.objects import Service

_LOG: Final = logging.getLogger(__name__)
_LOOKED_AT_S: Final = 60.0
_UPDATED: Final = "apf.kubernetes.io/autoupdate-spec"
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
_MANDATORY: Final = ("catch-all", "exempt")


class FlowConfigurationController:
    """Makes anew every minute what is missing, mends what is to be updated, and removes what is no more."""

    def __init__(self, api: KubernetesApi, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._informers = (informers.of(LEVEL), informers.of(FLOW_SCHEMA))

    async def run(self) -> None:
        """Keep them until cancelled."""
        async with following(*self._informers):
            await every(self._clock, _LOOKED_AT_S, self._look, _LOG)

    async def _look(self) -> None:
        known = flow_objects()
        for informer in self._informers:
            wanted = known[informer.kind.plural]
            for body in wanted:
                await self._keep(informer, body)
            names = {text(body, "metadata", "name") for body in wanted}
            for found in informer:
                strange = found.metadata.name not in names
                if strange and _BOOLEANS.get(found.metadata.annotations.get(_UPDATED, "")):
                    await self._api.delete(informer.kind, found.metadata.name)

    async def _keep(self, informer: Informer[Service], body: JsonObject) -> None:
        kind, name = informer.kind, text(body, "metadata", "name")
        found = informer.get(name)
        if found is None:
            await self._api.create(kind, _new(kind, body))
            return
        said = _BOOLEANS.get(found.metadata.annotations.get(_UPDATED, ""))
        updated = name in _MANDATORY or (found.metadata.generation == 1 if said is None else said)
        other = updated and found.spec != body["spec"]
        if not other and said == updated:
            return
        annotations: JsonObject = {**found.metadata.annotations, _UPDATED: str(updated).lower()}
        metadata: JsonObject = {
            "name": name,
            "resourceVersion": found.metadata.resource_version,
            "labels": {**found.metadata.labels},
            "annotations": annotations,
        }
        spec = mapping(body, "spec") if other else found.spec
        await self._api.replace(kind, {**_new(kind, body), "metadata": metadata, "spec": spec})


def _new(kind: Kind[Service], body: JsonObject) -> JsonObject:
    metadata = mapping(body, "metadata")
    said: JsonObject = {key: metadata[key] for key in ("name", "annotations") if key in metadata}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": said, "spec": body["spec"]}
