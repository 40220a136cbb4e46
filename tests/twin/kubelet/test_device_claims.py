"""Pods whose claims for devices a kubelet cannot prepare."""

from __future__ import annotations

from typing import Any

import pytest

from support.kubelet_bench import KubeletBench
from tonnage.wire import kinds

_DEVICES: Any = {"results": [{"driver": "d.example.com", "pool": "p", "device": "g0", "request": "r"}]}
_NAMED: Any = {"resourceClaimName": "mine"}
_MADE: Any = {"resourceClaimTemplateName": "each"}


@pytest.mark.parametrize(
    ("entry", "status", "told"),
    [
        pytest.param(_MADE, {}, 'pod "default/web": ResourceClaim not created yet', id="not-made"),
        pytest.param(
            _MADE,
            {"allocation": {"devices": _DEVICES}, "reservedFor": [{"uid": "uid-web"}]},
            "ResourceClaim default/mine was not created for pod default/web (pod is not owner)",
            id="made-for-another",
        ),
        pytest.param(
            _NAMED,
            {"allocation": {"devices": _DEVICES}, "reservedFor": [{"uid": "another"}]},
            "pod web (uid-web) is not allowed to use ResourceClaim mine (claim-uid)",
            id="reserved-for-another",
        ),
        pytest.param(
            _NAMED,
            {},
            "pod web (uid-web) is not allowed to use ResourceClaim mine (claim-uid)",
            id="reserved-for-nobody",
        ),
        pytest.param(
            _NAMED,
            {"reservedFor": [{"uid": "uid-web"}]},
            "ResourceClaim mine: not allocated",
            id="without-devices",
        ),
        pytest.param(
            _NAMED,
            {"allocation": {"devices": _DEVICES}, "reservedFor": [{"uid": "uid-web"}]},
            "DRA driver d.example.com is not registered",
            id="without-a-driver",
        ),
    ],
)
async def test_a_pod_whose_claims_cannot_be_prepared_waits(
    bench: KubeletBench, entry: Any, status: Any, told: str
) -> None:
    claim: Any = {"metadata": {"name": "mine", "namespace": "default", "uid": "claim-uid"}, "status": status}
    bench.api.put(kinds.RESOURCE_CLAIM, claim)
    made = [{"name": "x", "resourceClaimName": "mine"}] if entry is _MADE and status else []
    bench.bind("web", status={"resourceClaimStatuses": made}, resourceClaims=[{"name": "x", **entry}])
    await bench.clock.advance(20)
    text = f"Failed to prepare dynamic resources: prepare dynamic resources: {told}"
    assert bench.api.events("web") == [f"Warning FailedPrepareDynamicResources {text} x2"]
    shown = bench.api.pod("web")["status"]
    assert shown["phase"] == "Pending"
    assert shown["containerStatuses"][0]["state"] == {"waiting": {"reason": "ContainerCreating"}}


async def test_the_time_that_a_pod_waits_for_its_claims_counts(bench: KubeletBench) -> None:
    bench.bind(
        "web",
        activeDeadlineSeconds=30,
        resourceClaims=[{"name": "x", "resourceClaimTemplateName": "each"}],
    )
    await bench.clock.advance(40)
    status = bench.api.pod("web")["status"]
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    [never] = status["containerStatuses"]
    assert never["state"]["terminated"]["reason"] == "ContainerStatusUnknown"
