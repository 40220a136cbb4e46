"""A pod whose extended resource a claim meets, on a node that offered the resource itself before."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tonnage.twin.kubelet.admission import AdmissionFailure, device_amounts, fit_failure
from tonnage.wire.objects import Pod

GPU = "nvidia.com/gpu"
SWITCHED = {"cpu": 64_000, GPU: 0, "pods": 110}
MET = {
    "resourceClaimName": "train-extended-resources-x",
    "requestMappings": [
        {"containerName": "main", "resourceName": GPU, "requestName": "container-0-request-0"}
    ],
}


def pod(status: Any) -> Pod:
    resources = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
    spec = {"containers": [{"name": "main", "image": "i", "resources": resources}]}
    body = {"metadata": {"name": "train", "namespace": "ml"}, "spec": spec, "status": status}
    return msgspec.convert(body, Pod)


def test_the_device_manager_leaves_alone_what_a_claim_meets() -> None:
    claiming, counting = pod({"extendedResourceClaimStatus": MET}), pod({})
    assert device_amounts(claiming, claiming.spec.containers[0]) == {}
    assert device_amounts(counting, counting.spec.containers[0]) == {GPU: 1}


@pytest.mark.parametrize(
    ("minor", "status", "reason"),
    [
        pytest.param(36, {"extendedResourceClaimStatus": MET}, "", id="1.36"),
        pytest.param(
            35, {"extendedResourceClaimStatus": MET}, "OutOfnvidia.com/gpu", id="1.35 asks the node"
        ),
        pytest.param(36, {}, "OutOfnvidia.com/gpu", id="no claim"),
    ],
)
def test_since_1_36_the_node_is_not_asked_for_it(minor: int, status: Any, reason: str) -> None:
    failure = fit_failure(pod(status), (), SWITCHED, minor)
    assert (failure.reason if isinstance(failure, AdmissionFailure) else "") == reason
