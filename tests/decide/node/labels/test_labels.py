"""The labels about GPUs: NVIDIA's, word for word where they are right, and right where they are not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.labels.gpu import gpu_labels
from tonnage.decide.node.share import share
from tonnage.model.devices.inventory import Device, Inventory, MigDevice
from tonnage.model.devices.sharing import PluginConfig, SharedResource
from tonnage.model.names import GPU, ResourceName
from tonnage.model.node.machine import Machine, PciDevice
from tonnage.model.node.plugin_settings import MigStrategy, SharingKind

KEY = re.compile(r"[a-z0-9.]+/[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
A100, H100 = "NVIDIA A100-SXM4-40GB", "NVIDIA H100 80GB HBM3"
GOLDEN_VERSIONS = {
    "nvidia.com/cuda.driver-version.full": "550.163.01",
    "nvidia.com/cuda.driver-version.major": "550",
    "nvidia.com/cuda.driver-version.minor": "163",
    "nvidia.com/cuda.driver-version.revision": "01",
    "nvidia.com/cuda.driver.major": "550",
    "nvidia.com/cuda.driver.minor": "163",
    "nvidia.com/cuda.driver.rev": "01",
    "nvidia.com/cuda.runtime-version.full": "12.4",
    "nvidia.com/cuda.runtime-version.major": "12",
    "nvidia.com/cuda.runtime-version.minor": "4",
    "nvidia.com/cuda.runtime.major": "12",
    "nvidia.com/cuda.runtime.minor": "4",
}


def gpus(
    product: str, count: int = 1, *, first: int = 0, memory: int = 81559, cc: str = "9.0"
) -> list[Device]:
    return [
        Device(f"GPU-{index}", index, product, memory, cc, mig_enabled=False)
        for index in range(first, first + count)
    ]


def divided(index: int, *profiles: str, product: str = A100) -> Device:
    sizes = {"1g.5gb": (4864, 14, 1), "3g.20gb": (19968, 42, 3)}
    migs = tuple(
        MigDevice(
            *(f"MIG-{index}-{place}", place, profile, place + 1, 0, sizes.get(profile, (1, 1, 1))[0]),
            multiprocessors=sizes.get(profile, (1, 1, 1))[1],
            gpu_slices=sizes.get(profile, (1, 1, 1))[2],
            compute_slices=sizes.get(profile, (1, 1, 1))[2],
            copy_engines=1,
        )
        for place, profile in enumerate(profiles)
    )
    return Device(f"GPU-{index}", index, product, 40960, "8.0", mig_enabled=True, migs=migs)


def labels_of(
    devices: Sequence[Device],
    *,
    strategy: str = "none",
    shared: Sequence[tuple[str, str, int]] = (),
    kind: SharingKind = SharingKind.TIME_SLICING,
    machine: Machine | None = None,
    **versions: str,
) -> dict[str, str]:
    inventory = Inventory(
        tuple(devices),
        versions.get("driver", "550.163.01"),
        versions.get("cuda", "12.4"),
    )
    entries = tuple(
        SharedResource(ResourceName(name), ResourceName(offered), replicas)
        for name, offered, replicas in shared
    )
    config = PluginConfig(mig_strategy=MigStrategy(strategy), shared=entries, sharing_kind=kind)
    return gpu_labels(inventory, config, share(inventory, config), machine or Machine())


def nvidias(labels: dict[str, str]) -> dict[str, str]:
    """What is not about versions, without the prefix."""
    return {
        key.removeprefix("nvidia.com/"): value
        for key, value in labels.items()
        if key not in GOLDEN_VERSIONS and key.startswith("nvidia.com/")
    }


def test_one_t4() -> None:
    devices = [Device("GPU-0", 0, "Tesla T4", 15360, "7.5")]
    machine = Machine(product="PowerEdge R740\n", pci=(PciDevice("0000:3b:00.0", "030200", "10de", "1eb8"),))
    assert labels_of(devices, machine=machine) == GOLDEN_VERSIONS | {
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": "Tesla-T4",
        "nvidia.com/gpu.count": "1",
        "nvidia.com/gpu.replicas": "1",
        "nvidia.com/gpu.sharing-strategy": "none",
        "nvidia.com/gpu.memory": "15360",
        "nvidia.com/gpu.family": "turing",
        "nvidia.com/gpu.compute.major": "7",
        "nvidia.com/gpu.compute.minor": "5",
        "nvidia.com/gpu.machine": "PowerEdge-R740",
        "nvidia.com/gpu.mode": "compute",
        "nvidia.com/mig.capable": "false",
        "nvidia.com/mps.capable": "false",
        "tonnage.dev/gpu.Tesla-T4.count": "1",
    }


H100_NODE = {
    "gpu.present": "true",
    "gpu.product": "NVIDIA-H100-80GB-HBM3",
    "gpu.count": "8",
    "gpu.replicas": "1",
    "gpu.sharing-strategy": "none",
    "gpu.memory": "81559",
    "gpu.family": "hopper",
    "gpu.compute.major": "9",
    "gpu.compute.minor": "0",
    "gpu.machine": "unknown",
    "gpu.mode": "unknown",
    "mig.capable": "true",
    "mps.capable": "false",
}


@pytest.mark.parametrize(
    ("shared", "kind", "changed"),
    [
        pytest.param((), "timeSlicing", {}, id="exclusive"),
        pytest.param(
            (GPU, "nvidia.com/gpu", 10),
            "timeSlicing",
            {
                "gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
                "gpu.replicas": "10",
                "gpu.sharing-strategy": "time-slicing",
            },
            id="shared under the name of whole ones: the product tells",
        ),
        pytest.param(
            (GPU, "nvidia.com/gpu.shared", 10),
            "timeSlicing",
            {"gpu.replicas": "10", "gpu.sharing-strategy": "time-slicing"},
            id="renamed: the resource tells, keys and product stay",
        ),
        pytest.param(
            (GPU, "nvidia.com/gpu", 4),
            "mps",
            {
                "gpu.product": "NVIDIA-H100-80GB-HBM3-SHARED",
                "gpu.replicas": "4",
                "gpu.sharing-strategy": "mps",
                "mps.capable": "true",
            },
            id="MPS",
        ),
    ],
)
def test_eight_h100(shared: tuple[str, str, int] | tuple[()], kind: str, changed: dict[str, str]) -> None:
    labels = labels_of(gpus(H100, 8), shared=[shared] if shared else (), kind=SharingKind(kind))
    assert nvidias(labels) == H100_NODE | changed


WHOLE_A100 = {
    "gpu.present": "true",
    "gpu.product": "NVIDIA-A100-SXM4-40GB",
    "gpu.count": "2",
    "gpu.replicas": "0",
    "gpu.sharing-strategy": "none",
    "gpu.memory": "40960",
    "gpu.family": "ampere",
    "gpu.compute.major": "8",
    "gpu.compute.minor": "0",
    "gpu.machine": "unknown",
    "gpu.mode": "unknown",
    "mig.capable": "true",
    "mps.capable": "false",
}


def part(key: str, *, profile: str, count: int, memory: int, processors: int, slices: int) -> dict[str, str]:
    product = f"NVIDIA-A100-SXM4-40GB-MIG-{profile}"
    words: dict[str, str | int] = {
        "product": product,
        "count": count,
        "replicas": 1,
        "sharing-strategy": "none",
        "memory": memory,
        "multiprocessors": processors,
        "slices.gi": slices,
        "slices.ci": slices,
        "engines.copy": 1,
        "engines.decoder": 0,
        "engines.encoder": 0,
        "engines.jpeg": 0,
        "engines.ofa": 0,
    }
    return {f"{key}.{word}": str(value) for word, value in words.items()}


SMALL = {"profile": "1g.5gb", "memory": 4864, "processors": 14, "slices": 1}
LARGE = {"profile": "3g.20gb", "memory": 19968, "processors": 42, "slices": 3}


def test_mixed_mig_has_labels_of_each_profile() -> None:
    labels = labels_of([divided(0, "1g.5gb", "3g.20gb"), divided(1, "1g.5gb")], strategy="mixed")
    assert nvidias(labels) == {
        **WHOLE_A100,
        "mig.strategy": "mixed",
        **part("mig-1g.5gb", count=2, **SMALL),  # type: ignore[arg-type]
        **part("mig-3g.20gb", count=1, **LARGE),  # type: ignore[arg-type]
    }


def test_single_mig_speaks_of_parts_as_of_whole_ones() -> None:
    labels = labels_of([divided(0, "1g.5gb", "1g.5gb"), divided(1, "1g.5gb")], strategy="single")
    assert nvidias(labels) == {
        **WHOLE_A100,
        "mig.strategy": "single",
        **part("gpu", count=3, **SMALL),  # type: ignore[arg-type]
    }


def test_single_mig_with_nothing_to_offer_is_invalid() -> None:
    found = nvidias(labels_of([divided(0, "1g.5gb", "3g.20gb"), divided(1)], strategy="single"))
    assert found == WHOLE_A100 | {
        "mig.strategy": "single",
        "gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-INVALID",
        "gpu.count": "0",
        "gpu.memory": "0",
        "gpu.sharing-strategy": "",
    }


def test_single_without_mig_is_as_none_with_the_strategys_name() -> None:
    assert nvidias(labels_of(gpus(H100, 8), strategy="single")) == H100_NODE | {"mig.strategy": "single"}


def test_a_shared_part_says_so() -> None:
    name = "nvidia.com/mig-1g.5gb"
    labels = labels_of([divided(0, "1g.5gb")], strategy="mixed", shared=[(name, name, 3)])
    assert labels["nvidia.com/mig-1g.5gb.product"] == "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb-SHARED"
    assert labels["nvidia.com/mig-1g.5gb.replicas"] == "3"
    assert labels["nvidia.com/gpu.replicas"] == "0"


def test_a_profile_with_media_engines_has_a_valid_key() -> None:
    labels = labels_of([divided(0, "1g.5gb+me")], strategy="mixed")
    assert labels["nvidia.com/mig-1g.5gb.me.count"] == "1"


def test_a_gpu_with_mig_beside_mps_costs_no_label() -> None:
    devices = [*gpus(H100, 2), divided(2, "1g.5gb")]
    labels = labels_of(devices, strategy="mixed", shared=[(GPU, GPU, 2)], kind=SharingKind.MPS)
    assert labels["nvidia.com/mps.capable"] == "false"
    assert labels["nvidia.com/gpu.sharing-strategy"] == "mps"


MIXED = (
    *gpus("NVIDIA L4", 2, memory=23034, cc="8.9"),
    *gpus(H100, 3, first=2),
    *gpus("NVIDIA T4", 2, first=5),
)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[:6])
def test_mixed_models_have_the_same_labels_in_any_order(order: tuple[int, ...]) -> None:
    parts = (MIXED[:2], MIXED[2:5], MIXED[5:])
    labels = labels_of([device for place in order for device in parts[place]])
    assert labels == labels_of(MIXED)
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-H100-80GB-HBM3"
    assert labels["nvidia.com/gpu.count"] == "3"
    assert labels["nvidia.com/gpu.memory"] == "81559"
    own = {key: value for key, value in labels.items() if key.startswith("tonnage.dev/")}
    assert own == {
        "tonnage.dev/gpu.NVIDIA-H100-80GB-HBM3.count": "3",
        "tonnage.dev/gpu.NVIDIA-L4.count": "2",
        "tonnage.dev/gpu.NVIDIA-T4.count": "2",
    }


def test_of_two_models_with_as_many_devices_the_first_by_name_counts() -> None:
    labels = labels_of([*gpus("NVIDIA L4"), *gpus("NVIDIA A2", first=1)])
    assert labels["nvidia.com/gpu.product"] == "NVIDIA-A2"


def test_two_long_names_with_the_same_beginning_stay_apart() -> None:
    names = [f"NVIDIA {'Grace Blackwell Superchip ' * 4}{ending}" for ending in ("A", "B")]
    first, second = (
        labels_of(gpus(name), shared=[(GPU, GPU, 2)])["nvidia.com/gpu.product"] for name in names
    )
    assert first != second
    assert len(first) == len(second) == 63
    assert first.endswith("-SHARED")
    assert first.startswith("NVIDIA-Grace-Blackwell-Superchip-")


@pytest.mark.parametrize("driver", ["", "r550", "550", "550.1.2.3", "550.x"])
def test_what_is_no_version_makes_no_label_and_costs_no_other(driver: str) -> None:
    labels = labels_of(gpus(H100), driver=driver, cuda=driver)
    assert not [key for key in labels if "cuda" in key]
    assert labels["nvidia.com/gpu.count"] == "1"


def test_without_a_gpu_there_is_no_label() -> None:
    assert labels_of([]) == {}


def test_the_timestamp_is_the_agents_start() -> None:
    inventory, config = Inventory(tuple(gpus(H100))), PluginConfig()
    at = datetime(2026, 11, 21, tzinfo=UTC)
    labels = gpu_labels(inventory, config, share(inventory, config), Machine(), started=at)
    assert labels["nvidia.com/gfd.timestamp"] == str(int(at.timestamp()))


@pytest.mark.parametrize(
    ("cliques", "label"),
    [(("a.1", "a.1"), "a.1"), (("a.1", ""), "a.1"), (("a.1", "a.2"), None), (("", ""), None)],
)
def test_the_clique_is_told_where_it_is_one(cliques: tuple[str, ...], label: str | None) -> None:
    devices = [replace(device, clique=clique) for device, clique in zip(gpus(H100, 2), cliques, strict=True)]
    assert labels_of(devices).get("nvidia.com/gpu.clique") == label


TEXT = st.text(max_size=90)


@given(
    names=st.lists(TEXT, min_size=1, max_size=3),
    profile=TEXT,
    versions=st.tuples(TEXT, TEXT, TEXT),
    strategy=st.sampled_from(["none", "single", "mixed"]),
    replicas=st.integers(1, 3),
)
def test_every_key_and_value_is_valid(
    names: list[str], profile: str, versions: tuple[str, str, str], strategy: str, replicas: int
) -> None:
    driver, cuda, capability = versions
    devices = [
        replace(device, index=index, uuid=f"GPU-{index}", compute_capability=capability, clique=profile)
        for index, device in enumerate(
            [*(gpus(name)[0] for name in names), *(divided(0, profile, product=name) for name in names)]
        )
    ]
    labels = labels_of(
        devices,
        strategy=strategy,
        shared=[(GPU, GPU, replicas)] if replicas > 1 else (),
        machine=Machine(product=driver),
        driver=driver,
        cuda=cuda,
    )
    for key, value in labels.items():
        assert KEY.fullmatch(key), key
        assert VALUE.fullmatch(value), (key, value)
