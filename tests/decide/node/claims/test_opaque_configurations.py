"""Opaque configurations of NVIDIA's driver are read strictly."""

from __future__ import annotations

from typing import Any

import pytest

from support.claim_inputs import V
from tonnage.decide.node.claims.opaque import DeviceConfig, read_config
from tonnage.model.devices.inventory import TimeSlice

KNOWN = f"{V}, GpuConfig or MigDeviceConfig"

MPS = "sharing.mpsConfig"

THREADS = "sharing.mpsConfig.defaultActiveThreadPercentage"


@pytest.mark.parametrize(
    ("parameters", "decided"),
    [
        pytest.param({"kind": "GpuConfig"}, DeviceConfig(), id="no-sharing"),
        pytest.param({"kind": "MigDeviceConfig"}, DeviceConfig("MigDeviceConfig"), id="of-mig-devices"),
        pytest.param(
            {
                "kind": "GpuConfig",
                "sharing": {"strategy": "TimeSlicing", "timeSlicingConfig": {"interval": "Long"}},
            },
            DeviceConfig(strategy="TimeSlicing", interval=TimeSlice.LONG),
            id="time-slicing",
        ),
        pytest.param(
            {"kind": "GpuConfig", "sharing": {"strategy": "MPS", "timeSlicingConfig": {"interval": "Never"}}},
            (
                "sharing.timeSlicingConfig contradicts sharing.strategy: MPS",
                "sharing.timeSlicingConfig.interval must be one of Default, Short, Medium, Long, not 'Never'",
            ),
            id="everything-that-is-wrong-at-once",
        ),
        pytest.param(
            {"kind": "MigDeviceConfig", "sharing": {"strategy": "MPS", "timeSlicingConfig": {}}},
            ('unknown field "sharing.timeSlicingConfig": use one of: mpsConfig, strategy',),
            id="mig-devices-have-no-time-slicing",
        ),
        pytest.param(
            {
                "kind": "GpuConfig",
                "sharing": {"strategy": "MPS", "mpsConfig": {"defaultActiveThreadPercentage": 101}},
            },
            (f"{THREADS} must be a whole number from 0 to 100, not 101",),
            id="too-many-threads",
        ),
        pytest.param(
            {
                "kind": "GpuConfig",
                "sharing": {
                    "strategy": "MPS",
                    "mpsConfig": {
                        "defaultActiveThreadPercentage": 30,
                        "defaultPinnedDeviceMemoryLimit": "10Gi",
                        "defaultPerDevicePinnedMemoryLimit": {"1": "1Gi", "GPU-0": 5242880},
                        "multiUser": True,
                    },
                },
            },
            DeviceConfig(
                *("GpuConfig", "MPS"),
                threads_percent=30,
                limit_mib=10240,
                limits_mib=(("1", 1024), ("GPU-0", 5)),
                multi_user=True,
            ),
            id="mps-with-limits",
        ),
        pytest.param(
            {
                "kind": "MigDeviceConfig",
                "sharing": {
                    "strategy": "MPS",
                    "mpsConfig": {
                        "defaultPinnedDeviceMemoryLimit": "1k",
                        "defaultPerDevicePinnedMemoryLimit": {"first": "1Gi", "0": None},
                        "multiUser": "yes",
                    },
                },
            },
            (
                f"{MPS}.defaultPerDevicePinnedMemoryLimit.first must be named by an index or a UUID",
                f"{MPS}.defaultPinnedDeviceMemoryLimit must be a quantity of at least 1Mi, not '1k'",
                f"{MPS}.defaultPerDevicePinnedMemoryLimit.0 must be a quantity of at least 1Mi, not ''",
                f"{MPS}.multiUser must be true or false, not 'yes'",
            ),
            id="limits-that-make-no-sense",
        ),
        pytest.param({"kind": "GpuConfig", "sharing": []}, ("sharing must be an object",), id="another-type"),
        pytest.param(
            {"kind": "VfioDeviceConfig"},
            ("VfioDeviceConfig cannot be used here: Tonnage does not hand GPUs over to virtual machines",),
            id="vfio",
        ),
        pytest.param(
            {"apiVersion": "gpu.nvidia.com/v1alpha1", "kind": "GpuConfig"},
            (f"unknown kind of configuration: gpu.nvidia.com/v1alpha1, GpuConfig; it must be {KNOWN}",),
            id="another-version",
        ),
    ],
)
def test_an_opaque_configuration_is_read_strictly(parameters: Any, decided: Any) -> None:
    assert read_config({"apiVersion": V, **parameters}) == decided
