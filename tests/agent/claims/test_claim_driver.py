"""The driver for claims over real sockets, with an API server that validates what is published."""

from __future__ import annotations

import shutil
from typing import Any

import pytest

from support.claim_kubelet import eventually
from support.claim_node import ALL, HARDWARE, NODE, SOME, ClaimNode, names
from support.claim_reports import holders, reported
from tonnage.agent.options import STATE
from tonnage.decide.node.cdi.rules import spec_problems
from tonnage.decide.node.claims.slices import MARK
from tonnage.model.devices.claims import DRIVER, ClaimRef
from tonnage.wire import kinds
from tonnage.wire.kubelet.claim_methods import V1, V1BETA1


async def test_gpus_are_published_as_nvidias_driver_has_them_once_kubelet_knows_the_driver(
    scene: ClaimNode,
) -> None:
    await scene.begin(SOME)
    async with scene.agent():
        await scene.kubelet.until_there()
        assert not (await scene.api.list(kinds.RESOURCE_SLICE)).items
        info = await scene.kubelet.register()
        assert (info.type, info.name, list(info.supported_versions)) == (
            *("DRAPlugin", DRIVER),
            [V1, V1BETA1, "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"],
        )
        assert info.endpoint == f"/var/lib/kubelet/plugins/{DRIVER}/tonnage.sock"
        [published] = await scene.slices(lambda listing: len(listing) == 1)
        spec, meta = published.spec, published.metadata
        assert (spec["driver"], spec["nodeName"]) == (DRIVER, NODE)
        assert spec["pool"] == {"name": NODE, "generation": 1, "resourceSliceCount": 1}
        assert (meta.labels[MARK], meta.owner_references[0].kind) == ("true", "Node")
        first, second = spec["devices"]
        assert (first["name"], second["name"]) == ("gpu-0", "gpu-1")
        assert {key: each["value"] for key, each in first["capacity"].items()} == {
            "memory": "40Gi",
            "multiprocessors": "98",
            "copyEngines": "7",
            "decoders": "5",
            "encoders": "0",
            "jpegEngines": "1",
            "ofaEngines": "1",
        }
        attributes = first["attributes"]
        assert attributes["type"] == {"string": "gpu"}
        assert attributes["uuid"] == {"string": "GPU-0"}
        assert attributes["productName"] == {"string": "NVIDIA A100-SXM4-40GB"}
        assert attributes["architecture"] == {"string": "Ampere"}
        assert attributes["cudaComputeCapability"] == {"version": "8.0.0"}
        assert second["attributes"]["resource.kubernetes.io/numaNode"] == {"int": 1}

        # kubelet deletes a node's slices when it starts: they come back.
        await scene.api.delete(kinds.RESOURCE_SLICE, meta.name)
        [again] = await scene.slices(lambda listing: listing and listing[0].metadata.uid != meta.uid)
        assert again.spec == spec

        # Somebody changes one: it is said again, in another generation.
        patch = {"spec": {"devices": [first]}}
        await scene.api.patch(kinds.RESOURCE_SLICE, meta.name, patch)
        [whole] = await scene.slices(lambda listing: names(listing) == ["gpu-0", "gpu-1"])
        assert whole.spec["pool"]["generation"] == 2


async def test_a_claim_is_prepared_once_and_given_back(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(names(listing)) == 3)
        claim = await scene.claim("train", "gpu-0", "gpu-2")
        answer = (await scene.kubelet.prepare(claim))[claim.uid]
        assert answer.error == ""
        assert [(list(d.request_names), d.pool_name, d.device_name) for d in answer.devices] == [
            (["gpu"], NODE, "gpu-0"),
            (["gpu"], NODE, "gpu-2"),
        ]
        ids = [name for device in answer.devices for name in device.cdi_device_ids]
        assert ids == [f"k8s.gpu.nvidia.com/claim={claim.uid}-gpu-{n}" for n in (0, 2)]
        spec = scene.spec(claim)
        assert spec_problems(spec) == ()
        nodes = {d["name"]: [n["path"] for n in d["containerEdits"]["deviceNodes"]] for d in spec["devices"]}
        assert nodes == {f"{claim.uid}-gpu-{n}": [f"/dev/nvidia{n}"] for n in (0, 2)}

        again = (await scene.kubelet.prepare(claim, version=V1BETA1))[claim.uid]
        assert again == answer
        other = await scene.claim("other", "gpu-2")
        refused = (await scene.kubelet.prepare(other))[other.uid].error
        assert refused == (f"device {NODE}/gpu-2 of claim ml/other is held as claim ml/train by ml/train-pod")
        assert scene.spec(other) is None
        assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}
        assert scene.spec(claim) is None
        assert (await scene.kubelet.prepare(other))[other.uid].error == ""
        assert await scene.kubelet.unprepare(claim, other) == {claim.uid: "", other.uid: ""}
        assert await scene.kubelet.unprepare(ClaimRef("ml", "never", "x")) == {"x": ""}
        assert not await scene.kubelet.prepare()


