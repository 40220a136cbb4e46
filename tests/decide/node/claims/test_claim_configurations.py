"""What the configurations of a claim come to, with alternatives and several drivers."""

from __future__ import annotations

from typing import Any

import pytest

from decide.node.claims.test_claim_decisions import REF, SLICED, opaque, published, status
from tonnage.decide.node.claims.claim_spec import device_name
from tonnage.decide.node.claims.prepare import prepare
from tonnage.decide.node.claims.sharing import ClaimGround, daemon_name
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.model.devices.claims import (
    PreparedClaim,
    PublishedDevice,
    SlicedDevice,
)
from tonnage.model.devices.inventory import TimeSlice
from tonnage.model.reasons.reason import Reason


@pytest.mark.parametrize(
    ("configs", "slices", "daemons"),
    [
        pytest.param([], (), (), id="nothing-asked-for"),
        pytest.param(
            [opaque(**SLICED)],
            (SlicedDevice("GPU-0", TimeSlice.DEFAULT), SlicedDevice("GPU-1", TimeSlice.DEFAULT)),
            (),
            id="time-slices-of-every-gpu",
        ),
        pytest.param(
            [opaque(source="FromClass", **SLICED), opaque(requests=["b"], sharing={"strategy": "MPS"})],
            (SlicedDevice("GPU-0", TimeSlice.DEFAULT),),
            ((100, (("GPU-1", 0),)),),
            id="the-claims-own-for-one-request",
        ),
        pytest.param(
            [
                opaque(
                    sharing={
                        "strategy": "MPS",
                        "mpsConfig": {
                            "defaultActiveThreadPercentage": 50,
                            "defaultPinnedDeviceMemoryLimit": "2Gi",
                            "defaultPerDevicePinnedMemoryLimit": {"1": "1Gi"},
                        },
                    }
                )
            ],
            (),
            ((50, (("GPU-0", 2048), ("GPU-1", 1024))),),
            id="one-daemon-for-a-configuration",
        ),
    ],
)
def test_what_configurations_come_to(configs: Any, slices: Any, daemons: Any) -> None:
    devices = {device.name: device for device in published(2)}
    gpu_status = status({"request": "a"}, {"request": "b", "device": "gpu-1"}, config=configs)
    decided = prepare(REF, "u-1", gpu_status, ClaimGround("n", devices, DeviceHolds(), mps_root="/mps"))
    assert isinstance(decided, PreparedClaim)
    assert decided.slices == slices
    seen = [(d.threads_percent, tuple((m.uuid, m.limit_mib) for m in d.devices)) for d in decided.daemons]
    assert tuple(seen) == daemons
    assert [d.resource for d in decided.daemons] == [daemon_name("u-1", n) for n in range(len(daemons))]


@pytest.mark.parametrize("name", ["2", "GPU-9", "MIG-1"])
def test_a_limit_of_a_device_that_the_configuration_is_not_for_is_refused_by_name(name: str) -> None:
    limits = {"defaultPerDevicePinnedMemoryLimit": {"GPU-0": "1Gi", "1": "1Gi", name: "1Gi"}}
    config = [opaque(sharing={"strategy": "MPS", "mpsConfig": limits})]
    devices = {device.name: device for device in published(2)}
    gpu_status = status({"request": "a"}, {"request": "b", "device": "gpu-1"}, config=config)
    decided = prepare(REF, "u-1", gpu_status, ClaimGround("n", devices, DeviceHolds(), mps_root="/mps"))
    assert isinstance(decided, Reason)
    assert (
        f"defaultPerDevicePinnedMemoryLimit.{name} is none of the devices of the configuration, which are "
        "0 to 1 or their UUIDs"
    ) in decided.message


MIXED = {
    "gpu-0": PublishedDevice("gpu-0", "GPU-0", {"type": "gpu"}),
    "gpu-1": PublishedDevice("gpu-1", "GPU-1", {"type": "gpu"}),
    "gpu-2-mig-1": PublishedDevice("gpu-2-mig-1", "MIG-1", {"type": "mig"}),
}
MPS: Any = {"sharing": {"strategy": "MPS"}}
SHORT: Any = {"sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Short"}}}
LARGE: Any = {"request": "gpu/large"}
SMALL: Any = {"request": "gpu/small", "device": "gpu-2-mig-1"}


@pytest.mark.parametrize(
    ("results", "configs", "expected"),
    [
        pytest.param([LARGE], [opaque(requests=["gpu"], **SHORT)], ["GPU-0 SHORT"], id="by-its-request"),
        pytest.param(
            [LARGE], [opaque(requests=["gpu/large"], **SHORT)], ["GPU-0 SHORT"], id="by-its-own-name"
        ),
        pytest.param([LARGE], [opaque(requests=["gpu/small"], **SHORT)], [], id="of-another-alternative"),
        pytest.param([LARGE], [opaque(requests=["gpu/l", "large"], **SHORT)], [], id="of-no-request"),
        pytest.param(
            [SMALL],
            [opaque(requests=["gpu"], **SHORT), opaque("MigDeviceConfig", requests=["gpu"], **MPS)],
            ["MIG-1 MPS"],
            id="each-type-of-device-has-its-own-under-the-requests-name",
        ),
        pytest.param(
            [SMALL],
            [opaque(requests=["gpu/small"], **SHORT)],
            "GpuConfig is not for the request gpu/small, which has a mig",
            id="of-another-type-under-the-alternatives-name",
        ),
        pytest.param(
            [LARGE],
            [opaque(requests=["gpu"], **MPS), opaque(requests=["gpu/large"], **SHORT)],
            ["GPU-0 SHORT"],
            id="an-alternatives-own-after-that-of-all",
        ),
        pytest.param(
            [LARGE],
            [opaque(requests=["gpu/large"], **MPS), opaque(requests=["gpu/large"], **SHORT)],
            "config[0] about the request gpu/large; keep one of the two",
            id="two-for-one-alternative",
        ),
        pytest.param(
            [LARGE, {**LARGE, "device": "gpu-1"}, {"request": "gpu/large", "device": "gpu-2-mig-1"}],
            [opaque(**SHORT), opaque("MigDeviceConfig", **MPS)],
            ["GPU-0 SHORT", "GPU-1 SHORT", "MIG-1 MPS"],
            id="a-request-with-devices-of-both-types",
        ),
        pytest.param(
            [{"request": "gpu", "adminAccess": True}],
            [opaque(source="FromClass", **MPS)],
            [],
            id="its-classs-not-where-it-only-looks",
        ),
        pytest.param(
            [{"request": "gpu", "adminAccess": True}],
            [opaque(source="FromClass", **MPS), opaque(**SHORT)],
            "config[1]: who has admin access to a device cannot have it shared",
            id="its-own-where-it-only-looks",
        ),
    ],
)
def test_which_configuration_an_alternative_gets(results: Any, configs: Any, expected: Any) -> None:
    ground = ClaimGround("n", MIXED, DeviceHolds(), mps_root="/mps")
    decided = prepare(REF, "u-1", status(*results, config=configs), ground)
    if isinstance(decided, Reason):
        assert decided.message.endswith(expected)
        return
    assert isinstance(decided, PreparedClaim)
    assert {device.request for device in decided.devices} == {"gpu"}
    assert all("/" not in device_name(decided, device) for device in decided.devices)
    slices = [f"{each.uuid} {each.interval.name}" for each in decided.slices]
    assert [
        *slices,
        *(f"{device.uuid} MPS" for daemon in decided.daemons for device in daemon.devices),
    ] == expected
