"""What people call GPUs, and the labels that they are offered."""

from __future__ import annotations

import pytest

from tonnage.diagnose.lint.product_names import ProductMeaning, is_label, nearest_label, product_meaning
from tonnage.model.catalog.gpus import gpu_models
from tonnage.model.catalog.products import gpu_products

H100 = ("NVIDIA-H100-80GB-HBM3", "NVIDIA-H100-PCIe", "NVIDIA-H100-NVL")


@pytest.mark.parametrize(
    ("name", "labels", "certain"),
    [
        ("H100", H100, False),
        ("NVIDIA-H100-80GB", H100[:2], False),
        ("NVIDIA-H100-SXM", H100[:1], True),
        ("H100_SXM5", H100[:1], True),
        ("NVIDIA-H100-94GB", H100[2:], True),
        ("a100-40gb", ("NVIDIA-A100-SXM4-40GB", "NVIDIA-A100-PCIE-40GB"), False),
        ("NVIDIA-A100-PCIe-80GB", ("NVIDIA-A100-80GB-PCIe",), True),
        ("V100-32G", ("Tesla-V100-PCIE-32GB", "Tesla-V100-SXM2-32GB", "Tesla-V100-SXM3-32GB"), False),
        ("nvidia-tesla-t4", ("Tesla-T4",), True),
        ("H200", ("NVIDIA-H200", "NVIDIA-H200-NVL"), False),
        ("l40s", ("NVIDIA-L40S",), True),
        ("NVIDIA-A6000", ("NVIDIA-RTX-A6000",), True),
        ("NVIDIA-H100-SMX5", (), False),
        ("H100-40GB", (), False),
        ("Voodoo-2", (), False),
    ],
)
def test_every_variant_that_is_meant_is_offered(name: str, labels: tuple[str, ...], certain: bool) -> None:
    assert not is_label(name)
    meaning = product_meaning(name)
    assert (set(meaning.labels), meaning.certain) == (set(labels), certain)


def test_what_is_a_product_is_taken_as_it_is() -> None:
    for label in ("NVIDIA-H100-PCIe", "A100-SXM4-40GB", "Tesla-V100-SXM2-16GB", "Quadro-RTX-8000"):
        assert is_label(label)
    assert nearest_label("NVIDIA-H100-80GB-HMB3") == "NVIDIA-H100-80GB-HBM3"
    assert nearest_label("Voodoo-2") == ""


def test_the_catalogue_s_models_are_products_and_no_label_is_told_twice() -> None:
    labels = [product.label for family in gpu_products().families.values() for product in family]
    assert len(labels) == len(set(labels))
    assert {model.product.replace(" ", "-") for model in gpu_models().values()} <= set(labels)
    for label in labels:
        assert is_label(label)
        assert product_meaning(label) == ProductMeaning((label,), certain=True)
