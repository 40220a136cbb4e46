"""A page of device metrics as it is read: of this exporter, of older ones, and of whoever answers there."""

from __future__ import annotations

import pytest

from tonnage.documents.device_page import parse_page
from tonnage.model.errors import Problem
from tonnage.model.node.device_usage import DevicePage, PodReading

GPU = 'gpu="1",UUID="GPU-a",device="nvidia1",modelName="Tesla T4",Hostname="t4-0"'


def page(text: str) -> DevicePage:
    parsed = parse_page(text, "here")
    assert isinstance(parsed, DevicePage)
    return parsed


def test_a_gpu_is_read_with_its_pod() -> None:
    read = page(
        f"""# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{{GPU},container="c",namespace="ml",pod="train"}} 97
DCGM_FI_DEV_FB_USED{{{GPU},container="c",namespace="ml",pod="train"}} 1000
DCGM_FI_DEV_FB_FREE{{{GPU},container="c",namespace="ml",pod="train"}} 14000
DCGM_FI_DEV_FB_RESERVED{{{GPU},container="c",namespace="ml",pod="train"}} 360
DCGM_FI_DEV_POWER_USAGE{{{GPU},container="c",namespace="ml",pod="train"}} 66.500000
"""
    )
    (device,) = read.devices
    assert (read.host, device.index, device.product) == ("t4-0", 1, "Tesla T4")
    assert (device.utilization, device.used_mib, device.memory_mib, device.power_w) == (97, 1000, 15360, 66.5)
    assert device.holders == ("ml/train",)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param('DCGM_FI_DEV_GPU_UTIL{uuid="GPU-a",pod_name="p",pod_namespace="ns"} 5', id="old names"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL_RATIO{UUID="GPU-a",pod="p",namespace="ns"} 5', id="new names"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a",pod="p",namespace="ns"} 5 1700000000', id="a time"),
        pytest.param(
            'DCGM_FI_PROF_GR_ENGINE_ACTIVE{UUID="GPU-a",pod="p",namespace="ns"} 0.05', id="profiling alone"
        ),
    ],
)
def test_exporters_differ_in_names(row: str) -> None:
    (device,) = page(row).devices
    assert (device.uuid, device.utilization, device.holders) == ("GPU-a", 5, ("ns/p",))


def test_gpu_instances_are_apart_from_each_other() -> None:
    text = "\n".join(
        f'DCGM_FI_DEV_FB_USED{{gpu="0",UUID="GPU-a",GPU_I_PROFILE="1g.10gb",GPU_I_ID="{n}"}} {n}'
        for n in (7, 8)
    )
    assert [(d.profile, d.instance, d.used_mib) for d in page(text).devices] == [
        ("1g.10gb", "7", 7.0),
        ("1g.10gb", "8", 8.0),
    ]


def test_the_containers_of_a_pod_add_up() -> None:
    text = "\n".join(
        f'tonnage_pod_gpu_compute_ratio{{namespace="ml",pod="p",container="{name}",UUID="GPU-a",gpu="0",'
        'GPU_I_ID="",attribution="process"} 0.25'
        for name in "ab"
    )
    assert page(text).pods == (PodReading("ml", "p", "GPU-a", "", 0.5, None, "process"),)


@pytest.mark.parametrize(
    "row",
    [
        pytest.param('DCGM_FI_DEV_GPU_UTIL{gpu="0"} 5', id="no device"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"} NaN', id="not a number"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"} +Inf', id="endless"),
        pytest.param('DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"', id="half a row"),
        pytest.param("DCGM_FI_DEV_GPU_UTIL 5", id="no labels"),
        pytest.param('another_metric{UUID="GPU-a"} 5', id="another metric"),
        pytest.param("<html>not found</html>", id="no page at all"),
        pytest.param("", id="nothing"),
    ],
)
def test_other_rows_are_left_out(row: str) -> None:
    assert page(row) == DevicePage()


def test_labels_are_what_they_were_before_they_were_escaped() -> None:
    (device,) = page(r'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a",modelName="a\"b\\c\nd",pod="p}{"} 5').devices
    assert (device.product, device.holders) == ('a"b\\c\nd', ("/p}{",))


def test_a_page_without_end_is_refused() -> None:
    rows = 'DCGM_FI_DEV_GPU_UTIL{UUID="GPU-a"} 5\n' * 100_001
    refused = parse_page(rows, "here")
    assert isinstance(refused, Problem)
    assert refused.where == "here"