async def test_an_agent_that_starts_again_knows_what_was_prepared_without_the_claim(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("train", "gpu-0")
        answer = (await scene.kubelet.prepare(claim))[claim.uid]
    await scene.api.delete(kinds.RESOURCE_CLAIM, "train", namespace="ml")
    async with scene.agent():
        await scene.kubelet.register()
        assert (await scene.kubelet.prepare(claim))[claim.uid] == answer
        other = await scene.claim("other", "gpu-0")
        assert "is held as claim ml/train" in (await scene.kubelet.prepare(other))[other.uid].error
        assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}
        assert (await scene.kubelet.prepare(other))[other.uid].error == ""


async def test_after_a_boot_a_claim_is_judged_anew(scene: ClaimNode) -> None:
    boot = scene.root / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("one\n")
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("train", "gpu-0")
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
    boot.write_text("two\n")
    shutil.rmtree(scene.root / "var/run/cdi")
    async with scene.agent():
        await scene.kubelet.register()
        other = await scene.claim("other", "gpu-0")
        assert not (await scene.kubelet.prepare(other))[other.uid].error, "nothing outlives the boot"
        assert "claim ml/other" in (await scene.kubelet.prepare(claim))[claim.uid].error
        assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}


@pytest.mark.parametrize(
    ("content", "told"),
    [
        pytest.param(b"tonnage-checkpoint v1 0000\n{", "", id="cut-off-is-set-aside"),
        pytest.param(
            b'{"version":2,"claims":[]}',
            "version 2, and this program reads version 1; run the agent that wrote the file, or remove",
            id="newer",
        ),
    ],
)
async def test_a_file_of_claims_that_cannot_be_read(
    scene: ClaimNode, caplog: pytest.LogCaptureFixture, content: bytes, told: str
) -> None:
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("train", "gpu-0")
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
    file = scene.root / STATE / "claims"
    if told:
        from tonnage.adapters.checkpoints import FolderCheckpoints

        await FolderCheckpoints(file.parent).save("claims", content)
    else:
        file.write_bytes(content)
    async with scene.agent():
        if told:  # a newer program's file is left as it is, and whoever asks is told why
            await scene.kubelet.register()
            await scene.slices(lambda listing: not listing)
            assert told in (await scene.kubelet.prepare(claim))[claim.uid].error
            assert told in (await scene.kubelet.unprepare(claim))[claim.uid]
            assert scene.spec(claim) is not None
            assert content in file.read_bytes()
            for _ in range(2):
                assert told in (await scene.kubelet.prepare(claim))[claim.uid].error
            refusals = [record for record in caplog.records if "claim refused" in record.message]
            assert len(refusals) == 1, "the log has it once, and each answer to kubelet"
        else:
            await scene.kubelet.register()
            assert file.with_name("claims.damaged").exists()
            other = await scene.claim("other", "gpu-0")
            assert "is held as claim ml/train" in (await scene.kubelet.prepare(other))[other.uid].error
            assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}
            assert scene.spec(claim) is None, "it was given back, though nothing is noted of it"
            assert not (await scene.kubelet.prepare(other))[other.uid].error
            assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}
            assert "is held" in (await scene.kubelet.prepare(claim))[claim.uid].error
    if told:  # as the remedy has it
        file.unlink()
        async with scene.agent():
            await scene.kubelet.register()
            assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}
            assert scene.spec(claim) is None
            other = await scene.claim("other", "gpu-0")
            assert not (await scene.kubelet.prepare(other))[other.uid].error
    unread = [record for record in caplog.records if "claims not readable" in record.message]
    assert len(unread) == 1


