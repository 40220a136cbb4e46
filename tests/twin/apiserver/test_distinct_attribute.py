"""`distinctAttribute` of claims, as an API server of 1.35.8 answers with its gate on and off."""

from __future__ import annotations

from typing import Any

import pytest

from tonnage.model.errors import ApiError
from tonnage.model.json import JsonObject
from tonnage.model.kubernetes.feature_gates import SHARES, FeatureGates
from tonnage.twin.apiserver.server import ApiServer
from tonnage.twin.clock import VirtualClock
from tonnage.wire.kinds import RESOURCE_CLAIM

_WHERE = "spec.devices.constraints[0]"


async def _constraint(constraint: Any, *, on: bool) -> Any:
    """What is stored of it."""
    api = ApiServer(VirtualClock(), gates=FeatureGates(35, ((SHARES, on),))).local()
    request: JsonObject = {"name": "a", "exactly": {"deviceClassName": "x"}}
    spec: JsonObject = {"devices": {"requests": [request], "constraints": [constraint]}}
    created = await api.create(RESOURCE_CLAIM, {"metadata": {"name": "q"}, "spec": spec}, namespace="default")
    return created.spec["devices"]["constraints"][0]


@pytest.mark.parametrize(
    "constraint",
    [{"distinctAttribute": "a/b"}, {"matchAttribute": "a/b", "distinctAttribute": "a/c"}],
    ids=["alone", "beside-the-other"],
)
async def test_with_the_gate_it_is_taken(constraint: Any) -> None:
    assert await _constraint(constraint, on=True) == constraint


async def test_its_name_needs_a_domain() -> None:
    words = 'Invalid value: "numaNode": a fully qualified name must be a domain and a name'
    with pytest.raises(ApiError) as refused:
        await _constraint({"distinctAttribute": "numaNode"}, on=True)
    assert f"{_WHERE}.distinctAttribute: {words}" in refused.value.message


async def test_without_the_gate_it_is_dropped_and_the_other_is_missing() -> None:
    with pytest.raises(ApiError) as refused:
        await _constraint({"distinctAttribute": "a/b"}, on=False)
    assert f"{_WHERE}.matchAttribute: Required value" in refused.value.message
