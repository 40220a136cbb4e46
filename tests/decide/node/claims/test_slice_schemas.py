"""What is published of claims, held against Kubernetes' own schemas, release by release.

Servers of 1.34 to 1.37 were asked, too (tests/kubernetes/apiserver/test_publishing.py). No server of 1.32 or
1.33 was: the agent publishes v1 alone, and what their schemas say is that such slices have a form there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest

from support.helm import assert_valid
from tonnage.decide.node.claims.published import published_devices
from tonnage.decide.node.claims.slices import CounterShape, NewSlice, NodeOwner, desired_specs, next_step
from tonnage.diagnose.migrate.api_conversion import in_v1
from tonnage.model.devices.claims import PublishedDevice
from tonnage.model.devices.inventory import Device, Inventory
from tonnage.model.devices.sharing import PluginConfig
from tonnage.model.json_access import copied
from tonnage.reading.claims import slice_from
from tonnage.wire.claims import ResourceSlice

OWNER: Final = NodeOwner("n", "uid-n")
A100: Final = Device("GPU-0", 0, "NVIDIA A100-SXM4-40GB", 40960, "8.0", minor=0, numa_node=1)
DIVIDED: Final = Device("GPU-0", 0, "NVIDIA A100-SXM4-40GB", 40960, "8.0", minor=0, mig_enabled=True)


def devices(gpu: Device, **config: Any) -> tuple[PublishedDevice, ...]:
    return published_devices(Inventory((gpu,)), PluginConfig(claimed=("all",), **config))


SHAPES: Final[Mapping[str, Any]] = {
    "whole": desired_specs(devices(A100), "n"),
    "tainted": desired_specs((PublishedDevice("gpu-0", "GPU-0", healthy=False),), "n"),
    "counters apart": desired_specs(devices(DIVIDED, partitioned=True), "n", counters=CounterShape.SPLIT),
    "counters together": desired_specs(
        devices(DIVIDED, partitioned=True), "n", counters=CounterShape.TOGETHER
    ),
    "parts": desired_specs(devices(A100, claim_shares="memory"), "n"),
}


def slices(shape: str) -> list[Any]:
    """The objects, as a server is sent them."""
    bodies = []
    for spec in SHAPES[shape]:
        step = next_step((spec,), (), OWNER)
        assert isinstance(step, NewSlice)
        bodies.append(copied(step.body))
    assert bodies
    return bodies


def flat(body: Any, version: str) -> Any:
    """The same slice in an older version's form."""
    older: Any = copied(body)
    older["apiVersion"] = f"resource.k8s.io/{version}"
    if version == "v1beta1":
        named = older["spec"].get("devices", ())
        older["spec"] |= {
            "devices": [
                {"name": each["name"], "basic": {k: v for k, v in each.items() if k != "name"}}
                for each in named
            ]
        }
    return older


@pytest.mark.parametrize("release", ["1.34", "1.35", "1.36", "1.37"])
@pytest.mark.parametrize("shape", SHAPES)
def test_slices_fit_the_schemas_of_the_servers_that_are_published_to(shape: str, release: str) -> None:
    for body in slices(shape):
        assert_valid(body, release)


@pytest.mark.parametrize(
    ("version", "release", "shape"),
    [
        ("v1beta1", "1.32", "whole"),
        *(("v1beta2", "1.33", shape) for shape in ("whole", "tainted", "counters together")),
        *(("v1beta1", "1.33", shape) for shape in ("whole", "tainted", "counters together")),
    ],
)
def test_slices_have_a_form_in_older_releases_and_are_read_as_those_of_v1(
    version: str, release: str, shape: str
) -> None:
    for body in slices(shape):
        older = flat(body, version)
        assert_valid(older, release)
        assert in_v1(older) == body
        read = [slice_from(msgspec.convert(each, ResourceSlice)) for each in (older, body)]
        assert read[0] == read[1]


def test_what_a_release_does_not_know_yet_does_not_fit_its_schema() -> None:
    """So that the schemas are not open to everything."""
    from kubernetes_validate import ValidationError  # reads grammars, which takes a second

    for version, release, shape in (("v1beta1", "1.32", "tainted"), ("v1beta2", "1.33", "parts")):
        with pytest.raises(ValidationError):
            assert_valid(flat(slices(shape)[0], version), release)