async def test_where_another_driver_of_that_name_serves_ours_does_not(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    async with scene.kubelet.other_driver() as socket, scene.agent():
        events = await eventually(scene.events)
        assert [event.message for event in events] == [
            f"another driver {DRIVER} is registered on this node: {socket}; remove one of the two"
        ]
        assert not scene.kubelet.socket.exists()
        assert not (await scene.api.list(kinds.RESOURCE_SLICE)).items


async def test_another_driver_that_comes_after_ours_ends_ours_and_leaves_it_the_node(
    scene: ClaimNode,
) -> None:
    await scene.begin(ALL)
    stale = scene.kubelet.registry / f"{DRIVER}-reg.sock"
    async with scene.kubelet.other_driver("gpu.example.com"), scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(listing) == 1)
        theirs = {"driver": DRIVER, "nodeName": NODE, "devices": [{"name": "gpu-0"}]}
        pool = {"name": NODE, "generation": 1, "resourceSliceCount": 1}
        body = {"metadata": {"name": "theirs"}, "spec": {**theirs, "pool": pool}}
        await scene.api.create(kinds.RESOURCE_SLICE, body)
        await scene.kubelet.until_gone()
        await scene.slices(lambda listing: [each.metadata.name for each in listing] == ["theirs"])
        await scene.api.delete(kinds.RESOURCE_SLICE, "theirs")
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(names(listing)) == 3)
    assert not stale.exists()


async def test_a_label_keeps_claims_off_a_node_and_lets_them_back(scene: ClaimNode) -> None:
    await scene.begin(SOME)
    async with scene.agent():
        await scene.kubelet.until_there()
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(listing) == 1)
        for label in ("nvidia.com/gpu.deploy.dra-driver", "nvidia.com/gpu.deploy.operands"):
            off: Any = {"metadata": {"labels": {label: "false"}}}
            await scene.api.patch(kinds.NODE, NODE, off)
            await scene.slices(lambda listing: not listing)
            await scene.api.patch(kinds.NODE, NODE, {"metadata": {"labels": {label: None}}})
            await scene.kubelet.until_there()
            await scene.kubelet.register()
            await scene.slices(lambda listing: len(listing) == 1)


async def test_a_gpu_is_claimed_or_an_extended_resource_and_a_switch_waits_for_its_holder(
    scene: ClaimNode,
) -> None:
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("train", "gpu-0")
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
        status = await reported(scene, lambda status: not status["resources"])
        assert {device["resource"] for device in status["devices"]} == {""}
        await scene.configure("version: v1\n")
        await scene.slices(lambda listing: not listing)
        status = await reported(scene, lambda status: status["resources"])
        [resource] = status["resources"]
        assert (resource["name"], resource["capacity"], resource["allocatable"]) == ("nvidia.com/gpu", 3, 2)
        assert status["devices"][0]["reason"] == "held as claim ml/train by ml/train-pod"
        assert scene.kubelet.socket.exists(), "somebody must take the claim back"
        assert await scene.kubelet.unprepare(claim) == {claim.uid: ""}
        await reported(scene, lambda status: status["resources"][0]["allocatable"] == 3)
        await scene.kubelet.until_gone()


async def test_an_unhealthy_gpu_is_not_published_where_the_server_drops_taints_and_comes_back(
    scene: ClaimNode,
) -> None:
    """In 1.35 the gate DRADeviceTaints is off."""
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(names(listing)) == 3)
        sick = HARDWARE.replace("{uuid: GPU-1,", "{uuid: GPU-1, health: unhealthy, reason: smoke,")
        (scene.root / "hardware.yaml").write_text(sick)
        await scene.slices(lambda listing: names(listing) == ["gpu-0", "gpu-2"])
        claim = await scene.claim("train", "gpu-1")
        refused = (await scene.kubelet.prepare(claim))[claim.uid].error
        assert refused == f"device {NODE}/gpu-1 of claim ml/train is unhealthy (smoke)"
        (scene.root / "hardware.yaml").write_text(HARDWARE)
        await scene.slices(lambda listing: len(names(listing)) == 3)
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error


@pytest.mark.long
async def test_an_unhealthy_gpu_is_tainted_where_the_server_keeps_taints_and_the_taint_goes(
    gated: ClaimNode,
) -> None:
    await gated.begin(ALL)

    def taints(listing: list[Any]) -> list[Any]:
        return [
            device["taints"][0]["key"]
            for each in listing
            for device in each.spec["devices"]
            if device.get("taints")
        ]

    async with gated.agent():
        await gated.kubelet.register()
        await gated.slices(lambda listing: len(names(listing)) == 3)
        sick = HARDWARE.replace("{uuid: GPU-1,", "{uuid: GPU-1, health: unhealthy, reason: smoke,")
        (gated.root / "hardware.yaml").write_text(sick)
        listing = await gated.slices(taints)
        assert (names(listing), taints(listing)) == (["gpu-0", "gpu-1", "gpu-2"], ["tonnage.dev/unhealthy"])
        (gated.root / "hardware.yaml").write_text(HARDWARE)
        await gated.slices(lambda listing: len(names(listing)) == 3 and not taints(listing))


