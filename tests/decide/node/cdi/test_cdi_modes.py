"""CDI specs of what is on a node, whatever NVML says of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonnage.decide.node.cdi.modes import mode_spec
from tonnage.decide.node.cdi.rules import minimum_version, spec_problems
from tonnage.decide.node.cdi.spec import spec_bytes
from tonnage.model.devices.cdi import CdiMode, CdiOptions, DriverFile, DriverFiles
from tonnage.model.devices.device_nodes import DeviceNodes
from tonnage.model.node.plugin_settings import ExtraDevice

CHANNELS = "/dev/nvidia-caps-imex-channels/channel"
OWN = DeviceNodes(
    frozenset(
        {"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-caps/nvidia-cap1"}
        | {"/dev/nvidia-fs0", "/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitchctl", "/dev/nvidia-nvlink"}
        | {f"{CHANNELS}0", f"{CHANNELS}7"}
    )
)
LIBRARY = DriverFile("/usr/lib/libcuda.so.570.1", "/usr/lib/libcuda.so.570.1")
FILES = DriverFiles(
    (LIBRARY,),
    extras={
        ExtraDevice.GDRCOPY: ("/dev/gdrdrv",),
        ExtraDevice.GDS: ("/dev/nvidia-fs0",),
        ExtraDevice.MOFED: ("/dev/infiniband/uverbs0",),
    },
)


def made(mode: CdiMode, nodes: DeviceNodes = OWN, root: str = "/") -> dict[str, Any]:
    document = mode_spec(mode, nodes, FILES, CdiOptions(mode.kind, root, root)).document
    assert document is not None
    assert spec_problems(document) == ()
    again: dict[str, Any] = json.loads(spec_bytes(document))
    return again


def named(spec: dict[str, Any]) -> dict[str, list[str]]:
    return {
        device["name"]: [node["path"] for node in device["containerEdits"]["deviceNodes"]]
        for device in spec["devices"]
    }


@pytest.mark.parametrize(
    ("mode", "kind", "devices"),
    [
        (
            CdiMode.IMEX,
            "nvidia.com/imex-channel",
            {"0": [f"{CHANNELS}0"], "7": [f"{CHANNELS}7"], "all": [f"{CHANNELS}0", f"{CHANNELS}7"]},
        ),
        (CdiMode.GDS, "nvidia.com/gds", {"all": ["/dev/nvidia-fs0"]}),
        (CdiMode.GDRCOPY, "nvidia.com/gdrcopy", {"all": ["/dev/gdrdrv"]}),
        (CdiMode.MOFED, "nvidia.com/mofed", {"all": ["/dev/infiniband/uverbs0"]}),
        (
            CdiMode.NVSWITCH,
            "nvidia.com/nvswitch",
            {"all": ["/dev/nvidia-nvswitch0", "/dev/nvidia-nvswitchctl"]},
        ),
        (
            CdiMode.MANAGEMENT,
            "management.nvidia.com/gpu",
            {
                "all": [
                    f"{CHANNELS}0",
                    f"{CHANNELS}7",
                    "/dev/nvidia-caps/nvidia-cap1",
                    "/dev/nvidia-uvm",
                    "/dev/nvidia0",
                    "/dev/nvidiactl",
                ]
            },
        ),
    ],
)
def test_each_mode_has_its_nodes_under_nvidias_kind(
    mode: CdiMode, kind: str, devices: dict[str, list[str]]
) -> None:
    spec = made(mode)
    assert (spec["kind"], named(spec)) == (kind, devices)
    assert spec["cdiVersion"] == minimum_version(spec)


def test_management_alone_brings_the_drivers_files_and_has_no_node_twice() -> None:
    spec = made(CdiMode.MANAGEMENT, DeviceNodes(driver=OWN.own), "/run/driver")
    (mount,) = spec["containerEdits"]["mounts"]
    assert mount["hostPath"] == f"/run/driver{LIBRARY.path}"
    assert "deviceNodes" not in spec["containerEdits"]
    assert {"path": "/dev/nvidia0", "hostPath": "/run/driver/dev/nvidia0"} in spec["devices"][0][
        "containerEdits"
    ]["deviceNodes"]
    assert "mounts" not in made(CdiMode.IMEX)["containerEdits"]


@pytest.mark.parametrize("mode", [mode for mode in CdiMode if mode is not CdiMode.NVML])
def test_where_nothing_of_the_sort_is_there_it_is_said(mode: CdiMode) -> None:
    spec = mode_spec(mode, DeviceNodes(), DriverFiles(), CdiOptions(mode.kind))
    (problem,) = spec.left_out
    assert (spec.document, problem.what) == (None, f"{mode.kind}=all would be empty")
    assert problem.why.endswith(" is missing")
    assert problem.remedy


paths = st.sampled_from(sorted(OWN.own)) | st.text("/dev nvidia:0-9-chel", max_size=30)


@given(st.sampled_from([mode for mode in CdiMode if mode is not CdiMode.NVML]), st.frozensets(paths))
def test_any_nodes_make_a_valid_spec_or_none(mode: CdiMode, own: frozenset[str]) -> None:
    nodes = DeviceNodes(frozenset(path for path in own if path.startswith("/dev/nvidia")))
    spec = mode_spec(mode, nodes, FILES, CdiOptions(mode.kind))
    assert bool(spec.document) != bool(spec.left_out)
    assert spec.document is None or spec_problems(spec.document) == ()
