"""What a node offers by MIG strategy and name: correct where NVIDIA's plugin gives up the whole node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.resource_units import fits, mig_resource
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import NodePlan, PluginConfig, SharedResource
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.plugin_settings import MigStrategy, NamePattern

A100, H100 = "NVIDIA A100-SXM4-80GB", "NVIDIA H100 80GB HBM3"
SMALL, LARGE = ResourceName("nvidia.com/mig-1g.10gb"), ResourceName("nvidia.com/mig-3g.40gb")


def device(index: int, *profiles: str, mig: bool | None = None, product: str = A100) -> Device:
    """A device, divided into these profiles."""
    uuid = f"GPU-{index}"
    migs = tuple(
        MigDevice(
            f"MIG-{index}-{place}", place, profile, gpu_instance=place + 7, compute_instance=0, memory_mib=1
        )
        for place, profile in enumerate(profiles)
    )
    enabled = bool(profiles) if mig is None else mig
    return Device(
        uuid, index, product, 81920, minor=index, numa_node=index // 4, mig_enabled=enabled, migs=migs
    )


def planned(strategy: str, *devices: Device, config: PluginConfig | None = None) -> NodePlan:
    return share(Inventory(devices), replace(config or PluginConfig(), mig_strategy=MigStrategy(strategy)))


def offered(plan: NodePlan) -> dict[str, list[str]]:
    return {resource.name: [slot.id for slot in resource.slots] for resource in plan.resources}


UNIFORM = (device(0, "1g.10gb", "1g.10gb"), device(1, "1g.10gb"))
MIXED = (device(0), device(1, "1g.10gb", "3g.40gb"), device(2, "1g.10gb"))


@pytest.mark.parametrize(
    ("strategy", "devices", "resources"),
    [
        pytest.param("none", UNIFORM, {GPU: ["GPU-0", "GPU-1"]}, id="none: whole ones, divided or not"),
        pytest.param(
            "single",
            UNIFORM,
            {GPU: ["MIG-0-0", "MIG-0-1", "MIG-1-0"]},
            id="single: parts as if they were whole",
        ),
        pytest.param("single", (device(0), device(1)), {GPU: ["GPU-0", "GPU-1"]}, id="single: no MIG at all"),
        pytest.param(
            "mixed",
            MIXED,
            {GPU: ["GPU-0"], SMALL: ["MIG-1-0", "MIG-2-0"], LARGE: ["MIG-1-1"]},
            id="mixed: whole ones, and a resource for each profile",
        ),
        pytest.param(
            "mixed",
            (device(0, "1g.10gb+me", "1g.24gb-me", "1g.12gb+me.all"),),
            {
                "nvidia.com/mig-1g.10gb.me": ["MIG-0-0"],
                "nvidia.com/mig-1g.24gb-me": ["MIG-0-1"],
                "nvidia.com/mig-1g.12gb.me.all": ["MIG-0-2"],
            },
            id="mixed: attributes of profiles",
        ),
        pytest.param(
            "mixed",
            (device(0, "1c.3g.20gb", "2c.3g.20gb", "3g.20gb"),),
            {
                "nvidia.com/mig-1c.3g.20gb": ["MIG-0-0"],
                "nvidia.com/mig-2c.3g.20gb": ["MIG-0-1"],
                "nvidia.com/mig-3g.20gb": ["MIG-0-2"],
            },
            id="mixed: parts of a GPU instance have names, too",
        ),
    ],
)
def test_mig_strategies(strategy: str, devices: Sequence[Device], resources: dict[str, list[str]]) -> None:
    plan = planned(strategy, *devices)
    assert offered(plan) == resources
    assert [why for why in plan.refusals if "withheld" in why.message] == []


@pytest.mark.parametrize(
    ("strategy", "devices", "resources", "why"),
    [
        pytest.param(
            "single",
            (device(0, "1g.10gb"), device(1, "1g.10gb"), device(2, "3g.40gb")),
            {GPU: ["MIG-0-0", "MIG-1-0"]},
            "device 2 (GPU-2) is withheld, more than one MIG device type present on node: it has 3g.40gb,"
            " this node offers 1g.10gb",
            id="single: another profile",
        ),
        pytest.param(
            "single",
            (device(0, "3g.40gb"), device(1, "1g.10gb", "3g.40gb"), device(2, "1g.10gb")),
            {GPU: ["MIG-0-0"]},
            "device 1 (GPU-1) is withheld, more than one MIG device type present: 1g.10gb, 3g.40gb;"
            " MIG strategy single offers one",
            id="single: two profiles on one device, and the lowest index between equals",
        ),
        pytest.param(
            "single",
            (device(0, "1g.10gb"), device(1), device(2)),
            {GPU: ["GPU-1", "GPU-2"]},
            "device 0 (GPU-0) is withheld, all devices on the node must be configured with the same"
            " migEnabled value: it has 1g.10gb, this node offers whole devices",
            id="single: divided among whole ones",
        ),
        pytest.param(
            "single",
            (device(0, "1g.10gb"), device(1, mig=True)),
            {GPU: ["MIG-0-0"]},
            "device 1 has no MIG devices configured: MIG is enabled on GPU-1, so it offers nothing until they"
            " are created or MIG is disabled",
            id="single: nothing made yet",
        ),
        pytest.param(
            "mixed",
            (device(0), device(1, mig=True)),
            {GPU: ["GPU-0"]},
            "device 1 has no MIG devices configured",
            id="mixed: nothing made yet",
        ),
        pytest.param(
            "none",
            (device(0), device(1, mig=True)),
            {GPU: ["GPU-0"]},
            "device 1 has no MIG devices configured",
            id="none: nothing computes on a device that waits for parts",
        ),
        pytest.param(
            "none",
            (device(0, "1g.10gb"),),
            {GPU: ["GPU-0"]},
            "device 0 (GPU-0) has MIG enabled, which MIG strategy none ignores: containers compute on one of"
            " its MIG devices",
            id="none: a divided device is said to be one",
        ),
        pytest.param(
            "mixed",
            (device(0, "1g.10gb", "Odd Profile"),),
            {SMALL: ["MIG-0-0"]},
            "MIG profile 'Odd Profile' does not match any resource patterns, so MIG-0-1 is withheld: ",
            id="mixed: a profile that makes no name",
        ),
    ],
)
def test_only_the_odd_device_is_withheld_and_said_to_be(
    strategy: str, devices: Sequence[Device], resources: dict[str, list[str]], why: str
) -> None:
    plan = planned(strategy, *devices)
    assert offered(plan) == resources
    assert [reason for reason in plan.refusals if reason.message.startswith(why)], plan.refusals


def test_mig_devices_have_place_and_health_of_their_device() -> None:
    lost = replace(device(4, "1g.10gb"), healthy=False, reason="GPU is lost")
    (resource,) = planned("mixed", device(0, "1g.10gb"), lost).resources
    assert [(s.part_of, s.healthy, s.reason, s.numa_node) for s in resource.slots] == [
        ("GPU-0", True, "", 0),
        ("GPU-4", False, "GPU is lost", 1),
    ]


NAMED = PluginConfig(
    gpu_names=(
        NamePattern("NVIDIA A100*", ResourceName("nvidia.com/a100")),
        NamePattern("*80GB*", ResourceName("nvidia.com/big")),
    ),
    mig_names=(NamePattern("1g.*", ResourceName("nvidia.com/small")),),
)


def test_the_first_pattern_that_fits_names_a_device_and_none_keeps_the_name() -> None:
    devices = (
        device(0),
        device(1, product=H100),
        device(2, product="Tesla T4"),
        device(3, "1g.10gb", "3g.40gb"),
    )
    assert offered(planned("mixed", *devices, config=NAMED)) == {
        "nvidia.com/a100": ["GPU-0"],
        "nvidia.com/big": ["GPU-1"],
        GPU: ["GPU-2"],
        "nvidia.com/small": ["MIG-3-0"],
        LARGE: ["MIG-3-1"],
    }
    assert offered(planned("single", device(0, "1g.10gb"), config=NAMED)) == {"nvidia.com/small": ["MIG-0-0"]}


@pytest.mark.parametrize(
    ("devices", "chosen"),
    [
        pytest.param(("0:1",), {"MIG-0-1"}, id="index of a MIG device"),
        pytest.param(("MIG-1-0",), {"MIG-1-0"}, id="uuid"),
        pytest.param(("MIG-GPU-0/7/0",), {"MIG-0-0"}, id="uuid of old drivers"),
        pytest.param(2, {"MIG-0-0", "MIG-0-1"}, id="a count"),
        pytest.param(None, {"MIG-0-0", "MIG-0-1", "MIG-1-0"}, id="all"),
        pytest.param(("0", "GPU-0"), set[str](), id="a whole device is none of its parts"),
    ],
)
def test_selected_mig_devices_are_shared(devices: int | tuple[str, ...] | None, chosen: set[str]) -> None:
    tiny = ResourceName("nvidia.com/tiny")
    plan = planned("mixed", *UNIFORM, config=PluginConfig((SharedResource(SMALL, tiny, 2, devices),)))
    owners = {slot.uuid: resource.name for resource in plan.resources for slot in resource.slots}
    assert {uuid for uuid, name in owners.items() if name == tiny} == chosen
    assert set(owners) == {"MIG-0-0", "MIG-0-1", "MIG-1-0"}
    assert len(plan.refusals) == (2 if not chosen else 0)


def test_shr_1_sharing_under_single_replicates_the_parts() -> None:
    plan = planned("single", *UNIFORM, config=PluginConfig((SharedResource(GPU, GPU, 2),)))
    assert offered(plan)[GPU][:3] == ["MIG-0-0::0", "MIG-0-0::1", "MIG-0-1::0"]


def test_a_new_name_that_a_profile_turns_out_to_have_is_said_and_not_mixed_up() -> None:
    config = PluginConfig((SharedResource(GPU, SMALL, 2),))
    plan = planned("mixed", device(0), device(1, "1g.10gb"), config=config)
    assert offered(plan) == {SMALL: ["MIG-1-0"]}
    assert "nvidia.com/mig-1g.10gb is the name of other devices, too" in plan.refusals[0].message


PROFILES = st.sampled_from(["1g.10gb", "3g.40gb", "1c.3g.40gb", "1g.10gb+me", "", "?!"])
DEVICES = st.lists(
    st.tuples(st.lists(PROFILES, max_size=4), st.booleans(), st.sampled_from([A100, H100])), max_size=6
)


@given(DEVICES, st.sampled_from(MigStrategy), st.booleans())
def test_whatever_the_layout_every_device_is_offered_once_or_there_is_a_reason(
    layout: list[tuple[list[str], bool, str]], strategy: MigStrategy, named: bool
) -> None:
    devices = [device(i, *p, mig=m or bool(p), product=x) for i, (p, m, x) in enumerate(layout)]
    plan = planned(strategy, *devices, config=NAMED if named else None)
    slots = [slot for resource in plan.resources for slot in resource.slots]
    assert len({slot.uuid for slot in slots}) == len(slots)
    assert all(resource.slots for resource in plan.resources)
    seen = {slot.part_of or slot.uuid for slot in slots}
    for one in devices:
        complete = one.uuid in seen and (
            strategy is MigStrategy.NONE or {mig.uuid for mig in one.migs} <= {slot.uuid for slot in slots}
        )
        names = {one.uuid, f"device {one.index}", *(mig.uuid for mig in one.migs)}
        assert complete or any(name in refusal.message for refusal in plan.refusals for name in names)
    if strategy is MigStrategy.SINGLE and slots:
        profiles = {mig.uuid: mig.profile for device in devices for mig in device.migs}
        assert len({profiles.get(slot.uuid) for slot in slots}) == 1


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_pattern_is_a_glob_over_the_whole_text(pattern: str, text: str) -> None:
    def naive(pattern: str, text: str) -> bool:
        if not pattern:
            return not text
        if pattern[0] == "*":
            return naive(pattern[1:], text) or (bool(text) and naive(pattern, text[1:]))
        return bool(text) and text[0] == pattern[0] and naive(pattern[1:], text[1:])

    assert fits(pattern, text) == naive(pattern, text)


def test_a_pattern_of_many_stars_is_no_work() -> None:
    assert not fits("*a" * 200 + "b", "a" * 10_000)


def test_a_profile_too_long_for_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 63"):
        mig_resource("1g." + "9" * 60 + "gb")
