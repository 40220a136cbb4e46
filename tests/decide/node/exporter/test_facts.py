"""Facts that no other exporter shows, out of what a node offers and who holds it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tonnage.decide.node.choose_config import ConfigChoice, ConfigInForce
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.exporter.facts import (
    DeviceAge,
    NodeAmounts,
    NodeKnowledge,
    PageCounts,
    exporter_facts,
    node_facts,
)
from tonnage.decide.node.exporter.metric_text import metrics_text, series_in
from tonnage.decide.node.offer import NodeOffer, offer_of, plan_of
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.links import Link, PciLevel
from tonnage.model.devices.sharing import Hold, PluginConfig, SharedResource
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.plugin_settings import MigStrategy, SharingKind

SHARED = ResourceName("nvidia.com/gpu.shared")
UNKNOWN = NodeAmounts()
EXCLUSIVE = PluginConfig()
A100 = "NVIDIA A100-SXM4-80GB"
TWO = (Device("GPU-0", 0, "Tesla T4", 15360), Device("GPU-1", 1, "Tesla T4", 15360))
SICK = (TWO[0], Device("GPU-1", 1, "Tesla T4", 15360, healthy=False, reason='it said "no"'))
REPLICAS = PluginConfig(shared=(SharedResource(GPU, SHARED, 4, ("0",)),), sharing_kind=SharingKind.MPS)
PARTS = (
    MigDevice("MIG-a", 0, "3g.40gb", 1, 0, 40192, placement=(4, 4)),
    MigDevice("MIG-b", 1, "1g.10gb", 7, 0, 9728, placement=(0, 1)),
)


def divided(*parts: MigDevice) -> tuple[Device, ...]:
    return (Device("GPU-0", 0, A100, 81920, mig_enabled=True, migs=parts),)


def offer(
    devices: tuple[Device, ...],
    *holds: Hold,
    config: PluginConfig = EXCLUSIVE,
    links: tuple[Link, ...] = (),
) -> NodeOffer:
    inventory = Inventory(devices, driver_version="570.124.06", links=links)
    in_force = ConfigInForce(config, ConfigChoice("", "built-in"))
    plan = plan_of(inventory, in_force, {})
    return offer_of(inventory, in_force, plan, DeviceHolds.of(holds), {})


def samples(text: str, family: str) -> list[tuple[Mapping[str, str], float]]:
    return [
        (sample.labels, sample.value)
        for shown in text_string_to_metric_families(text)
        for sample in shown.samples
        if sample.name == f"tonnage_{family}"
    ]


def facts(
    made: NodeOffer, family: str, amounts: NodeAmounts = UNKNOWN
) -> list[tuple[Mapping[str, str], float]]:
    return samples(metrics_text(node_facts(NodeKnowledge(made.inventory, made.holds, made, amounts))), family)


@pytest.mark.parametrize(
    ("family", "amounts"),
    [
        ("gpu_resource_capacity", {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 7}),
        ("gpu_resource_allocatable", {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 0}),
        ("gpu_resource_allocated", {"nvidia.com/gpu": 1, "nvidia.com/mig-1g.10gb": 0}),
        ("gpu_resource_held", {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 0}),
    ],
)
def test_a_resource_has_what_the_node_says_what_pods_ask_and_what_is_held(
    family: str, amounts: Mapping[str, float]
) -> None:
    known = NodeAmounts(
        {"nvidia.com/gpu": 2, "nvidia.com/mig-1g.10gb": 7, "example.com/nic": 4},
        {"nvidia.com/gpu": 1},
        {"nvidia.com/gpu": 1, "example.com/nic": 1},
    )
    made = offer(TWO, Hold(GPU, ("GPU-0", "GPU-1"), "ml", "train", "main"))
    assert {labels["resource"]: value for labels, value in facts(made, family, known)} == amounts


def test_what_only_the_api_server_knows_is_absent_without_it() -> None:
    made = offer(TWO)
    families = ("capacity", "allocatable", "allocated")
    assert not any(facts(made, f"gpu_resource_{family}") for family in families)
    assert facts(made, "gpu_resource_held") == [({"resource": GPU}, 0)]


def test_health_says_why() -> None:
    healthy, sick = facts(offer(SICK), "gpu_health")
    assert dict(healthy[0]) == {"UUID": "GPU-0", "gpu": "0", "state": "healthy"}
    assert (sick[0]["state"], sick[0]["reason"]) == ("unhealthy", 'it said "no"')


def test_a_mig_device_is_told_by_its_gpu_and_its_instance() -> None:
    made = offer(divided(*PARTS), config=PluginConfig(mig_strategy=MigStrategy.MIXED))
    _, first, second = facts(made, "gpu_health")
    assert first[0] == {
        "UUID": "GPU-0", "gpu": "0", "GPU_I_ID": "1", "GPU_I_PROFILE": "3g.40gb", "state": "healthy",
    }  # fmt: skip
    assert second[0]["GPU_I_ID"] == "7"
    resources = [labels["resource"] for labels, _ in facts(made, "gpu_sharing_replicas")]
    assert resources == ["nvidia.com/mig-3g.40gb", "nvidia.com/mig-1g.10gb"]


def test_sharing_is_told_for_each_device() -> None:
    made = offer(TWO, config=REPLICAS)
    infos = {labels["gpu"]: labels["sharing"] for labels, _ in facts(made, "gpu_info")}
    replicas = {
        labels["gpu"]: (labels["mode"], value) for labels, value in facts(made, "gpu_sharing_replicas")
    }
    assert (infos, replicas) == ({"0": "mps", "1": "none"}, {"0": ("mps", 4), "1": ("none", 1)})


@pytest.mark.parametrize(
    ("parts", "free"),
    [
        pytest.param((), {"7g.80gb": 1, "3g.40gb": 2, "1g.10gb": 7}, id="undivided"),
        pytest.param(PARTS, {"7g.80gb": 0, "3g.40gb": 0, "1g.10gb": 3}, id="3g and 1g are there"),
        pytest.param(PARTS[:1], {"7g.80gb": 0, "3g.40gb": 1, "4g.40gb": 1}, id="3g is there"),
    ],
)
def test_room_for_mig_devices_is_what_fits_beside_those_there(
    parts: tuple[MigDevice, ...], free: Mapping[str, float]
) -> None:
    shown = {
        labels["profile"]: value for labels, value in facts(offer(divided(*parts)), "gpu_mig_placements_free")
    }
    assert {profile: shown[profile] for profile in free} == free


def test_room_is_not_told_where_the_driver_does_not_say_where_devices_lie() -> None:
    hidden = MigDevice("MIG-a", 0, "3g.40gb", 1, 0, 40192)
    made = offer(divided(hidden))
    assert facts(made, "gpu_mig_placements_free") == []
    assert facts(made, "gpu_mig_devices") == [({"UUID": "GPU-0", "gpu": "0", "profile": "3g.40gb"}, 1)]


FOUR = tuple(Device(f"GPU-{number}", number, "Tesla V100-SXM2-32GB", 32768, "7.0") for number in range(4))
PAIRS = tuple(
    Link(FOUR[i].uuid, FOUR[j].uuid, 2 if {i, j} in ({0, 1}, {2, 3}) else 0, PciLevel.SYSTEM)
    for i in range(4)
    for j in range(4)
    if i != j
)


@pytest.mark.parametrize(
    ("ids", "ratio"),
    [
        pytest.param(("GPU-0", "GPU-1"), 1, id="a linked pair is the best"),
        pytest.param(("GPU-0",), None, id="one GPU has no pair"),
        pytest.param(("GPU-0::1", "GPU-0::2"), None, id="nor have two replicas of it"),
    ],
)
def test_quality_is_of_containers_with_several_gpus(ids: tuple[str, ...], ratio: float | None) -> None:
    made = offer(FOUR, Hold(GPU, ids, "ml", "train", "main"), links=PAIRS)
    shown = [value for _, value in facts(made, "gpu_holder_topology_ratio")]
    assert shown == ([] if ratio is None else [ratio])


def test_a_pair_without_a_link_is_worse_than_one_with() -> None:
    made = offer(FOUR, Hold(GPU, ("GPU-0", "GPU-2"), "ml", "train", "main"), links=PAIRS)
    ((labels, value),) = facts(made, "gpu_holder_topology_ratio")
    assert labels == {"namespace": "ml", "pod": "train", "container": "main"}
    assert 0 < value < 0.6


def test_where_nothing_is_offered_nothing_is_said_of_sharing() -> None:
    hold = Hold(GPU, ("GPU-0",), "ml", "train", "main")
    text = metrics_text(node_facts(NodeKnowledge(Inventory(TWO), (hold,))))
    assert [labels.get("sharing") for labels, _ in samples(text, "gpu_info")] == [None, None]
    assert samples(text, "gpu_sharing_replicas") == []
    assert samples(text, "gpu_resource_held") == [({"resource": GPU}, 1)]
    assert len(samples(text, "gpu_health")) == 2


def test_the_exporter_counts_every_series_of_the_page() -> None:
    counts = PageCounts(series=7, errors=2, ages=(DeviceAge(TWO[0], 3.5), DeviceAge(TWO[1], stall_s=61)))
    text = metrics_text(exporter_facts(counts))
    assert samples(text, "exporter_series") == [({}, 7 + series_in(text))]
    assert samples(text, "exporter_scrape_errors_total") == [({}, 2)]
    assert [value for _, value in samples(text, "gpu_driver_stall_seconds")] == [0, 61]
    assert [labels["gpu"] for labels, _ in samples(text, "exporter_reading_age_seconds")] == ["0"]
