"""Names are parsed strictly and come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.names import DeviceId, is_subdomain, parse_device_id, parse_resource_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        pytest.param("gpu", "nvidia.com/gpu", id="the prefix is added"),
        pytest.param("nvidia.com/gpu.shared", "nvidia.com/gpu.shared", id="a full name stays"),
        pytest.param("mig-1g.5gb.me", "nvidia.com/mig-1g.5gb.me", id="MIG profile"),
        pytest.param("a" * 52, "nvidia.com/" + "a" * 52, id="63 characters"),
    ],
)
def test_resource_names(text: str, name: str) -> None:
    assert parse_resource_name(text) == name


@pytest.mark.parametrize(
    "text", ["", "GPU", "gpu_1", "-gpu", "gpu.", "a/b/c", "/gpu", "nvidia.com/", "a" * 53, "gpu\n"]
)
def test_bad_resource_names(text: str) -> None:
    with pytest.raises(ValueError, match="resource name"):
        parse_resource_name(text)


@given(
    st.text(min_size=1).filter(lambda t: "::" not in t and not t.endswith(":")),
    st.none() | st.integers(0, 10**6),
)
def test_device_ids_round_trip(uuid: str, replica: int | None) -> None:
    assert parse_device_id(str(DeviceId(uuid, replica))) == DeviceId(uuid, replica)


@pytest.mark.parametrize("text", ["GPU-1::", "GPU-1::x", "::1", "GPU-1::01", "GPU-1::-1", "GPU-1::\u0661"])
def test_what_is_no_replica_is_a_whole_device(text: str) -> None:
    assert parse_device_id(text) == DeviceId(text)


def test_subdomain_is_bounded() -> None:
    assert is_subdomain("a" * 253)
    assert not is_subdomain("a" * 254)


def test_the_catalogue_names_each_product_once_with_a_source() -> None:
    models = gpu_models()
    assert {"T4", "L40S", "A100-40", "A100-80", "H100-80", "H200", "B200"} <= models.keys()
    assert len({m.product for m in models.values()}) == len(models)
    assert len({m.pci_device for m in models.values()}) == len(models)
    for key, model in models.items():
        assert model.key == key
        assert model.source
        assert model.memory_mib > 0
        assert model.mig == (float(model.compute_capability) >= 8.0 and model.architecture != "ada-lovelace")