async def test_a_claim_that_the_scheduler_made_for_an_extended_resource_is_served(scene: ClaimNode) -> None:
    """By its class's extendedResourceName: one request for each container, by its number."""
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        request = "container-0-request-0"
        claim = await scene.claim("pod-extended-resources-x7k2p", "gpu-0", request=request)
        [device] = (await scene.kubelet.prepare(claim))[claim.uid].devices
        assert ([*device.request_names], device.device_name) == ([request], "gpu-0")


@pytest.mark.parametrize("version", ["v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"])
async def test_kubelet_hears_of_the_health_of_devices_as_it_changes(scene: ClaimNode, version: str) -> None:
    await scene.begin(SOME)
    async with scene.agent():
        await scene.kubelet.register()
        await scene.slices(lambda listing: len(names(listing)) == 2)
        async with scene.kubelet.health(version) as reports:
            assert await anext(reports) == {f"{NODE}/gpu-0": "HEALTHY", f"{NODE}/gpu-1": "HEALTHY"}
            sick = HARDWARE.replace("{uuid: GPU-1,", "{uuid: GPU-1, health: unhealthy, reason: smoke,")
            (scene.root / "hardware.yaml").write_text(sick)
            assert (await anext(reports))[f"{NODE}/gpu-1"] == "UNHEALTHY smoke"


async def test_kubelet_hears_of_a_claimed_device_also_where_it_is_offered_no_more(scene: ClaimNode) -> None:
    """Else it would show an unknown health for a GPU of which the agent knows that it is gone."""
    await scene.begin(ALL)
    async with scene.agent():
        await scene.kubelet.register()
        claim = await scene.claim("train", "gpu-1")
        assert not (await scene.kubelet.prepare(claim))[claim.uid].error
        async with scene.kubelet.health("v1.DRAResourceHealth") as reports:
            assert len(await anext(reports)) == 3
            await scene.configure("version: v1\nclaims: {devices: [GPU-0]}\n")
            well = {f"{NODE}/gpu-0": "HEALTHY"}
            assert await anext(reports) == {**well, f"{NODE}/gpu-1": "HEALTHY"}
            lost = HARDWARE.replace("- {uuid: GPU-1, model: A100-40, numa: 1}\n", "")
            (scene.root / "hardware.yaml").write_text(lost)
            gone = {f"{NODE}/gpu-1": "UNHEALTHY it is gone from the node"}
            assert await anext(reports) == {**well, **gone}


async def test_mig_devices_that_exist_are_claimed_by_nvidias_names(scene: ClaimNode) -> None:
    await scene.begin(ALL)
    divided = (
        "devices:\n- {uuid: GPU-0, model: A100-40, mig: [3g.20gb, 1g.5gb]}\n- {uuid: GPU-1, model: T4}\n"
    )
    (scene.root / "hardware.yaml").write_text(divided)
    async with scene.agent():
        await scene.kubelet.register()
        listing = await scene.slices(lambda listing: len(names(listing)) == 3)
        assert names(listing) == ["gpu-0-mig-3g20gb-9-0", "gpu-0-mig-1g5gb-19-4", "gpu-1"]
        large = listing[0].spec["devices"][0]
        uuid = large["attributes"]["uuid"]["string"]
        assert large["attributes"]["parentUUID"] == {"string": "GPU-0"}
        config = [
            {
                "source": "FromClaim",
                "requests": ["gpu"],
                "opaque": {
                    "driver": DRIVER,
                    "parameters": {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "MigDeviceConfig"},
                },
            }
        ]
        claim = await scene.claim("part", "gpu-0-mig-3g20gb-9-0", config=config)
        answer = (await scene.kubelet.prepare(claim))[claim.uid]
        assert [device.device_name for device in answer.devices] == ["gpu-0-mig-3g20gb-9-0"]
        [entry] = scene.spec(claim)["devices"]
        assert entry["name"] == f"{claim.uid}-gpu-0-mig-3g20gb-9-0"
        status = await reported(scene, holders)
        assert holders(status) == [(uuid, "part-pod")]
        other = await scene.claim("other", "gpu-0-mig-3g20gb-9-0")
        assert "is held as claim ml/part" in (await scene.kubelet.prepare(other))[other.uid].error
        beside = await scene.claim("beside", "gpu-0-mig-1g5gb-19-4")
        assert not (await scene.kubelet.prepare(beside))[beside.uid].error
        assert await scene.kubelet.unprepare(claim, beside) == {claim.uid: "", beside.uid: ""}
