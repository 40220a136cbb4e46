"""Every label of GPU feature discovery, row by row of its table, on nodes that tell the rows apart."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tonnage.decide.node.labels.gpu import gpu_labels
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import PluginConfig, SharedResource
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.machine import Machine, PciDevice
from tonnage.model.node.plugin_settings import MigStrategy, SharingKind

A100, H100 = "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"
PART = MigDevice(
    "MIG-a",
    0,
    "1c.3g.20gb",
    gpu_instance=1,
    compute_instance=0,
    memory_mib=19968,
    multiprocessors=42,
    gpu_slices=3,
    compute_slices=1,
    copy_engines=4,
    decoders=5,
    encoders=6,
    jpeg_engines=7,
    optical_flow_engines=8,
)
WHOLE = Device("GPU-0", 0, A100, 40960, "8.0", mig_enabled=False)
DIVIDED = replace(WHOLE, uuid="GPU-1", index=1, mig_enabled=True, migs=(PART,))
VERSIONS = {
    f"cuda.{name}"
    for name in (
        *("driver-version.full", "driver-version.major", "driver-version.minor", "driver-version.revision"),
        *("runtime-version.full", "runtime-version.major", "runtime-version.minor"),
        *("driver.major", "driver.minor", "driver.rev", "runtime.major", "runtime.minor"),
    )
}
NODE = {
    *("gpu.present", "gpu.machine", "gpu.mode", "gpu.clique", "gfd.timestamp", "mig.capable", "mps.capable"),
    *("vgpu.present", "vgpu.host-driver-version", "vgpu.host-driver-branch"),
}
OFFERED = {"product", "count", "replicas", "sharing-strategy", "memory"}
ARCHITECTURE = {"gpu.family", "gpu.compute.major", "gpu.compute.minor"}
SIZES = {
    *("multiprocessors", "slices.gi", "slices.ci"),
    *(f"engines.{name}" for name in ("copy", "decoder", "encoder", "jpeg", "ofa")),
}


def virtual(version: bytes = b"460.16", branch: bytes = b"r460_00") -> PciDevice:
    """A GPU whose configuration space has the host driver's record."""
    space = bytearray(256)
    space[0x34] = 0x50
    record = bytes([0, 22]) + version.ljust(10, b"\0") + branch.ljust(10, b"\0")
    space[0x50 : 0x50 + 5 + len(record)] = bytes([0x09, 0, 5 + len(record)]) + b"VF" + record
    return PciDevice("0000:3b:00.0", "030000", "10de", "1eb8", bytes(space))


def labels(
    *devices: Device,
    strategy: str = "none",
    shared: tuple[SharedResource, ...] = (),
    kind: SharingKind = SharingKind.TIME_SLICING,
    machine: Machine | None = None,
    driver: str = "550.163.01",
) -> dict[str, str]:
    """NVIDIA's labels without their prefix."""
    inventory = Inventory(devices, driver, "12.4")
    config = PluginConfig(mig_strategy=MigStrategy(strategy), shared=shared, sharing_kind=kind)
    plan = share(inventory, config)
    at = datetime(2026, 11, 21, tzinfo=UTC)
    found = gpu_labels(inventory, config, plan, machine or Machine(), started=at)
    return {
        key.removeprefix("nvidia.com/"): value
        for key, value in found.items()
        if key.startswith("nvidia.com/")
    }


def slices(
    name: str, replicas: int, rename: str = "", devices: tuple[str, ...] | None = None
) -> SharedResource:
    return SharedResource(ResourceName(name), ResourceName(rename or name), replicas, devices)


def test_the_keys_are_those_of_the_table_and_no_others() -> None:
    machine = Machine(product="DGX", pci=(virtual(),))
    clique = replace(WHOLE, clique="5c7a.7")
    whole = {f"gpu.{name}" for name in OFFERED} | ARCHITECTURE
    common = VERSIONS | NODE | whole
    assert set(labels(clique, machine=machine)) == common
    single = labels(replace(DIVIDED, clique="5c7a.7"), strategy="single", machine=machine)
    assert set(single) == common | {"mig.strategy"} | {f"gpu.{name}" for name in SIZES}
    mixed = labels(clique, DIVIDED, strategy="mixed", machine=machine)
    profile = {f"mig-1c.3g.20gb.{name}" for name in OFFERED | SIZES}
    assert set(mixed) == common | {"mig.strategy"} | profile


@pytest.mark.parametrize(("key", "strategy"), [("gpu", "single"), ("mig-1c.3g.20gb", "mixed")])
def test_each_attribute_of_a_part_has_its_own_row(key: str, strategy: str) -> None:
    node_labels = labels(DIVIDED, strategy=strategy)
    wanted = {
        "product": "NVIDIA-A100-SXM4-40GB-MIG-1c.3g.20gb",
        "count": "1",
        "replicas": "1",
        "sharing-strategy": "none",
        "memory": "19968",
        "multiprocessors": "42",
        "slices.gi": "3",
        "slices.ci": "1",
        "engines.copy": "4",
        "engines.decoder": "5",
        "engines.encoder": "6",
        "engines.jpeg": "7",
        "engines.ofa": "8",
    }
    assert {row: node_labels[f"{key}.{row}"] for row in wanted} == wanted


