"""The configurations that NVIDIA's documentation shows are accepted as NVIDIA's chart runs them.

Source: NVIDIA/k8s-device-plugin's README and the GPU operator's page on time-slicing: keys and shapes alone.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tonnage.cli.main import run
from tonnage.documents.device_plugin.config import parse_device_plugin_config
from tonnage.model.json import JsonObject
from tonnage.model.node.plugin_settings import Override

FLAGS: JsonObject = {
    "migStrategy": "none",
    "failOnInitError": True,
    "nvidiaDriverRoot": "/",
    "plugin": {"passDeviceSpecs": False, "deviceListStrategy": "envvar", "deviceIDStrategy": "uuid"},
}
MIG_DEVICES = {"1g.5gb": 2, "2g.10gb": 2, "3g.20gb": 3, "7g.40gb": 7}
SAMPLES: dict[str, JsonObject] = {
    "the default": {"flags": FLAGS},
    "with feature discovery": {
        "flags": {**FLAGS, "gfd": {"oneshot": False, "noTimestamp": False, "sleepInterval": "60s"}}
    },
    "another MIG strategy": {"flags": {**FLAGS, "migStrategy": "mixed"}},
    "ten replicas": {"sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 10}]}}},
    "MPS without mpsRoot": {"sharing": {"mps": {"resources": [{"name": "nvidia.com/gpu", "replicas": 10}]}}},
    "MPS, renamed, without mpsRoot": {
        "sharing": {
            "mps": {"renameByDefault": True, "resources": [{"name": "nvidia.com/gpu", "replicas": 10}]}
        }
    },
    "MIG devices time-sliced": {
        "flags": {"migStrategy": "mixed"},
        "sharing": {
            "timeSlicing": {
                "resources": [
                    {"name": f"nvidia.com/mig-{profile}", "replicas": replicas}
                    for profile, replicas in MIG_DEVICES.items()
                ]
            }
        },
    },
    "the operator's for all nodes": {
        "flags": {"migStrategy": "none"},
        "sharing": {
            "timeSlicing": {
                "renameByDefault": False,
                "failRequestsGreaterThanOne": False,
                "resources": [{"name": "nvidia.com/gpu", "replicas": 4}],
            }
        },
    },
    "IMEX channels": {"imex": {"channelIDs": [0], "required": True}},
}
CHARTS_ROOT = Override(("flags", "mpsRoot"), "/run/nvidia/mps", "--mps-root")


@pytest.mark.parametrize("name", SAMPLES)
def test_a_documented_configuration_is_accepted(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = yaml.safe_dump({"version": "v1", **SAMPLES[name]})
    parse_device_plugin_config(text, source="f", overrides=(CHARTS_ROOT,))
    file = tmp_path / "config.yaml"
    file.write_text(text)
    run(["lint", str(file)], "tonnage")
    assert ": error: " not in capsys.readouterr().out
