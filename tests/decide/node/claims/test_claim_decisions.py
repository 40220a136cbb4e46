"""What a claim's configuration may say, and which claim gets which device."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from support.claim_inputs import V
from tonnage.decide.node.claims.claim_spec import device_name
from tonnage.decide.node.claims.prepare import prepare
from tonnage.decide.node.claims.sharing import ClaimGround, SharedUse
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.model.devices.claims import (
    DRIVER,
    ClaimRef,
    PreparedClaim,
    PublishedDevice,
    ShareRule,
)
from tonnage.model.devices.inventory import TimeSlice
from tonnage.model.devices.sharing import Hold, HoldKind
from tonnage.model.reasons.reason import Reason

REF = ClaimRef("ml", "train", "u-1")

CONFIG = "claim ml/train: status.allocation.devices.config[0]"


def published(count: int) -> tuple[PublishedDevice, ...]:
    return tuple(PublishedDevice(f"gpu-{n}", f"GPU-{n}", {"type": "gpu"}) for n in range(count))


def status(*results: Any, config: Any = ()) -> Any:
    grants = [
        {"request": "gpu", "driver": DRIVER, "pool": "n", "device": "gpu-0", **each} for each in results
    ]
    return {"allocation": {"devices": {"results": grants, "config": list(config)}}}


def opaque(kind: str = "GpuConfig", source: str = "FromClaim", requests: Any = (), **more: Any) -> Any:
    parameters = {"apiVersion": V, "kind": kind, **more}
    return {
        "source": source,
        "requests": list(requests),
        "opaque": {"driver": DRIVER, "parameters": parameters},
    }


SLICED: Any = {"sharing": {"strategy": "TimeSlicing"}}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(status(), "claim ml/train has no device of gpu.nvidia.com", id="nothing-allocated"),
        pytest.param(
            status({"driver": "gpu.example.com"}),
            "claim ml/train has no device of gpu.nvidia.com",
            id="of-another-driver",
        ),
        pytest.param(
            status({"pool": "m"}),
            "device m/gpu-0 of claim ml/train belongs to another node than n",
            id="elsewhere",
        ),
        pytest.param(
            status({"device": "gpu-7"}),
            "device n/gpu-7 of claim ml/train is not offered by this node any more",
            id="gone",
        ),
        pytest.param(
            status({"device": "gpu-1"}),
            "device n/gpu-1 of claim ml/train is held as claim ml/other",
            id="held",
        ),
        pytest.param(
            status({"device": "gpu-2"}),
            "device n/gpu-2 of claim ml/train is unhealthy (Xid 79)",
            id="unhealthy",
        ),
        pytest.param(
            status({"shareID": "8a1e"}),
            "device n/gpu-0 of claim ml/train is a share of a GPU, and the node offers it to one claim alone",
            id="a-share",
        ),
        pytest.param(
            status({}, config=[opaque(sharing={"strategy": "MPS"})]),
            f"{CONFIG}: sharing by MPS needs flags.mpsRoot in the node's configuration;"
            " the chart's mps.root sets it",
            id="mps-without-a-folder",
        ),
        pytest.param(
            status({"adminAccess": True}, config=[opaque(**SLICED)]),
            f"{CONFIG}: who has admin access to a device cannot have it shared",
            id="an-administrator-who-would-share",
        ),
        pytest.param(
            status({}, config=[opaque(), opaque(source="FromClass", **SLICED)]),
            None,
            id="the-claims-own-wins-over-its-classs",
        ),
        pytest.param(
            status({}, config=[opaque("MigDeviceConfig")]), None, id="of-another-type-for-all-is-left-out"
        ),
        pytest.param(
            status({}, config=[opaque("MigDeviceConfig", requests=["gpu"])]),
            f"{CONFIG}: MigDeviceConfig is not for the request gpu, which has a gpu",
            id="of-another-type-for-that-request",
        ),
        pytest.param(
            status({}, config=[opaque(share={})]),
            'claim ml/train: status.allocation.devices.config[0]: unknown field "share": '
            "use sharing if you meant that",
            id="unknown-field",
        ),
        pytest.param(status({"device": "gpu-1", "adminAccess": True}), None, id="an-administrator-beside-it"),
    ],
)
def test_whether_a_claim_gets_its_devices(given: Any, message: str | None) -> None:
    devices = {device.name: device for device in published(2)}
    devices["gpu-2"] = PublishedDevice("gpu-2", "GPU-2", healthy=False, reason="Xid 79")
    held = DeviceHolds.of([Hold("ml/other", ("GPU-1",), kind=HoldKind.CLAIM)])
    decided = prepare(REF, "u-1", given, ClaimGround("n", devices, held))
    assert (decided.message if isinstance(decided, Reason) else None) == message


@pytest.mark.parametrize(
    ("given", "shared", "message"),
    [
        pytest.param(status({"shareID": "8a1e"}), {}, None, id="the-first-part"),
        pytest.param(
            status({"shareID": "8a1e"}, {"shareID": "8a1f"}), {}, None, id="two-parts-of-one-for-one-claim"
        ),
        pytest.param(
            status({"device": "gpu-1", "shareID": "8a1e"}),
            {"GPU-1": (SharedUse("ml/other"),)},
            None,
            id="beside-another-claims-part",
        ),
        pytest.param(
            status({"device": "gpu-1", "shareID": "8a1e"}),
            {},
            "device n/gpu-1 of claim ml/train is held as claim ml/other",
            id="of-a-gpu-that-another-has-alone",
        ),
        pytest.param(
            status({"device": "gpu-1"}),
            {"GPU-1": (SharedUse("ml/other"),)},
            "device n/gpu-1 of claim ml/train is held as claim ml/other",
            id="all-of-a-gpu-of-which-another-has-a-part",
        ),
        pytest.param(
            status({"shareID": "../8a1e"}),
            {},
            "device n/gpu-0 of claim ml/train is a share of a GPU, and the node offers it to one claim alone",
            id="an-id-that-is-no-name",
        ),
        pytest.param(
            status({"shareID": "8a1e"}, config=[opaque(sharing={"strategy": "MPS"})]),
            {},
            f"{CONFIG}: MPS cannot share a GPU of which the claim has a part",
            id="by-mps",
        ),
        pytest.param(
            status({"device": "gpu-1", "shareID": "8a1e"}, config=[opaque(**SLICED)]),
            {"GPU-1": (SharedUse("ml/other"),)},
            "claim ml/train: status.allocation.devices.config: claim ml/other has a part of the GPU with no "
            "time slice, and this one asks for the time slice Default",
            id="with-another-time-slice",
        ),
        pytest.param(
            status({"device": "gpu-1", "shareID": "8a1e"}, config=[opaque(**SLICED)]),
            {"GPU-1": (SharedUse("ml/other", TimeSlice.DEFAULT),)},
            None,
            id="with-the-same-time-slice",
        ),
    ],
)
def test_whether_a_claim_gets_a_part_of_a_gpu(given: Any, shared: Any, message: str | None) -> None:
    rule = {"memory": ShareRule("0", "0", "1Mi")}
    devices = {device.name: replace(device, shares=rule) for device in published(2)}
    held = DeviceHolds.of([Hold("ml/other", ("GPU-1",), kind=HoldKind.CLAIM)])
    ground = ClaimGround("n", devices, held, mps_root="/mps", shared=shared)
    decided = prepare(REF, "u-1", given, ground)
    assert (decided.message if isinstance(decided, Reason) else None) == message
    if isinstance(decided, PreparedClaim):
        names = [device_name(decided, device) for device in decided.devices]
        assert len({*names}) == len(names)


@pytest.mark.parametrize(
    ("uid", "uids", "message"),
    [
        pytest.param(
            "u-2",
            {},
            "claim ml/train got replaced: kubelet asks for u-1, and u-2 has its name",
            id="replaced",
        ),
        pytest.param(
            "", {}, "claim ml/train got replaced: kubelet asks for u-1, and none has its name", id="gone"
        ),
        pytest.param(
            "u-1",
            {"ml/train": "u-0"},
            "an earlier claim ml/train (u-0) still holds devices of this node",
            id="an-earlier-one",
        ),
    ],
)
def test_a_claim_of_another_uid_gets_nothing(uid: str, uids: Any, message: str) -> None:
    ground = ClaimGround("n", {device.name: device for device in published(1)}, DeviceHolds(), uids=uids)
    decided = prepare(REF, uid, status({}), ground)
    assert isinstance(decided, Reason)
    assert decided.message == message


def test_the_request_is_told_without_its_alternative() -> None:
    ground = ClaimGround("n", {device.name: device for device in published(1)}, DeviceHolds(), "boot")
    decided = prepare(REF, "u-1", status({"request": "gpu/large"}), ground)
    assert isinstance(decided, PreparedClaim)
    assert [device.request for device in decided.devices] == ["gpu"]
    assert decided.boot == "boot"