@pytest.mark.parametrize(
    ("capability", "family"),
    [
        *(("2.0", "fermi"), ("3.5", "kepler"), ("5.2", "maxwell"), ("6.0", "pascal")),
        *(("7.0", "volta"), ("7.2", "volta"), ("7.5", "turing"), ("8.0", "ampere"), ("8.6", "ampere")),
        *(("8.9", "ada-lovelace"), ("9.0", "hopper"), ("10.0", "blackwell"), ("10.3", "blackwell")),
        *(("12.0", "blackwell"), ("13.0", "rubin"), ("4.0", "undefined"), ("11.0", "undefined")),
        ("99.0", "undefined"),
    ],
)
def test_the_family_follows_from_the_compute_capability(capability: str, family: str) -> None:
    node_labels = labels(replace(WHOLE, compute_capability=capability))
    major, minor = capability.split(".")
    assert (
        node_labels["gpu.family"],
        node_labels["gpu.compute.major"],
        node_labels["gpu.compute.minor"],
    ) == (
        family,
        major,
        minor,
    )


def test_memory_that_is_not_known_is_left_out() -> None:
    assert "gpu.memory" not in labels(replace(WHOLE, memory_mib=0))


def test_a_driver_version_of_two_parts_has_an_empty_revision() -> None:
    node_labels = labels(WHOLE, driver="550.54")
    rows = ("driver-version.full", "driver-version.minor", "driver-version.revision", "driver.rev")
    assert [node_labels[f"cuda.{row}"] for row in rows] == ["550.54", "54", "", ""]


@pytest.mark.parametrize(
    ("product", "label"),
    [("DGX A100 920-23687-2530-000\n", "DGX-A100-920-23687-2530-000"), ("", "unknown"), ("(none)", "none")],
)
def test_the_machine(product: str, label: str) -> None:
    assert labels(WHOLE, machine=Machine(product=product))["gpu.machine"] == label


def test_a_virtual_gpu_tells_of_its_hosts_driver() -> None:
    node_labels = labels(WHOLE, machine=Machine(pci=(virtual(),)))
    rows = ("gpu.mode", "vgpu.present", "vgpu.host-driver-version", "vgpu.host-driver-branch")
    assert [node_labels[row] for row in rows] == ["graphics", "true", "460.16", "r460_00"]


@pytest.mark.parametrize(
    ("devices", "strategy", "shared", "rows"),
    [
        pytest.param(
            (DIVIDED,), "none", (), ("NVIDIA-A100-SXM4-40GB", "1", "0", "none"), id="divided: not as a whole"
        ),
        pytest.param(
            (WHOLE, DIVIDED),
            "mixed",
            (slices(GPU, 4),),
            ("NVIDIA-A100-SXM4-40GB-SHARED", "2", "4", "time-slicing"),
            id="the whole ones count for replicas, both for the count",
        ),
        pytest.param(
            (DIVIDED,),
            "single",
            (slices(GPU, 2),),
            ("NVIDIA-A100-SXM4-40GB-MIG-1c.3g.20gb-SHARED", "1", "2", "time-slicing"),
            id="single, shared",
        ),
        pytest.param(
            (DIVIDED,),
            "single",
            (slices(GPU, 2, "nvidia.com/gpu.shared"),),
            ("NVIDIA-A100-SXM4-40GB-MIG-1c.3g.20gb", "1", "2", "time-slicing"),
            id="single, shared and renamed",
        ),
        pytest.param(
            tuple(replace(WHOLE, uuid=f"GPU-{index}", index=index) for index in range(3)),
            "none",
            (slices(GPU, 8, "nvidia.com/gpu.shared", ("0",)),),
            ("NVIDIA-A100-SXM4-40GB", "3", "1", "none"),
            id="one of three is shared: as most are offered",
        ),
        pytest.param(
            (WHOLE, replace(WHOLE, uuid="GPU-2", index=2, healthy=False, reason="Xid 79")),
            "none",
            (),
            ("NVIDIA-A100-SXM4-40GB", "2", "1", "none"),
            id="a GPU that is not healthy is there",
        ),
    ],
)
def test_how_devices_are_offered(
    devices: tuple[Device, ...], strategy: str, shared: tuple[SharedResource, ...], rows: tuple[str, ...]
) -> None:
    node_labels = labels(*devices, strategy=strategy, shared=shared)
    assert (
        tuple(node_labels[f"gpu.{row}"] for row in ("product", "count", "replicas", "sharing-strategy"))
        == rows
    )


def test_parts_of_two_models_with_one_profile_are_those_of_the_more_frequent() -> None:
    def parts(index: int, product: str, count: int, memory: int) -> Device:
        migs = tuple(
            replace(PART, uuid=f"MIG-{index}-{place}", index=place, profile="1g.10gb", memory_mib=memory)
            for place in range(count)
        )
        return replace(DIVIDED, uuid=f"GPU-{index}", index=index, product=product, migs=migs)

    a100, h100 = parts(0, "NVIDIA A100-SXM4-80GB", 2, 9856), parts(1, H100, 3, 9984)
    for order in ((a100, h100), (h100, a100)):
        node_labels = labels(*order, strategy="mixed")
        rows = [node_labels[f"mig-1g.10gb.{row}"] for row in ("product", "count", "memory")]
        assert rows == ["NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "3", "9984"]


@pytest.mark.parametrize("length", [62, 63, 64, 120])
def test_a_product_of_any_length_is_a_value_of_63_characters_at_most(length: int) -> None:
    value = labels(replace(WHOLE, product="N" * length))["gpu.product"]
    assert (value == "N" * length) == (length <= 63)
    assert len(value) == min(length, 63)


def test_mps_is_named_and_makes_the_node_capable() -> None:
    node_labels = labels(WHOLE, shared=(slices(GPU, 4),), kind=SharingKind.MPS)
    assert (node_labels["gpu.sharing-strategy"], node_labels["mps.capable"]) == ("mps", "true")
    assert labels(WHOLE)["mps.capable"] == "false"
