"""What containers are told about their devices: the answers of NVIDIA's plugin, strategy by strategy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

import pytest

from tonnage.decide.node.access import access_to
from tonnage.decide.node.allocate import allocate
from tonnage.decide.node.device_holds import DeviceHolds
from tonnage.decide.node.inject import inject
from tonnage.decide.node.share import share
from tonnage.model.devices.device_nodes import DeviceNodes
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import (
    Access,
    Allocation,
    DeviceIdStrategy,
    DeviceListStrategy,
    Injection,
    PluginConfig,
    SharedResource,
)
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.plugin_settings import CdiSettings, ExtraDevice, ImexSettings, MigStrategy
from tonnage.model.reasons.reason import Reason

CONTROL = ("nvidiactl", "nvidia-uvm", "nvidia-uvm-tools", "nvidia-modeset")
CHANNEL = "/dev/nvidia-caps-imex-channels/channel0"
CAPABILITIES = {"config": 1, "gpu1/gi7/access": 30, "gpu1/gi7/ci2/access": 31, "gpu1/gi8/access": 39}
NODES = DeviceNodes(
    frozenset({f"/dev/{name}" for name in CONTROL[:3]} | {CHANNEL}), capabilities=CAPABILITIES
)
MIG = MigDevice("MIG-a", 3, "1g.10gb", gpu_instance=7, compute_instance=2, memory_mib=1)
BROKEN = replace(MIG, uuid="MIG-b", index=4, gpu_instance=8)
DEVICES = (
    Device("GPU-a", 0, "A100", 1, minor=4, mig_enabled=False),
    Device("GPU-b", 1, "A100", 1, minor=1, mig_enabled=True, migs=(MIG, BROKEN)),
)
INVENTORY = Inventory(DEVICES, nodes=NODES)
EVERYTHING = PluginConfig(
    pass_device_specs=True,
    dev_root="/run/nvidia/driver",
    extras=tuple(ExtraDevice),
    imex=ImexSettings((0,)),
    mig_strategy=MigStrategy.MIXED,
)
CDI = "k8s.device-plugin.nvidia.com"
KEY = "cdi.k8s.io/nvidia-device-plugin_"


def answered(config: PluginConfig, uuid: str = "GPU-a", inventory: Inventory = INVENTORY) -> Injection:
    return inject(Allocation(GPU, (uuid,), (uuid,)), config, access_to(inventory, config))


def strategies(*names: str, config: PluginConfig = EVERYTHING) -> PluginConfig:
    return replace(config, device_list=tuple(map(DeviceListStrategy, names)))


NAMES = [strategy.value for strategy in DeviceListStrategy if strategy is not DeviceListStrategy.AUTO]


@pytest.mark.parametrize(
    "chosen",
    [chosen for size in range(1, 5) for chosen in combinations(NAMES, size)],
    ids=" + ".join,
)
def test_the_answers_of_strategies_add_up(chosen: tuple[str, ...]) -> None:
    got = answered(strategies(*chosen))
    qualified = [f"{CDI}/gpu=GPU-a", f"{CDI}/imex-channel=0"]
    qualified += [f"{CDI}/{extra}=all" for extra in ("gdrcopy", "gds", "mofed")]
    assert list(got.cdi_devices) == (qualified if "cdi-cri" in chosen else [])
    annotated = "cdi-annotations" in chosen
    assert list(got.annotations.values()) == ([",".join(qualified)] if annotated else [])
    assert [key[: len(KEY)] for key in got.annotations] == ([KEY] if annotated else [])
    mounted = ["GPU-a", "imex/0"] if "volume-mounts" in chosen else []
    assert [(m.host_path, m.container_path, m.read_only) for m in got.mounts] == [
        ("/dev/null", f"/var/run/nvidia-container-devices/{name}", False) for name in mounted
    ]
    env: dict[str, str] = {}
    if "envvar" in chosen:
        env |= {"NVIDIA_VISIBLE_DEVICES": "GPU-a", "NVIDIA_IMEX_CHANNELS": "0"}
    if "volume-mounts" in chosen:
        env["NVIDIA_VISIBLE_DEVICES"] = "/var/run/nvidia-container-devices"
    if not set(chosen) <= {"cdi-annotations", "cdi-cri"}:
        env |= dict.fromkeys(("NVIDIA_GDRCOPY", "NVIDIA_GDS", "NVIDIA_MOFED"), "enabled")
    assert got.env == env
    assert bool(got.nodes) == bool({"envvar", "volume-mounts"}.intersection(chosen))


ROOT = "/run/nvidia/driver"
CASES: Mapping[str, tuple[PluginConfig, str, Inventory, list[tuple[str, str]]]] = {
    "of the host": (
        replace(EVERYTHING, dev_root="/"),
        "GPU-a",
        INVENTORY,
        [(f"/dev/{name}", f"/dev/{name}") for name in (*CONTROL[:3], "nvidia4")] + [(CHANNEL, CHANNEL)],
    ),
    "of a driver in a container, whose channels are the host's": (
        EVERYTHING,
        "GPU-a",
        INVENTORY,
        [(f"{ROOT}/dev/{name}", f"/dev/{name}") for name in (*CONTROL[:3], "nvidia4")] + [(CHANNEL, CHANNEL)],
    ),
    "of a driver in a container, seen there": (
        EVERYTHING,
        "GPU-a",
        replace(INVENTORY, nodes=DeviceNodes(driver=frozenset({"/dev/nvidiactl", CHANNEL}))),
        [(f"{ROOT}{path}", path) for path in ("/dev/nvidiactl", "/dev/nvidia4", CHANNEL)],
    ),
    "of a MIG device": (
        replace(EVERYTHING, dev_root="/", imex=ImexSettings()),
        "MIG-a",
        INVENTORY,
        [
            (f"/dev/{name}", f"/dev/{name}")
            for name in (*CONTROL[:3], "nvidia1", "nvidia-caps/nvidia-cap30", "nvidia-caps/nvidia-cap31")
        ],
    ),
    "not asked for": (replace(EVERYTHING, pass_device_specs=False), "GPU-a", INVENTORY, []),
}


@pytest.mark.parametrize("case", CASES)
def test_device_nodes(case: str) -> None:
    config, uuid, inventory, expected = CASES[case]
    assert [(s.host_path, s.container_path) for s in answered(config, uuid, inventory).nodes] == expected


def test_nodes_that_two_devices_share_are_given_once() -> None:
    config = replace(EVERYTHING, dev_root="/", imex=ImexSettings())
    both = Allocation(GPU, ("MIG-a", "MIG-b"), ("MIG-a", "MIG-b"))
    paths = [spec.container_path for spec in inject(both, config, access_to(INVENTORY, config)).nodes]
    assert len(paths) == len(set(paths))
    assert paths[3:] == [
        "/dev/nvidia1",
        *(f"/dev/nvidia-caps/nvidia-cap{n}" for n in (30, 31, 39)),
    ]


@pytest.mark.parametrize("uuid", ["GPU-a", "MIG-a"])
def test_devices_by_index(uuid: str) -> None:
    index = {"GPU-a": "0", "MIG-a": "1:3"}[uuid]
    got = answered(
        strategies("envvar", "cdi-cri", config=PluginConfig(device_id=DeviceIdStrategy.INDEX)), uuid
    )
    assert got.env == {"NVIDIA_VISIBLE_DEVICES": index}
    assert got.cdi_devices == (f"{CDI}/gpu={index}",)


def test_replicas_of_one_device_are_told_as_that_device() -> None:
    config = PluginConfig((SharedResource(GPU, GPU, 4),))
    plan = share(Inventory(DEVICES[:1]), config)
    allocation = allocate(plan.resources[0], ["GPU-a::2", "GPU-a::0"], DeviceHolds())
    assert isinstance(allocation, Allocation)
    assert inject(allocation, config, plan.access).env == {"NVIDIA_VISIBLE_DEVICES": "GPU-a"}


def test_the_key_of_an_annotation_follows_from_what_was_given() -> None:
    def key(config: PluginConfig, *ids: str, resource: str = GPU) -> str:
        allocation = Allocation(ResourceName(resource), ids, ("GPU-a",))
        (found,) = inject(allocation, config, Access()).annotations
        return found

    plain = strategies("cdi-annotations", config=PluginConfig())
    assert key(plain, "a::0") == key(plain, "a::0")
    others = {
        key(plain, "a::0"),
        key(plain, "a::1"),
        key(plain, "a::0", resource="x/y"),
        key(plain, "a::0", "b"),
    }
    assert len(others) == 4
    own = replace(plain, cdi=CdiSettings("nvidia.cdi.k8s.io/"))
    assert key(own, "a::0") == key(plain, "a::0").replace("cdi.k8s.io/", "nvidia.cdi.k8s.io/")
    assert len(key(own, "a::0").partition("/")[2]) <= 63


WITHOUT = Inventory(DEVICES[:1])


def test_a_channel_that_is_not_there_is_gone_without_or_waited_for() -> None:
    config = PluginConfig(imex=ImexSettings((0,)))
    plan = share(WITHOUT, config)
    assert [refusal.message for refusal in plan.refusals] == [
        "IMEX channel channel0 does not exist: containers go without it"
    ]
    assert [slot.healthy for slot in plan.resources[0].slots] == [True]
    assert inject(Allocation(GPU, ("GPU-a",), ("GPU-a",)), config, plan.access).env == {
        "NVIDIA_VISIBLE_DEVICES": "GPU-a"
    }
    required = replace(config, imex=ImexSettings((0,), required=True))
    (resource,) = share(WITHOUT, required).resources
    assert [(s.healthy, s.reason) for s in resource.slots] == [
        (False, "requested IMEX channel channel0 does not exist")
    ]
    refusal = allocate(resource, ["GPU-a"], DeviceHolds())
    assert isinstance(refusal, Reason)
    assert "is unhealthy (requested IMEX channel channel0 does not exist)" in refusal.message
    there = share(replace(WITHOUT, nodes=NODES), required)
    assert [slot.healthy for slot in there.resources[0].slots] == [True]


CAPABILITY = "/proc/driver/nvidia/capabilities/gpu1/mig/gi8/ci2/access"


def test_a_mig_device_without_capability_is_withheld_and_hides_no_other() -> None:
    config = replace(EVERYTHING, imex=ImexSettings())
    resource = share(INVENTORY, config).resource("nvidia.com/mig-1g.10gb")
    assert resource is not None
    assert [(s.uuid, s.healthy, s.reason) for s in resource.slots] == [
        ("MIG-a", True, ""),
        ("MIG-b", False, f"missing MIG compute instance capability path: {CAPABILITY}"),
    ]
    unneeded = share(INVENTORY, replace(config, pass_device_specs=False)).resource("nvidia.com/mig-1g.10gb")
    assert unneeded is not None
    assert all(slot.healthy for slot in unneeded.slots)
