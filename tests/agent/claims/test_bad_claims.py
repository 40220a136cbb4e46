"""Claims that make no sense: each has a clear error for its pod, one line in the log, and disturbs nobody."""

from __future__ import annotations

import asyncio
import errno
import logging
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.claim_kubelet import eventually
from support.claim_node import ALL, NODE, ClaimNode, names
from support.deadlines import LIMIT_S
from tonnage.adapters import checkpoints
from tonnage.adapters.checkpoints import file_problem
from tonnage.adapters.kubernetes.answers import decoded
from tonnage.decide.node.claims.slices import slice_name
from tonnage.model.devices.claims import DRIVER, ClaimRef
from tonnage.model.errors import ApiError, HardwareError
from tonnage.model.json import JsonObject
from tonnage.wire import kinds

V1 = "resource.nvidia.com/v1beta1"
SLICED = {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}}
WHERE = "status.allocation.devices.config"


def opaque(**parameters: Any) -> JsonObject:
    whole = {"apiVersion": V1, "kind": "GpuConfig", **parameters}
    return {"source": "FromClaim", "opaque": {"driver": DRIVER, "parameters": whole}}


def deep(size: int) -> JsonObject:
    """Nested as deeply as parameters of that size can be."""
    value: JsonObject = {}
    for _ in range(size // len('{"a":}') - 20):
        value = {"a": value}
    return value


@pytest.mark.parametrize(
    ("grant", "config", "why"),
    [
        pytest.param({}, [opaque(share={})], f'{WHERE}[0]: unknown field "share"', id="an-unknown-field"),
        pytest.param(
            {},
            [opaque(apiVersion="resource.nvidia.com/v1")],
            f"{WHERE}[0]: unknown kind of configuration: resource.nvidia.com/v1, GpuConfig",
            id="parameters-of-another-version",
        ),
        pytest.param(
            {}, [opaque(a=deep(5 << 10))], f'{WHERE}[0]: unknown field "a"', id="parameters-nested-deeply"
        ),
        pytest.param(
            {},
            [opaque(sharing=SLICED), opaque(sharing={"strategy": "TimeSlicing"})],
            f"{WHERE}[1]: it contradicts {WHERE}[0] about the request gpu; keep one of the two",
            id="two-configurations-that-disagree",
        ),
        pytest.param(
            {"device": "gpu-7"},
            [],
            "gpu-7 of claim ml/bad is not offered by this node any more",
            id="a-device-that-is-gone",
        ),
        pytest.param(
            {"pool": "b"},
            [],
            f"b/gpu-0 of claim ml/bad belongs to another node than {NODE}",
            id="a-device-of-another-node",
        ),
        pytest.param(
            {"driver": "gpu.example.com"},
            [],
            f"claim ml/bad has no device of {DRIVER}",
            id="a-device-of-another-driver",
        ),
        pytest.param(
            {"uid": "x"}, [], "claim ml/bad got replaced: kubelet asks for x", id="a-uid-that-changed"
        ),
    ],
)
async def test_a_bad_claim_is_refused_with_the_reason_and_disturbs_nobody(
    scene: ClaimNode, caplog: pytest.LogCaptureFixture, grant: Any, config: Any, why: str
) -> None:
    caplog.set_level(logging.WARNING)
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        [before] = await scene.slices(lambda listing: len(names(listing)) == 3)
        good = await scene.claim("good", "gpu-1")
        answer = (await scene.kubelet.prepare(good))[good.uid]
        assert not answer.error
        result = {"request": "gpu", "driver": DRIVER, "pool": NODE, "device": "gpu-0"}
        results = [result | {key: value for key, value in grant.items() if key != "uid"}]
        bad = await scene.claim("bad", results=results, config=config)
        bad = ClaimRef(bad.namespace, bad.name, grant.get("uid", bad.uid))
        for _ in range(3):
            answers = await scene.kubelet.prepare(bad, good)
            assert why in answers[bad.uid].error
            assert answers[good.uid] == answer
        refusals = [record for record in caplog.records if "claim refused" in record.message]
        assert len(refusals) == 1
        assert scene.spec(bad) is None
        assert scene.spec(good) is not None
        assert await scene.kubelet.unprepare(bad) == {bad.uid: ""}
        [after] = await scene.slices(lambda listing: len(names(listing)) == 3)
        assert after.metadata.resource_version == before.metadata.resource_version
        if not grant:
            cleared = {"status": {"allocation": None, "reservedFor": None}}
            mended = {"status": {"allocation": {"devices": {"results": results}}}}
            for patch in (cleared, mended):
                await scene.api.patch(
                    kinds.RESOURCE_CLAIM, "bad", patch, namespace="ml", subresource="status"
                )
            assert not (await scene.kubelet.prepare(bad))[bad.uid].error


async def test_parameters_of_10_kib_that_are_nothing_but_depth_are_refused_by_their_field(
    scene: ClaimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a client of a genuine server reads them; the embedded one takes less depth."""
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(names(listing)) == 3)
        claim = await scene.claim("bad", "gpu-0", config=[opaque(a=None)])
        depth = (10 << 10) // 2 - 100
        get = scene.api.get

        async def read(kind: Any, *arguments: Any, **options: Any) -> Any:
            obj = await get(kind, *arguments, **options)
            if kind is not kinds.RESOURCE_CLAIM:
                return obj
            text = msgspec.json.encode(obj).replace(b'"a":null', b'"a":' + b"[" * depth + b"]" * depth)
            return decoded(msgspec.json.Decoder(kind.type), text)

        monkeypatch.setattr(scene.api, "get", read)
        refusal = (await scene.kubelet.prepare(claim))[claim.uid].error
        assert f'{WHERE}[0]: unknown field "a"' in refusal


async def test_a_field_that_the_server_drops_is_told_once_and_the_rest_is_published(
    scene: ClaimNode, caplog: pytest.LogCaptureFixture
) -> None:
    """In 1.35 the gate DRAPartitionableDevices is off."""
    caplog.set_level(logging.WARNING)
    await scene.begin("version: v1\nclaims: {devices: all, dynamicMig: true}\n")
    hardware = "devices:\n- {uuid: GPU-0, model: A100-40, mig: []}\n- {uuid: GPU-1, model: T4}\n"
    (scene.root / "hardware.yaml").write_text(hardware)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: names(listing) == ["gpu-1"])
        await eventually(scene.events)
        claim = await scene.claim("train", "gpu-1")
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
        (scene.root / "hardware.yaml").write_text(hardware + "- {uuid: GPU-2, model: T4}\n")
        await scene.slices(lambda listing: names(listing) == ["gpu-1", "gpu-2"])
        dropped = [record for record in caplog.records if "drops fields of slices" in record.message]
        assert [record.args for record in dropped] == [(NODE, "sharedCounters")]


async def test_two_requests_with_the_same_device_have_it_in_the_spec_once(scene: ClaimNode) -> None:
    """The scheduler gives nobody that, but a runtime would take no device of a spec with a name twice."""
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("train", "gpu-0", "gpu-0", "gpu-1")
        answer = (await scene.kubelet.prepare(claim))[claim.uid]
        assert [device.device_name for device in answer.devices] == ["gpu-0", "gpu-0", "gpu-1"]
        entries = [entry["name"] for entry in scene.spec(claim)["devices"]]
        assert entries == [f"{claim.uid}-gpu-0", f"{claim.uid}-gpu-1"]


async def test_a_full_disk_keeps_claims_as_they_are_until_there_is_room_and_is_told_once(
    scene: ClaimNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    written, full = checkpoints.write_atomic, True

    def write(file: Path, content: bytes, **options: Any) -> None:
        if full and file.name == "claims":
            raise HardwareError(file_problem("cannot be written", file, OSError(errno.ENOSPC, "No space")))
        written(file, content, **options)

    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(names(listing)) == 3)
        held, waiting = await scene.claim("held", "gpu-0"), await scene.claim("waiting", "gpu-1")
        assert not (await scene.kubelet.prepare(held))[held.uid].error
        monkeypatch.setattr(checkpoints, "write_atomic", write)
        for _ in range(3):
            assert "free space" in (await scene.kubelet.prepare(waiting))[waiting.uid].error
            assert "free space" in (await scene.kubelet.unprepare(held))[held.uid]
        assert scene.spec(waiting) is None
        refusals = [record for record in caplog.records if "claim refused" in record.message]
        assert len(refusals) == 2, "of each claim once"
        full = False
        assert not (await scene.kubelet.prepare(waiting))[waiting.uid].error
        assert await scene.kubelet.unprepare(held, waiting) == {held.uid: "", waiting.uid: ""}


async def test_what_the_server_refuses_as_there_already_is_told_in_its_words(
    scene: ClaimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody's slice of our slice's name: of another driver, so that we neither see nor touch it."""
    monkeypatch.setattr("tonnage.agent.claims.publisher._BACK_OFF_S", (LIMIT_S,))
    await scene.begin(ALL)
    pool = {"name": "other", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": NODE, "devices": [{"name": "gpu-0"}], "pool": pool}
    name = slice_name(0, NODE)
    await scene.api.create(kinds.RESOURCE_SLICE, {"metadata": {"name": name}, "spec": spec})
    created, tries = scene.api.create, 0

    async def counted(kind: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal tries
        tries += kind is kinds.RESOURCE_SLICE
        return await created(kind, *arguments, **options)

    monkeypatch.setattr(scene.api, "create", counted)
    async with scene.agent():
        await scene.kubelet.register()
        [message] = [event.message for event in await eventually(scene.events)]
    assert f'"{name}" already exists' in message
    assert tries < 10, "and then it waits"


async def test_a_server_that_is_too_old_for_claims_is_told_once(
    scene: ClaimNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """1.32 and 1.33 have `v1beta1` and `v1beta2` alone."""
    waiting, listed = asyncio.Semaphore(0), scene.api.list

    async def older(kind: Any, *arguments: Any, **options: Any) -> Any:
        if kind is kinds.RESOURCE_SLICE:
            waiting.release()
            raise ApiError(404, "NotFound", "the server could not find the requested resource")
        return await listed(kind, *arguments, **options)

    monkeypatch.setattr(scene.api, "list", older)
    monkeypatch.setattr("tonnage.agent.claims.publisher._BACK_OFF_S", (0.0,))
    await scene.begin(ALL)
    async with scene.agent(), asyncio.timeout(LIMIT_S):
        await scene.kubelet.register()
        events = await eventually(scene.events)
        for _ in range(5):
            await waiting.acquire()
        [message] = [event.message for event in events if event.reason == "ClaimsNotPublished"]
    assert "Kubernetes 1.34 was the first with it" in message
    assert len([record for record in caplog.records if "slices not published" in record.message]) == 1


async def test_an_api_server_that_is_silent_is_named_before_kubelet_gives_up(
    scene: ClaimNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tonnage.agent.claims.preparation._ANSWER_S", 0.1)
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(names(listing)) == 3)
        claim = await scene.claim("train", "gpu-0")
        answering = asyncio.Event()
        get = scene.api.get

        async def silent(kind: Any, *arguments: Any, **options: Any) -> Any:
            if kind is kinds.RESOURCE_CLAIM:
                await answering.wait()
            return await get(kind, *arguments, **options)

        monkeypatch.setattr(scene.api, "get", silent)
        refusal = (await scene.kubelet.prepare(claim))[claim.uid].error
        assert "the API server has not answered" in refusal
        answering.set()
        monkeypatch.setattr("tonnage.agent.claims.preparation._ANSWER_S", 60)
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
